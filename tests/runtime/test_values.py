"""Values between ranks: what goes in comes out, and nothing else is believed."""

import json
import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plancc_runtime.transport.values import LENGTH, packed, unpacked

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values(value):
    assert unpacked(packed(value)) == value


@pytest.mark.parametrize("dtype", ["<f8", ">i4", "?", "u1", "<c16", "<f2"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3)])
def test_arrays(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    names, found = unpacked(packed((["a", "b"], {"x": array.T, "y": array})))[:2]
    assert names == ["a", "b"]
    for given_, back in ((array.T, found["x"]), (array, found["y"])):
        assert back.dtype == array.dtype
        assert back.shape == given_.shape
        assert back.tolist() == given_.tolist()
        assert back.flags.writeable


@pytest.mark.parametrize("value", [{1, 2}, {1: 2}, object(), np.array(["a"]), np.array([None])])
def test_values_that_do_not_travel(value):
    with pytest.raises(TypeError, match="cannot be sent to other ranks"):
        packed(value)


def bytes_of(header, rest=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(LENGTH, "little") + text + rest


@pytest.mark.parametrize(
    "data",
    [
        b"",
        (2**60).to_bytes(LENGTH, "little") + b"{}",
        pickle.dumps((1, 2)),
        bytes_of(b"\xff\xfe"),
        bytes_of(b"[" * 100_000),
        bytes_of([]),
        bytes_of({"value": {"array": 0}, "arrays": []}),
        bytes_of({"value": {"array": -1}, "arrays": [["<f8", [0]]]}),
        bytes_of({"value": {"tuple": [], "dict": {}}, "arrays": []}),
        bytes_of({"value": 0, "arrays": []}, b"more"),
        bytes_of({"value": 0, "arrays": [["<f8", [2]]]}, b"12345678"),
        bytes_of({"value": 0, "arrays": [["<f8", [2**62, 2**62]]]}),
        bytes_of({"value": 0, "arrays": [["O", [1]]]}, b"12345678"),
        bytes_of({"value": 0, "arrays": [["<f8,<f8", [1]]]}, b"12345678" * 2),
        bytes_of({"value": 0, "arrays": [["rubbish", [1]]]}, b"12345678"),
        bytes_of({"value": 0, "arrays": [["<f8", "x"]]}),
    ],
)
def test_bytes_that_are_no_value(data):
    with pytest.raises(ValueError, match="were not made by `packed`"):
        unpacked(data)


@given(st.binary(max_size=80), st.integers(0, 60))
def test_damaged_bytes(noise, place):
    data = bytearray(packed({"a": np.arange(5), "b": ("c", 1.5)}))
    data[place : place + len(noise)] = noise
    with suppress(ValueError):
        unpacked(bytes(data))
