"""The checkerboard: its grids, its owners, the kernels' figures, and the search for groups."""

import math
from functools import cache

import numpy as np
import pytest
import worlds
from cases import long
from search_helpers import DIMS, graph_of, small_graph, value_of
from worlds import places

from plancc.cost.objectives import OBJECTIVES
from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.checkerboard import CheckerboardModel, assemble
from plancc.models.limits import Bounds, Limits
from plancc.options import SearchOptions
from plancc.passes.deadline import Deadline
from plancc.passes.grid import Board, Level, fees
from plancc.passes.kernels.grid import cells, flows, pins_by_group
from plancc.passes.presets import GRID_SWEEPS
from plancc.search import search
from plancc.search.checkerboard import search_checkerboard


def directed(n=60, density=0.08, seed=0) -> Graph:
    """A directed pattern, part of its diagonal missing."""
    return worlds.graph_of(np.random.default_rng(seed).random((n, n)) < density)


def moved(matrix, g, c):
    """Rows of both steps as (row, from cell, to cell), in plain Python."""
    columns = int(c.max()) + 1
    held = [columns * int(g[i]) + int(c[j]) for i, j in places(matrix)]
    steps = {"expand": set(), "fold": set()}
    for step, v, *ends in worlds.rows_moved(matrix, columns * g + c, held):
        steps[step].add((v, *(divmod(cell, columns) for cell in ends)))
    return steps["expand"], steps["fold"]


def drawn(matrix, shape, seed=3):
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, k, matrix.num_vertices).astype(np.int32) for k in shape)


def test_owners_volume_and_messages():
    matrix, shape = directed(), (4, 3)
    g, c = drawn(matrix, shape)
    made = assemble(matrix, g, c, 3)
    assert made.rows.dtype == made.nonzeros.dtype == np.int32
    assert made.rows.tolist() == [3 * a + b for a, b in zip(g, c, strict=True)]
    wanted = [3 * g[i] + c[j] for i, j in places(matrix)]
    assert made.nonzeros.tolist() == wanted
    parts = traffic(matrix, made, 12)
    expand, fold = moved(matrix, g, c)
    assert parts.sent.sum() == len(expand) + len(fold)
    assert parts.fold.sent.sum() == len(fold)
    messages = {(s, t) for _, s, t in expand}, {(s, t) for _, s, t in fold}
    assert parts.messages_sent.sum() == sum(map(len, messages))
    assert parts.messages_sent.max() <= 4 + 3 - 2
    assert parts.messages_received.max() <= 4 + 3 - 2

    board = Board(
        Level.of(matrix), (g, c), shape, [Limits.of_nonzeros(1, 12, 0)], np.random.default_rng()
    )
    assert board.volume == len(expand) + len(fold)


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_sweeps_keep_the_counts(strength):
    matrix, shape = directed(), (4, 3)
    limits = Limits.of_nonzeros(matrix.num_nonzeros, 12, 0.05)
    finest, rng = Level.of(matrix), np.random.default_rng(5)
    fee = fees(400, shape, strength) if strength else np.empty(0)
    board = Board(finest, drawn(matrix, shape), shape, [limits], rng, fee=fee)
    before, occupied = board.volume, board.size > 0
    board.anneal(Deadline())
    board.settle(Deadline())
    g, c = board.groups
    expand, fold = moved(matrix, g, c)
    assert board.volume == len(expand) + len(fold) < before
    assert (board.size[occupied] > 0).all()
    sizes, loads = np.zeros(shape, int), np.zeros(shape, int)
    np.add.at(sizes, (g, c), 1)
    for i, j in places(matrix):
        loads[g[i], c[j]] += 1
    assert (board.size == sizes).all()
    assert (board.load == loads).all()
    assert board.overload == pytest.approx(
        np.maximum(loads - math.floor(1.05 * limits.even[0, 0]), 0).sum() / limits.even[0, 0]
    )


