"""Networks of all layers: the words of their epochs are those that the runtime counts."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import worlds
from cases import turns
from predict_helpers import rmat

import plancc
from plancc.errors import InputError
from plancc.plan.convolutions import ConvOptions
from plancc.plan.layers import Activation, Aggregate, Linear, Maximum, OwnLinear
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, row, tables_of
from plancc_cli.options import convolution_of
from plancc_runtime.nn import MODELS
from plancc_runtime.nn.conv import Conv, glorot
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

CLASSES = 3
MACHINE = find_machine("cpu-cluster")
NETWORKS = {
    "gcn": {"model": "gcn"},
    "projecting": {"model": "gcn", "model_options": {"order": "project-first"}},
    "gin": {"model": "gin"},
    "gat": {"model": "gat", "heads": 2},
    "max": {"model": "sage", "aggregator": "max"},
    "mean": {"model": "sage", "aggregator": "mean"},
    "without own rows": {"model": "sage", "aggregator": "gcn"},
    "registered": {"model": "bottleneck", "model_options": {"inner": 5}},
    "early": {"model": "bottleneck", "model_options": {"inner": 3, "early": True}},
}
ROWS_ONLY = ("gat", "max")
LAYOUTS = {
    **{"row": ("row",), "edge": ("edge",), "1d": ("1d 4", "1d 4 sparse")},
    **{"1.5d": ("1.5d 2x2", "1.5d 3x2", "1.5d 3x2 sparse"), "2d": ("2d 2x3",)},
    **{"3d": ("3d 2x2x2",), "feature": ("feature 2x3",)},
}
PASSES = [(), ("order",), ("constant",), ("order", "constant"), ("order", "constant", "dead-rows")]
COUNTERS = {
    **{0: "messages_sent", 1: "words_sent", 3: "messages_received", 4: "words_received"},
    **{6: "reductions", 7: "words_reduced"},
}
"""Names of what a transport counts."""


@dataclass(frozen=True)
class BottleneckOptions(ConvOptions):
    """A third party's; `inner` columns travel, `early` after the activation."""

    inner: int = 2
    early: bool = False

    def steps(self, d_in, d_out, last):
        across = [Aggregate(self.inner, "mean"), Activation(self.inner)]
        return [
            Linear(d_in, self.inner),
            *(across[::-1] if self.early else across),
            Linear(self.inner, d_out),
            OwnLinear(d_in, d_out),
        ]


class Bottleneck(Conv):
    """relu(A H W_1) W_2 + H W_3, A the mean over neighbours; early, A relu(H W_1) W_2 + H W_3."""

    Options = BottleneckOptions

    def _make(self, random):
        d_in, inner, d_out = self.d_in, self.options.inner, self.d_out
        self.narrow = torch.nn.Parameter(glorot(random, d_in, inner))
        self.wide = torch.nn.Parameter(glorot(random, inner, d_out))
        self.own = torch.nn.Parameter(glorot(random, d_in, d_out))

    def fixed(self, graph, x):
        with torch.no_grad():
            return x if self.options.early else graph.product(x, "mean")

    def forward(self, graph, x, fixed=None):
        if self.options.early:
            z = graph.product(torch.relu(graph.linear(x, self.narrow)), "mean")
        elif fixed is None:
            z = torch.relu(graph.linear_product(x, self.narrow, "mean"))
        else:
            z = torch.relu(graph.linear(fixed, self.narrow))
        return graph.linear(z, self.wide) + graph.linear(graph.targets(x), self.own)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(MODELS._targets, "bottleneck", f"{__name__}:Bottleneck")


def convolution(model="gcn", model_options=None, **options):
    return convolution_of(model, {**options, **(model_options or {})})


def predicted(plan, network, dims, passes, **left_out):
    rows = plan.header.layout == "row"
    tables = tables_of(plan, copies=bool(left_out), live_layers=(len(dims) - 1) * rows)
    approximation = Approximation(**left_out)
    return Predictor(dims, MACHINE, passes, approximation, convolution(**network)).epoch(tables)


@pytest.mark.parametrize("network", NETWORKS)
def test_memory_that_is_not_the_layers_own_is_noted(network):
    found = predicted(worlds.plan("directed", "row", 4), NETWORKS[network], (5, 4, CLASSES), ())
    is_product = network in ("gcn", "projecting", "mean", "without own rows")
    assert ("memory is that of a GCN of these widths" in found.schedule.notes) != is_product


OTHERS = [network for network in NETWORKS if network not in ROWS_ONLY]
TRAINED = [
    *((network, "row") for network in NETWORKS),
    *zip(OTHERS, (*tuple(LAYOUTS)[1:], "edge"), strict=True),
    *(("gcn", "1.5d"), ("mean", "1d")),
]
"""Every network on rows, and in turn on the other kinds, whose steps are counted one by one."""


def has_no_epoch(way, shape, passes, hidden):
    kind = way[1]
    own_rows, has_grid = kind == "row", kind not in ("row", "edge")
    return ("dead-rows" in passes and not own_rows) or ("order" not in passes and has_grid)


@turns(has_no_epoch, way=TRAINED, shape=range(3), passes=PASSES, hidden=[6, 10])
def test_every_rank_moves_what_it_counts(way, shape, passes, hidden, tmp_path):
    """On a directed matrix, or on one with a diagonal that was added."""
    network, kind = way
    layout = LAYOUTS[kind][shape % len(LAYOUTS[kind])]
    plan = worlds.plan("directed" if network in ("gcn", "max") else "undirected", layout, 3)
    loops = replace(plan.header, self_loops=network not in ("gcn", "max"))
    plan = replace(plan, header=loops)
    plan.save(tmp_path / "plan.h5")
    how = {"epochs": 1, "layers": 3, "hidden": hidden, "eval_every": 0, "threads": 1}
    options = TrainOptions(passes=passes, **how, **NETWORKS[network])

    def work(transport):
        counted = []
        train(tmp_path / "plan.h5", options, transport, lambda m: counted.append(m.spent.traffic))
        return counted[-1]

    found = np.array(run_ranks(plan.header.num_ranks, work))
    dims = (worlds.WIDTH, hidden, hidden, worlds.CLASSES)
    counts = predicted(plan, NETWORKS[network], dims, passes).counts
    for column, name in COUNTERS.items():
        assert found[:, column].tolist() == getattr(counts, name).tolist(), name
    assert counts.words_sent.any()


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
    tables = tables_of(plan)
    *_, (_, compared) = row.RowScheduler(tables).neighbour_rows(1, Maximum(5))
    of_row, of_nonzero = row.MAXIMUM_WORDS["forward"], row.COMPARE_WORDS
    words = 5 * (of_row * tables.rows + of_nonzero * tables.nonzeros)
    np.testing.assert_allclose(compared.words, words, atol=1)


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
            with pytest.raises(InputError, match="predicted for row plans only"):
                predicted(other, NETWORKS[name], dims, passes)
    with pytest.raises(InputError, match="model 'gat' allows no boundary sampling"):
        predicted(plan, NETWORKS["gat"], dims, passes, boundary_sampling=0.3)


def test_wrong_networks(plan):
    with pytest.raises(InputError, match="most"):
        convolution_of("sage", {"aggregator": "most"})
    with pytest.raises(InputError, match="`heads` 0"):
        convolution_of("gat", {"heads": 0})
    with pytest.raises(InputError, match="`heads` 3: does not divide the width 8"):
        predicted(plan, {"model": "gat", "heads": 3}, (12, 8, CLASSES), ())
    with pytest.raises(InputError, match="does not define `steps`"):
        ConvOptions().steps(1, 1, last=True)
