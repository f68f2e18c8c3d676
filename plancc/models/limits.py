"""`Limits`: the weights that parts should share evenly, and the most that a part may weigh."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.models.capacities import Capacities, relative_capacities

SLACK = 0.01
"""How far the target is below the limit, relative to an even share."""
ROUNDING = 1e-12
"""Relative rounding error of shares that are not whole numbers."""


class Bounds(NamedTuple):
    """Limits of the parts' weights for c constraints, in the form that kernels of sweeps read.

    All arrays are float64.

    Attributes:
        target ([num_parts, c]): Weight up to which a part has no penalty.
        price ([num_parts, c]): Factor of the penalty ``price / 2 * (weight - target)**2``.
        cap ([num_parts, c]): No move may increase a part's weight above this number.
        scale ([num_parts]): Mean capacity / the part's capacity. Weights are multiplied by it
            before they are compared.
    """

    target: Any
    price: Any
    cap: Any
    scale: Any


@dataclass(frozen=True, eq=False)
class Limits:
    """The weights that parts should share evenly, and the most that every part may weigh.

    Every vertex has c weights, one for each constraint. The *even share* of a part is the total
    weight, divided by the number of parts and multiplied by the part's relative capacity.

    Attributes:
        weights (int64[n, c]): Weights of vertices or nonzeros; int64[n] becomes one column.
        epsilon (float64[c]): Allowed imbalance, max / mean - 1; a single number applies to all.
        capacities: Relative sizes of the parts; None: all equal.
        names: Names of the constraints.
        relative (float64[num_parts]): Capacities divided by their mean; all 1 if they are equal.
    """

    weights: npt.NDArray[np.int64]
    num_parts: int
    epsilon: Any
    capacities: Capacities = None
    names: tuple[str, ...] = ()
    relative: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        weights = self.weights if self.weights.ndim > 1 else self.weights[:, None]
        number, allowed = weights.shape[1], np.asarray(self.epsilon, np.float64)
        made = {
            "weights": weights,
            "epsilon": np.broadcast_to(allowed, number),
            "names": self.names or tuple(f"weight {k}" for k in range(1, number + 1)),
            "relative": relative_capacities(self.num_parts, self.capacities),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_nonzeros(
        cls, number: int, num_parts: int, epsilon: float, capacities: Capacities = None
    ) -> Limits:
        """Return limits for a partition of `number` nonzeros that weigh 1 each."""
        ones = np.broadcast_to(np.int64(1), number)  # takes no memory
        return cls(ones[:, None], num_parts, epsilon, capacities, ("nnz",))

    @property
    def vertex_weights(self) -> npt.NDArray[np.int64]:
        """The weights in the shape that a `Problem` has: int64[n], or int64[n, c] for c > 1."""
        several = len(self.names) > 1
        return self.weights if several else np.ascontiguousarray(self.weights[:, 0])

    @property
    def unequal(self) -> bool:
        """Whether the capacities of the parts differ."""
        return bool((self.relative != 1).any())

    @property
    def described(self) -> str:
        """Names and allowed imbalances of the constraints, for messages."""
        pairs = zip(self.names, self.epsilon, strict=True)
        return ", ".join(f"{name} {epsilon:g}" for name, epsilon in pairs)

    def apart(self) -> list[Limits]:
        """Return a list with the limits of each constraint alone."""
        return [
            replace(
                self, weights=self.weights[:, k : k + 1], epsilon=self.epsilon[k], names=(name,)
            )
            for k, name in enumerate(self.names)
        ]

    @cached_property
    def total(self) -> npt.NDArray[np.int64]:
        """Sum of all weights: int64[c]."""
        return np.asarray(self.weights.sum(axis=0))

    @cached_property
    def share(self) -> npt.NDArray[np.float64]:
        """Even share of every part, as the class defines it: float64[num_parts, c]."""
        return self.total / self.num_parts * self.relative[:, None]

    @cached_property
    def even(self) -> npt.NDArray[np.int64]:
        """Even share of every part (`share`), rounded up to whole numbers: int64[num_parts, c]."""
        if self.unequal:
            return np.ceil(self.share * (1 - ROUNDING)).astype(np.int64)
        return np.zeros(self.share.shape, np.int64) - (-self.total // self.num_parts)

    @cached_property
    def least(self) -> npt.NDArray[np.int64]:
        """Smallest useful limits of the parts' weights: int64[num_parts, c].

        No partition respects lower limits. With equal capacities, a limit is the lower bound that
        `least_maximum` returns. Otherwise it is the even share times `least_factor`, but at least
        the lightest weight, since no part is empty.
        """
        columns = self.weights.T
        if not self.unequal:
            most = [least_maximum(column, self.num_parts) for column in columns]
            return np.tile(np.array(most, np.int64), (self.num_parts, 1))
        shares = (self.share * (1 + ROUNDING)).T
        pairs = zip(columns, shares, strict=True)
        least = [np.floor(least_factor(each, self.relative) * of + 1e-9) for each, of in pairs]
        return np.maximum(np.array(least, np.int64).T, _lightest(self.weights))

    @property
    def least_imbalance(self) -> npt.NDArray[np.float64]:
        """Lower bound of the imbalance of any partition, float64[c]; 0 if all weights are 0."""
        total = np.maximum(self.total, 1)
        if not self.unequal:
            found = self.least[0] * self.num_parts / total
        else:
            none_empty = _lightest(self.weights) * self.num_parts / total / self.relative.min()
            factors = [least_factor(column, self.relative) for column in self.weights.T]
            found = np.maximum(factors, none_empty)
        return np.where(self.total > 0, found - 1, 0.0)

    @cached_property
    def allowed(self) -> npt.NDArray[np.float64]:
        """`even` of every part, times 1 + epsilon, rounded down: float64[num_parts, c]."""
        return np.asarray(np.floor((1 + self.epsilon) * self.even + 1e-9))

    @cached_property
    def limit(self) -> npt.NDArray[np.float64]:
        """Largest weight that every part may have: float64[num_parts, c].

        The larger of `allowed`, the weight that epsilon allows, and `least`, below which a limit
        admits no partition.
        """
        return np.maximum(self.allowed, self.least)

    @cached_property
    def target(self) -> npt.NDArray[np.float64]:
        """Weight above which sweeps add a penalty to a part: float64[num_parts, c]."""
        return np.asarray(self.allowed - SLACK * self.even)

    def bounds(self, price: npt.NDArray[np.float64], cap: Any = None, target: Any = None) -> Bounds:
        """Return the bounds for a sweep, with the attributes `price`, `cap` and `target`.

        Without `cap`, moves may increase a weight to any number. `target` is by default
        `Limits.target`.
        """
        cap = np.full(self.limit.shape, np.inf) if cap is None else cap
        return Bounds(self.target if target is None else target, price, cap, 1 / self.relative)

    def load(self, owner: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the weights of the parts, int64[num_parts, c]; `owner` is int32[n]."""
        return part_weights(owner, self.weights, self.num_parts)

    def overload(self, loads: npt.NDArray[np.int64]) -> float:
        """Return by how much the parts exceed their limits; 0 if none does.

        Each excess is divided by the part's even share of the weight, and the ratios are summed
        over parts and constraints. For c constraints, `loads` is int64[num_parts, c] or, if c is 1,
        int64[num_parts].
        """
        over = np.maximum(loads.reshape(self.limit.shape) - self.limit, 0)
        of_one = (over / self.relative[:, None]).sum(axis=0)
        return float((of_one / np.maximum(-(-self.total // self.num_parts), 1)).sum())

    def imbalance(self, loads: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return, for each constraint, max over the parts of (part's weight / even share) - 1.

        The result is float64[c]. It is 0 for a constraint whose weights are all 0.
        """
        loads = loads.reshape(self.share.shape)
        fullest = (loads / self.relative[:, None]).max(axis=0) * self.num_parts
        return np.where(self.total > 0, fullest / np.maximum(self.total, 1) - 1.0, 0.0)

    def reached(self, owner: npt.NDArray[np.int32]) -> list[float]:
        """Return the `imbalance` of every constraint for the partition `owner`, int32[n]."""
        return self.imbalance(self.load(owner)).tolist()


def part_weights(
    owner: npt.NDArray[np.int32], weights: npt.NDArray[np.int64], num_parts: int
) -> npt.NDArray[np.int64]:
    """Return the exact sum of the weights in every part: int64[num_parts] or [num_parts, c]."""
    sums = np.zeros((num_parts, *weights.shape[1:]), dtype=np.int64)
    for of_parts, of_vertices in zip(np.atleast_2d(sums.T), np.atleast_2d(weights.T), strict=True):
        np.add.at(of_parts, owner, of_vertices)
    return sums


def least_maximum(weights: npt.NDArray[np.int64], num_parts: int) -> int:
    """Return a lower bound for the weight of the heaviest part; 0 if all weights are 0.

    The bound is the largest of ``ceil(total / num_parts)``, the heaviest weight, and the sum of the
    two least of the ``num_parts + 1`` heaviest weights: two of these vertices must share a part.
    """
    heaviest, even = int(weights.max(initial=0)), -(-int(weights.sum()) // num_parts)
    if 2 * heaviest > even and len(weights) > num_parts:
        first = len(weights) - num_parts - 1
        light, next_heavier = np.partition(weights, [first, first + 1])[first : first + 2]
        heaviest = max(heaviest, int(light) + int(next_heavier))
    return max(heaviest, even)


def least_factor(weights: npt.NDArray[np.int64], relative: npt.NDArray[np.float64]) -> float:
    """Return a lower bound, at least 1, for the largest ratio of a part's weight to its even share.

    Let s_1 >= s_2 >= ... be even shares, and w_1 >= w_2 >= ... weights. Of the k heaviest vertices,
    two share a part, or one is in a part with even share at most s_k. So the bound is ``min(w_k /
    s_k, (w_{k-1} + w_k) / s_1)`` for the best k. If k exceeds the number of parts, only the second
    term applies.
    """
    total, num_parts = int(weights.sum()), len(relative)
    share = np.sort(total / num_parts * relative)[::-1]
    if 2 * int(weights.max(initial=0)) <= share[0]:
        return 1.0
    number = min(num_parts + 1, len(weights))
    heavy = np.sort(np.partition(weights, len(weights) - number)[-number:])[::-1].astype(float)
    apart, together = np.full(number, np.inf), np.full(number, np.inf)
    apart[:num_parts] = heavy[:num_parts] / share[:number]
    together[1:] = (heavy[:-1] + heavy[1:]) / share[0]
    return max(1.0, float(np.minimum(apart, together).max()))


def _lightest(weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the smallest weight of a vertex for every constraint, int64[c]; 0 without vertices."""
    return np.asarray(weights.min(axis=0) if len(weights) else np.zeros(weights.shape[1], np.int64))
