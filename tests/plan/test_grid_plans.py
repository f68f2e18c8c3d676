"""Process grids over row plans: who holds what, what files say of it, and damaged ones."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing
from cases import long

from plancc.errors import InputError, PlanError
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.reader import PlanFile, load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify, verify_file
from plancc.predict.schedules import tables_of
from plancc.report.costs import product_of
from plancc.report.grid_traffic import product_traffic
from plancc.report.plans import report

N = 30
COLLECTIVE = ("1d 1", "1d 5", "1.5d 4x2", "1.5d 9x3", "1.5d 6x1", "2d 3x3", "2d 2x3", "2d 4x2")
COLLECTIVE += ("1.5d 5x3", "1.5d 2x3", "1.5d 6x4")
COLLECTIVE += ("2d 1x4", "2d 5x1", "3d 2x2x2", "3d 2x3x2", "3d 3x2x1", "3d 1x1x4", "3d 2x4x3")
IN_MESSAGES = (
    "1d 5 sparse",
    "1.5d 4x2 sparse",
    "1.5d 5x2 sparse",
    "feature 1x4",
    "feature 3x2",
    "feature 4x1",
)
GRIDS = [Grid.parse(text) for text in COLLECTIVE + IN_MESSAGES]
QUICK = ("1.5d 5x3", "2d 2x3", "3d 2x3x2", "1.5d 4x2 sparse", "feature 3x2")
READ = [
    pytest.param(grid, marks=() if str(grid) in QUICK else long, id=str(grid)) for grid in GRIDS
]
"""All grids for tests that read the files of all their ranks; but for the quick ones, `long`."""


@cache
def grid_plan(grid):
    """A grid plan with parts of uneven sizes, one of them empty, and its matrix in plan order."""
    rng = np.random.default_rng([0, grid.num_parts])
    array = plan_helpers.random_array(rng, N, 0.2)
    owner = rng.choice(grid.num_parts, N, p=rng.dirichlet(np.ones(grid.num_parts)))
    if grid.num_parts > 2:
        owner[owner == 1] = 0
    graph = plan_helpers.graph_of(array)
    plan = plan_helpers.lowered(graph, owner.astype(np.int32), grid.num_parts)
    plan = replace(plan, vertex_data=plan_helpers.data_of(N).take(plan.global_id))
    plan = with_grid(plan, grid)
    order = plan.global_id
    return plan, array.astype(np.float32)[np.ix_(order, order)]


def shares(plan):
    """What every rank reads of the plan's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.h5"
        plan.save(path)
        ranks = range(plan.header.num_ranks)
        return [read_rank_slice(path, rank, len(ranks))[1] for rank in ranks]


@cache
def shared(grid):
    """A grid plan, its matrix in plan order, and what every rank reads of it."""
    plan, matrix = grid_plan(grid)
    return plan, matrix, shares(plan)


def blocks_of_a(part):
    """The rank's block of A in plan order, as rows of its process row."""
    share = part.grid
    first = share.part_ptr[share.grid.position(part.index).row * share.grid.layers]
    row = first + np.repeat(np.arange(len(share.row_ptr) - 1), np.diff(share.row_ptr))
    return row, share.place, share.value


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_text(grid):
    assert Grid.parse(str(grid)) == grid
    assert [grid.rank(*grid.position(rank)) for rank in range(grid.num_ranks)] == list(
        range(grid.num_ranks)
    )


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_groups(grid):
    """Ranks of a row, a column and a fiber differ in one coordinate; a group is every member's."""
    for rank in range(grid.num_ranks):
        place = grid.position(rank)
        for of, axis in (
            (grid.ranks_of_row, "column"),
            (grid.ranks_of_column, "row"),
            (grid.ranks_of_fiber, "layer"),
        ):
            group = of(rank)
            positions = [grid.position(other) for other in group]
            assert [getattr(at, axis) for at in positions] == list(range(len(group)))
            assert {at._replace(**{axis: 0}) for at in positions} == {place._replace(**{axis: 0})}
            assert all(of(other) == group for other in group)
        assert {grid.part(other) for other in grid.ranks_of_row(rank)} == {grid.part(rank)}


