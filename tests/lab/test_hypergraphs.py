"""Partitions of hypergraphs that no matrix is behind."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases import long

from plancc.errors import InputError
from plancc.models.problem import Hypergraph
from plancc.options import SearchOptions
from plancc_lab.partition.hypergraphs import partition_hypergraph

IBM01 = Path(__file__).parents[3] / "shared" / "data" / "ibm01.hgr.gz"
EFFORTS = ("fast", pytest.param("balanced", marks=long))


def hypergraph(nets, n, weights=None, costs=None):
    return Hypergraph(
        np.cumsum([0, *map(len, nets)]),
        np.array([pin for net in nets for pin in net], np.int32),
        np.ones(n, np.int64) if weights is None else np.array(weights),
        None if costs is None else np.array(costs),
    )


def random_hypergraph(seed, n, num_nets):
    rng = np.random.default_rng(seed)
    nets = [rng.choice(n, rng.integers(1, 5), replace=False).tolist() for _ in range(num_nets)]
    return nets, rng.integers(1, 4, n), rng.integers(1, 6, num_nets)


def cost(nets, costs, owner):
    spread = [len({owner[pin] for pin in net}) for net in nets]
    pairs = [*zip(costs, spread, strict=True)]
    return sum(c * (s - 1) for c, s in pairs), sum(c for c, s in pairs if s > 1)


def least(nets, costs, weights, parts, epsilon, fixed):
    """The least connectivity of all balanced partitions that keep what is fixed."""
    limit = np.floor((1 + epsilon) * -(-sum(weights) // parts) + 1e-9)
    every = product(*[range(parts) if f < 0 else [f] for f in fixed])
    return min(
        cost(nets, costs, owner)[0]
        for owner in every
        if np.bincount(owner, weights, parts).max() <= limit
    )


@pytest.mark.parametrize(("parts", "seed"), [pytest.param(2, 1, marks=long), (3, 3)])
def test_the_least_connectivity_is_found(parts, seed):
    n = 9
    nets, weights, costs = random_hypergraph(seed, n, 14)
    problem = hypergraph(nets, n, weights, costs)
    options = SearchOptions(effort="best", epsilon=0.3)
    fixed = np.full(n, -1)
    for _ in range(2):
        found = partition_hypergraph(problem, parts, options, fixed=fixed)
        assert (found.connectivity, found.nets_cut) == cost(nets, costs, found.owner)
        assert found.connectivity == least(nets, costs, weights, parts, 0.3, fixed)
        fixed[:3] = (found.owner[:3] + np.array([1, 0, 1])) % parts


@pytest.mark.parametrize("effort", EFFORTS)
def test_fixed_vertices_stay_and_a_given_partition_gets_no_worse(effort, tmp_path):
    n, parts = 400, 4
    rng = np.random.default_rng(5)
    nets = [(rng.choice(30, 4, replace=False) + k) % n for k in range(0, n, 2)]
    problem = hypergraph(nets, n)
    fixed = np.full(n, -1)
    fixed[rng.choice(n, 40, replace=False)] = rng.integers(0, parts - 1, 40)  # none in the last
    given = np.where(fixed >= 0, fixed, np.arange(n) * parts // n)
    path = tmp_path / "a.part.4"
    np.savetxt(path, np.where(rng.random(n) < 0.2, -1, given), fmt="%d")
    options = SearchOptions(effort=effort, epsilon=0.1, seed=3)
    limit = np.floor(1.1 * n / parts)
    for part in (None, given, path):
        found = partition_hypergraph(problem, parts, options, part=part, fixed=fixed)
        assert (found.owner[fixed >= 0] == fixed[fixed >= 0]).all()
        assert np.bincount(found.owner, minlength=parts).max() <= limit
        assert found.imbalance == np.bincount(found.owner).max() * parts / n - 1
        assert (found.connectivity, found.nets_cut) == cost(nets, [1] * len(nets), found.owner)
        if part is not None:
            before = found.tried[0]
            assert before.step == "as given"
            assert before.overload > 0 or found.connectivity <= before.volume


def test_the_built_in_partitioner_begins_where_no_other_is_in_time():
    nets = [[k, (k + 1) % 40] for k in range(40)]
    options = SearchOptions(effort="fast", time_limit=0.01)
    assert partition_hypergraph(hypergraph(nets, 40), 4, options).connectivity == 4


def test_a_given_partition_may_be_too_heavy_where_it_is_not_fixed():
    """Vertices without a part get one first, and the search then lightens the others."""
    nets = [[k, (k + 1) % 20] for k in range(20)]
    options = SearchOptions(effort="fast", epsilon=0.1)
    found = partition_hypergraph(hypergraph(nets, 20), 2, options, part=[0] * 16 + [1] * 3 + [-1])
    assert found.connectivity == 2
    assert np.bincount(found.owner).max() <= 11


def test_what_cannot_be_partitioned():
    problem = hypergraph([[0, 1], [1, 2]], 4)
    for given, words in [
        ({"part": [0, 1, 2, 0]}, r"vertex 2 is in part 2; the 2 parts are numbered 0\.\.1"),
        ({"part": [0, 1]}, "2 part numbers for 4 vertices"),
        ({"fixed": [0.5, 0, 0, 0]}, "must be integers"),
        ({"fixed": [0, 0, 0, 0]}, "of part 0 weigh 4 .'weights'., but the limit is 2"),
    ]:
        with pytest.raises(InputError, match=words):
            partition_hypergraph(problem, 2, **given)
    with pytest.raises(InputError, match="5 parts"):
        partition_hypergraph(problem, 5)


@long
@pytest.mark.skipif(not IBM01.exists(), reason="../shared has no ibm01")
@pytest.mark.parametrize(("percent", "nets_cut"), [(1, 203), (5, 180)])
def test_published_solutions_of_a_circuit_are_found(percent, nets_cut):
    """ISPD98: parts of (50 - b)% to (50 + b)%."""
    found = partition_hypergraph(IBM01, 2, SearchOptions(effort="best", epsilon=percent / 50))
    assert found.nets_cut == found.connectivity <= nets_cut
    assert found.imbalance <= percent / 50 + 1e-3
