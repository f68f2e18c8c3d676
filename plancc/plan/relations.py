"""Traffic of each relation and of each vertex type, in a plan with types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.types import Relation
from plancc.plan.exchange import Side
from plancc.plan.matrix import relations_of
from plancc.plan.metrics import StepTraffic
from plancc.plan.plan import Plan


@dataclass(frozen=True)
class RelationTraffic:
    """A relation, and the traffic of a product with the nonzeros of this relation alone.

    Attributes:
        steps: Traffic of "expand" and, in an edge plan, "fold". Rows that travel in hops count as
            if they were sent directly.
    """

    relation: Relation
    nonzeros: int
    steps: dict[str, StepTraffic]

    @property
    def volume(self) -> int:
        """Number of rows that the product sends."""
        return sum(int(step.sent.sum()) for step in self.steps.values())

    @property
    def messages(self) -> int:
        """Number of messages of the product, in the expand and the fold."""
        return sum(int(step.messages_sent.sum()) for step in self.steps.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the names and the figures of the relation, ready for JSON."""
        figures = {"nonzeros": self.nonzeros, "volume": self.volume, "messages": self.messages}
        return dict(zip(("source", "name", "destination"), self.relation, strict=True)) | figures


@dataclass(frozen=True)
class TypeTraffic:
    """A vertex type, and the traffic of its rows in a product with all relations.

    Attributes:
        vertices: Number of vertices of the type.
        row_imbalance: max / mean - 1 of the parts' rows of the type.
        volume: Number of rows and partial sums of the type that are sent. A row counts once per
            part, however many relations use it.
    """

    name: str
    vertices: int
    row_imbalance: float
    volume: int


def relation_traffic(plan: Plan) -> list[RelationTraffic]:
    """Return nonzeros and traffic of every relation in a plan with types."""
    types, parts = plan.header.types, plan.all_parts
    assert types is not None
    of = relations_of(plan)
    part = parts.part_of_nonzero()
    rows = np.diff(plan.part_ptr)[part]
    received = plan.column >= rows
    at = np.zeros(len(of), np.int64)
    at[received] = parts.halo_ptr()[part[received]] + (plan.column - rows)[received]
    local_row = np.repeat(np.arange(len(plan.row_ptr) - 1), np.diff(plan.row_ptr))
    folded = ~parts.is_own_row()[local_row] if plan.fold is not None else None
    found = []
    for k, relation in enumerate(types.relations):
        is_of = of == k
        steps = {"expand": _step(plan.receive, at[is_of & received], plan.num_parts)}
        if plan.fold is not None and folded is not None:
            number = np.cumsum(~parts.is_own_row()) - 1
            used = number[local_row[is_of & folded]]
            steps["fold"] = _step(plan.fold.send, used, plan.num_parts).reversed()
        found.append(RelationTraffic(relation, int(is_of.sum()), steps))
    return found


def type_traffic(plan: Plan) -> list[TypeTraffic]:
    """Return vertices and traffic of every vertex type in a plan with types."""
    types = plan.header.types
    assert types is not None
    owner, parts = plan.owner(), plan.all_parts
    moved = plan.global_id[np.concatenate([parts.place_of_halo(), parts.place_of_folded()])]
    found = []
    for name, count in types.counts.items():
        at = types.vertices(name)
        most = np.bincount(owner[at], minlength=plan.num_parts).max()
        volume = int(((moved >= at.start) & (moved < at.stop)).sum())
        found.append(TypeTraffic(name, count, float(most * plan.num_parts / count - 1), volume))
    return found


def _step(side: Side, used: npt.NDArray[np.int64], num_parts: int) -> StepTraffic:
    """Return the traffic of an exchange in which only rows ``side.row[used]`` are sent.

    `side` is the receiving side; `used` may repeat indices.
    """
    rows = np.unique(used)
    to, start = side.part_of_row()[rows], side.peer_of_row()[rows].astype(np.int64)
    pairs = np.unique(to * num_parts + start)
    counted = start, to, pairs % num_parts, pairs // num_parts
    return StepTraffic(*(np.bincount(each, minlength=num_parts) for each in counted))
