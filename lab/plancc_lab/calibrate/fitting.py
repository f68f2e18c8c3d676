"""Fit of three rates to the times of epochs, for all work other than sparse products.

    seconds = multiply-adds / dense + bytes / stream + operations x overhead

Fitted to whole epochs, the rates include the time for allocations, cold caches and Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.errors import InputError
from plancc.predict.machine import DRAWN, Compute
from plancc.predict.memory import WORD_BYTES
from plancc.predict.schedule import DenseProduct, Elementwise, SparseProduct
from plancc.predict.schedules import Tables, pairs_of, schedule_of

FASTEST = np.array([1e-15, 1e-15, 0.0])
"""Least seconds per multiply-add, byte and operation in a fit."""


@dataclass(frozen=True)
class EpochSeconds:
    """One measured epoch of a GCN on one rank, with the passes "order" and "constant".

    Attributes:
        rest: Seconds of all work except sparse products.
    """

    rows: int
    nonzeros: int
    dims: tuple[int, ...]
    rest: float


@dataclass(frozen=True)
class DrawSeconds:
    """A measured mini-batch: rows and nonzeros of its blocks, and one rank's seconds to draw it."""

    rows: float
    nonzeros: float
    blocks: int
    seconds: float


def work(epoch: EpochSeconds) -> npt.NDArray[np.float64]:
    """Return multiply-adds and bytes of an epoch's dense work, and its number of operations."""
    one = np.ones(1, np.int64)
    tables = Tables(
        name="epoch",
        layout="row",
        rows=epoch.rows * one,
        nonzeros=epoch.nonzeros * one,
        expand=pairs_of(sp.csr_array((1, 1), dtype=np.int64)),
    )
    multiply_adds = words = operations = 0
    for _, each in schedule_of(tables, list(epoch.dims)).operations:
        if isinstance(each, DenseProduct):
            multiply_adds += epoch.rows * int(each.inner) * int(each.columns)
            words += epoch.rows * (int(each.inner) + int(each.columns))
            operations += 1
        elif isinstance(each, Elementwise):
            words += int(each.words.sum())
            operations += each.calls
        elif isinstance(each, SparseProduct):
            operations += int(each.calls)
    return np.array([multiply_adds, WORD_BYTES * words, operations], np.float64)


def fitted(epochs: Sequence[EpochSeconds], draws: Sequence[DrawSeconds] = ()) -> Compute:
    """Return the rates with the least sum of squared relative errors of the times.

    Raises InputError for fewer than three epochs. Without `draws`, rates of drawing are None.
    """
    if len(epochs) < 3:
        raise InputError(f"{len(epochs)} epochs: fitting three rates takes at least three epochs")
    from scipy.optimize import nnls

    seconds = np.array([each.rest for each in epochs])
    unknown, _ = nnls(np.array([work(each) for each in epochs]) / seconds[:, None], 1 + 0 * seconds)
    per_add, per_byte, overhead = np.maximum(unknown, FASTEST)
    found = Compute(dense=1 / per_add, stream=1 / per_byte, overhead=overhead)
    if not draws:
        return found
    seconds = np.array([each.seconds for each in draws])
    sizes = np.array([(each.blocks, each.rows, each.nonzeros) for each in draws])
    unknown, _ = nnls(sizes / seconds[:, None], 1 + 0 * seconds)
    return replace(found, **dict(zip(DRAWN, np.maximum(unknown, FASTEST[0]).tolist(), strict=True)))
