"""Rows between pairs of parts and of nodes, against sets."""

import naive
import numpy as np
import plan_helpers
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from plancc.cost.pairs import pair_volumes, pair_volumes_of_table
from plancc.cost.topology import Topology, messages_by_node, volumes_by_node
from plancc.errors import InputError


def naive_pairs(graph, owner, num_parts) -> np.ndarray:
    plan = naive.NaivePlan(naive.pattern_of(graph), owner, num_parts)
    found = np.zeros((num_parts, num_parts), dtype=int)
    for q, peers in enumerate(plan.expand):
        for m, rows in peers.items():
            found[q, m] = len(rows)
    return found


def same(pairs: sp.csr_array, expected: np.ndarray) -> None:
    assert isinstance(pairs, sp.csr_array)
    assert pairs.dtype == np.int64
    assert pairs.shape == expected.shape
    assert pairs.nnz == np.count_nonzero(expected)  # no zero, no duplicate
    assert pairs.has_sorted_indices
    np.testing.assert_array_equal(pairs.toarray(), expected)


@given(case=plan_helpers.cases() | plan_helpers.cases(max_vertices=200, densities=(0.01, 0.1)))
def test_pairs_of_owners_and_of_the_plan(case):
    expected = naive_pairs(*case)
    same(pair_volumes(*case), expected)
    same(pair_volumes_of_table(plan_helpers.lowered(*case).send), expected)


@given(nodes=st.integers(1, 5), size=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_inside_and_between_nodes(nodes, size, seed):
    rng = np.random.default_rng(seed)
    p = nodes * size
    dense = rng.integers(0, 4, (p, p)) * (1 - np.eye(p, dtype=int))
    inside = {
        (q, m)
        for k in range(nodes)
        for q in range(k * size, k * size + size)
        for m in range(k * size, k * size + size)
    }
    volumes, messages = [0, 0], [0, 0]
    for pair, rows in np.ndenumerate(dense):
        volumes[pair not in inside] += int(rows)
        messages[pair not in inside] += bool(rows)
    pairs = sp.csr_array(dense)
    assert list(volumes_by_node(pairs, Topology.parse(f"{nodes}x{size}"))) == volumes
    assert list(messages_by_node(pairs, Topology.parse(f"{nodes}x{size}"))) == messages


def test_numbers_of_ranks():
    topology = Topology.parse("4x8")
    topology.check(32)
    with pytest.raises(InputError, match=r"4x8 has 32 ranks.*31 parts"):
        topology.check(31)
    with pytest.raises(InputError, match="3 parts"):
        volumes_by_node(sp.csr_array((3, 3), dtype=np.int64), topology)
