"""Process grids against dense float64 matrices: products, layers, training, and what they send."""

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import runs
import scipy.sparse as sp
import torch
import worlds
from cases import long, turns
from reference import close, coefficients, train_model
from runs import on_ranks
from worlds import N

import plancc_runtime
from plancc.errors import InputError, PlanError
from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid
from plancc.plan.parts import Part
from plancc.plan.slices import read_rank_slice
from plancc.plan.values import Header
from plancc_runtime.kernels.torch_spmm import TorchMatrix
from plancc_runtime.layouts.grid import GridGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.slices import check_slices
from plancc_runtime.testing import Layout, LayoutTests
from plancc_runtime.train import train
from plancc_runtime.transport.single import SingleTransport

KINDS = ("undirected", "directed")
GRIDS = [
    *(Grid("1d", p) for p in (1, 2, 3, 4, 9)),
    *(Grid("1.5d", *shape) for shape in ((2, 1), (2, 2), (4, 2))),
    *(Grid("2d", *shape) for shape in ((2, 2), (3, 3), (2, 3), (3, 2), (1, 4), (4, 1), (2, 4))),
    *(Grid("3d", *shape) for shape in ((2, 2, 2), (1, 2, 2), (2, 1, 2), (2, 2, 1))),
    *(Grid("1.5d", *shape, sparse=True) for shape in ((2, 2), (4, 2), (3, 3))),
    # c does not divide the blocks; in 2x3 the last copies have no chunk
    *(Grid("1.5d", *shape) for shape in ((3, 2), (5, 2), (5, 3), (9, 4), (2, 3))),
    *(Grid("1.5d", *shape, sparse=True) for shape in ((3, 2), (5, 3), (9, 4), (2, 3))),
]
UNEVEN = [Grid("1.5d", 5, 3), Grid("1.5d", 3, 2, sparse=True), Grid("1.5d", 2, 3)]
SOME = [
    Grid("1d", 3),
    Grid("1d", 3, sparse=True),
    Grid("1.5d", 4, 2),
    Grid("1.5d", 4, 2, sparse=True),
    Grid("2d", 2, 3),
    Grid("3d", 2, 2, 2),
]
CASES = [(grid, KINDS[k % 2]) for k, grid in enumerate(GRIDS)]


pytestmark = pytest.mark.usefixtures("opened_once")


def plan_file(grid: Grid, kind: str = "directed") -> Path:
    return runs.file_of(kind, str(grid))


@cache
def slices(grid: Grid, kind: str) -> list[tuple[Header, Part]]:
    """What the ranks of a grid read; the diagonal of the undirected world is no edge."""
    ranks, loops = grid.num_ranks, kind == "undirected"
    read = (read_rank_slice(plan_file(grid, kind), rank, ranks) for rank in range(ranks))
    return [(replace(header, self_loops=loops), part) for header, part in read]


# ---- products ----


QUICK = [*SOME, *UNEVEN, Grid("2d", 1, 4)]


def some(cases, quick):
    """Cases of these grids; those of others are long."""
    return [pytest.param(*case, marks=() if _grid(case) in quick else long) for case in cases]


def _grid(case):
    return case[0] if isinstance(case[0], Grid) else case[0][0]


class TestProducts(LayoutTests):
    @pytest.fixture(scope="class", params=some([(case,) for case in CASES], QUICK), ids=str)
    @classmethod
    def layout(cls, request):
        grid, kind = request.param
        of_ranks = slices(grid, kind)

        def make(transport, resources):
            header, part = of_ranks[transport.rank]
            return GridGraph(part, header, resources)

        dense = coefficients(worlds.array(kind), kind == "undirected")
        del dense["sum"]  # as "plan"
        return Layout(
            grid.num_ranks, make, dense, share=1 / grid.columns if grid.scheme == "1.5d" else 1
        )


