"""Gathers rows before an exchange, and adds rows after the exchange.

`add_rows` takes 1.1 to 2.5 times as long as a copy, torch's index_add_ 1.8 to 4.6 times.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plancc.errors import InputError
from plancc.kernel import njit


def pack(x: Tensor, rows: Tensor, out: Tensor) -> None:
    """Compute out[k] = x[rows[k]]; IndexError if a row is outside of x.

    Shapes of x, rows and out: [n, d], int64[m], [m, d].
    """
    torch.index_select(x, 0, rows, out=out)


def add_rows(out: Tensor, rows: Tensor, received: Tensor) -> None:
    """Compute out[rows[k]] += received[k], with the same bits on any number of threads.

    Received rows for the same row of `out` are added in the order of k or, on GPUs, in another
    fixed order. If a row is outside of `out`, nothing is added, and InputError is raised (on GPUs
    and for bfloat16, torch's IndexError).
    """
    if out.device.type != "cpu":
        out.index_put_((rows,), received, accumulate=True)  # index_add_ would use atomics
    elif out.dtype == torch.bfloat16:  # NumPy has no bfloat16
        out.index_add_(0, rows, received)
    elif not _add_rows(out.numpy(), rows.numpy(), received.numpy()):
        raise InputError(f"`rows` has a number that is not between 0 and {len(out) - 1}")


@njit(cache=True, nogil=True)
def _add_rows(out: Any, rows: Any, received: Any) -> bool:
    for k in range(len(rows)):
        if rows[k] < 0 or rows[k] >= len(out):
            return False
    for k in range(len(rows)):
        row = rows[k]
        for c in range(out.shape[1]):
            out[row, c] += received[k, c]
    return True
