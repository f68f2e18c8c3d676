"""Reads files of versions 1.0 to 1.4 where nothing can hang: in a child process with a time limit.

HDF5 keeps strings of variable length, which these files have as attributes, in a heap without
checksums: one damaged byte there, and HDF5 never returns, deaf to signals. The child,
`plancc.plan.guard_child`, reads the whole file and compares its content hash. The parent takes the
attributes from it, and reads no such string itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from plancc.errors import PlanError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
WITH_CHECKSUMS = 3
"""First version of HDF5's superblock whose files have checksums in all of their structures."""
CPU_SECONDS = 4
CPU_SECONDS_PER_BYTE = 1 / 20e6
"""What the child may use of a processor, however busy the machine is; it needs a tenth of it."""

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
        _known[key] = _read_in_child(path, state.st_size)
    return _known[key]


def _read_in_child(path: str, size: int) -> Attributes:
    seconds = int(CPU_SECONDS + size * CPU_SECONDS_PER_BYTE)
    command = [sys.executable, "-P", "-m", "plancc.plan.guard_child", path, str(seconds)]
    child = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if child.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise PlanError(f"{path}: the file is damaged: HDF5 does not come to an end with it")
    try:
        answer = json.loads(child.stdout)
    except ValueError:
        raise PlanError(f"{path}: the file is damaged: HDF5 fails on it") from None
    if "error" in answer:
        raise PlanError(answer["error"])
    attributes: Attributes = answer["attributes"]
    return attributes
