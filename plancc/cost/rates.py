"""Time of an epoch for a search: the prediction of owners, rates of moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from plancc.graph.owners import Owners


class EpochRates(NamedTuple):
    """Seconds that an epoch takes longer per unit more: estimates of what a move gains.

    Attributes:
        message: Per message of one expand.
        row: Per row of one expand.
        nonzero: Per nonzero of the part.
        own_row: Per row that the part owns.
    """

    message: float
    row: float
    nonzero: float
    own_row: float


class LinkRates(NamedTuple):
    """Seconds that messages of an epoch take inside nodes and between them; a kernel may take it.

    Attributes:
        node (int64[num_parts]): Node of every rank, ascending.
        message_inside, message_between: Of one message in all exchanges of an epoch.
        row_inside, row_between: Of one row at a rank.
        row_of_node: Of one row that leaves or enters a node.
        row_copied: Of copying one row that an owner sends, or adding one that it receives, on the
            way there and back: in the expand, in the fold.
        slow (float64[num_parts]): How many times as long every rank takes for that.
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
        seconds: ``seconds(owners)``: the prediction, by which owners are accepted and reported.
        rates: What a search estimates moves with.
    """

    seconds: Callable[[Owners], float]
    rates: EpochRates
