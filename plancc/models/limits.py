"""How heavy parts may be. Knows weights, no partition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.models.capacities import Capacities, relative_capacities
from plancc.models.weights import least_maximum

Epsilon = float | tuple[float, ...]
"""Allowed imbalance of all constraints, or of one after the other."""
SLACK = 0.01
"""Distance of the target below the limit, over an even share."""
ROUNDING = 1e-12
"""Relative error of shares that are no whole numbers."""


@dataclass(frozen=True, eq=False)
class Limits:
    """How heavy the parts of a partition may be.

    Numbers of parts are [num_parts] for one weight per vertex, and [num_parts, c] for several
    constraints; numbers of all parts together are scalars, or [c].

    Attributes
    ----------
    total : int64
        Sum of all weights.
    least : int64, of parts
        What the heaviest part of any partition weighs at least, where all parts are alike. Else
        what this part may have to weigh: some part is as heavy in every partition.
    epsilon : float64
        Allowed imbalance.
    relative : float64[num_parts]
        Capacities over their mean; 1 where all parts are alike.
    share : float64, of parts
        Even share of the total.
    even : int64, of parts
        `share`, rounded up.
    allowed : float64, of parts
        ``(1 + epsilon) * even``, rounded down, since weights are whole numbers.
    limit : float64, of parts
        `allowed`, or `least` if that is more: no part should be heavier.
    target : float64, of parts
        Passes price the weight of a part above it.
    """

    total: Any
    least: Any
    epsilon: Any
    relative: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        weights: npt.NDArray[np.int64],
        num_parts: int,
        epsilon: Epsilon | npt.NDArray[np.float64],
        capacities: Capacities = None,
    ) -> Limits:
        """Limits for the weights int64[n] or int64[n, c] of all vertices."""
        relative = relative_capacities(num_parts, capacities)
        least = [least_weights(column, relative) for column in np.atleast_2d(weights.T)]
        allowed = np.asarray(epsilon, dtype=np.float64)
        if allowed.size == 1:
            allowed = allowed.reshape(())
        shape = (num_parts, *weights.shape[1:])
        of_parts = np.ascontiguousarray(np.transpose(least)).reshape(shape)
        return cls(weights.sum(axis=0), of_parts, allowed, relative)

    @classmethod
    def of_nonzeros(
        cls, num_nonzeros: int, num_parts: int, epsilon: float, capacities: Capacities = None
    ) -> Limits:
        """Limits for nonzeros that have an owner each: every one weighs 1."""
        relative = relative_capacities(num_parts, capacities)
        found = cls(np.int64(num_nonzeros), 0, np.float64(epsilon), relative)
        return cls(found.total, found.even, found.epsilon, relative)

    @property
    def num_parts(self) -> int:
        return len(self.relative)

    @property
    def _relative(self) -> npt.NDArray[np.float64]:
        """`relative`, in the shape of numbers of parts."""
        return self.relative if np.ndim(self.total) == 0 else self.relative[:, None]

    @cached_property
    def share(self) -> Any:
        return self.total / self.num_parts * self._relative

    @cached_property
    def even(self) -> Any:
        if (self.relative == 1).all():
            return np.zeros(self.share.shape, np.int64) - (-self.total // self.num_parts)
        return np.ceil(self.share * (1 - ROUNDING)).astype(np.int64)

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
        """Weight of all parts above the limit, each over its even share, added up.

        `loads`: weights of the parts, int64[num_parts] or int64[num_parts, c].
        """
        over = (np.maximum(loads - self.limit, 0) / self._relative).sum(axis=0)
        return float((over / np.maximum(-(-self.total // self.num_parts), 1)).sum())

    def imbalance(self, loads: npt.NDArray[np.int64]) -> Any:
        """Largest of the parts' weights over their even shares, less 1: float64, or float64[c].

        0 where there is no weight at all. `loads` as of `overload`.
        """
        fullest = (loads / self._relative).max(axis=0) * self.num_parts
        return np.where(self.total > 0, fullest / np.maximum(self.total, 1) - 1.0, 0.0)


def least_weights(
    weights: npt.NDArray[np.int64], relative: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """What parts must be allowed to weigh, int64[num_parts]: no partition is below all of it.

    Where all parts are alike, `least_maximum` for each. Else the even share times `least_factor`,
    and the lightest vertex, since no part is empty.

    Parameters
    ----------
    weights : int64[n], not negative
    relative : float64[num_parts]
        Capacities over their mean.
    """
    num_parts = len(relative)
    if (relative == 1).all():
        return np.full(num_parts, least_maximum(weights, num_parts))
    share = int(weights.sum()) / num_parts * relative * (1 + ROUNDING)
    least = np.floor(least_factor(weights, relative) * share + 1e-9).astype(np.int64)
    return np.maximum(least, weights.min() if len(weights) else 0)


def least_factor(weights: npt.NDArray[np.int64], relative: npt.NDArray[np.float64]) -> float:
    """How many times its even share some part weighs at least, in every partition.

    With the even shares s_1 >= s_2 >= ... and the weights w_1 >= w_2 >= ...: of the k heaviest
    vertices two share a part, which is no larger than s_1, or they are in k parts, one of which is
    no larger than s_k. So some part weighs ``min(w_k / s_k, (w_{k-1} + w_k) / s_1)`` times its
    share at least, where the first is left out for more vertices than parts; and 1, of course.

    Parameters
    ----------
    weights : int64[n], not negative
    relative : float64[num_parts]
        Capacities over their mean.
    """
    total, num_parts = int(weights.sum()), len(relative)
    if total == 0:
        return 1.0
    share = np.sort(total / num_parts * relative)[::-1]
    number = min(num_parts + 1, len(weights))
    heavy = np.sort(np.partition(weights, len(weights) - number)[-number:])[::-1].astype(float)
    apart, together = np.full(number, np.inf), np.full(number, np.inf)
    apart[:num_parts] = heavy[:num_parts] / share[:number]
    together[1:] = (heavy[:-1] + heavy[1:]) / share[0]
    return max(1.0, float(np.minimum(apart, together).max()))


def imbalance_bound(
    weights: npt.NDArray[np.int64], num_parts: int, capacities: Capacities = None
) -> float:
    """The imbalance, largest weight of a part over its even share - 1, that no partition is below.

    0 when the total is 0.

    Parameters
    ----------
    weights : int64[n], not negative
        Of one constraint.
    num_parts : int
    capacities : tuple of float, optional
    """
    total, relative = int(weights.sum()), relative_capacities(num_parts, capacities)
    if total == 0:
        return 0.0
    if (relative == 1).all():
        return least_maximum(weights, num_parts) * num_parts / total - 1
    none_empty = float(weights.min() * num_parts / total / relative.min())
    return max(least_factor(weights, relative), none_empty) - 1
