"""Refinement of owners of nonzeros, against counts in plain Python and exhaustive search."""

import itertools

import numpy as np
import pytest
import worlds
from cases import pairs
from nets_helpers import context

from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.owners import traffic
from plancc.cost.rates import EpochRates, EpochTime
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.passes.edges import RefineEdges
from plancc.passes.kernels import edge_moves, edges

MESSAGE, ROW, NONZERO, OWN_ROW = 5.0, 1.0, 0.2, 0.1


def time_of(graph, num_parts):
    """An epoch as the sum of a part's messages, rows and work, of the slowest part."""

    def seconds(owners):
        parts, _ = counted(graph, owners.rows, owners.nonzeros, num_parts)
        side = MESSAGE * np.maximum(parts["messages_sent"], parts["messages_received"])
        side += ROW * np.maximum(parts["sent"], parts["received"])
        return float(
            (side + NONZERO * np.array(parts["sums"]) + OWN_ROW * np.array(parts["rows"])).max()
        )

    return EpochTime(seconds, EpochRates(MESSAGE, ROW, NONZERO, OWN_ROW))


def a_matrix(rng, n, fill, diagonal):
    """A random pattern with a hub row and a hub column, and with empty rows at its end."""
    pattern = rng.random((n, n)) < fill
    pattern[0] |= rng.random(n) < 0.7
    pattern[:, 1] |= rng.random(n) < 0.7
    np.fill_diagonal(pattern, diagonal)
    pattern[-2:] = False
    return worlds.graph_of(pattern)


def some_owners(rng, graph, num_parts):
    owner = rng.integers(0, num_parts, graph.num_vertices).astype(np.int32)
    part = rng.integers(0, num_parts, graph.num_nonzeros).astype(np.int32)
    rows = rows_of(graph)
    part[graph.indices == rows] = owner[rows[graph.indices == rows]]
    return owner, part


def rows_of(graph):
    return np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))


def counted(graph, owner, part, num_parts):
    """Sent and received rows, messages of both kinds and volume, by sets."""
    moved = worlds.rows_moved(graph, owner, part)
    messages = {(step, sender, receiver) for step, _, sender, receiver in moved}

    def per_part(items, end):
        return np.bincount([item[end] for item in items], minlength=num_parts).tolist()

    return {
        "sent": per_part(moved, 2),
        "received": per_part(moved, 3),
        "messages_sent": per_part(messages, 1),
        "messages_received": per_part(messages, 2),
        "sums": np.bincount(part, minlength=num_parts).tolist(),
        "rows": np.bincount(owner, minlength=num_parts).tolist(),
    }, len(moved)


def check_state(graph, state, num_parts):
    expected, volume = counted(graph, state.owner, state.nonzeros, num_parts)
    for name, values in expected.items():
        assert getattr(state, name).tolist() == values, name
    assert edges.volume(state) == volume
    rows, on_diagonal = rows_of(graph), graph.indices == rows_of(graph)
    assert (state.nonzeros[on_diagonal] == state.owner[rows[on_diagonal]]).all()


def drawn(seed, n, num_parts, diagonal, with_messages=True):
    """Random numbers, a matrix, its pattern and the state of random owners."""
    rng = np.random.default_rng(seed)
    graph = a_matrix(rng, n, 0.1, diagonal)
    pattern = edges.pattern_of(graph.indptr, graph.indices)
    owners = some_owners(rng, graph, num_parts)
    return rng, graph, pattern, edges.owners_of(pattern, *owners, num_parts, with_messages)


def the_prices(num_parts, **given):
    """Numbers of parts may be given as one for all."""
    none = dict.fromkeys(edge_moves.Prices._fields, 0.0)
    given = none | {"cap": np.inf, "row": 1.0, "fees": np.zeros(1), "scale": 1.0} | given
    for name in ("target", "weight", "cap", "scale"):
        given[name] = np.ones(num_parts) * given[name]
    return edge_moves.Prices(**given)


