"""How heavy parts may be. Knows weights, no partition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.models.weights import least_maximum

Epsilon = float | tuple[float, ...]
"""Allowed imbalance of all constraints, or of one after the other."""

SLACK = 0.01
"""Distance of the target below the limit, over an even share."""


@dataclass(frozen=True, eq=False)
class Limits:
    """How heavy the parts of a partition may be.

    Every number is a scalar for one weight per vertex, and an array over the constraints for
    several.

    Attributes
    ----------
    total : int64
        Sum of all weights.
    least : int64
        What the heaviest part of any partition weighs at least.
    num_parts : int
    epsilon : float64
        Allowed imbalance.
    even : int64
        ``ceil(total / num_parts)``.
    allowed : float64
        ``(1 + epsilon) * even``, rounded down, since weights are whole numbers.
    limit : float64
        `allowed`, or `least` if that is more: no part should be heavier.
    target : float64
        Passes price the weight of a part above it.
    """

    total: Any
    least: Any
    num_parts: int
    epsilon: Any

    @classmethod
    def of(
        cls,
        weights: npt.NDArray[np.int64],
        num_parts: int,
        epsilon: Epsilon | npt.NDArray[np.float64],
    ) -> Limits:
        """Limits for the weights int64[n] or int64[n, c] of all vertices."""
        total = weights.sum(axis=0)
        least = [least_maximum(column, num_parts) for column in np.atleast_2d(weights.T)]
        allowed = np.asarray(epsilon, dtype=np.float64)
        if allowed.size == 1:
            allowed = allowed.reshape(())
        return cls(total, np.reshape(least, total.shape), num_parts, allowed)

    @classmethod
    def of_nonzeros(cls, num_nonzeros: int, num_parts: int, epsilon: float) -> Limits:
        """Limits for nonzeros that have an owner each: every one weighs 1."""
        return cls(num_nonzeros, -(-num_nonzeros // num_parts), num_parts, epsilon)

    @cached_property
    def even(self) -> Any:
        return -(-self.total // self.num_parts)

    @cached_property
    def allowed(self) -> Any:
        return np.floor((1 + self.epsilon) * self.even + 1e-9)

    @cached_property
    def limit(self) -> Any:
        return np.maximum(self.allowed, self.least)

    @cached_property
    def target(self) -> Any:
        return self.allowed - SLACK * self.even

    def overload(self, loads: npt.NDArray[np.int64]) -> float:
        """Weight of all parts above the limit, each constraint over its even share, added up.

        `loads`: weights of the parts, int64[num_parts] or int64[num_parts, c].
        """
        over = np.maximum(loads - self.limit, 0).sum(axis=0)
        return float((over / np.maximum(self.even, 1)).sum())
