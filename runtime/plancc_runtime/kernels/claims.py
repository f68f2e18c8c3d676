"""Division of rows among the threads of compiled functions.

The functions get the address of a *call*: an int64 array with the index of the next block of rows
to compute, the addresses of the other arrays, and their sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from plancc.kernel import njit

BLOCK_WORK = 4096  # number of nonzeros plus number of rows of a block


@njit(cache=True, nogil=True)
def equal_blocks(row_ptr: Any) -> Any:
    """Return the first row of every block of equal work, then the row count: int64[blocks + 1]."""
    rows = len(row_ptr) - 1
    cuts = np.empty((row_ptr[rows] + rows) // BLOCK_WORK + 2, dtype=np.int64)
    size, following = 0, 0
    for i in range(rows):
        work = row_ptr[i] + i
        if work >= following:
            cuts[size] = i
            size += 1
            following = (work // BLOCK_WORK + 1) * BLOCK_WORK
    cuts[size] = rows
    return cuts[: size + 1]


@intrinsic
def pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """Return an address as a pointer to void."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def claim(typing_context, call):  # type: ignore[no-untyped-def]
    """Increase call[0] by 1 atomically, and return its previous value."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(call), generate
