"""Training on plans of every layout: losses, weights and words are those of dense matrices.

What has no dense reference, as dropout, is held to one rank.
"""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import reference
import worlds
from cases import long, some
from launcher import run
from reference import close
from runs import file_of, slices_of, trained

from plancc.graph.vertexdata import VertexData
from plancc.plan.routes import with_routes
from plancc.plan.topology import Topology
from plancc_runtime.options import TrainOptions

pytestmark = pytest.mark.usefixtures("opened_once")

KINDS = ("undirected", "directed")
MODELS = {
    "gcn": {"bias": True, "residual": True},
    "sage mean": {"model": "sage"},
    "sage gcn": {"model": "sage", "aggregator": "gcn", "residual": True},
    "sage sum": {"model": "sage", "aggregator": "sum", "bias": True},
    "gin": {"model": "gin", "layers": 3, "model_options": {"train_eps": True}},
    "order alone": {"passes": ("order",), "hidden": 5},
}
WHOLE_ROWS = {  # what grids refuse
    "sage max": {"model": "sage", "aggregator": "max"},
    "no passes": {"passes": ()},
    "another order": {"model": "sage", "row_order": "rcm", "kernel": "torch"},
    "float32": {"dtype": "float32"},
}
# widths are no multiples of the columns
GRIDS = [
    *("1d 3 sparse", "2d 2x2", "1.5d 2x2 sparse", "2d 2x3", "3d 1x2x2"),
    *("1.5d 3x2 sparse", "1.5d 2x3"),  # c does not divide the blocks
]
MORE_GRIDS = [
    *(
        "1.5d 2x2",
        "3d 2x2x1",
        "1d 3",
        "1d 9",
        "1.5d 2x1",
        "1.5d 4x2",
        "1.5d 4x2 sparse",
        "2d 3x3",
        "2d 3x2",
        "2d 1x4",
    ),
    *("2d 4x1", "2d 2x4", "3d 2x2x2", "3d 2x1x2", "1.5d 3x3 sparse", "1.5d 3x2", "1.5d 5x2"),
    *("1.5d 5x3", "1.5d 9x4", "1.5d 5x3 sparse", "1.5d 9x4 sparse", "1.5d 2x3 sparse"),
]
FEATURE = [
    ("feature 2x2", {"model": "gcn"}),
    pytest.param("feature 1x1", {"model": "gcn", "pipeline": "auto"}, marks=long),
    ("feature 1x3", {"model": "sage"}),
    ("feature 1x2", {"model": "sage", "aggregator": "sum", "pipeline": "3"}),
    ("feature 1x2", {"model": "sage", "aggregator": "gcn", "pipeline": "2", "aggregate_on": "cpu"}),
    ("feature 1x4", {**MODELS["gin"], "pipeline": "3"}),
]


def in_turn(grids):
    models = [*MODELS.values()]
    return [(grid, models[k % len(models)]) for k, grid in enumerate(grids)]


AS_ROWS = ("sage gcn", "sage sum", "no passes", "order alone", "another order")
"""What edge plans do as row plans do."""
CASES = [
    *(
        pytest.param(layout, model, marks=long if layout == "edge" and name in AS_ROWS else ())
        for layout, (name, model) in product(("row", "edge"), (MODELS | WHOLE_ROWS).items())
    ),
    *in_turn(GRIDS),
    *FEATURE,
    ("2d 2x3", {"dtype": "float32"}),
    pytest.param("1.5d 2x2 sparse", {"dtype": "float32"}, marks=long),
    *(pytest.param(*case, marks=long) for case in in_turn(MORE_GRIDS)),
]


def options_of(**given) -> TrainOptions:
    common = {"epochs": 2, "hidden": 9, "dtype": "float64", "threads": 1}
    return TrainOptions(**{**common, "optimizer": "sgd", "lr": 0.05, **given})


@pytest.mark.parametrize(("layout", "model"), CASES, ids=str)
def test_losses_and_weights_are_those_of_dense_matrices(layout, model):
    options, data = options_of(**model), worlds.data()
    kind = KINDS[(len(layout) + len(model)) % 2]
    plain = {name: model[name] for name in model if name not in ("pipeline", "aggregate_on")}
    start = trained(slices_of(kind, "row", 1), options_of(**plain | {"epochs": 0}))[0].weights
    losses, final = reference.train_model(
        *(options.model, options.aggregator, worlds.array(kind)),
        *(data.features, data.labels, data.train_mask, start),
        *(options.epochs, options.lr, options.residual, kind == "undirected"),
    )
    tolerance = 1e-5 if options.dtype == "float32" else 1e-10
    first, *others = trained(slices_of(kind, layout, 3), options)
    close([epoch.loss for epoch in first.epochs], losses, tolerance)
    for name, weight in final.items():
        close(first.weights[name], weight, tolerance)
        for other in others:  # replicated means bit for bit
            np.testing.assert_array_equal(other.weights[name], first.weights[name])
    assert {epoch.words_sent for epoch in first.epochs} == {first.figures.planned}
    assert first.figures.planned <= first.figures.plain
    assert first.split_sizes == {
        split: np.sum(getattr(data, f"{split}_mask") & (data.labels >= 0))
        for split in ("train", "val", "test")
    }
    if layout == "edge":
        assert list(first.passes_off) == ["dead-rows"] * ("dead-rows" in options.passes)
    assert (first.pipelining is None) == (options.pipeline == "off")


