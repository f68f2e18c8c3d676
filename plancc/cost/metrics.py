"""What a plan costs, one definition per figure; used by inspect, refinement and benchmarks alike.

Knows plans; no machine, no files. All volumes are in rows of H (a row travels
once per part that needs it); words are rows times the width of H.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.plan.plan import Int64Array

if TYPE_CHECKING:
    from plancc.plan.plan import Plan


@dataclass(frozen=True)
class Traffic:
    """Load and communication of every part. All arrays are int64[num_parts].

    Attributes
    ----------
    rows, nonzeros
        Rows and nonzeros that the part owns.
    sent, received
        Rows that it sends and receives in one expand (`received` is its halo).
    messages_sent, messages_received
        Parts that it sends to and receives from.
    """

    rows: Int64Array
    nonzeros: Int64Array
    sent: Int64Array
    received: Int64Array
    messages_sent: Int64Array
    messages_received: Int64Array


@dataclass(frozen=True)
class Metrics:
    """Figures of a whole plan.

    Attributes
    ----------
    volume
        Rows moved by one expand: the connectivity-1 cut of the column-net hypergraph.
    average_volume
        volume / num_parts: rows that a part sends (and receives) on average.
    max_sent, max_received, max_exchanged
        Rows sent, received, and sent plus received, at the busiest part for each.
    messages
        Ordered pairs of parts that talk.
    average_messages
        messages / num_parts.
    max_messages_sent, max_messages_received
        Messages of the part that sends (receives) most.
    nonzero_imbalance, row_imbalance
        max / mean - 1 over the parts (0 is perfect).
    boundary_ratio, max_boundary_ratio
        Halo rows per own row: over all parts, and at the worst part (paper 003's ratio of
        boundary to inner nodes); a part without rows counts as 0.
    """

    volume: int
    average_volume: float
    max_sent: int
    max_received: int
    max_exchanged: int
    messages: int
    average_messages: float
    max_messages_sent: int
    max_messages_received: int
    nonzero_imbalance: float
    row_imbalance: float
    boundary_ratio: float
    max_boundary_ratio: float

    @property
    def max_volume(self) -> int:
        """Rows sent or received, whichever is more, at the busiest part."""
        return max(self.max_sent, self.max_received)

    def as_dict(self) -> dict[str, int | float]:
        """The figures that a plan file stores, by their names there."""
        return asdict(self)

    def figures(self) -> dict[str, int | float]:
        """All figures by name, also those that follow from the stored ones: for tables and JSON."""
        return self.as_dict() | {"max_volume": self.max_volume}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], prefix: str = "") -> Metrics | None:
        """The inverse of `as_dict` with `prefix` before every name; None if one is no number."""
        found: dict[str, Any] = {f.name: values.get(prefix + f.name) for f in fields(cls)}
        return cls(**found) if all(isinstance(v, int | float) for v in found.values()) else None


def traffic(plan: Plan) -> Traffic:
    """Load and communication of every part of a plan, read off its tables."""
    return Traffic(
        rows=np.diff(plan.part_ptr),
        nonzeros=np.diff(plan.row_ptr[plan.part_ptr]),
        sent=plan.send.rows_per_part(),
        received=plan.receive.rows_per_part(),
        messages_sent=plan.send.messages_per_part(),
        messages_received=plan.receive.messages_per_part(),
    )


def summarize(parts: Traffic) -> Metrics:
    """Figures of a whole plan from those of its parts."""
    volume, messages = int(parts.sent.sum()), int(parts.messages_sent.sum())
    num_parts = len(parts.rows)
    return Metrics(
        volume=volume,
        average_volume=volume / num_parts,
        max_sent=int(parts.sent.max()),
        max_received=int(parts.received.max()),
        max_exchanged=int((parts.sent + parts.received).max()),
        messages=messages,
        average_messages=messages / num_parts,
        max_messages_sent=int(parts.messages_sent.max()),
        max_messages_received=int(parts.messages_received.max()),
        nonzero_imbalance=imbalance(parts.nonzeros),
        row_imbalance=imbalance(parts.rows),
        boundary_ratio=volume / max(1, int(parts.rows.sum())),
        max_boundary_ratio=float((parts.received / np.maximum(1, parts.rows)).max()),
    )


def imbalance(load: Int64Array) -> float:
    """max / mean - 1 of a load per part; 0 when there is no load at all."""
    total = int(load.sum())
    return float(load.max()) * len(load) / total - 1.0 if total else 0.0
