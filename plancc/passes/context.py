"""`Context`: the parameters that all passes share, such as limits, seed and deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plancc.cost.rates import EpochTime
from plancc.models.limits import Limits
from plancc.passes.deadline import Deadline


@dataclass(frozen=True, eq=False)
class Context:
    """Parameters that every pass takes. `plancc.passes.presets` has tuned parameters of each pass.

    Attributes:
        limits: Limits of the parts. In a row plan they limit weights of vertices; in an edge plan
            they limit numbers of nonzeros.
        seed: Seed of random choices. If the deadline does not pass, the same seed gives the same
            owners.
        threads: Number of threads. If the deadline does not pass, the owners do not depend on it.
        deadline: No sweep starts after the deadline, except sweeps that restore the balance.
        time: Predicts the time of an epoch, for the objective "time"; None for other objectives.
        movable (bool[nnz], optional): For every nonzero, whether it may have another owner than
            its row. None: all nonzeros may.
        held (bool[n], optional): For every row of an edge plan, whether the row must keep its
            owner. None: all rows may change their owners.
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