@pytest.mark.parametrize("num_parts", [1, 3, 40])
@pytest.mark.parametrize("diagonal", [False, True])
def test_moves_keep_every_count_exact(num_parts, diagonal):
    rng, graph, pattern, state = drawn(num_parts, 30, num_parts, diagonal)
    check_state(graph, state, num_parts)
    if num_parts == 1:
        return
    for _ in range(200):
        there = int(rng.integers(num_parts))
        v, k = int(rng.integers(graph.num_vertices)), int(rng.integers(graph.num_nonzeros))
        if pattern.movable[k] and state.nonzeros[k] != there:
            edges.move(k, there, pattern, state)
        if state.owner[v] != there:
            edges.move_owner(v, there, pattern, state)
    check_state(graph, state, num_parts)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"target": 20.0, "weight": 0.3},
        {"pressure": 0.5, "ceiling": 3.0},
        {"pressure": 0.5, "ceiling": 3.0, "message": 2.0, "nonzero": 0.2, "own_row": 0.1},
        {"fees": np.array([3.0, 1.0, 0.5, 0.0])},
    ],
)
def test_sweeps_keep_every_count_exact(given):
    for seed, num_parts in enumerate((5, 5, 5, 300)):  # of 300 parts most nets are short
        prices = the_prices(num_parts, **given)
        rng, graph, pattern, state = drawn(seed, 40, num_parts, bool(seed % 2))
        before = edges.volume(state)
        edge_moves.sweep_nets(rng.permutation(80), pattern, state, prices, False)
        check_state(graph, state, num_parts)
        edge_moves.sweep_owners(rng.permutation(40), pattern, state, prices)
        check_state(graph, state, num_parts)
        assert edges.volume(state) < before


@pytest.mark.parametrize("num_parts", [3, 50])
def test_tolls_follow_owners(num_parts):
    """Only parts whose figures change are priced anew."""
    rng, _, pattern, state = drawn(2, 40, num_parts, True)
    some = rng.uniform(0.5, 2, (2, num_parts))
    prices = the_prices(
        num_parts,
        target=5 * some[0],
        weight=0.3,
        scale=some[1],
        pressure=0.5,
        ceiling=3.0,
        message=2.0,
        nonzero=0.2,
        own_row=0.1,
    )
    toll = edge_moves._tolls(state, prices)
    own = prices.scale * (prices.nonzero * state.sums + prices.own_row * state.rows)
    out = own + state.sent + prices.message * state.messages_sent
    into = own + state.received + prices.message * state.messages_received
    np.testing.assert_allclose(toll[[edge_moves.OUT, edge_moves.INTO]], [out, into])
    for v in range(40):
        there = (state.owner[v] + 1 + v) % num_parts
        if there != state.owner[v]:
            edge_moves._move_owner(v, there, pattern, state, prices, toll)
            assert (toll == edge_moves._tolls(state, prices)).all()


@pytest.mark.parametrize("fees", [[0.0], [20.0, 0.0]])
def test_no_sweep_raises_the_volume_and_the_fees_of_messages(fees):
    prices, paid = the_prices(6, fees=np.array(fees)), np.cumsum([0.0, *fees])

    def cost():
        return edges.volume(state) + paid[np.minimum(state.pair, len(fees))].sum()

    for seed in range(10):
        rng, _, pattern, state = drawn(seed, 40, 6, bool(seed % 2), len(fees) > 1)
        for _ in range(4):
            before = cost()
            edge_moves.sweep_owners(rng.permutation(40), pattern, state, prices)
            between = cost()
            edge_moves.sweep_nets(rng.permutation(80), pattern, state, prices, False)
            assert before >= between or prices.fees.any()  # owners do not look at them
            assert between >= cost()