@pytest.mark.parametrize("grid", [g for g in GRIDS if g.scheme != "feature"], ids=str)
def test_pieces_cover_a_layer_and_nest_in_its_parts(grid):
    part_ptr = grid_plan(grid)[0].part_ptr
    for layer in range(grid.layers):
        pieces = grid.pieces(part_ptr, layer)
        for piece in pieces:
            part = piece.row if grid.scheme == "1.5d" else piece.row * grid.layers + layer
            assert part_ptr[part] <= piece.first <= piece.last <= part_ptr[part + 1]
            assert 0 <= piece.column < grid.columns
        rows = [row for piece in pieces for row in range(piece.first, piece.last)]
        parts = range(layer, grid.num_parts, grid.layers)
        assert rows == [row for k in parts for row in range(part_ptr[k], part_ptr[k + 1])]
        columns = [piece.column for piece in pieces]
        assert columns == sorted(columns)
        assert set(columns) == set(range(min(len(pieces), grid.columns)))
        counts = [columns.count(k) for k in range(grid.columns)]
        uneven = grid.scheme == "1.5d" and grid.rows % grid.columns > 0
        assert max(counts) - min(counts) == uneven


@pytest.mark.parametrize("grid", [case for case in READ if case.id in COLLECTIVE])
def test_every_nonzero_is_with_one_rank(grid):
    plan, matrix, parts_of_ranks = shared(grid)
    times, total = np.zeros(matrix.shape, int), np.zeros(matrix.shape, np.float32)
    for part in parts_of_ranks:
        place = grid.position(part.index)
        row, column, value = blocks_of_a(part)
        np.add.at(times, (row, column), 1)
        np.add.at(total, (row, column), value)
        pieces = grid.pieces(plan.part_ptr, place.layer)
        mine = [range(p.first, p.last) for p in pieces if p.column == place.column]
        assert set(column.tolist()) <= {k for piece in mine for k in piece}
        parts = (
            plan.part_ptr[place.row * grid.layers],
            plan.part_ptr[(place.row + 1) * grid.layers],
        )
        assert len(part.grid.row_ptr) - 1 == parts[1] - parts[0]
        assert part.grid.block is None
        assert part.grid.row_ptr[-1] == len(column)
    np.testing.assert_array_equal(times, matrix != 0)
    np.testing.assert_array_equal(total, matrix)


@pytest.mark.parametrize("grid", READ)
def test_rows_and_their_data(grid):
    """Every row is with as many ranks as there are copies or slices, with its own vertex data."""
    plan, _, parts_of_ranks = shared(grid)
    times = np.zeros(N, int)
    for part in parts_of_ranks:
        times[part.global_id] += 1
        assert (part.num_parts, part.grid.rank) == (grid.num_ranks, part.index)
        np.testing.assert_array_equal(part.grid.part_ptr, plan.part_ptr)
        mine = slice(part.first_row, part.first_row + part.num_rows)
        np.testing.assert_array_equal(part.global_id, plan.global_id[mine])
        expected = plan_helpers.data_of(N).take(part.global_id)
        for name, array in vars(part.vertex_data).items():
            np.testing.assert_array_equal(array, getattr(expected, name), err_msg=name)
    assert (times == (1 if grid.scheme == "feature" else grid.columns)).all()


@pytest.mark.parametrize("text", IN_MESSAGES)
def test_ranks_that_exchange_messages_have_their_part(text):
    grid = Grid.parse(text)
    plan, _, parts_of_ranks = shared(grid)
    bare = type(plan.vertex_data)()
    row_plan = replace(plan, header=replace(plan.header, layout="row", grid=None))
    for part in parts_of_ranks:
        expected = replace(row_plan.part(grid.part(part.index)), vertex_data=bare, claims=None)
        plan_helpers.assert_equal(part.grid.block, expected)
        assert len(part.grid.place) == 0


