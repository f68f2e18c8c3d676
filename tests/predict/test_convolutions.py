"""Networks of all layers: the words of their epochs are those that the runtime counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cases import pairs
from predict_helpers import rmat, trained

import plancc
from plancc.errors import InputError
from plancc.plan.convolutions import Convolution, ConvOptions
from plancc.plan.layers import Activation, Linear, Multiply, OwnLinear
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, tables_of
from plancc_cli.options import convolution_of
from plancc_runtime.nn import MODELS
from plancc_runtime.nn.conv import Conv, glorot
from plancc_runtime.nn.network import Network, NetworkOptions

RANKS, FEATURES, CLASSES = 3, 12, 4
MACHINE = find_machine("cpu-cluster")
NETWORKS = {
    "gcn": {"model": "gcn"},
    "gin": {"model": "gin"},
    "gat": {"model": "gat", "heads": 2},
    "max": {"model": "sage", "aggregator": "max"},
    "mean": {"model": "sage", "aggregator": "mean"},
    "without own rows": {"model": "sage", "aggregator": "gcn"},
    "registered": {"model": "bottleneck", "model_options": {"inner": 5}},
}
ROWS_ONLY = ("gat", "max")
PLANS = {
    "row": ("gp", {"partitioner": "metis"}),
    "edge": ("libra", {}),
    "1d": ("cagnet-1d", {"sparse": True}),
    "2d": ("cagnet-2d", {"grid": "1x3"}),
    "feature": ("mop", {}),
}


@dataclass(frozen=True)
class BottleneckOptions(ConvOptions):
    """A third party's; `inner` columns travel."""

    inner: int = 2

    def steps(self, d_in, d_out, last):
        return [
            Linear(d_in, self.inner),
            Multiply(self.inner, "mean"),
            Activation(self.inner),
            Linear(self.inner, d_out),
            OwnLinear(d_in, d_out),
        ]


class Bottleneck(Conv):
    """relu(A (H W_1)) W_2 + H W_3, A the mean over neighbours."""

    Options = BottleneckOptions

    def _make(self, random):
        d_in, inner, d_out = self.d_in, self.options.inner, self.d_out
        self.narrow = torch.nn.Parameter(glorot(random, d_in, inner))
        self.wide = torch.nn.Parameter(glorot(random, inner, d_out))
        self.own = torch.nn.Parameter(glorot(random, d_in, d_out))

    def fixed(self, graph, x):
        with torch.no_grad():
            return graph.product(x, "mean")

    def forward(self, graph, x, fixed=None):
        if fixed is None:
            z = graph.linear_product(x, self.narrow, "mean")
        else:
            z = graph.linear(fixed, self.narrow)
        return graph.linear(torch.relu(z), self.wide) + graph.linear(graph.targets(x), self.own)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(MODELS._targets, "bottleneck", f"{__name__}:Bottleneck")


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Plans of three ranks, and their files; one in twenty vertices is for training."""
    random, n, folder = np.random.default_rng(0), rmat().num_vertices, tmp_path_factory.mktemp("p")
    data = plancc.VertexData(
        features=random.random((n, FEATURES), dtype=np.float32),
        labels=random.integers(-1, CLASSES, n, dtype=np.int32),
        train_mask=random.random(n) < 0.05,
    )
    found = {}
    for name, (model, how) in PLANS.items():
        found[name] = plancc.compile(rmat(), model, RANKS, data=data, **how), folder / f"{name}.h5"
        found[name][0].save(found[name][1])
    return found


def convolution(model="gcn", model_options=None, **options):
    return convolution_of(model, {**options, **(model_options or {})})


def predicted(plan, network, dims, passes, **left_out):
    rows = plan.header.layout == "row"
    tables = tables_of(plan, copies=bool(left_out), live_layers=(len(dims) - 1) * rows)
    approximation = Approximation(**left_out)
    return Predictor(dims, MACHINE, passes, approximation, convolution(**network)).epoch(tables)


@pairs(
    unless=lambda network, layout, hidden, passes: (
        (network in ROWS_ONLY and layout != "row")
        or ("dead-rows" in passes and layout != "row")
        or (not passes and layout not in ("row", "edge"))
    ),
    network=NETWORKS,
    layout=PLANS,
    passes=[(), ("order",), ("order", "constant"), ("order", "constant", "dead-rows")],
    hidden=[8, 20],  # narrower, wider
)
def test_words(plans, network, layout, hidden, passes):
    plan, path = plans[layout]
    found = predicted(plan, NETWORKS[network], (FEATURES, hidden, hidden, CLASSES), passes)
    how = {"hidden": hidden, "layers": 3, "passes": passes, **NETWORKS[network]}
    real = trained(path, RANKS, epochs=2, **how)[-1]
    assert found.words == real.words_sent > 0
    assert found.words_reduced == real.words_reduced * RANKS


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_weights(network, paper):
    dims, options = [12, 8, CLASSES], convolution(**network).options
    conv = {name: getattr(options, name) for name in options.printed}
    conv |= network.get("model_options", {}) | {"parametrization": "paper" if paper else "pyg"}
    built = Network(dims, NetworkOptions(model=network["model"], conv=conv), 0, torch.float32)
    for layer in built.convs:
        declared = sum(step.weights for step in layer.both_ways(first=False).forward)
        assert sum(each.numel() for each in layer.parameters()) == declared


def test_more_is_computed_than_by_a_gcn(plan):
    dims, passes = (12, 8, CLASSES), ("order",)
    seconds = [
        predicted(plan, network, dims, passes).seconds
        for network in ({}, NETWORKS["without own rows"], NETWORKS["mean"], NETWORKS["max"])
    ]
    assert seconds[0] == seconds[1] < seconds[2] < seconds[3]
    heads = [
        predicted(plan, {"model": "gat", "heads": heads}, dims, passes).seconds for heads in (1, 4)
    ]
    assert seconds[0] < heads[0] < heads[1]


def test_with_boundary_sampling_and_edge_plans(plan):
    dims, passes = (12, 8, CLASSES), ("order",)
    for name in ("max", "mean"):
        exact = predicted(plan, NETWORKS[name], dims, passes)
        assert (
            predicted(plan, NETWORKS[name], dims, passes, boundary_sampling=0.3).words < exact.words
        )
    edge = plancc.compile(rmat(), "libra", 2)
    assert predicted(edge, NETWORKS["mean"], dims, passes).seconds > 0
    grid = plancc.compile(rmat(), "mop", 2)
    for name in ROWS_ONLY:
        for other in (edge, grid):
            with pytest.raises(InputError, match="for row plans only"):
                predicted(other, NETWORKS[name], dims, passes)
    with pytest.raises(InputError, match="model 'gat' is predicted for exact epochs only"):
        predicted(plan, NETWORKS["gat"], dims, passes, boundary_sampling=0.3)


def test_wrong_networks(plan):
    with pytest.raises(InputError, match="most"):
        Convolution.of("sage", aggregator="most")
    with pytest.raises(InputError, match="heads 0"):
        Convolution.of("gat", heads=0)
    with pytest.raises(InputError, match="`heads` 3: must divide the width 8"):
        predicted(plan, {"model": "gat", "heads": 3}, (12, 8, CLASSES), ())
    with pytest.raises(InputError, match="does not say the steps"):
        ConvOptions().steps(1, 1, last=True)
