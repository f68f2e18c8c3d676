"""Random bits of `plancc.sampling.counter`, computed by torch on any device.

int64 products wrap around as uint64 products do. A right shift of int64 copies the sign bit;
`_shifted` clears these copies.
"""

from __future__ import annotations

import torch
from torch import Tensor

AT_ONCE = 1 << 24
"""Largest number of random numbers of a mask that are drawn at once. Each takes 64 bits."""


def signed(number: int) -> int:
    """Return the int64 that has the same bits as a uint64."""
    return number - 2**64 if number >= 2**63 else number


def mixed(z: Tensor) -> Tensor:
    """Return `plancc.sampling.counter.mix` of every number: int64[...]."""
    z = z + signed(0x9E3779B97F4A7C15)
    z = (z ^ _shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


def halves(bits: Tensor) -> Tensor:
    """Split int64[m, n] into halves of 32 bits: low in columns 2 k, high in columns 2 k + 1."""
    return torch.stack([bits & (2**32 - 1), _shifted(bits, 32)], dim=2).flatten(1)


def _shifted(z: Tensor, by: int) -> Tensor:
    return (z >> by) & (2 ** (64 - by) - 1)