@pytest.mark.parametrize("grid", READ)
def test_what_a_product_moves(grid):
    """Against a count of every piece at every rank of an even plan, where no block is empty."""
    n, width = 36, 7
    owner = np.random.default_rng(7).permutation(n) % grid.num_parts
    array = plan_helpers.random_array(np.random.default_rng(3), n, 0.3, diagonal="full")
    graph = plan_helpers.graph_of(array)
    plan = with_grid(plan_helpers.lowered(graph, owner.astype(np.int32), grid.num_parts), grid)
    part_ptr, rows = plan.part_ptr, np.diff(plan.part_ptr)
    slices = np.diff([grid.slice_of_columns(width, j)[0] for j in range(grid.columns)] + [width])
    count = dict.fromkeys(("rows", "sums", "swapped", "reduced", "matrix"), 0)
    for part in shares(plan):
        place, own = grid.position(part.index), rows[grid.part(part.index)]
        if grid.scheme == "feature":
            share, held = part.num_rows, int(slices[place.column])
            count["rows"] += len(part.grid.block.expand.send.row) * held
            count["swapped"] += share * (width - held) + (own - share) * held
        elif grid.sparse:
            mine = grid.chunk(grid.part(part.index)) == place.column
            count["rows"] += mine * len(part.grid.block.expand.send.row) * width
        elif grid.scheme in ("1d", "1.5d"):
            mine = grid.chunk(grid.part(part.index)) == place.column
            count["rows"] += mine * own * width * (grid.rows - 1)
        else:
            held = int(slices[place.column])
            count["rows"] += own * held * (grid.rows - 1)
            of_row = int(rows[place.row * grid.layers : (place.row + 1) * grid.layers].sum())
            count["sums"] += (of_row - own) * held
            _, column, _ = blocks_of_a(part)
            for piece in grid.pieces(part_ptr, place.layer):
                if piece.column == place.column:
                    inside = ((column >= piece.first) & (column < piece.last)).sum()
                    count["matrix"] += (2 * inside + of_row + 1) * (grid.columns - 1)
        if grid.scheme == "1.5d" and grid.columns > 1:
            count["reduced"] += own * width
    found = product_traffic(tables_of(plan), width)
    assert vars(found) == {"width": width} | {name: int(value) for name, value in count.items()}


def test_what_a_product_moves_is_reported(tmp_path):
    plan, _ = grid_plan(Grid("2d", 2, 3))
    plan.save(tmp_path / "plan.h5")
    assert report(tmp_path / "plan.h5").product == product_of(plan)
    assert product_of(plan).width == plan.vertex_data.features.shape[1]
    bare = replace(plan, vertex_data=type(plan.vertex_data)())
    bare.save(tmp_path / "plan.h5")
    assert report(tmp_path / "plan.h5").product == product_of(bare)
    assert product_of(bare).rows == N * 128


def test_grids_that_do_not_fit():
    plan, _ = grid_plan(Grid("1d", 4))
    header = plan.header
    plan = replace(plan, header=replace(header, layout="row", grid=None))
    for grid in (Grid("2d", 3, 4), Grid("3d", 2, 2), Grid("feature", 1, 4)):
        with pytest.raises(InputError, match="needs a row plan of"):
            with_grid(plan, grid)
    with pytest.raises(InputError, match="of 4 parts, but this plan has 4 parts and layout 'grid'"):
        with_grid(with_grid(plan, Grid("1d", 4)), Grid("1d", 4))
    for changes, words in (
        ({"grid": None}, "the grid fits .*: layout 'grid' lacks the attribute 'grid'"),
        ({"grid": Grid("feature", 4)}, "'feature 4x1' does not fit layout 'grid'"),
        ({"grid": Grid("2d", 2, 2)}, "'2d 2x2' has 2 blocks of rows, but the plan has 4"),
        ({"layout": "row"}, "'1d 4' does not fit layout 'row'"),
        ({"grid": Grid("2d", 4, 8)}, "'2d 4x8' has 32 ranks for 30 vertices"),
    ):
        with pytest.raises(PlanError, match=words):
            verify(replace(plan, header=replace(header, **changes)))


