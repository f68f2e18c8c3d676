"""What is allowed in vertex data, and seldom meant."""

import warnings

import numpy as np
import pytest

import plancc
from plancc.errors import PlanccWarning

RING = np.array([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
FIRST = np.array([True, True, False, False])
NONE = np.zeros(4, np.bool_)


def said(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PlanccWarning)
        plancc.compile((4, RING), "block", 2, data=data)
    found = [str(each.message) for each in caught]
    return [each.removeprefix("edge_index: ") for each in found if "edge_index: " in each]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"train_mask": FIRST, "test_mask": ~NONE}, "2 vertices are in 'train_mask' and in 'test_"),
        ({"val_mask": FIRST, "test_mask": FIRST}, "2 vertices are in 'val_mask' and in 'test_mask"),
        ({"train_mask": NONE}, "'train_mask' holds no vertex"),
        ({"train_mask": FIRST, "y": [-1, -1, 0, 1]}, "no vertex of 'train_mask' has a class"),
        ({"y": [0, 1000, 2000, -1]}, "labels: 3 of the class numbers 0..2000 occur; a network gets "
         "an output for each of the 2,001"),
        ({"y": np.eye(4, dtype=np.int64)}, "looks one-hot: give the numbers of the classes"),
    ],
)  # fmt: skip
def test_what_is_seldom_meant(data, words):
    found = said(data)
    assert len(found) == 1
    assert words in found[0]


def test_what_is_right():
    masks = {"train_mask": FIRST, "val_mask": NONE, "test_mask": ~FIRST}
    assert said({"y": [0, 1, -1, 2], **masks}) == []
    assert said({"y": np.tri(4)}) == []
    assert said({"y": [0, 1, 3, 4]}) == []  # a class without a vertex in this part of the data
    assert said({"x": np.ones((4, 2))}) == []