@pairs(objective=OBJECTIVES, num_parts=[1, 2, 7])
def test_never_worse_and_what_it_says(objective, num_parts):
    rng = np.random.default_rng(num_parts)
    graph = a_matrix(rng, 60, 0.08, True)
    owner, part = some_owners(rng, graph, num_parts)
    given = owner.copy(), part.copy()
    time = time_of(graph, num_parts)
    kept = context(graph, num_parts, 0.05, time=time)
    found = RefineEdges(objective).refine(Owners(owner, part), graph, kept)
    assert (owner == given[0]).all()
    assert (part == given[1]).all()
    even = -(-graph.num_nonzeros // num_parts)
    for merit, o, k in (
        (found.before, owner, part),
        (found.after, found.owners.rows, found.owners.nonzeros),
    ):
        load = np.bincount(k, minlength=num_parts)
        over = sum(max(0, int(weight) - int(1.05 * even)) for weight in load) / even
        assert merit.overload == pytest.approx(over)
        owners = Owners(o, k)
        moved = traffic(graph, owners, num_parts)
        assert merit.value == objective_value(objective, moved, owners, time)
        assert merit.volume == counted(graph, o, k, num_parts)[1]
    assert (found.after.overload, found.after.value) <= (found.before.overload, found.before.value)
    assert found.after.overload == 0
    if num_parts > 1:
        assert (found.after.value, found.after.volume) < (found.before.value, found.before.volume)
    again = RefineEdges(objective).refine(Owners(owner, part), graph, kept)
    assert again.owners.rows.tobytes() == found.owners.rows.tobytes()
    assert again.owners.nonzeros.tobytes() == found.owners.nonzeros.tobytes()


@pytest.mark.parametrize("rounds", [0, 20])
def test_all_in_one_part_is_spread_evenly(rounds):
    graph = a_matrix(np.random.default_rng(0), 60, 0.08, True)
    nobody = np.zeros(graph.num_vertices, np.int32), np.zeros(graph.num_nonzeros, np.int32)
    found = RefineEdges(rounds=rounds).refine(Owners(*nobody), graph, context(graph, 4, 0.02))
    assert found.before.overload > 2
    assert found.after.overload == 0
    assert np.bincount(found.owners.nonzeros, minlength=4).max() <= 1.02 * -(
        -graph.num_nonzeros // 4
    )


def test_only_movable_nonzeros_move():
    rng = np.random.default_rng(4)
    graph = a_matrix(rng, 50, 0.1, True)
    owner, part = some_owners(rng, graph, 4)
    movable = rng.random(graph.num_nonzeros) < 0.5
    free_rows = np.arange(0, 50, 5)
    rows = rows_of(graph)
    movable[np.isin(rows, free_rows)] = True
    fixed = [i for i in range(50) if not movable[rows == i].all()]
    found = RefineEdges().refine(
        Owners(owner, part), graph, context(graph, 4, 0.3, movable=movable)
    )
    assert (found.owners.nonzeros[~movable] == part[~movable]).all()
    assert (found.owners.rows[fixed] == owner[fixed]).all()
    assert (found.owners.nonzeros != part).any()
    nothing = np.zeros(graph.num_nonzeros, dtype=bool)
    stays = RefineEdges().refine(
        Owners(owner, part), graph, context(graph, 4, 0.3, movable=nothing)
    )
    assert (stays.owners.nonzeros == part).all()


def test_close_to_the_best_of_all():
    """Two parts, every way to own four vertices and the nonzeros off the diagonal."""
    least = refined = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        pattern = np.eye(4, dtype=bool)
        cells = [(i, j) for i in range(4) for j in range(4) if i != j]
        for at in rng.choice(len(cells), 7, replace=False):
            pattern[cells[at]] = True
        graph, limit = worlds.graph_of(pattern), 7
        held, best = worlds.places(graph), np.inf
        for owner in itertools.product([0], *[range(2)] * 3):  # the parts are alike
            for part in itertools.product(*([owner[i]] if i == j else (0, 1) for i, j in held)):
                if max(part.count(0), part.count(1)) <= limit and sum(owner) > 0:
                    best = min(best, len(worlds.rows_moved(graph, owner, part)))
        start = np.array([0, 1, 0, 1], dtype=np.int32)
        found = min(
            RefineEdges().refine(Owners(start), graph, context(graph, 2, 0.2, seed=k)).after.volume
            for k in range(3)
        )
        assert found >= best
        least += best
        refined += found
    assert refined <= 1.3 * least


def test_refuses_what_it_cannot_do():
    graph, nobody = worlds.graph_of(np.eye(3, dtype=bool)), [0, 0, 0]
    for rows, nonzeros, objective, words in (
        (nobody, [0, 0], "volume", "2 owners for 3 nonzeros"),
        ([0, 5, 0], nobody, "volume", r"owners 0\.\.5 of rows: must be in 0\.\.1"),
        (nobody, [0, 1, 0], "volume", r"nonzero \(1, 1\) does not belong to"),
        (nobody, nobody, "time", "a prediction of epoch times"),
        (nobody, nobody, "speed", "objective"),
    ):
        owners = Owners(np.array(rows, np.int32), np.array(nonzeros, np.int32))
        with pytest.raises(InputError, match=words):
            RefineEdges(objective).refine(owners, graph, context(graph, 2))