@pytest.fixture(scope="module")
def two_by_two(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid") / "plan.h5"
    grid_plan(Grid("2d", 2, 2))[0].save(path)
    return path.read_bytes()


WRONG = {
    "no attribute": ({"grid": None}, "layout 'grid' lacks the attribute 'grid'"),
    "another scheme": ({"grid": "2.5d 2x2"}, "header attribute grid '2.5d': choose from"),
    "no sizes": ({"grid": "2d"}, "header attribute grid '2d': is not a grid"),
    "too few": ({"grid": "3d 2x2"}, "not a grid"),
    "too many": ({"grid": "2d 2x2x1"}, "not a grid"),
    "zero": ({"grid": "2d 2x0"}, "at least 1"),
    "signs": ({"grid": "2d +2x2"}, "not a grid"),
    "other digits": ({"grid": "2d 2x\N{ARABIC-INDIC DIGIT TWO}"}, "not a grid"),
    "two lines": ({"grid": "2d\n2x2"}, "is not a grid: 2d 2x2"),
    "a number": ({"grid": 4}, "grid '4'"),
    "a list": ({"grid": np.array([b"2d 2x2", b"2d 2x2"])}, "not a grid"),
    "nothing": ({"grid": h5py.Empty("S4")}, "not a grid"),
    "endless": ({"grid": "2d 2x" + "9" * 5000}, "header attribute 'grid' is not a grid"),
    "sparse": ({"grid": "2d 2x2 sparse"}, "only schemes 1d and 1.5d"),
    "parts": ({"grid": "2d 3x2"}, "grid '2d 3x2' has 3 blocks of rows, but the plan has 2 parts"),
    "ranks": ({"grid": "2d 2x999999999"}, "has 1999999998 ranks for 30 vertices"),
    "layout": ({"grid": "feature 2x2"}, "grid 'feature 2x2' does not fit layout 'grid'"),
    "in a row plan": ({"layout": "row"}, "grid '2d 2x2' does not fit layout 'row'"),
    "in an edge plan": ({"layout": "edge"}, "grid '2d 2x2' does not fit layout 'edge'"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_wrong_attributes(changes, words, two_by_two, tmp_path):
    path = tmp_path / "plan.h5"
    path.write_bytes(two_by_two)
    with h5py.File(path, "r+") as file:
        for name, value in changes.items():
            if value is None:
                del file.attrs[name]
            else:
                file.attrs[name] = sealing.text(value) if isinstance(value, str) else value
    for read in (PlanFile, load, verify_file, report, lambda at: read_rank_slice(at, 0, 4)):
        with pytest.raises(PlanError) as caught:
            read(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert words in message
        assert "\n" not in message
        assert len(message) < 300


def test_the_hash_knows_the_grid(tmp_path):
    """Hash and types as the plan format says them, for the same tables on four grids."""
    plan, _ = grid_plan(Grid("1d", 4))
    row_plan = replace(plan, header=replace(plan.header, layout="row", grid=None))
    hashes = {row_plan.save(tmp_path / "plan.h5")}
    for grid in (Grid("1d", 4), Grid("1d", 4, sparse=True), Grid("2d", 4, 2), Grid("feature", 4)):
        hashes.add(with_grid(row_plan, grid).save(tmp_path / "plan.h5"))
        with h5py.File(tmp_path / "plan.h5") as file:
            assert file.attrs["grid"].decode() == str(grid)
            stored = file.attrs["content_sha256"].decode()
        assert stored == sealing.content_hash(tmp_path / "plan.h5")
        plan_helpers.assert_equal(
            load(tmp_path / "plan.h5").header, replace(plan.header, grid=grid, layout=grid.layout)
        )
    assert len(hashes) == 5
