"""Rows that the ranks of a group share: sums over them, and copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from plancc.plan.products import AllGather, AllReduce, ReduceScatter, Replicate, Step
from plancc_runtime.clock import Clock
from plancc_runtime.transport.base import Group


class SharedRows(NamedTuple):
    """What a step of a group works on.

    Attributes:
        rows: Rows of its members.
        place: Those of this rank among them.
        root: Place in the group of the one that has what is replicated.
        idle: Whether the step is left out: source and target are the same rows of one rank.
    """

    group: Group
    rows: list[int]
    place: slice = slice(0)
    root: int = 0
    idle: bool = False

    def run(self, step: Step, spaces: Mapping[str, Tensor], clock: Clock) -> None:
        """Do the step; copies are in one space, the target. Collective in the group."""
        source, target = spaces[step.source], spaces[step.target]
        if isinstance(step, AllGather):
            target[self.place] = source
        with clock("wait"):
            match step:
                case AllGather():
                    self.group.allgather(target.split(self.rows))
                case ReduceScatter():
                    self.group.reduce_scatter_sum(source.split(self.rows))
                case AllReduce():
                    self.group.allreduce_sum(target)
                case Replicate():
                    self.group.broadcast(target, self.root)
        if isinstance(step, ReduceScatter):
            target.copy_(source[self.place])
