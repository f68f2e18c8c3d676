"""Time of an epoch for a search: predictions for owners, and rates that estimate single moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from plancc.graph.owners import Owners


class EpochRates(NamedTuple):
    """Seconds that each unit adds to an epoch, so that a search can estimate the gain of a move.

    Attributes:
        message: Seconds per message of one expand.
        row: Seconds per row of one expand.
        nonzero: Seconds per nonzero of the part.
        own_row: Seconds per row that the part owns.
    """

    message: float
    row: float
    nonzero: float
    own_row: float


class LinkRates(NamedTuple):
    """Seconds that an epoch's messages take inside nodes and between nodes, for a kernel.

    Attributes:
        node (int64[num_parts]): Node of every rank, ascending.
        message_inside, message_between: Seconds of one message, in all exchanges of an epoch.
        row_inside, row_between: Seconds of one row at a rank.
        row_of_node: Seconds of one row that leaves or enters a node.
        row_copied: Seconds of copying a row that an owner sends, or of adding a row that the owner
            receives, forward and backward: in the expand, in the fold.
        slow (float64[num_parts]): Factor on `row_copied` for every rank; higher is slower.
    """

    node: Any
    message_inside: float
    message_between: float
    row_inside: float
    row_between: float
    row_of_node: float
    row_copied: tuple[float, float]
    slow: Any


@dataclass(frozen=True)
class EpochTime:
    """The predicted epoch of one matrix as a function of owners.

    Attributes:
        seconds: ``seconds(owners)`` returns the predicted seconds of an epoch. A search accepts and
            reports owners by this number.
        rates: Rates that estimate the gain of a move.
    """

    seconds: Callable[[Owners], float]
    rates: EpochRates
