"""The cost of a plan, one definition per figure.

All volumes are in rows of H (a row travels once per part that needs it); words are rows times the
width of H. The volume of an edge plan is the sum of its two steps: rows that are expanded, and
partial rows that are folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from plancc.plan.exchange import Exchange, Int64Array


class StepTraffic(NamedTuple):
    """Rows and messages of every part in one step of a product, int64[num_parts] each.

    Attributes:
        sent, received: Rows that the part sends and receives.
        messages_sent, messages_received: Parts that it sends to and receives from.
    """

    sent: Int64Array
    received: Int64Array
    messages_sent: Int64Array
    messages_received: Int64Array

    @classmethod
    def of(cls, exchange: Exchange) -> Self:
        """Count the tables of a step."""
        send, receive = exchange.send, exchange.receive
        return cls(
            send.rows_per_part(),
            receive.rows_per_part(),
            send.messages_per_part(),
            receive.messages_per_part(),
        )

    def reversed(self) -> StepTraffic:
        """The traffic of the messages back."""
        return StepTraffic(self.received, self.sent, self.messages_received, self.messages_sent)

    def times(self, width: int | Int64Array) -> StepTraffic:
        """Words and messages of rows of this width (of every part); none without a column."""
        full = np.asarray(width) > 0
        sent, received, *messages = self
        return StepTraffic(sent * width, received * width, *(each * full for each in messages))


@dataclass(frozen=True)
class Traffic:
    """Load and communication of every part. All arrays are int64[num_parts].

    Attributes:
        rows, nonzeros: Rows and nonzeros that the part owns.
        sent, received: Rows that it sends and receives in one product: by expand and fold.
        messages_sent, messages_received: Messages that it sends and receives; a peer counts once
            for each of the two steps.
        fold: The share of the fold in all these; None: there is no fold.
        copies (int64[num_parts] or None): Vertices that the part holds an own, a received or a
            partial row of; None: there is no fold, and these are the own and the received ones.
    """

    rows: Int64Array
    nonzeros: Int64Array
    sent: Int64Array
    received: Int64Array
    messages_sent: Int64Array
    messages_received: Int64Array
    fold: StepTraffic | None = None
    copies: Int64Array | None = None

    @classmethod
    def of_steps(
        cls,
        rows: Int64Array,
        nonzeros: Int64Array,
        expand: StepTraffic,
        fold: StepTraffic,
        copies: Int64Array,
    ) -> Traffic:
        """The traffic of a product with both steps."""
        both = zip(expand, fold, strict=True)
        total = StepTraffic(*(of_expand + of_fold for of_expand, of_fold in both))
        return cls(rows, nonzeros, *total, fold=fold, copies=copies)

    @property
    def step(self) -> StepTraffic:
        """Rows and messages of both steps together."""
        return StepTraffic(self.sent, self.received, self.messages_sent, self.messages_received)

    @property
    def halo(self) -> Int64Array:
        """Rows of H that the part receives."""
        return self.received if self.fold is None else self.received - self.fold.received


@dataclass(frozen=True)
class Metrics:
    """Figures of a whole plan.

    Attributes:
        volume: Rows moved by one product. In a row plan that is the expand: the connectivity-1 cut
            of the column-net hypergraph.
        average_volume: volume / num_parts: rows that a part sends (and receives) on average.
        max_sent, max_received, max_exchanged: Rows sent, received, and sent plus received, at the
            busiest part for each.
        messages: Ordered pairs of parts that talk, in each of the two steps.
        average_messages: messages / num_parts.
        max_messages_sent, max_messages_received: Messages of the part that sends (receives) most.
        nonzero_imbalance, row_imbalance: max / mean - 1 over the parts (0 is perfect).
        boundary_ratio, max_boundary_ratio: Halo rows per own row: over all parts, and at the worst
            part (Wan et al. 2022's ratio of boundary to inner nodes); a part without rows counts as
            0.
        fold_volume, fold_messages: The share of the fold in `volume` and `messages`; 0 in a row
            plan.
        replication_factor: Parts that hold a row of a vertex (its own, received, or partial), on
            average over the vertices (Md et al. 2021, Table 4, where vertices without an edge do
            not count).
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
    fold_volume: int
    fold_messages: int
    replication_factor: float

    @property
    def expand_volume(self) -> int:
        """The share of the expand in `volume`."""
        return self.volume - self.fold_volume

    @property
    def expand_messages(self) -> int:
        """The share of the expand in `messages`."""
        return self.messages - self.fold_messages

    @property
    def max_volume(self) -> int:
        """Rows sent or received, whichever is more, at the busiest part."""
        return max(self.max_sent, self.max_received)

    def as_dict(self) -> dict[str, int | float]:
        """The figures that a plan file stores, by their names there."""
        return asdict(self)

    def figures(self) -> dict[str, int | float]:
        """Return all figures by name, derived ones too: for tables and JSON."""
        derived = ("max_volume", "expand_volume", "expand_messages")
        return self.as_dict() | {name: getattr(self, name) for name in derived}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], prefix: str = "") -> Metrics | None:
        """The inverse of `as_dict` with `prefix` before every name; None if one is no number."""
        found: dict[str, Any] = {f.name: values.get(prefix + f.name) for f in fields(cls)}
        return cls(**found) if all(isinstance(v, int | float) for v in found.values()) else None


def summarize(parts: Traffic) -> Metrics:
    """Figures of a whole plan from figures of its parts."""
    volume, messages = int(parts.sent.sum()), int(parts.messages_sent.sum())
    num_parts, num_rows = len(parts.rows), max(1, int(parts.rows.sum()))
    fold = parts.fold
    copies = parts.rows + parts.received if parts.copies is None else parts.copies
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
        boundary_ratio=int(parts.halo.sum()) / num_rows,
        max_boundary_ratio=float((parts.halo * (parts.rows > 0) / np.maximum(1, parts.rows)).max()),
        fold_volume=0 if fold is None else int(fold.sent.sum()),
        fold_messages=0 if fold is None else int(fold.messages_sent.sum()),
        replication_factor=int(copies.sum()) / num_rows,
    )


def imbalance(load: Int64Array, relative: float | npt.NDArray[np.float64] = 1.0) -> float:
    """max / mean - 1 of a load per part, over `relative` capacities; 0 when there is no load."""
    total = int(load.sum())
    return float((load / relative).max()) * len(load) / total - 1.0 if total else 0.0