@pytest.mark.parametrize("grid", [*SOME[:1], *SOME[2:]], ids=str)
def test_degrees_are_those_of_whole_rows(grid):
    def work(transport):
        header, part = slices(grid, "undirected")[transport.rank]
        graph = GridGraph(part, header, Resources(transport, torch.float64))
        return part.global_id, *(graph.degree(nonzeros) for nonzeros in ("edges", "closed"))

    dense = coefficients(worlds.array("undirected"), True)
    for rows, *degrees in on_ranks(grid.num_ranks, work):
        for got, name in zip(degrees, ("sum", "closed-mean"), strict=True):
            np.testing.assert_array_equal(got, (dense[name] > 0).sum(axis=1)[rows])


@pytest.mark.parametrize("transposed", [False, True])
def test_a_matrix_of_tensors_is_the_csr_matrix_or_its_transpose(transposed):
    """As pieces arrive on a device."""
    a = sp.random_array((9, 5), density=0.3, format="csr", rng=np.random.default_rng(1))
    arrays = (torch.from_numpy(np.asarray(each)) for each in (a.indptr, a.indices, a.data))
    found = TorchMatrix.of_tensors(*arrays, a.shape, transposed)
    expected = a.T.toarray() if transposed else a.toarray()
    out = torch.empty(len(expected), 9 if not transposed else 5, dtype=torch.float64)
    x = torch.eye(expected.shape[1], out.shape[1], dtype=torch.float64)
    found.multiply(x, out)
    assert (found.nnz, found.shape) == (a.nnz, expected.shape)
    close(out.numpy(), expected @ x.numpy(), 1e-15)


# ---- training ----

MODELS = [
    {"model": "gcn", "bias": True, "residual": True},
    {"model": "sage", "aggregator": "mean"},
    {"model": "gin", "layers": 3, "model_options": {"train_eps": True}},
    {"model": "sage", "aggregator": "gcn", "residual": True},
    {"model": "sage", "aggregator": "sum", "bias": True},
    {"model": "gcn", "passes": ("order",), "hidden": 5},
]
TRAINED = [(grid, KINDS[k % 2], MODELS[k % 6]) for k, grid in enumerate([*GRIDS[4:], *SOME[:2]])]
TRAINED_QUICKLY = [
    *(Grid("1d", 3, sparse=True), Grid("1.5d", 2, 2), Grid("1.5d", 2, 2, sparse=True)),
    *(Grid("2d", 2, 2), Grid("2d", 2, 3), Grid("3d", 1, 2, 2), Grid("3d", 2, 2, 1)),
    *UNEVEN,
]


def options_of(**given) -> TrainOptions:
    common = {"epochs": 2, "hidden": 9, "dtype": "float64", "threads": 1}
    common |= {"optimizer": "sgd", "lr": 0.05}
    return TrainOptions(**{**common, **given})


def trained(plan, grid: Grid, options: TrainOptions):
    def work(transport):
        of_rank = plan[transport.rank] if isinstance(plan, list) else plan
        return train(of_rank, options, transport)

    return on_ranks(grid.num_ranks, work)


def initial_weights(**model) -> dict[str, np.ndarray]:
    """The same for every grid."""
    [plan] = slices(Grid("1d", 1), "directed")
    return train(plan, options_of(epochs=0, **model), SingleTransport()).weights


@pytest.mark.parametrize(("grid", "kind", "model"), some(TRAINED, TRAINED_QUICKLY), ids=str)
def test_training_is_that_of_the_dense_matrix(grid, kind, model):
    """Losses, and weights after some steps; widths are not multiples of the columns."""
    options = options_of(**model)
    known = worlds.data()
    losses, final = train_model(
        *(options.model, options.aggregator, worlds.array(kind)),
        *(known.features, known.labels, known.train_mask, initial_weights(**model)),
        *(options.epochs, options.lr, options.residual, kind == "undirected"),
    )
    sizes = {
        split: np.sum(getattr(known, f"{split}_mask") & (known.labels >= 0))
        for split in ("train", "val", "test")
    }
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-5))[: 1 + (grid in SOME[3:5])]:
        results = trained(slices(grid, kind), grid, replace(options, dtype=dtype))
        for result in results:
            close([epoch.loss for epoch in result.epochs], losses, tolerance)
            for name, weight in final.items():
                close(result.weights[name], weight, tolerance)
        result = results[0]
        assert [e.words_sent for e in result.epochs] == [result.figures.planned] * options.epochs
        assert result.figures.planned <= result.figures.plain
        assert result.split_sizes == sizes


