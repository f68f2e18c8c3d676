"""Reads files of versions 1.0 to 1.4 where nothing can hang: in a child process with a time limit.

HDF5 keeps strings of variable length, which these files have as attributes, in a heap without
checksums: one damaged byte there, and HDF5 never returns, deaf to signals. The child,
`plancc.plan.guard_child`, reads the whole file and compares its content hash. The parent takes the
attributes from it, and reads none itself, and the digests that later versions have in the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from plancc.errors import PlanError
from plancc.files import open_file
from plancc.guarded_child import ask
from plancc.plan.digests import DIGEST_BYTES, Digests

SIGNATURE = b"\x89HDF\r\n\x1a\n"
WITH_CHECKSUMS = 3
"""First version of HDF5's superblock whose files have checksums in all of their structures."""

Attributes = dict[str, dict[str, Any]]
"""Attributes by group; "" is the root."""


@dataclass(frozen=True)
class Guarded:
    """What the child tells of a file whose content hash holds.

    Attributes
    ----------
    attributes : dict
    digests : dict
        Digests of the slices of every dataset, by the name of the dataset.
    """

    attributes: Attributes
    digests: dict[str, Digests]


_known: dict[tuple[str, int, int, int], Guarded] = {}


def needs_guard(path: str) -> bool:
    """Whether a file is in a container whose structures have no checksums."""
    with open_file(path) as stream:
        start = stream.read(len(SIGNATURE) + 1)
    return start[:-1] == SIGNATURE and start[-1] < WITH_CHECKSUMS


def read_guarded(path: str) -> Guarded:
    """What a reader needs of a file besides its datasets; a process asks for a file once.

    Raises
    ------
    PlanError
        If the file is damaged, or HDF5 does not come to an end with it.
    """
    state = os.stat(path)
    key = (os.path.realpath(path), state.st_ino, state.st_size, state.st_mtime_ns)
    if key not in _known:
        answer = ask("plancc.plan.guard_child", path, 0, error=PlanError)
        digests = {
            name: np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, DIGEST_BYTES)
            for name, text in answer["digests"].items()
        }
        _known[key] = Guarded(answer["attributes"], digests)
    return _known[key]
