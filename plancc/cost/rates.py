"""Predicted time of an epoch for a search: for given owners, and for single moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from plancc.graph.owners import Owners


class EpochRates(NamedTuple):
    """Seconds that one unit of work adds to an epoch. A search uses them to estimate moves.

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
    """Seconds that an epoch's messages take inside nodes and between nodes; read by kernels.

    Attributes:
        node (int64[num_parts]): Node of every rank, ascending.
        message_inside, message_between: Seconds that one message takes inside a node, and between
            nodes, summed over all exchanges of an epoch.
        row_inside, row_between: Seconds per row that a rank sends or receives, whichever is more.
        row_of_node: Seconds of one row that leaves or enters a node.
        row_copied: Two numbers, for the expand and for the fold: seconds in which the owner copies
            a row that it sends, or adds a row that it receives, in the forward and backward pass
            together.
        slow (float64[num_parts]): For every rank, a factor on `row_copied`; higher is slower.
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
    """A prediction of the time of an epoch from the owners, for one matrix.

    Attributes:
        seconds: ``seconds(owners)`` returns the predicted seconds of an epoch. A search uses this
            number to accept and to report owners.
        rates: Rates that estimate the gain of a move.
    """

    seconds: Callable[[Owners], float]
    rates: EpochRates
