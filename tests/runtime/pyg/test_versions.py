"""What the adapter relies on in torch_geometric, and the table of its layers in the docs."""

import json
import tomllib
from importlib import metadata
from inspect import signature
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")

import torch
from convolutions import CASES, EXACT_WITH, OUT, REFUSED, W, of_class
from packaging.requirements import Requirement
from torch_geometric import nn

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "results" / "own-model-layers.json"
HOOKS = ("propagate_forward_pre", "edge_update_forward_pre")


def called(layer):
    """Every hook that the adapter uses, as it is called: name, kinds and names of arguments."""
    calls = []
    for name in HOOKS:

        def hook(on, inputs, *out, name=name):
            assert on is layer
            kinds = [type(each).__name__ for each in (*inputs, *out)]
            calls.append((name, " ".join(kinds), " ".join(sorted(inputs[-1]))))

        getattr(layer, f"register_{name}_hook")(hook)
    layer(torch.randn(3, W), torch.tensor([[0, 1], [2, 2]]))
    return calls


EDGES = "Tensor NoneType dict"
LAYERS = {
    # what `propagate` and `edge_updater` read of sources, and the calls
    "SAGEConv": (
        {"x_j"},
        set(),
        [("propagate_forward_pre", EDGES, "x")],
    ),
    # `edge_updater` has looked the sources up already when its hook is called
    "GATConv": (
        {"x_j"},
        {"alpha_j"},
        [
            ("edge_update_forward_pre", EDGES, "alpha_i alpha_j dim_size edge_attr index ptr"),
            ("propagate_forward_pre", EDGES, "alpha x"),
        ],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_hooks_are_called_in_this_order_with_these_arguments(name):
    of_message, of_update, expected = LAYERS[name]
    layer = getattr(nn, name)(W, OUT)
    assert called(layer) == expected
    assert {k for k in layer._user_args if k.endswith("_j")} == of_message
    assert {k for k in layer._edge_user_args if k.endswith("_j")} == of_update
    assert layer.flow == "source_to_target"


def test_aggregations_are_called_by_names():
    layer, names = nn.SAGEConv(W, OUT), []

    def hook(_, inputs, given):
        names.append((len(inputs), *given))

    layer.aggr_module.register_forward_pre_hook(hook, with_kwargs=True)
    layer(torch.randn(3, W), torch.tensor([[0, 1], [2, 2]]))
    assert hasattr(nn.Aggregation, "to_dense_batch")
    assert names == [(1, "index", "ptr", "dim_size", "dim")]


def test_sums_that_pad_rows_take_the_most_edges_of_one():
    assert "max_num_elements" in signature(nn.aggr.LSTMAggregation(W, OUT).forward).parameters
    assert nn.HeteroLinear.__name__ == "HeteroLinear"


def test_the_installed_version_is_one_that_the_project_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = map(Requirement, project["optional-dependencies"]["pyg"])
    version = metadata.version("torch_geometric")
    assert version in wanted.specifier, "run tests/runtime/pyg, then widen the range"


def test_the_table_of_layers_is_that_of_the_cases(request):
    exact = {of_class(name): "exact" for name in CASES}
    table = exact | EXACT_WITH | {name: f"refused: {reason}" for name, reason in REFUSED.items()}
    text = json.dumps(dict(sorted(table.items())), indent=1) + "\n"
    if request.config.option.golden:
        TABLE.write_text(text)
    assert TABLE.read_text() == text, "pytest --golden writes it"
