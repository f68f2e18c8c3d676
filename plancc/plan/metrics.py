"""The figures of a plan's load and communication, and their definitions.

All volumes are in rows of H; a row counts once per part that needs the row. Words are rows times
the width of H. The volume of an edge plan is the sum of its two steps: rows of the expand, and
partial rows of the fold.
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
        messages_sent, messages_received: Messages that the part sends and receives.
    """

    sent: Int64Array
    received: Int64Array
    messages_sent: Int64Array
    messages_received: Int64Array

    @classmethod
    def of(cls, exchange: Exchange) -> Self:
        """Count the rows and messages of an exchange."""
        send, receive = exchange.send, exchange.receive
        return cls(
            send.rows_per_part(),
            receive.rows_per_part(),
            send.messages_per_part(),
            receive.messages_per_part(),
        )

    def reversed(self) -> StepTraffic:
        """The traffic of the reversed exchange."""
        return StepTraffic(self.received, self.sent, self.messages_received, self.messages_sent)

    def times(self, width: int | Int64Array) -> StepTraffic:
        """Words and messages if rows have `width` columns: one number, or one number per part.

        A part with width 0 sends no message.
        """
        full = np.asarray(width) > 0
        sent, received, *messages = self
        return StepTraffic(sent * width, received * width, *(each * full for each in messages))


@dataclass(frozen=True)
class Traffic:
    """Load and communication of every part. All arrays are int64[num_parts].

    Attributes:
        rows, nonzeros: Rows and nonzeros that the part owns.
        sent, received: Rows that the part sends and receives in the expand and the fold of one
            product.
        messages_sent, messages_received: Messages that the part sends and receives; a peer counts
            once for each of the two steps.
        fold: The share of the fold in these figures; None if the plan has no fold.
        copies (int64[num_parts] or None): Number of vertices with an own row, a received row or a
            partial row in the part. None if the plan has no fold: the number is then `rows` plus
            `received`.
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
        """The traffic of a product with an expand and a fold."""
        both = zip(expand, fold, strict=True)
        total = StepTraffic(*(of_expand + of_fold for of_expand, of_fold in both))
        return cls(rows, nonzeros, *total, fold=fold, copies=copies)

    @property
    def halo(self) -> Int64Array:
        """Rows of H that the part receives."""
        return self.received if self.fold is None else self.received - self.fold.received


@dataclass(frozen=True)
class Metrics:
    """Figures of a whole plan.

    Attributes:
        volume: Rows moved by one product. In a row plan these are the rows of the expand, and their
            number is the connectivity-1 cut of the column-net hypergraph.
        average_volume: volume / num_parts: rows that a part sends (and receives) on average.
        max_sent, max_received, max_exchanged: The most rows that a part sends, receives, and sends
            and receives together.
        messages: Messages of all parts in the expand and the fold.
        average_messages: messages / num_parts.
        max_messages_sent, max_messages_received: The most messages that a part sends, and receives.
        nonzero_imbalance, row_imbalance: max / mean - 1 over the parts (0 is perfect).
        boundary_ratio, max_boundary_ratio: Halo rows per own row: over all parts, and at the part
            with the highest ratio (the ratio of boundary to inner nodes of Wan et al. 2022). A part
            without rows counts as 0.
        fold_volume, fold_messages: The share of the fold in `volume` and `messages`; 0 in a row
            plan.
        replication_factor: Number of parts that hold an own, received or partial row of a vertex,
            averaged over the vertices (Md et al. 2021, Table 4, which leaves out vertices without
            an edge).
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
        """Number of rows in `volume` that the expand sends."""
        return self.volume - self.fold_volume

    @property
    def expand_messages(self) -> int:
        """Number of messages in `messages` that belong to the expand."""
        return self.messages - self.fold_messages

    @property
    def max_volume(self) -> int:
        """The larger of `max_sent` and `max_received`."""
        return max(self.max_sent, self.max_received)

    def as_dict(self) -> dict[str, int | float]:
        """The figures that a plan file stores, by their names there."""
        return asdict(self)

    def figures(self) -> dict[str, int | float]:
        """Return all figures by name, also the derived figures, for tables and JSON."""
        derived = ("max_volume", "expand_volume", "expand_messages")
        return self.as_dict() | {name: getattr(self, name) for name in derived}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], prefix: str = "") -> Metrics | None:
        """The inverse of `as_dict`, for names with a prefix; None if a value is missing or no
        number.
        """
        found: dict[str, Any] = {f.name: values.get(prefix + f.name) for f in fields(cls)}
        return cls(**found) if all(isinstance(v, int | float) for v in found.values()) else None


def summarize(parts: Traffic) -> Metrics:
    """Compute the figures of a whole plan from the figures of its parts."""
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
    """max / mean - 1 of the parts' loads over their `relative` capacities; 0 if there is no
    load.
    """
    total = int(load.sum())
    return float((load / relative).max()) * len(load) / total - 1.0 if total else 0.0
