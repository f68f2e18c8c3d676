"""Write and read attributes of HDF5 groups, and compute a digest of the attributes.

Strings have a fixed length. HDF5 stores other strings in its global heap, in which one damaged byte
can make a reader loop forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from plancc.plan.blake3_hash import blake3_digest


@dataclass(frozen=True)
class Stored:
    """An attribute of an HDF5 group, as read from a file.

    Attributes:
        value (Any): The attribute as a plain Python value.
        kind: numpy type and shape, such as "<f8 scalar", "<i8 2x3" or "<f4 empty".
        content: The value as bytes, as the file stores it.
    """

    name: str
    value: Any
    kind: str
    content: bytes


def write_attributes(group: h5py.Group, values: Mapping[str, Any]) -> None:
    """Add these attributes to a group: strings at fixed length, integers and booleans as int64."""
    for name, value in values.items():
        if isinstance(value, bool | int):
            value = np.int64(value)
        if not isinstance(value, str):
            group.attrs[name] = value
            continue
        # a file name may hold bytes that are not UTF-8; a string in HDF5 may not
        text = value.encode(errors="backslashreplace")
        fixed = h5py.string_dtype("utf-8", max(1, len(text)))
        group.attrs.create(name, np.bytes_(text), dtype=fixed)


def is_plain(attribute: h5py.h5a.AttrID) -> bool:
    """Return whether an attribute holds numbers, or strings of fixed length.

    HDF5 stores such values outside its global heap.
    """
    kind = attribute.get_type()
    if isinstance(kind, h5py.h5t.TypeStringID):
        return not kind.is_variable_str()
    numbers = h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID, h5py.h5t.TypeEnumID
    return isinstance(kind, numbers)


def stored(group: h5py.Group, name: str) -> Stored:
    """Read the attribute `name` of a group. `is_plain` must be true for the attribute."""
    attribute = group.attrs.get_id(name)
    if attribute.shape is None:
        return Stored(name, None, f"{attribute.dtype.str} empty", b"")
    array = np.empty(attribute.shape, attribute.dtype)
    if array.size:
        attribute.read(array)
    shape = "x".join(map(str, array.shape)) or "scalar"
    return Stored(name, python_value(array[()]), f"{array.dtype.str} {shape}", array.tobytes())


def digest_of_attributes(found: Iterable[Stored]) -> npt.NDArray[np.uint8]:
    """Return one BLAKE3 digest of all attributes, uint8[1, 32].

    The digest covers the sorted lines ``name dtype shape bytes``.
    """
    lines = sorted(f"{one.name} {one.kind} {one.content.hex()}\n" for one in found)
    digest = blake3_digest("".join(lines).encode(errors="surrogateescape"))
    return np.frombuffer(digest, np.uint8).reshape(1, -1)


def python_value(value: Any) -> Any:
    """Convert a value that h5py has read to a plain Python value.

    An empty attribute becomes None.
    """
    if isinstance(value, h5py.Empty):
        return None
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [python_value(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):  # replace the bytes that are not UTF-8
        return value.encode(errors="surrogateescape").decode(errors="replace")
    return value