def test_flows_follow_moves():
    """What a sweep with fees keeps up to date is what counting anew gives."""
    from plancc.passes.kernels.grid import CellRules, Messages, sweep

    matrix, shape = directed(), (4, 3)
    g, c = drawn(matrix, shape)
    sides = Level.of(matrix).sides
    count, other_count = pins_by_group(sides[0], g, 4), pins_by_group(sides[1], c, 3)
    load, size = cells(sides[0], g, c, 4, 3)
    flow, other_flow = flows(g, c, count, 3), flows(c, g, other_count, 4)
    messages = Messages(flow, other_flow, other_count, fees(400, shape, 2.0))
    rng, before = np.random.default_rng(0), g.copy()
    zero = np.zeros((4, 3))
    free = Bounds(zero, zero, zero + np.inf, zero)
    rules = CellRules(free, free, 1.0, 1)
    sweep(rng.permutation(60), sides[0], g, c, count, load, size, rules, rng, messages)
    assert (g != before).sum() > 10
    wanted = np.zeros((3, 4, 4), int), np.zeros((4, 3, 3), int)
    expand, fold = moved(matrix, g, c)
    for _, (a, b), (q, _) in expand:
        wanted[0][b, a, q] += 1
    for _, (a, b), (_, owner) in fold:
        wanted[1][a, owner, b] += 1
    assert (flow == wanted[0]).all()
    assert (other_flow == wanted[1]).all()
    assert (count == pins_by_group(sides[0], g, 4)).all()


def test_levels_keep_volume_and_load():
    matrix, shape = directed(), (4, 3)
    finest = Level.of(matrix)
    label = np.random.default_rng(0).permutation(np.arange(60, dtype=np.int32) % 20)
    groups = drawn(matrix, shape)
    coarse = tuple(group[:20] for group in groups)
    limits, rng = Limits.of_nonzeros(1, 12, 0), np.random.default_rng()
    one = Board(finest.coarser(label), coarse, shape, [limits], rng)
    two = Board(finest, tuple(group[label] for group in coarse), shape, [limits], rng)
    assert one.volume == two.volume
    assert (one.load == two.load).all()


@cache
def found(name, grid, p, objective, seed=1):
    """A search, and the steps that it told."""
    told = []
    options = SearchOptions(objective=objective, dims=DIMS, seed=seed)
    model = CheckerboardModel(grid)
    return search_checkerboard(small_graph(name), model, p, options, report=told.append), told


QUICK = {("rmat", "volume"), ("rmat", "messages"), ("directed", "max-volume"), ("directed", "time")}


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        pytest.param(name, objective, marks=() if (name, objective) in QUICK else long)
        for name in ("rmat", "directed")
        for objective in OBJECTIVES
    ],
)
def test_search(name, objective):
    matrix, (grid, p) = small_graph(name), {"rmat": (None, 16), "directed": ("2x3", 6)}[name]
    result, told = found(name, grid, p, objective)
    assert told == result.tried
    parts = traffic(matrix, result.owners, p)
    assert result.value == value_of(objective, matrix, result.owners, p)
    assert result.volume == parts.sent.sum()
    rows, columns = CheckerboardModel(grid).shape(p)
    g, c = result.owners.rows // columns, result.owners.rows % columns
    assert result.owners.nonzeros.tolist() == [columns * g[i] + c[j] for i, j in places(matrix)]
    assert np.bincount(result.owners.rows, minlength=p).min() >= 1
    assert parts.messages_sent.max() <= rows + columns - 2
    load = np.bincount(result.owners.nonzeros, minlength=p)
    allowed = 1.1 if objective == "time" else 1.01
    assert load.max() <= math.floor(allowed * math.ceil(matrix.num_nonzeros / p))
    assert result.warnings == []


@pytest.mark.parametrize("name", ["directed", pytest.param("rmat", marks=long)])
def test_same_seed_same_owners(name):
    how = name, "2x3", 6, "messages"
    (one, _), (two, _), (other, _) = (found(*how), found.__wrapped__(*how), found(*how, seed=2))
    assert two.owners.rows.tobytes() == one.owners.rows.tobytes()
    assert two.owners.nonzeros.tobytes() == one.owners.nonzeros.tobytes()
    assert other.owners.rows.tobytes() != one.owners.rows.tobytes()


def test_fewer_messages_than_by_rows_at_less_volume():
    by_rows = search(small_graph("rmat"), 16)
    volume, messages = (found("rmat", None, 16, goal)[0] for goal in ("volume", "messages"))
    assert volume.volume < by_rows.volume
    assert messages.value <= 16 * 6
    assert messages.volume <= 1.1 * volume.volume