@pytest.mark.parametrize("grid", [Grid("1.5d", 2, 2), Grid("2d", 2, 2)], ids=str)
def test_words_put_into_sums_over_copies(grid):
    """Forward, by every copy of all rows."""
    result = trained(slices(grid, "undirected"), grid, options_of(passes=("order",), epochs=0))[0]
    widths = sum(min(pair) for pair in pairwise(result.dims))
    assert result.figures.reduced == (2 * N * widths if grid.scheme == "1.5d" else 0)


@turns(
    grid=[SOME[1], Grid("1.5d", 2, 2, sparse=True), Grid("2d", 2, 3), Grid("3d", 1, 2, 2)],
    which=[0, 1],
)
def test_random_data_and_dropout_are_those_of_a_row_plan(grid, which, tmp_path):
    """Scores too; without vertex data in the file, and with features normalised by whole rows."""
    one = Grid("1d", 1, sparse=True)  # executed as a row plan
    norm = "none" if grid.splits_columns else ("batch", "layer")[which]
    given = ({"input_dropout": 0.0}, {"normalize_features": True, "eval_every": 2})[which]
    options = options_of(
        dropout=0.4, split=(0.5, 0.3, 0.2), features=7, classes=5, norm=norm, **given
    )
    results = []
    for shape in (one, grid):
        file = runs.with_data(
            worlds.plan("undirected", str(shape)), VertexData(), tmp_path / "plan.h5"
        )
        results.append(trained(file, shape, options)[0])
    alone, shared = results
    for here, there in zip(
        [*shared.epochs, shared.final], [*alone.epochs, alone.final], strict=True
    ):
        assert here.loss == pytest.approx(there.loss, rel=1e-10)
        assert here.accuracy == there.accuracy
        assert here.f1_macro == pytest.approx(there.f1_macro)
    assert shared.split_sizes == alone.split_sizes


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("grid", SOME, ids=str)
def test_training_on_a_device_is_that_on_the_cpu(grid):
    options = options_of(model="gin", dropout=0.3)
    here = trained(slices(grid, "directed"), grid, options)[0]
    there = trained(slices(grid, "directed"), grid, replace(options, device="cuda"))[0]
    assert there.figures == here.figures
    for name, weight in here.weights.items():
        close(there.weights[name], weight, 1e-10)


@pytest.mark.parametrize(
    "grid",
    [Grid("1.5d", 2, 2, sparse=True), pytest.param(Grid("3d", 1, 2, 2), marks=long)],
    ids=str,
)
def test_resumed_training_gives_the_same_bits(grid, tmp_path):
    file = plan_file(grid)
    options = options_of(
        epochs=4, optimizer="adam", dropout=0.2, log=tmp_path / "log", profile=tmp_path / "profile"
    )
    straight = trained(file, grid, options)[0]
    kept = replace(options, checkpoint=tmp_path / "kept", log=None, profile=None)
    trained(file, grid, replace(kept, epochs=2))
    resumed = trained(file, grid, replace(kept, resume=True))[0]
    assert [epoch.epoch for epoch in resumed.epochs] == [2, 3]
    for name, weight in straight.weights.items():
        np.testing.assert_array_equal(resumed.weights[name], weight)
    assert len((tmp_path / "log").read_text().splitlines()) == 4
    assert json.loads((tmp_path / "profile").read_text())


