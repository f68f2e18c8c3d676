"""Random numbers and random orders as functions of a key and a position, compiled by numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.kernel import njit
from plancc.sampling.kernels import ascending

ROUNDS = 8
"""Rounds of the Feistel network in `at_place`."""
LEAST_SIDE = 16
"""Smallest side of the grid of the Feistel network; with smaller grids, orders are not uniform."""

GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""Difference between successive states of splitmix64."""
_MUL1 = np.uint64(0xBF58476D1CE4E5B9)
_MUL2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30 = np.uint64(11), np.uint64(27), np.uint64(30)
_S31, _S32 = np.uint64(31), np.uint64(32)


def key_of(*numbers: int) -> np.uint64:
    """Return a key that depends on all numbers and their order; InputError outside 0..2^64 - 1."""
    key = np.uint64(0)
    for number in numbers:
        if not 0 <= number < 2**64:
            raise InputError(f"seed {number} is not in 0..2^64 - 1")
        key = np.uint64(bits(key, np.uint64(number)))
    return key


@njit(cache=True, nogil=True, plain=True)
def mix(x: Any) -> Any:
    """Map x to 64 bits that look random, one-to-one (splitmix64; Steele, Lea and Flood, 2014)."""
    z = np.uint64(x) + GAMMA
    z = (z ^ (z >> _S30)) * _MUL1
    z = (z ^ (z >> _S27)) * _MUL2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True)
def bits(key: Any, place: Any) -> Any:
    """Return 64 random bits that depend on `key` and `place`; they can be used as another key."""
    return mix(np.uint64(key) ^ mix(np.uint64(place)))


@njit(cache=True, nogil=True)
def below(random: Any, bound: Any) -> Any:
    """Convert 64 random bits to a number in 0..bound - 1; `bound` is at most 2^32."""
    return np.int64(((np.uint64(random) >> _S32) * np.uint64(bound)) >> _S32)


@njit(cache=True, nogil=True)
def unit(random: Any) -> Any:
    """Convert 64 random bits to a float64 in [0, 1)."""
    return np.float64(np.uint64(random) >> _S11) * 2.0**-53


@njit(cache=True, nogil=True)
def _share(key: Any, round_: int, half: Any, bound: Any) -> Any:
    return below(mix(np.uint64(key) + np.uint64(round_) * _MUL1 ^ np.uint64(half) * _MUL2), bound)


@njit(cache=True, nogil=True)
def at_place(x: Any, n: Any, key: Any) -> Any:
    """Return the number at place x in the random order of 0..n - 1 that `key` determines.

    The order is an inverse Feistel network (Black and Rogaway 2002), too weak for cryptography.
    """
    a, b = _grid(n)
    while True:
        # Undo the rounds of the network in reverse order: each half changes by the other's hash.
        left, right = x // b, x % b
        for k in range(ROUNDS - 2, -1, -2):
            right -= _share(key, k + 1, left, b)
            if right < 0:
                right += b
            left -= _share(key, k, right, a)
            if left < 0:
                left += a
        x = left * b + right
        # The grid is a little larger than n: walk on until the place is below n.
        if x < n:
            return x


@njit(cache=True, nogil=True)
def _grid(n: Any) -> Any:
    a = max(math.ceil(math.sqrt(n)), LEAST_SIDE)
    return a, max((np.int64(n) + a - 1) // a, LEAST_SIDE)


def first_of(n: int, size: int, key: np.uint64) -> npt.NDArray[np.int32]:
    """Return `size` numbers below n, ascending, drawn by `key`; all sets are equally likely."""
    found: npt.NDArray[np.int32] = ascending(random_order(n, 0, min(size, n), key).astype(np.int32))
    return found


@njit(cache=True, nogil=True)
def random_order(n: int, first: int, last: int, key: Any) -> Any:
    """Return the numbers at places first..last - 1 of the random order that `key` determines."""
    found = np.empty(last - first, dtype=np.int64)
    for k in range(len(found)):
        found[k] = at_place(np.int64(first + k), n, key)
    return found
