"""Conversion of vertex weights to whole numbers, which partitioners need."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn

SCALE = 10**6
"""Mean of the scaled weights, if some weights are fractions."""
LARGEST = 2**53


def whole_weights(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.int64]:
    """Return weights as whole numbers, int64[n, num_weights].

    Weights must be finite, from 0 to `LARGEST`. A column with fractions is scaled to a mean of
    `SCALE`; a column of zeros causes a warning.
    """
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf" or 0 in array.shape[1:]:
        rule = "must have a number, or several, for every vertex"
        raise InputError(f"{what} {rule}, not '{array.dtype}' of shape {array.shape}")
    columns = array.reshape(len(array), -1)
    wrong = first_wrong(columns)
    if wrong is not None:
        raise InputError(
            f"{what} holds '{columns[wrong]}' in row {wrong[0]} (counted from 0): {RULE}"
        )
    if len(columns) and not (some := columns.any(axis=0)).all():
        each = "all are 0" if not some.any() else f"column {np.argmin(some)} (from 0) is all 0"
        warn(f"{what}: {each}: any partition balances such weights")
    found = np.empty(columns.shape, np.int64)
    for column, out in zip(columns.T, found.T, strict=True):
        whole = column.dtype.kind != "f" or bool((column == np.floor(column)).all())
        out[:] = column if whole else np.rint(column * (SCALE / column.mean(dtype=np.float64)))
    return found


RULE = f"weights are finite numbers from 0 to {LARGEST}"


def first_wrong(columns: npt.NDArray[Any]) -> tuple[int, int] | None:
    """Return row and column of the first number that is not a weight; None if all are weights."""
    wrong = ~((columns >= 0) & (columns <= LARGEST))  # true for NaN
    if not wrong.any():
        return None
    row, column = divmod(int(np.argmax(wrong)), columns.shape[1])
    return row, column