# ---- refusals ----


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": "gat"}, "`model` gat: attention needs all neighbours of a row"),
        ({"model": "sage", "aggregator": "max"}, "`aggregator` max: needs a plan of layout row"),
        ({"norm": "layer"}, "`norm` layer: needs a plan of layout row"),
        ({"passes": ("overlap",)}, "`passes` overlap, without order: needs a plan of layout row"),
        ({"wire": "bf16"}, "`wire` bf16: needs a plan of layout row"),
        ({"row_order": "rcm"}, "`row_order` rcm: rows of a plan of grid '2d 1x3' stay"),
        ({"boundary_sampling": 0.5}, "`boundary_sampling` 0.5: needs a plan of layout row"),
        ({"batch_size": 8}, "`batch_size` 8: needs a plan of layout row"),
        ({"fold": "none"}, "`fold` none: needs an edge plan"),
        ({"hidden": 2}, "splits columns over 3 ranks, and a layer is 2 wide"),
    ],
    ids=str,
)
def test_what_a_grid_does_not_offer_is_refused_at_once(given, sentence):
    grid = Grid("2d", 1, 3)
    file = plan_file(grid)
    with pytest.raises(InputError, match=sentence) as raised:
        trained(file, grid, options_of(**given))
    assert "\n" not in str(raised.value)
    assert "rank 0" not in str(raised.value)


def test_needed_rows_on_one_process_column_are_a_row_plan():
    """Attention, mini-batches and the library too."""
    grid = Grid("1d", 3, sparse=True)
    file = plan_file(grid)
    for given in ({"model": "gat"}, {"batch_size": 8}, {"row_order": "rcm"}):
        result = trained(file, grid, options_of(**given))[0]
        assert result.header.layout == "row"
        assert result.header.grid == grid
    opened = on_ranks(3, lambda transport: plancc_runtime.open(file, transport).num_rows)
    assert sum(opened) == N


def test_the_library_refuses_other_grids():
    file = plan_file(Grid("2d", 1, 1))
    with pytest.raises(InputError, match=r"\.h5: the library works on plans of layout row"):
        plancc_runtime.open(file, SingleTransport())


def test_a_damaged_message_is_found_before_anyone_waits_for_it():
    grid = Grid("1.5d", 2, 2, sparse=True)
    file = plan_file(grid)

    def work(transport):
        _, part = read_rank_slice(file, transport.rank, transport.size)
        if transport.rank == 1:
            block = part.grid.block
            send = block.expand.send
            send = replace(send, row_ptr=send.row_ptr + np.array([0, 1]))
            block = replace(block, expand=replace(block.expand, send=send))
            part = replace(part, grid=replace(part.grid, block=block))
        with pytest.raises(PlanError, match="rank 1 sends"):
            check_slices(part, transport)

    on_ranks(4, work)


# ---- launchers ----


@pytest.mark.mpi
def test_ranks_of_mpi_compute_the_same(tmp_path, ranks):
    """Those of feature plans are launched by torchrun."""
    grid = Grid("2d", 2, 2)
    file = plan_file(grid)
    arguments = ["--epochs", 2, "--hidden", 9, "--dtype", "float64"]
    arguments += ["--optimizer", "sgd", "--lr", 0.05]
    answer = ranks.run(4, file, *arguments, "--threads", 1, "--json", tmp_path / "result")
    assert answer.returncode == 0, answer.stderr
    expected = trained(file, grid, options_of())[0]
    got = json.loads((tmp_path / "result").read_text())
    assert [epoch["words_sent"] for epoch in got["epochs"]] == [expected.figures.planned] * 2
    close([epoch["loss"] for epoch in got["epochs"]], [e.loss for e in expected.epochs], 1e-12)


def test_another_number_of_ranks_is_one_sentence():
    file = plan_file(Grid("2d", 2, 2))
    with pytest.raises(InputError, match="grid '2d 2x2', which runs on exactly 4 ranks") as raised:
        on_ranks(3, lambda transport: train(file, options_of(), transport))
    assert "\n" not in str(raised.value)
