"""Owners of rows for given owners of nonzeros, against plain counts."""

import numpy as np
import pytest
import worlds
from nets_helpers import context

from plancc.cost.owners import traffic
from plancc.graph.owners import Owners
from plancc.passes.vector_owners import VectorOwners


def rows_of(graph):
    return np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))


def instance(seed, n=60, num_parts=5, diagonal=True):
    rng = np.random.default_rng(seed)
    pattern = rng.random((n, n)) < 0.08
    np.fill_diagonal(pattern, diagonal)
    pattern[-1], pattern[:, -1] = False, False
    graph = worlds.graph_of(pattern)
    owner = rng.integers(0, num_parts, n).astype(np.int32)
    part = rng.integers(0, num_parts, graph.num_nonzeros).astype(np.int32)
    on_diagonal = graph.indices == rows_of(graph)
    part[on_diagonal] = owner[graph.indices[on_diagonal]]
    return graph, owner, part


def lists(graph, part, v):
    """Parts with nonzeros off the diagonal of row v, and of column v."""
    rows = rows_of(graph)
    off = rows != graph.indices
    return set(part[(rows == v) & off].tolist()), set(part[(graph.indices == v) & off].tolist())


def vector_owners(graph, owner, part, num_parts, **options):
    sweeps = options.pop("sweeps", 8)
    kept = context(graph, num_parts, **options)
    found = VectorOwners(sweeps).refine(Owners(owner, part), graph, kept)
    return found.rows, found.nonzeros


def figures(graph, owner, part, num_parts):
    moved = traffic(graph, Owners(owner, part), num_parts)
    return int(moved.sent.sum()), int(max(moved.sent.max(), moved.received.max()))


@pytest.mark.parametrize("diagonal", [True, False])
def test_every_owner_saves_as_many_rows_as_any_part(diagonal):
    for seed in range(3):
        graph, owner, part = instance(seed, diagonal=diagonal)
        new, new_part = vector_owners(graph, owner, part, 5, epsilon=10.0)
        assert new.dtype == new_part.dtype == np.int32
        least = 0
        for v in range(graph.num_vertices):
            of_row, of_column = lists(graph, part, v)
            saved = [(q in of_row) + (q in of_column) for q in range(5)]
            assert saved[new[v]] == max(saved)
            least += len(of_row) + len(of_column) - max(saved)
        assert figures(graph, new, new_part, 5)[0] == least
        on_diagonal = graph.indices == rows_of(graph)
        assert (new_part[~on_diagonal] == part[~on_diagonal]).all()
        assert (new_part[on_diagonal] == new[graph.indices[on_diagonal]]).all()
        assert new[-1] == owner[-1]  # nobody has anything of it


def test_never_worse_and_evenly():
    for seed in range(5):
        graph, owner, part = instance(seed)
        given = owner.copy(), part.copy()
        new, new_part = vector_owners(graph, owner, part, 5, epsilon=10.0)
        assert (owner == given[0]).all()
        assert (part == given[1]).all()
        assert figures(graph, new, new_part, 5) <= figures(graph, owner, part, 5)
        # First comes first served, in place of the least loaded: the busiest part has more to do.
        first = owner.copy()
        for v in range(graph.num_vertices):
            of_row, of_column = lists(graph, part, v)
            if of_row or of_column:
                first[v] = max(range(5), key=lambda q: (q in of_row) + (q in of_column))
        simple = part.copy()
        on_diagonal = graph.indices == rows_of(graph)
        simple[on_diagonal] = first[graph.indices[on_diagonal]]
        volume, busiest = figures(graph, first, simple, 5)
        assert figures(graph, new, new_part, 5)[0] == volume
        assert figures(graph, new, new_part, 5)[1] < busiest
        again = vector_owners(graph, owner, part, 5, epsilon=10.0)
        assert again[0].tobytes() == new.tobytes()


def test_nonzeros_stay_even():
    for seed in range(5):
        graph, owner, part = instance(seed)
        even = -(-graph.num_nonzeros // 5)
        _, new_part = vector_owners(graph, owner, part, 5, epsilon=0.1)
        before, after = np.bincount(part, minlength=5), np.bincount(new_part, minlength=5)
        assert (after <= np.maximum(before, int(1.1 * even))).all()


def test_one_part():
    graph, owner, part = instance(0, num_parts=1)
    new, new_part = vector_owners(graph, owner, part, 1)
    assert not new.any()
    assert not new_part.any()
