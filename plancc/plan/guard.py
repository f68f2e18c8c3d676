"""Reads files of versions 1.0 to 1.4 where nothing can hang: in a child process with a time limit.

HDF5 keeps strings of variable length, which these files have as attributes, in a heap without
checksums: one damaged byte there, and HDF5 never returns, deaf to signals. The child,
`plancc.plan.guard_child`, reads the whole file and compares its content hash. The parent takes the
attributes from it, and reads no such string itself.
"""

from __future__ import annotations

import os
from typing import Any

from plancc.errors import PlanError
from plancc.guarded_child import ask

SIGNATURE = b"\x89HDF\r\n\x1a\n"
WITH_CHECKSUMS = 3
"""First version of HDF5's superblock whose files have checksums in all of their structures."""
CPU_SECONDS_PER_BYTE = 1 / 20e6
"""What the child may use of a processor for every byte; it needs a tenth of it."""

Attributes = dict[str, dict[str, Any]]
"""Attributes by group; "" is the root."""

_known: dict[tuple[str, int, int, int], Attributes] = {}


def needs_guard(path: str) -> bool:
    """Whether a file is in a container whose structures have no checksums."""
    with open(path, "rb") as stream:
        start = stream.read(len(SIGNATURE) + 1)
    return start[:-1] == SIGNATURE and start[-1] < WITH_CHECKSUMS


def guarded_attributes(path: str) -> Attributes:
    """The attributes of a file whose content hash holds; a process reads a file once.

    Raises
    ------
    PlanError
        If the file is damaged, or HDF5 does not come to an end with it.
    """
    state = os.stat(path)
    key = (os.path.realpath(path), state.st_ino, state.st_size, state.st_mtime_ns)
    if key not in _known:
        answer = ask("plancc.plan.guard_child", path, CPU_SECONDS_PER_BYTE, error=PlanError)
        _known[key] = answer["attributes"]
    return _known[key]
