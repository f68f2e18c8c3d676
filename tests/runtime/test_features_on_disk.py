"""Mini-batches whose features stay in the plan's file, against those that hold them."""

import h5py
import numpy as np
import pytest
import worlds
from cases import turns

import plancc
from plancc.errors import InputError, PlanError
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N, WIDTH = 200, 24
BATCHES = {"sampler": "neighbour", "batch_size": 20, "fanouts": (4, 3), "steps": 3}
MODELS = [
    {"model": "gcn"},
    {"model": "sage", "hidden": 40, "feature_cache": 900},  # moves features in evaluations
    {"model": "sage", "aggregator": "max", "feature_cache": 0},
    {"model": "gat", "feature_cache": 4000},
    {"model": "gin", "dropout": 0.3, "dtype": "float64"},
]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A function that makes a plan of four parts with features of a type, by kind of file."""
    folder, random = tmp_path_factory.mktemp("plans"), np.random.default_rng(3)
    a = random.random((N, N)) < 0.03
    x = random.integers(-90, 90, (N, WIDTH))

    def made(dtype="float32", compress=False, data=True):
        path = folder / f"{dtype}-{compress}-{data}.h5"
        if not path.exists():
            known = {"y": np.arange(N) % 5, "train_mask": np.arange(N) % 2 == 0}
            known |= {"x": x.astype(dtype)} if data else {}
            graph = worlds.graph_of(a | a.T)
            plancc.compile(graph, num_parts=4, data=known).save(path, compress=compress)
        return path

    return made


def trained(path, ranks, **options):
    chosen = TrainOptions(**{"epochs": 2, "eval_every": 1, "threads": 1, **BATCHES, **options})
    return run_ranks(ranks, lambda transport: train(path, chosen, transport), timeout=60)[0]


@turns(way=list(zip(MODELS, (1, 2, 4, 2, 1), strict=True)), dtype=["float32", "int8"])
def test_training_is_the_same_to_the_bit(way, dtype, plan):
    model, ranks = way
    held = trained(plan(dtype), ranks, **model)
    found = trained(plan(dtype), ranks, **model, features_on_disk=True)
    for one, other in zip((*held.epochs, held.final), (*found.epochs, found.final), strict=True):
        assert one.loss == other.loss
        assert one.accuracy == other.accuracy
        assert one.words_sent == other.words_sent
    assert [step.loss for step in held.steps] == [step.loss for step in found.steps]
    assert [step.words_sent for step in held.steps] == [step.words_sent for step in found.steps]
    for name, w in held.weights.items():
        np.testing.assert_array_equal(found.weights[name], w)


def test_a_damaged_row_is_noticed(plan, tmp_path):
    content = bytearray(plan().read_bytes())
    with h5py.File(plan()) as file:
        content[file["vertex_data/features"].id.get_offset() + 5] ^= 1
    (tmp_path / "plan.h5").write_bytes(content)
    with pytest.raises(PlanError, match="/vertex_data/features is damaged"):
        trained(tmp_path / "plan.h5", 1, features_on_disk=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sampler": None, "batch_size": None, "fanouts": None, "steps": None}, "full batch reads"),
        ({"scale_features": "rows"}, "does not suit `features_on_disk`"),
        (
            {"scale_features": "columns"},
            "`scale_features` columns: does not suit `features_on_disk`",
        ),
        ({"device": "cuda"}, "does not suit `features_on_disk`"),
        ({"row_order": "rcm"}, "`row_order` rcm: does not suit `features_on_disk`"),
        ({"dtype": "bfloat16"}, "compile the graph with features of float16"),
    ],
)
def test_options_that_do_not_go_with_it(change, said, plan):
    with pytest.raises(InputError, match=said):
        trained(plan(), 1, features_on_disk=True, **change)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ({"compress": True}, "/vertex_data/features is compressed"),
        ({"data": False}, "is not a file with features"),
    ],
)
def test_plans_whose_rows_cannot_be_read_alone(kind, said, plan):
    with pytest.raises(InputError, match=said):
        trained(plan(**kind), 1, features_on_disk=True)
