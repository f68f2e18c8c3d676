"""`resplit` against enumeration, against scipy's matching, and its balance."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import worlds
from cases import seeds
from nets_helpers import context
from scipy.sparse.csgraph import maximum_bipartite_matching
from worlds import graph_of

from plancc.errors import InputError
from plancc.passes.split import resplit


def split(graph, owner, with_column):
    """Part of every nonzero."""
    held = zip(worlds.places(graph), with_column, strict=True)
    return [int(owner[j if c else i]) for (i, j), c in held]


def rows_moved(graph, owner, with_column) -> int:
    return len(worlds.rows_moved(graph, owner, split(graph, owner, with_column)))


def loads(graph, owner, with_column) -> list[int]:
    parts = split(graph, owner, with_column)
    return [parts.count(m) for m in range(max(owner) + 1)]


@pytest.mark.parametrize("seed", seeds(30, quick=10))
def test_least_of_all_splits(seed):
    rng = np.random.default_rng(seed)
    between = range(99)
    while len(between) > 9:  # as many nonzeros have two places
        n, p = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        graph = graph_of(rng.random((n, n)) < rng.choice([0.2, 0.35]))
        held, owner = worlds.places(graph), rng.integers(p, size=n).astype(np.int32)
        between = [k for k, (i, j) in enumerate(held) if owner[i] != owner[j]]
    least = np.inf
    for choice in itertools.product([False, True], repeat=len(between)):
        with_column = np.zeros(len(held), dtype=bool)
        with_column[between] = choice
        least = min(least, rows_moved(graph, owner, with_column))
    found = resplit(owner, graph, context(graph, p))
    assert found.dtype == bool
    assert rows_moved(graph, owner, found) == least
    assert not any(found[k] for k, (i, j) in enumerate(held) if i == j)


@pytest.mark.parametrize("seed", seeds(6, quick=3))
def test_least_by_koenig(seed):
    """As many rows as the maximum matchings of all pairs of parts have edges."""
    rng, n, p = np.random.default_rng(seed), 80, 5
    dense = rng.random((n, n)) < 0.12 * rng.random((n, 1)) + 0.1 * rng.random(n)
    graph, owner = graph_of(dense), rng.integers(p, size=n).astype(np.int32)
    least = 0
    for one, two in itertools.permutations(range(p), 2):
        block = sp.csr_matrix(dense[np.ix_(owner == one, owner == two)])
        least += (maximum_bipartite_matching(block) >= 0).sum()
    found = resplit(owner, graph, context(graph, p))
    assert rows_moved(graph, owner, found) == least


def test_free_choices_even_the_parts_out():
    # Rows 0..19 of part 0 each need one column of part 1: every nonzero is as dear at either.
    array = np.zeros((40, 40), dtype=bool)
    array[np.arange(20), np.arange(20, 40)] = True
    graph, owner = graph_of(array), np.repeat([0, 1], 20).astype(np.int32)
    found = resplit(owner, graph, context(graph, 2))
    assert loads(graph, owner, found) == [10, 10]
    # ... and where part 0 has five nonzeros anyway, it gets as many fewer.
    array[0, 1:6] = True
    graph = graph_of(array)
    found = resplit(owner, graph, context(graph, 2))
    assert sorted(loads(graph, owner, found)) == [12, 13]


def test_nonzeros_paid_for_twice_even_the_parts_out():
    # Row 0 needs columns 10..18, column 9 is needed by rows 1..8: both are in every least cover,
    # and so (0, 9) is free.
    array = np.zeros((19, 19), dtype=bool)
    array[0, 9:19] = array[1:9, 9] = True
    graph, owner = graph_of(array), np.repeat([0, 1], [9, 10]).astype(np.int32)
    found = resplit(owner, graph, context(graph, 2))
    assert rows_moved(graph, owner, found) == 2
    assert loads(graph, owner, found) == [9, 9]


@pytest.mark.parametrize(
    ("owner", "words"), [([0, 0], "2 owners for 3 vertices"), ([0, 1, 2], r"owners 0\.\.2")]
)
def test_wrong_owners(owner, words):
    graph = graph_of(np.eye(3, dtype=bool))
    with pytest.raises(InputError, match=words):
        resplit(np.array(owner, dtype=np.int32), graph, context(graph, 2))
