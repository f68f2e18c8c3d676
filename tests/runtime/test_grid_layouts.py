"""Process grids against dense float64 matrices: products, what they sum and send, resumed runs.

Training on them is in `test_trained_layouts`, what they refuse in `test_order_of_checks`.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import worlds
from cases import long
from reference import close, coefficients
from runs import file_of, on_ranks, slices_of, trained
from worlds import N

import plancc_runtime
from plancc.errors import PlanError
from plancc.plan.grid import Grid
from plancc_runtime.kernels.torch_spmm import TorchMatrix
from plancc_runtime.layouts.grid import GridGraph
from plancc_runtime.options import TrainOptions
from plancc_runtime.slices import check_slices
from plancc_runtime.testing import Layout, LayoutTests

# in 1.5d 3x2 c does not divide the blocks; in 2x3 the last copies have no chunk
QUICK = ["1.5d 3x2", "2d 2x3", "1.5d 3x2 sparse", "3d 2x2x2"]
GRIDS = [
    *("1d 1", "1d 2", "1d 3", "1d 4", "1d 9", "1d 3 sparse", "1.5d 2x1", "1.5d 2x2", "1.5d 4x2"),
    *("2d 2x2", "2d 3x3", "2d 3x2", "2d 1x4", "2d 4x1", "2d 2x4", "3d 1x2x2", "3d 2x1x2"),
    *("3d 2x2x1", "1.5d 2x2 sparse", "1.5d 4x2 sparse", "1.5d 3x3 sparse", "1.5d 2x3", "1.5d 5x2"),
    *("1.5d 5x3", "1.5d 9x4", "1.5d 5x3 sparse", "1.5d 9x4 sparse", "1.5d 2x3 sparse"),
]


pytestmark = pytest.mark.usefixtures("opened_once")


class TestProducts(LayoutTests):
    @pytest.fixture(
        scope="class",
        params=[*enumerate(QUICK), *(pytest.param(case, marks=long) for case in enumerate(GRIDS))],
        ids=str,
    )
    @classmethod
    def layout(cls, request):
        turn, layout = request.param
        kind, grid = ("undirected", "directed")[turn % 2], Grid.parse(layout)
        of_ranks = slices_of(kind, layout)

        def make(transport, resources):
            header, part = of_ranks[transport.rank]
            return GridGraph(part, header, resources)

        dense = coefficients(worlds.array(kind), kind == "undirected")
        del dense["sum"]  # as "plan"
        return Layout(
            grid.num_ranks, make, dense, share=1 / grid.columns if grid.scheme == "1.5d" else 1
        )


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


@pytest.mark.parametrize(("layout", "copies"), [("1.5d 2x2", 2), ("2d 2x2", 0)])
def test_words_put_into_sums_over_copies(layout, copies):
    """Forward, by every copy of all rows."""
    slices = slices_of("undirected", layout)
    result = trained(slices, TrainOptions(hidden=9, passes=("order",), epochs=0, threads=1))[0]
    assert result.figures.reduced == copies * N * sum(min(pair) for pair in pairwise(result.dims))


@pytest.mark.parametrize("layout", ["1.5d 2x2 sparse", pytest.param("3d 1x2x2", marks=long)])
def test_resumed_training_gives_the_same_bits(layout, tmp_path):
    file = file_of("directed", layout)
    options = TrainOptions(
        **{"epochs": 4, "hidden": 9, "dropout": 0.2, "threads": 1}, log=tmp_path / "log"
    )
    straight = trained(file, options, 4)[0]
    kept = replace(options, checkpoint=tmp_path / "kept", log=None)
    trained(file, replace(kept, epochs=2), 4)
    resumed = trained(file, replace(kept, resume=True), 4)[0]
    assert [epoch.epoch for epoch in resumed.epochs] == [2, 3]
    for name, weight in straight.weights.items():
        np.testing.assert_array_equal(resumed.weights[name], weight)
    assert len((tmp_path / "log").read_text().splitlines()) == 4


def test_needed_rows_on_one_process_column_are_a_row_plan():
    """Attention, mini-batches and the library too."""
    file = file_of("directed", "1d 3 sparse")
    for given in ({"model": "gat"}, {"batch_size": 8}, {"row_order": "rcm"}):
        header = trained(file, TrainOptions(**given, epochs=1, threads=1), 3)[0].header
        assert (header.layout, header.grid) == ("row", Grid("1d", 3, sparse=True))
    opened = on_ranks(3, lambda transport: plancc_runtime.open(file, transport).num_rows)
    assert sum(opened) == N


def test_a_damaged_message_is_found_before_anyone_waits_for_it():
    slices = slices_of("directed", "1.5d 2x2 sparse")

    def work(transport):
        _, part = slices[transport.rank]
        if transport.rank == 1:
            block = part.grid.block
            send = block.expand.send
            send = replace(send, row_ptr=send.row_ptr + np.array([0, 1]))
            block = replace(block, expand=replace(block.expand, send=send))
            part = replace(part, grid=replace(part.grid, block=block))
        with pytest.raises(PlanError, match="rank 1 sends"):
            check_slices(part, transport)

    on_ranks(4, work)
