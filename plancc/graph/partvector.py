"""Part vectors (``name.part.K``): the 0-based part of every vertex, one number per line."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath, atomic_write
from plancc.graph.formats import FORMATS
from plancc.graph.graph import first_true
from plancc.graph.kernels import format_lines
from plancc.graph.textfile import fail, fail_first, read_bytes, read_integers


def read_part_vector(
    path: StrPath, num_vertices: int | None = None, *, least: int = 0
) -> npt.NDArray[np.int32]:
    """Read a part vector of METIS, hMETIS or KaHyPar, plain or .gz: int32[num_vertices].

    `path` may also be the .json file of a partition of DistDGL (`plancc.interop.distdgl`). `least`
    is the smallest allowed number: 0, or -1 if -1 may stand for any part.
    """
    has = f"the graph has {num_vertices} vertices"
    if os.fspath(path).lower().endswith(".json"):
        parts: npt.NDArray[np.int32] = FORMATS["dgl"].read_parts(path)
        if num_vertices is not None and len(parts) != num_vertices:
            raise InputError(f"{os.fspath(path)}: {has}, but the partition has {len(parts)}")
        return parts
    content = read_bytes(path)
    if b"\0" in content:
        rule = "a part vector is text, with one number per line"
        if content.startswith(b"\x89HDF"):
            rule += ": `plancc export PLAN -o FILE.part` writes a plan's part vector"
        raise InputError(f"{os.fspath(path)}: is not text; {rule}")
    numbers = read_integers(path, content, comments=b"")
    count = np.diff(numbers.ptr)
    part = numbers.values
    if (k := first_true(count > 1)) is not None:
        text = " ".join(map(str, part[numbers.ptr[k] : numbers.ptr[k + 1]]))
        fail(path, int(numbers.line[k]), "one part number per line is expected, not", text)
    line = numbers.line[count > 0]
    words = "the part is negative:" if least == 0 else f"the part is below {least}:"
    fail_first(path, part < least, line, words, part)
    fail_first(path, part > np.iinfo(np.int32).max, line, "the part is too large:", part)
    if num_vertices is not None and len(part) != num_vertices:
        last = int(line[min(len(line) - 1, num_vertices)])
        fail(path, last, f"{has}, but the file lists the parts of", len(part))
    return part.astype(np.int32)


def write_part_vector(owner: npt.NDArray[np.integer], path: StrPath) -> None:
    """Write a part vector, int[num_vertices] >= 0; with K parts, `path` is usually NAME.part.K."""
    owner = np.asarray(owner)
    if owner.ndim != 1 or owner.dtype.kind not in "iu" or (owner.size and owner.min() < 0):
        raise InputError(f"{os.fspath(path)}: a part vector is a list of integers >= 0")
    text = format_lines(np.arange(len(owner) + 1, dtype=np.int64), owner.astype(np.int64))
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.tobytes())
