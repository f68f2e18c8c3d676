"""What every pass keeps to: the parts and their limits, the seed, the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plancc.cost.rates import EpochTime
from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline


@dataclass(frozen=True, eq=False)
class Context:
    """What a pass keeps to; how far it goes is said by its numbers (`plancc.passes.presets`).

    Attributes:
        limits: Of the vertices of the problem, or of nonzeros that have an owner each.
        seed: The same seed gives the same owners, unless the deadline passes.
        threads: The owners do not depend on it, unless the deadline passes.
        deadline: No sweep starts after it, except sweeps that restore the balance.
        time (EpochTime, for objective "time" only): Of the matrix.
        movable (bool[nnz], optional): Nonzeros that may be elsewhere than their rows; None: all.
        held (bool[n], optional): Rows of an edge partition that keep their owner; None: none.
    """

    limits: Limits
    seed: int = 1
    threads: int = 1
    deadline: Deadline = field(default_factory=Deadline)
    time: EpochTime | None = None
    movable: Any = None
    held: Any = None

    @property
    def num_parts(self) -> int:
        return self.limits.num_parts

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)
