"""The value that says who owns rows and nonzeros."""

import numpy as np
import pytest

from plancc.graph.graph import Graph
from plancc.graph.owners import Owners

MATRIX = Graph(np.array([0, 2, 3, 5]), np.array([0, 1, 1, 0, 2], dtype=np.int32))
ROWS = np.array([0, 2, 2], dtype=np.int32)
NONZEROS = np.array([0, 2, 2, 0, 2], dtype=np.int32)


def test_nonzeros_of_a_row_partition_follow_their_rows():
    owners = Owners(ROWS)
    assert not owners.is_edge_partition
    assert owners.of_nonzeros(MATRIX).tolist() == [0, 0, 2, 2, 2]
    assert owners.row_load(4).tolist() == [1, 0, 2, 0]
    load = owners.nonzero_load(MATRIX, 4)
    assert load.tolist() == [2, 0, 3, 0]
    assert load.dtype == np.int64


def test_nonzeros_of_an_edge_partition_have_owners_of_their_own():
    owners = Owners(ROWS, NONZEROS)
    assert owners.is_edge_partition
    assert owners.of_nonzeros(MATRIX) is NONZEROS
    assert owners.nonzero_load(MATRIX, 3).tolist() == [2, 0, 3]


def test_equal_owners_are_equal_and_of_one_kind():
    edges = Owners(ROWS, NONZEROS)
    assert Owners(ROWS) == Owners(ROWS.copy())
    assert edges == Owners(ROWS.copy(), NONZEROS.copy())
    assert edges != Owners(ROWS, NONZEROS[::-1])
    assert Owners(ROWS) != Owners(ROWS[::-1])
    assert Owners(ROWS) != Owners(ROWS, Owners(ROWS).of_nonzeros(MATRIX))
    assert Owners(ROWS) != ROWS.tolist()
    with pytest.raises(TypeError):
        hash(edges)


def test_parts_get_other_numbers():
    part = np.array([5, 6, 7], dtype=np.int32)
    assert Owners(ROWS, NONZEROS).renumbered(part) == Owners(part[ROWS], part[NONZEROS])
    assert Owners(ROWS).renumbered(part) == Owners(part[ROWS])
