"""What every pass keeps to: the parts and their limits, the seed, the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plancc.cost.rates import EpochTime
from plancc.models.capacities import Capacities
from plancc.models.limits import Epsilon, Limits
from plancc.passes.deadline import Deadline


@dataclass(frozen=True, eq=False)
class Context:
    """What a pass keeps to; how far it goes is said by its numbers (`plancc.passes.presets`).

    Attributes
    ----------
    num_parts : int
    epsilon : float or tuple of float
        Allowed imbalance of every constraint, or of one after the other.
    capacities : tuple of float, optional
        To which the even shares of the parts are in proportion; None: all alike.
    seed : int
        The same seed gives the same owners, unless the deadline passes.
    threads : int
        The owners do not depend on it, unless the deadline passes.
    deadline : Deadline
        No sweep starts after it, but for those that restore the balance.
    time : EpochTime, for objective "time" only
        Of the matrix.
    movable : bool[nnz], optional
        Nonzeros that may be elsewhere than their rows; None: all.
    """

    num_parts: int
    epsilon: Epsilon = 0.01
    capacities: Capacities = None
    seed: int = 1
    threads: int = 1
    deadline: Deadline = field(default_factory=Deadline)
    time: EpochTime | None = None
    movable: Any = None

    def limits(self, weights: Any) -> Limits:
        """Limits of vertices that weigh int64[n] or int64[n, num_constraints]."""
        return Limits.of(weights, self.num_parts, self.epsilon, self.capacities)

    def limits_of_nonzeros(self, number: int) -> Limits:
        """Limits of `number` nonzeros, each with an owner."""
        assert not isinstance(self.epsilon, tuple)
        return Limits.of_nonzeros(number, self.num_parts, self.epsilon, self.capacities)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)
