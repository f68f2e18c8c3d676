"""Time of an epoch for a search: the prediction of owners, rates of moves. Knows no machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic


class EpochRates(NamedTuple):
    """Seconds that an epoch takes longer per unit more: estimates of what a move gains.

    Attributes
    ----------
    message : float
        Per message of one expand.
    row : float
        Per row of one expand.
    nonzero : float
        Per nonzero of the part.
    own_row : float
        Per row that the part owns.
    """

    message: float
    row: float
    nonzero: float
    own_row: float

    def seconds(self, parts: Traffic) -> npt.NDArray[np.float64]:
        """Sum of a part's messages, rows and work at these rates, float64[num_parts]."""
        return (
            self.message * np.maximum(parts.messages_sent, parts.messages_received)
            + self.row * np.maximum(parts.sent, parts.received)
            + self.nonzero * parts.nonzeros
            + self.own_row * parts.rows
        )


@dataclass(frozen=True)
class EpochTime:
    """The predicted epoch of one matrix on so many parts, as a function of owners.

    Attributes
    ----------
    seconds : callable
        ``seconds(owners)``: the prediction, by which owners are accepted and reported.
    rates : EpochRates
        What a search estimates moves with.
    """

    seconds: Callable[[Owners], float]
    rates: EpochRates
