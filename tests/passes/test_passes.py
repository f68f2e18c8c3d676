"""Filling empty parts and the bound of the imbalance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.passes import FillEmptyParts, imbalance, imbalance_bound


def test_lightest_vertex_of_the_heaviest_part_moves():
    owner = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    weights = np.array([5, 2, 4, 1, 1])
    filled = FillEmptyParts().run(owner, weights, 3)
    assert filled.tolist() == [0, 2, 0, 1, 1]
    assert owner.tolist() == [0, 0, 0, 1, 1]
    assert FillEmptyParts().run(filled, weights, 3) is filled


def test_more_parts_than_vertices():
    with pytest.raises(InputError, match=r"3 parts.*2 vertices"):
        FillEmptyParts().run(np.zeros(2, np.int32), np.ones(2, np.int64), 3)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), n=st.integers(1, 30))
def test_every_part_gets_a_vertex(data, n):
    num_parts = data.draw(st.integers(1, n))
    owner = np.array(
        data.draw(st.lists(st.integers(0, num_parts - 1), min_size=n, max_size=n)), dtype=np.int32
    )
    weights = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    filled = FillEmptyParts().run(owner, weights, num_parts)
    empty_before = num_parts - len(np.unique(owner))
    assert np.bincount(filled, minlength=num_parts).min() >= 1
    assert (filled != owner).sum() == empty_before
    assert filled.dtype == np.int32


@settings(max_examples=50, deadline=None)
@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    num_parts=st.integers(1, 3),
)
def test_no_partition_is_below_the_bound(weights, num_parts):
    weights = np.array(weights)
    best = min(
        imbalance(np.array(owner), weights, num_parts)
        for owner in itertools.product(range(num_parts), repeat=len(weights))
    )
    assert imbalance_bound(weights, num_parts) <= best + 1e-12


def test_bound_of_a_heavy_vertex():
    assert imbalance_bound(np.array([10, 1, 1]), 3) == pytest.approx(1.5)
    assert imbalance_bound(np.array([0, 0]), 2) == 0.0
    assert imbalance_bound(np.ones(5, np.int64), 4) == pytest.approx(0.6)
