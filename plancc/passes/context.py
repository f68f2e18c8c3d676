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
    """Parameters that every pass takes.

    Attributes:
        limits: Limits of vertex weights in a row plan, of nonzeros in an edge plan.
        seed: Seed of random choices; it decides the owners unless the deadline passes.
        threads: Number of threads; the owners depend on it only if the deadline passes.
        deadline: No sweep starts after the deadline, except sweeps that restore the balance.
        time: Predicts the time of an epoch, for the objective "time"; None for other objectives.
        movable (bool[nnz], optional): Whether a nonzero may leave its row's owner; None: all may.
        held (bool[n], optional): Whether a row of an edge plan keeps its owner; None: no row must.
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
