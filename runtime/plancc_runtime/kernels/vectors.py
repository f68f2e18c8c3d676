"""Vector instructions of compiled products, and the sizes of vectors that make up a row."""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir

_I32, _BYTE = ir.IntType(32), ir.IntType(8).as_pointer()


@cache
def tiles(width: int, item: int, most: int = 256) -> np.ndarray:
    """Return the tiles that cover `width` columns of `item` bytes each: int64[tiles, 3].

    A tile has two halves of equal size, which may overlap in the last tile. Its entries: bytes of a
    half (a power of two), first column, and columns from the start of the first half to that of
    the second. The array is cached forever, since compiled functions use its address.
    """
    found, first = [], 0
    while first < width:
        columns = min(most // item, width - first)
        half = max(1, 1 << (columns - 1).bit_length() >> 1)
        found.append((half * item, first, columns - half))
        first += columns
    return np.array(found, np.int64).reshape(-1, 3)


def spread(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """Return a vector that has `value` in all its `lanes`."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    everywhere = ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, everywhere)


def prefetch(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Prefetch the cache line at an address into the nearest cache.

    Parameters:
        address: Integer or byte pointer.
    """
    kinds = [_BYTE, _I32, _I32, _I32]
    function = builder.module.declare_intrinsic(
        "llvm.prefetch", (_BYTE,), fnty=ir.FunctionType(ir.VoidType(), kinds)
    )
    if address.type != _BYTE:
        address = builder.inttoptr(address, _BYTE)
    read, keep, data_cache = (ir.Constant(_I32, flag) for flag in (0, 3, 1))
    builder.call(function, [address, read, keep, data_cache])
