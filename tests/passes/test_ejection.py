"""Ejection chains."""

import numpy as np
import pytest
from cases import seeds
from nets_helpers import make, slow_volume

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.ejection import eject
from plancc.passes.kernels.exchange import chains
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import boundary, state_of, volume
from plancc.passes.multilevel import Sweeps


def pairs_of(edges, num_vertices):
    """Nets of two pins."""
    ptr = np.arange(0, 2 * len(edges) + 1, 2)
    pins = np.array(edges, dtype=np.int32).reshape(-1)
    return nets_of(Hypergraph(ptr, pins, np.ones(num_vertices, dtype=np.int64)))


def ejected(nets, state, limits, *, depth=8, tries=64, most=10**9):
    order = boundary(nets, state)
    chain = chains(order, state.owner, limits.num_parts)
    limit = np.maximum(limits.limit, state.sums).astype(float)
    return int(eject(order, limit, depth, tries, most, chain, nets, state)[0])


@pytest.mark.parametrize("num_parts", [2, 3, 5])
def test_a_rotation_through_full_parts(num_parts):
    """One vertex of every clique is in the next part, and all parts are full."""
    size = 6
    n = num_parts * size
    cliques = [range(q * size, (q + 1) * size) for q in range(num_parts)]
    edges = [(v, w) for clique in cliques for v in clique for w in clique if v < w]
    nets, best = pairs_of(edges, n), np.repeat(np.arange(num_parts, dtype=np.int32), size)
    limits = Limits(nets.weight, num_parts, 0.0)
    given = best.copy()
    given[::size] = np.roll(best[::size], 1)

    state = state_of(nets, given, num_parts)
    Sweeps(limits, np.random.default_rng(0)).climb(nets, state)
    assert state.owner.tolist() == given.tolist()  # no single move has room

    assert ejected(nets, state, limits, depth=num_parts - 1) == 0  # too short
    assert state.owner.tolist() == given.tolist()
    assert ejected(nets, state, limits, depth=num_parts) == num_parts * (size - 1)
    assert state.owner.tolist() == best.tolist()


@pytest.mark.parametrize("seed", seeds(12, quick=8))
def test_the_volume_falls_by_what_is_said_and_the_balance_stays(seed):
    constraints, num_parts = 1 + seed % 2, 3 + seed % 6
    _, _, nets, state = make(seed, num_parts, 7, 120, 150, constraints=constraints, costs=True)
    given, limits = state.owner.copy(), Limits(nets.weight, num_parts, 0.02)
    before, overload = slow_volume(nets, given), limits.overload(state.sums)
    heaviest = np.maximum(limits.limit, state.sums)

    assert ejected(nets, state, limits, most=-1) == 0
    assert state.owner.tolist() == given.tolist()
    saved = ejected(nets, state, limits, depth=2 + seed % 5, tries=3 + seed)
    assert saved > 0
    assert slow_volume(nets, state.owner) == before - saved == volume(nets, state)
    assert (state.sums <= heaviest).all()
    assert limits.overload(state.sums) <= overload
    fresh = state_of(nets, state.owner, num_parts)
    assert (fresh.sums == state.sums).all()
    assert (fresh.spread == state.spread).all()
    assert len(np.unique(state.owner)) == len(np.unique(given))  # no part is emptied


def test_sweeps_eject_until_little_is_saved_or_work_or_time_is_up():
    rng, _, nets, state = make(3, 20, 6, 200, 260)
    limits, given = Limits(nets.weight, 20, 0.01), state.owner.copy()
    Sweeps(limits, rng, Deadline.after(0)).eject(nets, state, 10**9)
    assert state.owner.tolist() == given.tolist()
    some, more = Sweeps(limits, rng), Sweeps(limits, rng)
    some.eject(nets, state_of(nets, given, 20), 100)
    more.eject(nets, state, 10**9)
    assert 100 < some.evaluations < more.evaluations
    assert slow_volume(nets, state.owner) < slow_volume(nets, given)
