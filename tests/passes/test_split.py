"""`Resplit` against enumeration, against scipy's matching, and its balance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.passes.split import Resplit


def graph_of(array) -> Graph:
    matrix = sp.csr_matrix(array)
    matrix.sort_indices()
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def places(graph: Graph) -> list[tuple[int, int]]:
    return [
        (i, int(j))
        for i in range(graph.num_vertices)
        for j in graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
    ]


def rows_moved(held, owner, with_column) -> int:
    expand = {(j, owner[i]) for (i, j), c in zip(held, with_column, strict=True) if not c}
    fold = {(i, owner[j]) for (i, j), c in zip(held, with_column, strict=True) if c}
    return sum(owner[v] != m for v, m in expand) + sum(owner[v] != m for v, m in fold)


def loads(held, owner, with_column, p) -> list[int]:
    parts = [owner[j if c else i] for (i, j), c in zip(held, with_column, strict=True)]
    return [parts.count(m) for m in range(p)]


@pytest.mark.parametrize("seed", range(30))
def test_least_of_all_splits(seed):
    rng = np.random.default_rng(seed)
    between = range(99)
    while len(between) > 11:  # as many nonzeros have two places
        n, p = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        graph = graph_of(rng.random((n, n)) < rng.choice([0.2, 0.35]))
        held, owner = places(graph), rng.integers(p, size=n).astype(np.int32)
        between = [k for k, (i, j) in enumerate(held) if owner[i] != owner[j]]
    for allowed in (None, rng.random(len(held)) < 0.6):
        free = [k for k in between if allowed is None or allowed[k]]
        least = np.inf
        for choice in itertools.product([False, True], repeat=len(free)):
            with_column = np.zeros(len(held), dtype=bool)
            with_column[free] = choice
            least = min(least, rows_moved(held, owner, with_column))
        found = Resplit(None).run(graph, owner, p, allowed)
        assert found.dtype == bool
        assert rows_moved(held, owner, found) == least
        assert not any(found[k] for k, (i, j) in enumerate(held) if i == j)
        assert allowed is None or not (found & ~allowed).any()


@pytest.mark.parametrize("seed", range(6))
def test_least_by_koenig(seed):
    """As many rows as the maximum matchings of all pairs of parts have edges."""
    rng, n, p = np.random.default_rng(seed), 80, 5
    graph = graph_of(rng.random((n, n)) < 0.12 * rng.random((n, 1)) + 0.1 * rng.random(n))
    held, owner = places(graph), rng.integers(p, size=n).astype(np.int32)
    dense = np.zeros((n, n), dtype=bool)
    dense[tuple(np.transpose(held))] = True
    least = 0
    for one, two in itertools.permutations(range(p), 2):
        block = sp.csr_matrix(dense[np.ix_(owner == one, owner == two)])
        least += (maximum_bipartite_matching(block) >= 0).sum()
    found = Resplit(None).run(graph, owner, p)
    assert rows_moved(held, owner, found) == least
    balanced = Resplit(0.05).run(graph, owner, p)
    assert rows_moved(held, owner, balanced) >= least
    before, after = (loads(held, owner, split, p) for split in (found, balanced))
    assert max(after) <= max(max(before), int(1.05 * -(-len(held) // p)))


def test_free_choices_even_the_parts_out():
    # Rows 0..19 of part 0 each need one column of part 1: every nonzero is as dear at either.
    array = np.zeros((40, 40), dtype=bool)
    array[np.arange(20), np.arange(20, 40)] = True
    graph, owner = graph_of(array), np.repeat([0, 1], 20).astype(np.int32)
    found = Resplit(None).run(graph, owner, 2)
    assert loads(places(graph), owner, found, 2) == [10, 10]
    # ... and where part 0 has five nonzeros anyway, it gets as many fewer.
    array[0, 1:6] = True
    graph = graph_of(array)
    found = Resplit(None).run(graph, owner, 2)
    assert sorted(loads(places(graph), owner, found, 2)) == [12, 13]


def test_nonzeros_paid_for_twice_even_the_parts_out():
    # Row 0 needs columns 10..18, column 9 is needed by rows 1..8: both are in every least cover,
    # and so (0, 9) is free.
    array = np.zeros((19, 19), dtype=bool)
    array[0, 9:19] = array[1:9, 9] = True
    graph, owner = graph_of(array), np.repeat([0, 1], [9, 10]).astype(np.int32)
    found = Resplit(None).run(graph, owner, 2)
    held = places(graph)
    assert rows_moved(held, owner, found) == 2
    assert loads(held, owner, found, 2) == [9, 9]


def test_more_rows_move_where_a_part_would_be_too_heavy():
    # Twelve rows of part 0 need the one column of part 1: one row moves, and part 0 has all.
    array = np.zeros((13, 13), dtype=bool)
    array[:12, 12] = True
    graph, owner = graph_of(array), np.repeat([0, 1], [12, 1]).astype(np.int32)
    held = places(graph)
    least = Resplit(None).run(graph, owner, 2)
    assert (rows_moved(held, owner, least), loads(held, owner, least, 2)) == (1, [12, 0])
    even = Resplit(0.0).run(graph, owner, 2)
    assert (rows_moved(held, owner, even), loads(held, owner, even, 2)) == (7, [6, 6])
    kept = Resplit(0.0).run(graph, owner, 2, np.zeros(12, dtype=bool))
    assert not kept.any()
    # The other way round: the row of part 1 has all its columns in part 0.
    graph, held = graph_of(array.T), places(graph_of(array.T))
    least = Resplit(None).run(graph, owner, 2)
    assert (rows_moved(held, owner, least), loads(held, owner, least, 2)) == (1, [12, 0])
    even = Resplit(0.0).run(graph, owner, 2)
    assert (rows_moved(held, owner, even), loads(held, owner, even, 2)) == (7, [6, 6])


def test_wrong_owners():
    graph = graph_of(np.eye(3, dtype=bool))
    with pytest.raises(InputError, match="2 owners for 3 vertices"):
        Resplit().run(graph, np.zeros(2, dtype=np.int32), 2)
    with pytest.raises(InputError, match=r"owners 0\.\.2"):
        Resplit().run(graph, np.arange(3, dtype=np.int32), 2)