VARIANTS = {
    "batch norm": {"norm": "batch", "dropout": 0.4, "input_dropout": 0.0, "bias": False},
    "layer norm": {"norm": "layer", "model": "gin", "dropout": 0.2, "residual": True},
    "scaled rows": {"scale_features": "rows", "dropout": 0.3, "eval_every": 2},
    "clipped": {"momentum": 0.9, "clip_norm": 0.05},
    "adam": {"model": "sage", "optimizer": "adam", "residual": True, "weight_decay": 0.01},
}
QUICK = {
    "edge": ("batch norm", "layer norm", "clipped"),
    "1d 3 sparse": ("scaled rows",),
    "1.5d 2x2 sparse": ("batch norm",),
    "2d 2x3": ("scaled rows",),
    "3d 1x2x2": ("adam",),
    "feature 1x3": ("batch norm",),
}


@some(lambda layout, variant: variant in QUICK[layout], layout=QUICK, variant=VARIANTS)
def test_dropout_norms_and_drawn_data_are_those_of_one_rank(layout, variant):
    """Without vertex data in the plan: the same are drawn everywhere. Scores too."""
    if layout[0] in "23" and "norm" in variant:
        pytest.skip("grids that split columns have no norms")
    options = options_of(split=(0.5, 0.3, 0.2), random_features=7, classes=5, **VARIANTS[variant])
    plans = [
        [(header, replace(part, vertex_data=VertexData())) for header, part in slices]
        for slices in (slices_of("undirected", "row", 1), slices_of("undirected", layout, 4))
    ]
    pipeline = "3" if layout.startswith("feature") else "off"
    alone, shared = (
        trained(plan, replace(options, pipeline=pipeline if len(plan) > 1 else "off"))[0]
        for plan in plans
    )
    both = ([*result.epochs, result.final] for result in (shared, alone))
    for here, there in zip(*both, strict=True):
        assert here.loss == pytest.approx(there.loss, rel=1e-9)
        assert here.accuracy == there.accuracy
        assert here.f1_macro == pytest.approx(there.f1_macro)
    for name, weight in alone.weights.items():
        close(shared.weights[name], weight, 1e-9)
    assert shared.split_sizes == alone.split_sizes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_a_row_plan_sends(dtype):
    """Volume * sum_k (d_{k-1} + d_k) words in an epoch, the volume counted by sets."""
    a, owner = worlds.array("directed"), worlds.owners(worlds.N, 3)
    slices = slices_of("directed", "row", 3)
    result = trained(slices, options_of(passes=(), layers=3, dtype=dtype))[0]
    rows, dims = reference.volume(a, owner), result.dims
    words = rows * sum(x + y for x, y in pairwise(dims))
    most = max(
        part.expand.send.volume * sum(dims[:-1]) + part.expand.receive.volume * sum(dims[1:])
        for _, part in slices
    )
    for epoch in result.epochs:
        assert (epoch.words_sent, epoch.words_sent_max) == (words, most)
        assert epoch.bytes_sent == words * np.dtype(dtype).itemsize
        assert epoch.messages_sent == 2 * (len(dims) - 1) * len(reference.needed_rows(a, owner))
    assert result.final.words_sent == rows * sum(dims[:-1])


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("layout", "ranks_needed", "more", "launcher"),
    [
        ("2d 1x3", 3, (), "mpirun"),
        ("feature 1x2", 2, ("--pipeline", "3"), "mpirun"),
        ("hops", 3, ("--exchange", "nodes"), "mpirun"),
        pytest.param("feature 1x2", 2, ("--pipeline", "3"), "torchrun", marks=long),
    ],
)
def test_processes_train_as_threads_do(layout, ranks_needed, more, launcher, ranks, tmp_path):
    file = tmp_path / "plan.h5"
    if layout == "hops":
        with_routes(worlds.plan("undirected", "edge", 3), Topology.parse("1x1+1x2")).save(file)
    else:
        file = file_of("undirected", layout)
    given = dict(zip(more[::2], more[1::2], strict=True))
    options = options_of(**{name.strip("-"): value for name, value in given.items()})
    words = ["--epochs", 2, "--hidden", 9, "--dtype", "float64", "--optimizer", "sgd"]
    words = [file, *words, "--lr", 0.05, "--threads", 1, *more, "--json", tmp_path / "out.json"]
    if launcher == "torchrun":
        done = run(ranks_needed, "-m", "plancc_cli.run", *words, launcher=launcher)
    else:
        done = ranks.run(ranks_needed, *words)
    assert done.returncode == 0, done.stderr
    assert ("pipeline: 3 stages; bandwidth" in done.stdout) == ("--pipeline" in more)
    expected = trained(file, options, ranks_needed)[0]
    found = json.loads((tmp_path / "out.json").read_text())["epochs"]
    assert [epoch["words_sent"] for epoch in found] == [expected.figures.planned] * 2
    close([epoch["loss"] for epoch in found], [e.loss for e in expected.epochs], 1e-12)
