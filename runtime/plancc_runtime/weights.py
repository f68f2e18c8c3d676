"""Read and write weights. A file may come from an untrusted source, so all its data are checked.

An ``.npz`` holds each parameter and buffer under its name. Its entry ``network`` is the network's
description as JSON (`plancc_runtime.saved`); older files have none.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import fspath
from typing import Any

import numpy as np

from plancc.errors import InputError, PlanccError
from plancc.files import PARSING, StrPath, open_file
from plancc.text import shown

DESCRIPTION = "network"
"""Name of the file's entry with the JSON; no parameter of a network has this name."""
DEFLATED = 1032
"""Largest number of bytes that deflate can compress to one byte."""
MOST_TEXT = 1 << 18
"""Largest number of characters of the JSON."""

Shapes = dict[str, tuple[int, ...]]


def read_weights(path: StrPath, shapes: Shapes) -> dict[str, np.ndarray]:
    """Return the arrays with these names and shapes in an ``.npz``; not collective.

    Raises InputError if an array is missing, not finite, or of another shape (before reading it).
    """
    name, arrays = fspath(path), {}
    with _opened(path) as file:
        there = _headers(file, path)
        for key, shape in shapes.items():
            if key not in there:
                raise InputError(f"{name}: has no array {key}; the model has {', '.join(shapes)}")
            found, dtype = there[key]
            if found != shape:
                raise InputError(f"{name}: {key} has shape {found}, but the model needs {shape}")
            if dtype.kind in "fiu":
                arrays[key] = _native(file[key])
            if dtype.kind not in "fiu" or not np.isfinite(arrays[key]).all():
                raise InputError(f"{name}: {key} must hold finite numbers")
    return arrays


def read_description(path: StrPath) -> tuple[dict[str, Any] | None, Shapes]:
    """Return the network's description (unchecked JSON) in a file, and its arrays' shapes by name.

    The description is None in older files and in files of other programs. Not collective.
    """
    with _opened(path) as file:
        there = _headers(file, path)
        text = there.pop(DESCRIPTION, None)
        shapes = {key: shape for key, (shape, _) in there.items()}
        if text is None:
            return None, shapes
        shape, dtype = text
        if shape != () or dtype.kind != "U" or dtype.itemsize > 4 * MOST_TEXT:
            raise InputError(f"{fspath(path)}: '{DESCRIPTION}' is not a string of at most 256 KiB")
        try:
            found = json.loads(str(file[DESCRIPTION]))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{fspath(path)}: '{DESCRIPTION}' is not JSON") from error
    if not isinstance(found, dict):
        raise InputError(f"{fspath(path)}: '{DESCRIPTION}' is not a JSON object")
    return found, shapes


def save_weights(
    path: StrPath,
    weights: Mapping[str, np.ndarray],
    description: Mapping[str, Any] | None = None,
) -> None:
    """Write weights, and the network's description as JSON, as ``.npz``. Only one rank calls this.

    If writing fails, no file is left.
    """
    from plancc.files import atomic_write

    arrays = dict(weights)
    if description is not None:
        arrays[DESCRIPTION] = np.array(json.dumps(description))
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _native(array: np.ndarray) -> np.ndarray:
    """Return the array in this machine's byte order, as float64 if torch lacks its dtype."""
    dtype = array.dtype.newbyteorder("=")
    there = dtype.kind == "i" or dtype == np.uint8 or (dtype.kind == "f" and dtype.itemsize <= 8)
    with np.errstate(over="ignore"):  # too large numbers become infinite
        return array.astype(dtype if there else np.float64, copy=False)


@contextmanager
def _opened(path: StrPath) -> Iterator[Any]:
    """Open an ``.npz`` file; errors of other libraries in the context become InputErrors."""
    try:
        with PARSING, open_file(path) as stream, np.load(stream, allow_pickle=False) as file:
            yield file
    except PlanccError:
        raise
    except Exception as error:  # a .npy or a torn archive may raise anything
        name = fspath(path)
        why = "cannot be read as .npz, the format of saved weights"
        raise InputError(f"{name}: {why}") from error


def _headers(file: Any, path: StrPath) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and dtype of every array without reading it; InputError if bytes are missing."""
    found = {}
    for key in file.files:
        entry = file.zip.getinfo(key if key in file.zip.NameToInfo else f"{key}.npy")
        with file.zip.open(entry) as stream:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, _, dtype = read(stream)
            if dtype.hasobject:
                raise ValueError(f"{key} is pickled")
            there = min(entry.file_size, DEFLATED * min(entry.compress_size, os.path.getsize(path)))
            if math.prod(shape) * dtype.itemsize > there:
                raise InputError(
                    f"{fspath(path)}: {shown(key, 40)} has fewer numbers than its shape "
                    f"{shown(tuple(shape), 80)} says"
                )
            found[key] = tuple(shape), dtype
    return found
