"""Random masks of nonzeros: functions of a key and a nonzero's vertices, equal in numba and torch.

A random number is half of the hash splitmix64 of a counter (`plancc.sampling.counter.mix`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from plancc.kernel import njit
from plancc.sampling.counter import mix
from plancc_runtime.kernels.edges import Pattern, run_groups
from plancc_runtime.kernels.hashing import AT_ONCE, halves, mixed, signed
from plancc_runtime.workspace import empty

MIX_WORK = 8  # time of a hash, in multiplications
_LOW = np.uint64(2**32 - 1)
_32 = np.uint64(32)


def nonzero_mask(
    pattern: Pattern, rows: Tensor, columns: Tensor, rate: float, key: np.uint64, like: Tensor
) -> Tensor:
    """Return a dropout mask in CSR order: 0 or 1 / (1 - rate), Tensor[nnz, heads].

    The mask is 0 where a random number is below ``rate * 2**32``. For nonzero (i, j) and head h,
    this number is the low (h even) or high (h odd) half of

        mix(mix(key ^ mix(vertex of i)) + (vertex of j) * ceil(heads / 2) + h // 2)

    where mix is a hash. `rows` and `columns` have the vertices; `like` (Tensor[0, heads]) gives
    dtype and device.
    """
    heads, side = like.shape[1], pattern.rows
    out = empty(pattern.num_nonzeros, heads, like)
    dropped, factor = round(rate * 2**32), 1 / (1 - rate)
    if not side.native:
        _put(pattern, rows, columns, dropped, key, out)
        return out.mul_(factor)
    scale = out[:0].numpy().dtype.type(factor)
    args = (side.ptr, side.index, rows, columns, np.uint64(dropped), scale, np.uint64(key), out)
    run_groups(_drawn, side, MIX_WORK * heads, *args)
    return out


@njit(cache=True, nogil=True)
def _drawn(
    begin: int,
    end: int,
    ptr: Any,
    index: Any,
    rows: Any,
    columns: Any,
    dropped: Any,
    scale: Any,
    key: Any,
    out: Any,
) -> None:
    """Write the dropout masks of the nonzeros in rows ``begin:end`` of a CSR pattern to `out`.

    A mask has one number for each head: 0 if a random number is below `dropped`, else `scale`.
    """
    heads = out.shape[1]
    pairs = np.uint64((heads + 1) // 2)
    zero = out.dtype.type(0)
    for i in range(begin, end):
        stream = mix(key ^ mix(np.uint64(rows[i])))
        for e in range(ptr[i], ptr[i + 1]):
            first = stream + np.uint64(columns[index[e]]) * pairs
            for h in range(0, heads - 1, 2):
                # 64 bits make two draws: the low half for one head, the high half for the next.
                bits = mix(first + np.uint64(h // 2))
                out[e, h] = scale if (bits & _LOW) >= dropped else zero
                out[e, h + 1] = scale if (bits >> _32) >= dropped else zero
            if heads % 2:
                bits = mix(first + np.uint64(heads // 2))
                out[e, heads - 1] = scale if (bits & _LOW) >= dropped else zero


def _put(
    pattern: Pattern, rows: Tensor, columns: Tensor, dropped: int, key: np.uint64, out: Tensor
) -> None:
    """Write 0 or 1 to `out` for every nonzero and head: 0 if a random number is below `dropped`."""
    heads = out.shape[1]
    pairs = (heads + 1) // 2
    stream = mixed(mixed(rows.to(torch.int64)) ^ signed(int(key)))
    number = torch.arange(pairs, device=out.device)
    step = max(1, AT_ONCE // heads)
    for begin in range(0, len(out), step):
        nonzeros = slice(begin, begin + step)
        column = columns.index_select(0, pattern.rows.index[nonzeros]).to(torch.int64)
        first = stream.index_select(0, pattern.row[nonzeros]) + column * pairs
        drawn = halves(mixed(first[:, None] + number))
        torch.ge(drawn[:, :heads], dropped, out=out[nonzeros])
