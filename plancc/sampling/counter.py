"""Random numbers and random orders as functions of a key and a place, in numba.

Nothing is drawn one after the other, so any number can be had without those before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.kernel import njit
from plancc.sampling.kernels import ascending

ROUNDS = 8
"""Rounds of the Feistel network behind `at_place`."""
LEAST_SIDE = 16
"""Least side of the grid that the network works on: smaller ones give uneven orders."""

GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""Between the states of splitmix64 that follow each other."""
_MUL1 = np.uint64(0xBF58476D1CE4E5B9)
_MUL2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30 = np.uint64(11), np.uint64(27), np.uint64(30)
_S31, _S32 = np.uint64(31), np.uint64(32)


def key_of(*numbers: int) -> np.uint64:
    """One key from several numbers, in their order; those below 0 or above 2^64 - 1 are refused."""
    key = np.uint64(0)
    for number in numbers:
        if not 0 <= number < 2**64:
            raise InputError(f"seed {number}: must be in 0..2^64 - 1")
        key = np.uint64(bits(key, np.uint64(number)))
    return key


@njit(cache=True, nogil=True, plain=True)
def mix(x: Any) -> Any:
    """splitmix64 (Steele, Lea and Flood 2014): a bijection whose outputs pass for random bits."""
    z = np.uint64(x) + GAMMA
    z = (z ^ (z >> _S30)) * _MUL1
    z = (z ^ (z >> _S27)) * _MUL2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True)
def bits(key: Any, place: Any) -> Any:
    """64 random bits of `key` at `place`; they may be the key of further bits."""
    return mix(np.uint64(key) ^ mix(np.uint64(place)))


@njit(cache=True, nogil=True)
def below(random: Any, bound: Any) -> Any:
    """A number in 0..bound - 1 (bound up to 2^32) from 64 random bits, by their upper half."""
    return np.int64(((np.uint64(random) >> _S32) * np.uint64(bound)) >> _S32)


@njit(cache=True, nogil=True)
def unit(random: Any) -> Any:
    """A number in [0, 1) from 64 random bits, by the upper 53."""
    return np.float64(np.uint64(random) >> _S11) * 2.0**-53


@njit(cache=True, nogil=True)
def _share(key: Any, round_: int, half: Any, bound: Any) -> Any:
    return below(mix(np.uint64(key) + np.uint64(round_) * _MUL1 ^ np.uint64(half) * _MUL2), bound)


@njit(cache=True, nogil=True)
def at_place(x: Any, n: Any, key: Any) -> Any:
    """Which of 0..n - 1 has place x in the random order of all of them that `key` stands for.

    The inverse of a Feistel network on the smallest grid a x b >= n (Black and Rogaway 2002,
    generalised to sums modulo a and b); places beyond n - 1 are walked through. Orders are as good
    as random for samples, not for secrets.
    """
    a, b = _grid(n)
    while True:
        # Undo the rounds of the network in reverse order: two halves, each by the other's hash.
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
    """The first `size` of 0..n - 1 in the random order of `key`, ascending: int32[min(size, n)].

    Every set of that size is as likely as any other.
    """
    found: npt.NDArray[np.int32] = ascending(in_order(n, 0, min(size, n), key).astype(np.int32))
    return found


@njit(cache=True, nogil=True)
def in_order(n: int, first: int, last: int, key: Any) -> Any:
    """Numbers at places first..last - 1 in the random order of 0..n - 1 of `key`: int64[...]."""
    found = np.empty(last - first, dtype=np.int64)
    for k in range(len(found)):
        found[k] = at_place(np.int64(first + k), n, key)
    return found
