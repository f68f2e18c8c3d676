"""Filling empty parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.passes.fill import fill_empty_parts


def test_lightest_vertex_of_the_heaviest_part_moves():
    owner = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    weights = np.array([5, 2, 4, 1, 1])
    filled = fill_empty_parts(owner, weights, 3)
    assert filled.tolist() == [0, 2, 0, 1, 1]
    assert owner.tolist() == [0, 0, 0, 1, 1]
    assert fill_empty_parts(filled, weights, 3) is filled


def test_several_weights_count_alike():
    owner = np.zeros(4, dtype=np.int32)
    weights = np.array([[0, 600], [1, 0], [0, 100], [2, 300]])
    assert fill_empty_parts(owner, weights, 2).tolist() == [0, 0, 1, 0]


def test_more_parts_than_vertices():
    with pytest.raises(InputError, match=r"3 parts.*2 vertices"):
        fill_empty_parts(np.zeros(2, np.int32), np.ones(2, np.int64), 3)


@given(data=st.data(), n=st.integers(1, 30))
def test_every_part_gets_a_vertex(data, n):
    num_parts = data.draw(st.integers(1, n))
    owner = np.array(
        data.draw(st.lists(st.integers(0, num_parts - 1), min_size=n, max_size=n)), dtype=np.int32
    )
    weights = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    filled = fill_empty_parts(owner, weights, num_parts)
    empty_before = num_parts - len(np.unique(owner))
    assert np.bincount(filled, minlength=num_parts).min() >= 1
    assert (filled != owner).sum() == empty_before
    assert filled.dtype == np.int32
