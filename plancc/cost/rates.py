"""Seconds per message, row and nonzero: what objective "time" adds up. Knows no machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.plan.metrics import Traffic


class EpochRates(NamedTuple):
    """Seconds that an epoch takes per unit of a part's traffic; a kernel may take it as it is.

    Attributes
    ----------
    message : float
        Per message of one expand, at the busier of a part's two ends.
    row : float
        Per row of one expand, at the busier of its two ends.
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
        """Predicted seconds of one epoch of every part, float64[num_parts]."""
        return (
            self.message * np.maximum(parts.messages_sent, parts.messages_received)
            + self.row * np.maximum(parts.sent, parts.received)
            + self.nonzero * parts.nonzeros
            + self.own_row * parts.rows
        )
