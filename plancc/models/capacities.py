"""Capacities: relative sizes of the parts of a partition."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.textfile import data_lines, fail, read_bytes, read_number

Capacities = tuple[float, ...] | None
"""A number above 0 for every part; a part's even share is proportional to it. None: all equal."""


def check_capacities(
    capacities: Sequence[float] | npt.NDArray[np.float64], num_parts: int | None = None
) -> tuple[float, ...]:
    """Check that there are `num_parts` finite capacities above 0, and return them as floats."""
    shape = np.array(capacities, dtype=object).shape  # ragged lists have a shape too
    if isinstance(capacities, str) or len(shape) != 1 or shape[0] == 0:
        raise InputError(
            f"`capacities` {capacities!r}: a list of numbers above 0 is needed, one for every part"
        )
    for k, value in enumerate(capacities, 1):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not (number and math.isfinite(value) and value > 0):
            raise InputError(f"`capacities`: number {k} is {value}: it must be finite and above 0")
    if num_parts is not None and len(capacities) != num_parts:
        raise InputError(
            f"`capacities`: has {len(capacities)} numbers for {num_parts} parts; give one per part"
        )
    return tuple(map(float, capacities))


def relative_capacities(num_parts: int, capacities: Capacities) -> npt.NDArray[np.float64]:
    """Return the capacities divided by their mean, float64[num_parts]; exactly 1 if all equal."""
    if capacities is None:
        return np.ones(num_parts)
    found = np.array(check_capacities(capacities, num_parts))
    return found / found[0] if (found == found[0]).all() else found / found.mean()


def read_capacities(path: StrPath) -> tuple[float, ...]:
    """Read capacities above 0 from a text file, separated by blanks, commas or line ends."""
    found = []
    for line, text in data_lines(path, read_bytes(path).splitlines(), comments=(b"#",)):
        for word in text.replace(b",", b" ").split():
            value = read_number(path, line, "capacity", word, float)
            if value <= 0:
                fail(path, line, "the capacity is not above 0:", word)
            found.append(value)
    if not found:
        raise InputError(f"{os.fspath(path)}: holds no capacities; write one number for every part")
    return tuple(found)
