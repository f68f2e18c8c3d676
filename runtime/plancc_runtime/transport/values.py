"""Conversion of small values to bytes, and back; reading the bytes executes no code.

    8 bytes   length of the header, little-endian
    header    JSON: {"value": a tree of plain values, "arrays": [[dtype, shape], ...]}
    the rest  the bytes of the arrays, in C order, one after the other

In the tree, a tuple is {"tuple": [...]}, a dict is {"dict": {...}}, and array k is {"array": k}.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

LENGTH = 8
"""Number of bytes that hold the header's length."""
KINDS = "biufc"
"""Kinds of dtypes that arrays may have."""


def packed(value: Any) -> bytes:
    """Convert None, a number, a string, an array, or a list, tuple or dict of these to bytes.

    The keys of a dict must be strings. Raises TypeError for other types.
    """
    arrays: list[np.ndarray] = []

    def tree(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, list):
            return [tree(each) for each in value]
        if isinstance(value, tuple):
            return {"tuple": [tree(each) for each in value]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: tree(each) for key, each in value.items()}}
        if isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
            arrays.append(np.ascontiguousarray(value).reshape(value.shape))
            return {"array": len(arrays) - 1}
        raise TypeError(f"values of type {type(value).__name__} cannot be sent to other ranks")

    content = {"value": tree(value)}  # fills `arrays`
    header = json.dumps(content | {"arrays": [[a.dtype.str, a.shape] for a in arrays]}).encode()
    start = len(header).to_bytes(LENGTH, "little")
    return b"".join([start, header, *(array.tobytes() for array in arrays)])


def unpacked(data: bytes) -> Any:
    """Return the value that `packed` turned into these bytes.

    Raises:
        ValueError: If `packed` cannot have made these bytes.
    """
    end = LENGTH + int.from_bytes(data[:LENGTH], "little")
    try:
        if not LENGTH <= end <= len(data):
            raise ValueError("the header needs more bytes than the data have")
        header = json.loads(data[LENGTH:end])
        arrays = []
        for text, shape in header["arrays"]:
            dtype = np.dtype(str(text))
            count = int(np.prod([int(length) for length in shape], dtype=object))
            if dtype.kind not in KINDS or min(shape, default=0) < 0:
                raise ValueError(f"no array of {text}")
            size = count * dtype.itemsize
            if size > len(data) - end:
                raise ValueError("an array needs more bytes than follow the header")
            values = np.frombuffer(data, dtype, count, end)
            arrays.append(values.reshape(shape).copy())
            end += size
        if end != len(data):
            raise ValueError("there are more bytes than the arrays need")
        return _value(header["value"], arrays)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"these bytes were not made by `packed`: {error}") from error


def _value(tree: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(tree, list):
        return [_value(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
    [(kind, content)] = tree.items()
    if kind == "tuple":
        return tuple(_value(each, arrays) for each in content)
    if kind == "dict":
        return {key: _value(each, arrays) for key, each in content.items()}
    if kind == "array" and 0 <= content < len(arrays):
        return arrays[content]
    raise ValueError(f"unknown kind {kind}")
