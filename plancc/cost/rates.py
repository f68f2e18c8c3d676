"""Predicted time of an epoch for a search: for given owners, and for single moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from plancc.graph.owners import Owners


class EpochRates(NamedTuple):
    """Seconds that one unit of work adds to an epoch. A search uses them to estimate moves.

    Attributes:
        message, row: Seconds per message, and per row, of one expand.
        nonzero, own_row: Seconds per nonzero, and per own row, of a part.
    """

    message: float
    row: float
    nonzero: float
    own_row: float


class LinkRates(NamedTuple):
    """Seconds that an epoch's messages take inside nodes and between nodes, in a form for kernels.

    Attributes:
        node (int64[num_parts]): Node of every rank, ascending.
        message_inside, message_between: Seconds per message, summed over an epoch's exchanges.
        row_inside, row_between: Seconds per row that a rank sends, or receives if it receives more
            rows than it sends.
        row_of_node: Seconds per row that leaves or enters a node.
        row_copied: Two numbers: seconds in which an owner copies a row in the forward pass and adds
            it in the backward pass (expand), and seconds in which it does the reverse (fold).
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
    """A prediction of the time of an epoch from the owners, for one matrix.

    Attributes:
        seconds: Function that predicts seconds from owners. A search compares owners by it.
        rates: Rates that estimate the gain of a move.
    """

    seconds: Callable[[Owners], float]
    rates: EpochRates
