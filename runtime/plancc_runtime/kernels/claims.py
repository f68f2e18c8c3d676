"""How threads share rows in a compiled function: blocks of about equal work, claimed one by one.

A function is given the address of an int64 array, its call: addresses and sizes, and in the first
place the number of the next block.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLOCK_WORK = 4096  # nonzeros and rows of a block that a thread claims


def equal_blocks(row_ptr: np.ndarray) -> np.ndarray:
    """First rows of blocks with about `BLOCK_WORK` nonzeros and rows each, and the end."""
    work = row_ptr + np.arange(len(row_ptr))
    cuts = np.append(np.searchsorted(work, np.arange(0, work[-1], BLOCK_WORK)), len(row_ptr) - 1)
    return cuts[np.diff(cuts, prepend=-1) > 0].astype(np.int64)


@intrinsic
def pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer to void."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def claim(typing_context, call):  # type: ignore[no-untyped-def]
    """call[0]++, atomically; its value before."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(call), generate
