"""Schedules: their words and messages against inspect's, and against what the runtime counts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import plan_helpers
import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st
from predict_helpers import widths_of

from plancc.cost.pairs import pair_volumes
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.metrics import StepTraffic
from plancc.plan.words import RowMessages, count
from plancc.predict.schedule import DenseProduct, Pairs, SparseProduct
from plancc.predict.schedules import (
    Tables,
    pairs_of,
    read_tables,
    schedule_of,
    tables_of,
    tables_of_owners,
)
from plancc.predict.schedules.grid import blocks_of
from plancc.predict.sizes import even_tables

DIMS = [7, 6, 9, 5]  # wider, narrower and odd ones
GRIDS = (
    *("1d 3", "1d 4 sparse", "1.5d 4x2", "1.5d 6x2", "1.5d 3x1", "1.5d 4x2 sparse"),
    *("1.5d 5x3", "1.5d 2x3", "1.5d 9x4", "1.5d 5x2 sparse"),
    *("2d 2x2", "2d 2x3", "2d 3x1", "3d 2x2x2", "3d 1x2x2"),
    *("feature 1x3", "feature 2x2", "feature 2x6"),  # the last one wider than a layer
)
PASSES = ((), ("order",), ("constant",), ("order", "constant"))


def epoch_traffic(plan, dims, passes):
    """What every part of a row or edge plan sends in an epoch."""
    ways = [way for two in widths_of(dims, passes) for way in zip(two, (False, True), strict=True)]
    steps = [StepTraffic.of(each) for each in plan.exchanges.values()]
    moved = (RowMessages(step, width, reverse=back) for step in steps for width, back in ways)
    return count(moved, plan.num_parts)


@given(
    case=plan_helpers.cases(),
    dims=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    passes=st.sampled_from(PASSES),
)
def test_row_plans_move_what_inspect_says(case, dims, passes):
    plan = plan_helpers.lowered(*case)
    counts = schedule_of(tables_of(plan), dims, passes).counts()
    expected = epoch_traffic(plan, dims, passes)
    assert counts.words_sent.tolist() == expected.words_sent.tolist()
    assert counts.messages_sent.tolist() == expected.messages_sent.tolist()
    assert counts.words_received.sum() == counts.words_sent.sum()
    weights = sum((a + 1) * b for a, b in pairwise(dims)) + 1
    assert counts.words_reduced.tolist() == [weights * (case[2] > 1)] * case[2]
    graph, owner, num_parts = case
    of_owners = schedule_of(
        tables_of_owners(graph, Owners(owner), num_parts), dims, passes
    ).counts()
    assert of_owners.words_sent.tolist() == expected.words_sent.tolist()


@pytest.mark.parametrize("passes", PASSES)
def test_edge_plans_move_what_inspect_says(passes):
    plan = worlds.plan("directed", "edge", 4)
    tables = tables_of(plan)
    counts = schedule_of(tables, DIMS, passes).counts()
    expected = epoch_traffic(plan, DIMS, passes)
    assert counts.words_sent.tolist() == expected.words_sent.tolist()
    assert counts.messages_sent.tolist() == expected.messages_sent.tolist()
    assert tables.nonzeros.tolist() == plan.traffic().nonzeros.tolist()
    own = [int(p.row_ptr[p.num_rows]) for p in map(plan.part, range(4))]
    assert tables.own_nonzeros.tolist() == own


@pytest.mark.parametrize("text", GRIDS)
def test_every_nonzero_is_multiplied(text):
    plan = worlds.plan("directed", text)
    grid, schedule = plan.header.grid, schedule_of(tables_of(plan), DIMS)
    for place, work in schedule.operations:
        if isinstance(work, SparseProduct):
            # every scheme divides this work; in replicated grids no copy does another's
            widths = [min(pair) for pair in pairwise(DIMS)]
            done = int((work.nonzeros * work.width).sum())
            assert done == plan.header.num_nonzeros * widths[place.layer - 1]
    dense = [each for each in schedule.operations if isinstance(each.work, DenseProduct)]
    assert len(dense) == 3 + 3 + 2
    copies = grid.columns if grid.scheme == "1.5d" else 1
    for place, work in dense:
        a, b = DIMS[place.layer - 1 : place.layer + 1]
        assert int((work.rows * work.inner * work.columns).sum()) == copies * 41 * a * b


@pytest.mark.parametrize("text", ["1.5d 5x3", "2d 2x3", "3d 2x2x2"])
def test_blocks_are_the_matrix_cut_at_the_pieces(text):
    grid, plan = Grid.parse(text), worlds.plan("directed", text)
    blocks = tables_of(plan).blocks
    dense, place = np.zeros((41, 41), np.int64), plan.places()
    rows, columns = np.nonzero(worlds.array("directed"))
    dense[place[rows], place[columns]] = 1
    for part, (a, b) in enumerate(pairwise(plan.part_ptr.tolist())):
        for layer in range(grid.layers):
            pieces = grid.pieces(plan.part_ptr, layer)
            counts = [int(dense[a:b, p.first : p.last].sum()) for p in pieces]
            if grid.scheme == "1.5d":
                of_chunk = np.bincount([p.column for p in pieces], counts, grid.columns)
                assert blocks[part].tolist() == of_chunk.tolist()
            else:
                count = len(pieces)
                assert blocks[part, layer * count : (layer + 1) * count].tolist() == counts


def test_uneven_chunks_have_uneven_shares_and_stages():
    """Process column 0 multiplies with 3 of 5 blocks, column 1 with 2."""
    grid = Grid("1.5d", 5, 2)
    tables = even_tables("sizes", 100, 1000, 5, grid)
    assert blocks_of(tables).tolist() == [[120, 80]] * 5
    operations = schedule_of(tables, [4, 3], passes=()).operations
    multiplied = [work for _, work in operations if isinstance(work, SparseProduct)]
    assert [each.calls.tolist() for each in multiplied] == [[3, 2] * 5] * 2
    assert multiplied[0].nonzeros.tolist() == [120, 80] * 5


def test_a_schedule_by_hand():
    """Two ranks of 3 and 5 rows; rank 0 sends two rows, rank 1 one."""
    tables = Tables(
        name="by hand",
        layout="row",
        rows=np.array([3, 5]),
        nonzeros=np.array([7, 20]),
        expand=Pairs(2, np.array([0, 1], np.int32), np.array([1, 0], np.int32), np.array([2, 1])),
    )
    counts = schedule_of(tables, [4, 3], passes=()).counts()
    assert counts.words_sent.tolist() == [2 * 4 + 1 * 3, 1 * 4 + 2 * 3]
    assert counts.messages_sent.tolist() == [2, 2]
    assert counts.words_reduced.tolist() == [4 * 3 + 3 + 1] * 2
    constant = schedule_of(tables, [4, 3], passes=["constant"]).counts()
    assert not constant.words_sent.any()
    assert not constant.messages_sent.any()


def test_owners_of_grids():
    """As of their plan; what is not counted is spread evenly, and said."""
    graph = worlds.graph("directed")
    owner = (np.arange(41) % 4).astype(np.int32)
    exact = schedule_of(
        tables_of(with_grid(plan_helpers.lowered(graph, owner, 4), Grid("2d", 4, 2))), DIMS
    )
    tables = tables_of_owners(graph, Owners(owner), 4, Grid("2d", 4, 2))
    found = schedule_of(replace(tables, blocks=None), DIMS)
    assert "evenly" in found.notes[0]
    assert exact.notes == schedule_of(tables, DIMS).notes == ()
    assert found.counts().words_sent.sum() == exact.counts().words_sent.sum()
    sparse = Grid("1d", 4, sparse=True)
    pairs = pairs_of(pair_volumes(graph, owner, 4))
    assert tables_of_owners(graph, Owners(owner), 4, sparse).expand.rows.sum() == pairs.rows.sum()


def test_files_are_read_without_values(tmp_path):
    """A plan whose values and columns are damaged has the same schedule: nobody looks at them."""
    import h5py

    plan = worlds.plan("directed", "edge", 3)
    plan.save(tmp_path / "plan.h5")
    whole = schedule_of(tmp_path / "plan.h5", DIMS).counts()
    with h5py.File(tmp_path / "plan.h5", "r+") as file:
        for name in ("matrix/column", "matrix/value", "rows/global_id"):
            file[name][...] = 77
    assert schedule_of(tmp_path / "plan.h5", DIMS).counts().words_sent.tolist() == (
        whole.words_sent.tolist()
    )
    assert read_tables(tmp_path / "plan.h5").num_ranks == 3


def test_wrong_words():
    tables = tables_of(worlds.plan("directed", "2d 2x3"))
    with pytest.raises(InputError, match=r"'overlapped'.*order, constant"):
        schedule_of(tables, DIMS, ["overlapped"])
    with pytest.raises(InputError, match="2 wide"):
        schedule_of(tables, [4, 2])
    with pytest.raises(InputError, match="give two or more widths"):
        schedule_of(tables, [4])
    with pytest.raises(InputError, match="has 2 parts, but grid '2d 4x1' needs 4"):
        schedule_of(replace(tables, grid=Grid("2d", 4, 1)), DIMS)
