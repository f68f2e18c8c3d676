"""Dropout whose mask is a function of (key, vertex, column), the same on any number of ranks.

The backward pass draws the mask again, so no mask is stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from plancc.kernel import njit
from plancc.sampling.counter import mix
from plancc_runtime.kernels.hashing import AT_ONCE, halves, mixed, signed
from plancc_runtime.workspace import empty

_LOW = np.uint64(2**32 - 1)
_32 = np.uint64(32)


def dropout(
    x: Tensor, rate: float, key: np.uint64, vertices: Tensor, first_column: int = 0
) -> Tensor:
    """Set every number of x to 0 with probability `rate`; divide all other numbers by 1 - rate.

    The key, `vertices` (the vertex of every row, int32[m]) and the columns determine the mask.
    `first_column` is the index of column 0 of x, if this rank has only some columns.
    """
    return _Dropout.apply(x, _Mask(rate, key, vertices, first_column))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: _Mask) -> Tensor:
        ctx.mask = mask
        return mask.applied(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Dropout.apply(g, ctx.mask), None


class _Mask(NamedTuple):
    """Parameters of `dropout`, which determine its mask."""

    rate: float
    key: np.uint64
    vertices: Tensor
    first_column: int

    def applied(self, x: Tensor) -> Tensor:
        if x.dtype == torch.bfloat16 and x.device.type == "cpu":  # numpy has no bfloat16
            return self.applied(x.float()).to(x.dtype)
        x = x.contiguous()
        threshold = round(self.rate * 2**32)
        out = empty(x.shape[0], x.shape[1], x)
        if x.device.type != "cpu":
            self._put(x, threshold, out)
            return out
        _mask_rows(
            x.detach().numpy(),
            np.uint64(threshold),
            x.numpy().dtype.type(1 / (1 - self.rate)),
            self.key,
            self.vertices.numpy(),
            self.first_column,
            out.numpy(),
        )
        return out

    def _put(self, x: Tensor, threshold: int, out: Tensor) -> None:
        """Write the result of `applied(x)` to `out` with torch, on any device.

        A few rows are handled at a time, since their random bits need at least twice their memory.
        """
        step = max(1, AT_ONCE // max(1, x.shape[1]))
        for first in range(0, len(x), step):
            rows = slice(first, first + step)
            vertices = self.vertices[rows]
            kept = drawn_bits(vertices, x.shape[1], self.key, self.first_column) >= threshold
            torch.mul(x[rows], kept, out=out[rows]).mul_(1 / (1 - self.rate))


@njit(cache=True, nogil=True)
def _mask_rows(
    x: Any, dropped: Any, scale: Any, key: Any, vertices: Any, first_column: Any, out: Any
) -> None:
    """Compute out = x times the dropout mask; a number is dropped if its bits are below `dropped`.

    Columns 2 k and 2 k + 1 share a 64-bit hash; its low 32 bits are for the even column.
    """
    width = x.shape[1]
    odd = first_column % 2
    for i in range(x.shape[0]):
        stream = mix(key ^ mix(np.uint64(vertices[i])))
        # If the slice begins at an odd column, its hash is that of the previous column.
        if odd and width:
            bits = mix(stream + np.uint64(first_column - 1))
            out[i, 0] = x[i, 0] * scale if (bits >> _32) >= dropped else x.dtype.type(0)
        for j in range(odd, width - 1, 2):
            bits = mix(stream + np.uint64(first_column + j))
            out[i, j] = x[i, j] * scale if (bits & _LOW) >= dropped else x.dtype.type(0)
            out[i, j + 1] = x[i, j + 1] * scale if (bits >> _32) >= dropped else x.dtype.type(0)
        # If the slice ends at an even column, the high bits of its hash are not used.
        if (width - odd) % 2:
            bits = mix(stream + np.uint64(first_column + width - 1))
            out[i, width - 1] = (
                x[i, width - 1] * scale if (bits & _LOW) >= dropped else x.dtype.type(0)
            )


def drawn_bits(vertices: Tensor, width: int, key: np.uint64, first_column: int) -> Tensor:
    """Return 32 random bits, computed by torch, for every entry of m rows: int64[m, width]."""
    stream = mixed(mixed(vertices.to(torch.int64)) ^ signed(int(key)))
    odd = first_column % 2
    pairs = torch.arange(
        first_column - odd, first_column + width, 2, device=vertices.device, dtype=torch.int64
    )
    both = halves(mixed(stream[:, None] + pairs))  # bits of both columns of every pair
    return both[:, odd : odd + width]
