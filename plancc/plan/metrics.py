"""The figures of a plan's load and communication, and their definitions.

A volume is a number of rows of H; in an edge plan, the rows of both expand and fold count. A row
counts once for every part that needs the row. Words are rows times the width of H.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from plancc.plan.exchange import Exchange, Int64Array


class StepTraffic(NamedTuple):
    """Rows and messages of every part in one exchange of a product, int64[num_parts] each."""

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
        """Return the traffic of the reversed exchange."""
        return StepTraffic(self.received, self.sent, self.messages_received, self.messages_sent)

    def times(self, width: int | Int64Array) -> StepTraffic:
        """Return the traffic in words if rows have `width` columns; width 0 means no message."""
        full = np.asarray(width) > 0
        sent, received, *messages = self
        return StepTraffic(sent * width, received * width, *(each * full for each in messages))


@dataclass(frozen=True)
class Traffic:
    """Load and communication of every part. All arrays are int64[num_parts].

    Attributes:
        rows, nonzeros: Owned rows and nonzeros.
        sent, received: Rows in the expand and the fold of one product.
        messages_sent, messages_received: Messages in both exchanges.
        fold: Traffic of the fold alone; None if there is no fold.
        copies: Number of vertices with an own row, a received row or a partial sum. None if there
            is no fold: the number is then `rows` + `received`.
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
        """Return the traffic of a product: the sum of its expand and its fold."""
        both = zip(expand, fold, strict=True)
        total = StepTraffic(*(of_expand + of_fold for of_expand, of_fold in both))
        return cls(rows, nonzeros, *total, fold=fold, copies=copies)

    @property
    def halo(self) -> Int64Array:
        """Number of halo rows of every part: the rows of H that it receives in the expand."""
        return self.received if self.fold is None else self.received - self.fold.received


@dataclass(frozen=True)
class Metrics:
    """Figures of a whole plan.

    Attributes:
        volume: Rows that one product sends. In a row plan this equals the connectivity-1 cut of the
            column-net hypergraph.
        average_volume: volume / num_parts: rows that a part sends (and receives) on average.
        max_sent, max_received, max_exchanged: Largest number of rows that one part sends, that one
            part receives, and that one part sends and receives in total.
        messages: Messages of all parts in the expand and the fold.
        average_messages: messages / num_parts.
        max_messages_sent, max_messages_received: Largest number of messages that a part sends, and
            that it receives.
        nonzero_imbalance, row_imbalance: max / mean - 1 over the parts (0 is perfect).
        boundary_ratio, max_boundary_ratio: Halo rows divided by own rows, for all parts together,
            and for the part with the highest ratio (Wan et al. 2022 call it the ratio of boundary
            to inner nodes). A part without rows counts as 0.
        fold_volume, fold_messages: Rows in `volume` and messages in `messages` that belong to the
            fold; 0 in a row plan.
        replication_factor: Number of parts that have an own row, a received row or a partial sum of
            a vertex; mean over all vertices. Md et al. 2021, Table 4, leaves out vertices without
            an edge.
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
        """Return the figures that a plan file stores, by the names of the fields."""
        return asdict(self)

    def figures(self) -> dict[str, int | float]:
        """Return all figures by name, for tables and JSON.

        These are the stored figures, `max_volume`, `expand_volume` and `expand_messages`.
        """
        derived = ("max_volume", "expand_volume", "expand_messages")
        return self.as_dict() | {name: getattr(self, name) for name in derived}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], prefix: str = "") -> Metrics | None:
        """Return the figures that `values` holds, the inverse of `as_dict`.

        Parameters:
            values: The figures by name, perhaps among other values.
            prefix: Prefix of the names in `values`.

        Returns:
            The figures; None if a figure is missing or is not a number.
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
    """Return max(load / relative) / mean(load) - 1; 0 if all loads are 0.

    `relative` has the capacities of the parts; their mean is 1.
    """
    total = int(load.sum())
    return float((load / relative).max()) * len(load) / total - 1.0 if total else 0.0
