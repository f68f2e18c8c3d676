"""Random splits of vertices, which are the same for any number of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from plancc.sampling.counter import mix


def random_split(
    vertex: npt.NDArray[np.integer], shares: Sequence[float], seed: int
) -> list[npt.NDArray[np.bool_]]:
    """Divide vertices at random; return a mask for each share, bool[len(vertex)].

    Masks do not overlap; a vertex's mask depends only on its number, `seed` and `shares`.
    """
    key = mix.in_python(mix.in_python(np.uint64(seed)) + np.uint64(1))
    drawn = mix.in_python(vertex.astype(np.uint64) + key) * 2.0**-64
    bounds = np.concatenate([[0.0], np.cumsum(shares)])
    bounds[-1] = 1.0 if math.isclose(bounds[-1], 1.0) else bounds[-1]
    return [(drawn >= low) & (drawn < high) for low, high in pairwise(bounds.tolist())]
