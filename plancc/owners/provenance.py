"""What `compile` and `refine` write into a provenance, and how they measure owners for it."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_WORDS = 16
"""Longest list that a provenance spells out."""


def now() -> str:
    """UTC, from SOURCE_DATE_EPOCH where it is set, so that builds can be repeated to the byte."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def in_words(value: Any) -> str:
    """An option for the provenance; an array by its kind, since it may be as long as the graph."""
    if isinstance(value, list | tuple) and len(value) <= MAX_WORDS:
        return ",".join(map(str, value))
    return str(value) if np.ndim(value) == 0 else f"<{type(value).__name__}>"


def empty_parts(owner: npt.NDArray[np.int32], num_parts: int) -> list[str]:
    """A warning if parts have no rows."""
    empty = num_parts - np.count_nonzero(np.bincount(owner, minlength=num_parts))
    return [f"{empty} of {num_parts} parts have no rows"] if empty else []