@pytest.mark.parametrize(
    ("effort", "budget", "steps"), [("fast", None, 2), ("best", None, 16), ("best", 1e-3, 2)]
)
def test_efforts_and_budget(effort, budget, steps):
    """Two steps for each start, then V-cycles; a budget that is over allows one start."""
    matrix, model = small_graph("directed"), CheckerboardModel()
    result = search_checkerboard(
        matrix, model, 4, SearchOptions(effort=effort, objective="volume", budget=budget)
    )
    assert len(result.tried) == steps
    assert len(result.owners.nonzeros) == matrix.num_nonzeros


@pytest.mark.parametrize("in_time", [False, True])
def test_balance_is_not_sought_for_ever(monkeypatch, in_time):
    """A row that alone fills its cells above the limit; after the deadline one attempt is made."""
    matrix = graph_of(np.arange(40)[:, None] == np.zeros(40))  # the first row is full
    sweeps = []
    original = Board.sweep

    def sweep(board, *args, **options):
        sweeps.append(args)
        original(board, *args, **options)

    monkeypatch.setattr(Board, "sweep", sweep)
    groups = np.arange(40, dtype=np.int32) % 4, np.arange(40, dtype=np.int32) // 4 % 4
    limits = Limits.of_nonzeros(matrix.num_nonzeros, 16, 0.01)
    board = Board(Level.of(matrix), groups, (4, 4), [limits], np.random.default_rng(0))
    board.settle(Deadline(np.inf if in_time else 0.0))
    assert board.overload > 0
    attempt = len(GRID_SWEEPS.restoring) + len(GRID_SWEEPS.steep)
    assert len(sweeps) == (
        GRID_SWEEPS.attempts * attempt + GRID_SWEEPS.climbs if in_time else attempt
    )


@pytest.mark.parametrize(("p", "grid"), [(1, None), (5, None), (5, "1x5"), (12, None), (12, "3x4")])
def test_extremes(p, grid):
    """One part, a single row or column of cells, as many parts as vertices; no nonzeros at all."""
    tiny = graph_of(np.random.default_rng(0).random((12, 12)) < 0.3)
    empty = Graph(np.zeros(13, dtype=np.int64), np.empty(0, dtype=np.int32))
    for matrix in (tiny, empty):
        model = CheckerboardModel(grid)
        result = search_checkerboard(matrix, model, p, SearchOptions(objective="volume"))
        parts = traffic(matrix, result.owners, p)
        assert result.volume == parts.sent.sum()
        rows, columns = model.shape(p)
        assert parts.messages_sent.max() <= rows + columns - 2
        assert np.bincount(result.owners.rows, minlength=p).min() >= 1
        assert any("prime" in text for text in result.warnings) == (p == 5 and grid is None)


def test_grids():
    assert [CheckerboardModel().shape(p) for p in (1, 2, 7, 8, 12, 36)] == [
        (1, 1), (2, 1), (7, 1), (4, 2), (4, 3), (6, 6)
    ]  # fmt: skip
    assert CheckerboardModel("2x6").shape(12) == (2, 6)
    for grid in ("8x2", "12", "3x4x1", "axb", "0x12", ""):
        with pytest.raises(InputError, match=rf"grid '{grid}'.* 12x1, 6x2, 4x3, 3x4, 2x6, 1x12$"):
            CheckerboardModel(grid).shape(12)
    with pytest.raises(InputError, match="grid '3x3'"):
        search_checkerboard(directed(), CheckerboardModel("3x3"), 4)


def test_build_deals_blocks():
    matrix = directed()
    made = CheckerboardModel("2x3").build(matrix, 6, balance="nnz", seed=1)
    assert (np.diff(made.rows) >= 0).all()
    assert np.bincount(made.rows, minlength=6).min() >= 1
    wanted = assemble(matrix, made.rows // 3, made.rows % 3, 3)
    assert made.nonzeros.tolist() == wanted.nonzeros.tolist()
    assert made.notes == {"grid": "2x3"}


def test_time_shares_rows():
    """Cells have about as many rows, which others do not ask for; nonzeros within 10 %."""
    matrix, p = small_graph("rmat"), 9
    rows = {}
    for objective in ("volume", "time"):
        options = SearchOptions(objective=objective, dims=DIMS, seed=0)
        owners = search_checkerboard(matrix, CheckerboardModel(), p, options).owners
        rows[objective] = np.bincount(owners.rows, minlength=p)
    even = matrix.num_vertices / p
    assert rows["time"].max() <= 1.05 * even < rows["volume"].max()
    load = np.bincount(owners.nonzeros, minlength=p)
    assert load.max() <= 1.1 * math.ceil(matrix.num_nonzeros / p)
