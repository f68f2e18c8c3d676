"""What a caller says of a partitioner: which one, and how it runs. Knows names, no library."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plancc.errors import InputError
from plancc.models.capacities import Capacities, check_capacities
from plancc.partitioners import PARTITIONERS
from plancc.registry import check_choice
from plancc.threads import check_threads

AUTO = "auto"


@dataclass(frozen=True)
class PartitionOptions:
    """How one partitioner runs.

    Attributes
    ----------
    partitioner : str
        A name in `PARTITIONERS`, or "auto": the installed one of the largest
        ``Adapter.auto_rank``; if it fails, builtin.
    preset : str, optional
        One of the partitioner's presets; None: its first.
    epsilon : float
        Allowed imbalance: a part weighs at most ``(1 + epsilon) * ceil(total / num_parts)``, by
        every constraint.
    seed : int
        0..2**31-1. With one thread the same seed gives the same bytes.
    threads : int
        For back ends that use threads; 1..1024.
    time_limit : float, optional
        Seconds that a native library may run; None: `plancc.partitioners.run.TIME_LIMIT`.
    capacities : sequence of float, optional
        One for every part, to which its even share of every constraint is in proportion; None: all
        parts alike.

    Raises
    ------
    InputError
        A name that is unknown, a number that is out of range.
    """

    partitioner: str = AUTO
    preset: str | None = None
    epsilon: float = 0.01
    seed: int = 1
    threads: int = 1
    time_limit: float | None = None
    capacities: Capacities = None

    def __post_init__(self) -> None:
        if self.partitioner != AUTO and self.partitioner not in PARTITIONERS:
            check_choice("partitioner", self.partitioner, [AUTO, *PARTITIONERS])
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon {self.epsilon}: a number that is at least 0 is needed")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"seed {self.seed}: must be in 0..{2**31 - 1}")
        check_threads(self.threads)
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"time limit {self.time_limit} s: must be above 0")
        if self.capacities is not None:
            object.__setattr__(self, "capacities", check_capacities(self.capacities))
