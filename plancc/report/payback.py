"""After how many epochs a plan has paid for its search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEVER = "never"
Payoff = float | str | None
"""A number of epochs, or `NEVER`; None: not known."""


@dataclass(frozen=True)
class Spending:
    """Seconds that a plan takes; None: not known.

    Attributes:
        search: To find its owners.
        epoch: Of a predicted epoch.
    """

    search: float | None
    epoch: float | None

    def pays_over(self, other: Spending) -> Payoff:
        """Epochs after which the shorter epochs have saved the longer search.

        0 where the search is no longer; `NEVER` where the epochs are no shorter.
        """
        if self.epoch is None or other.epoch is None:
            return None
        if self.epoch >= other.epoch:
            return NEVER
        if self.search is None or other.search is None:
            return None
        epochs = (self.search - other.search) / (other.epoch - self.epoch)
        return max(epochs, 0.0) if math.isfinite(epochs) else NEVER


def search_seconds(provenance: Mapping[str, Any]) -> float | None:
    """Wall-clock seconds in which the owners of a plan were found, refined and patched.

    0 where a model assigns the owners itself; None for a part vector, and for unreadable values.
    """
    seconds = provenance.get("search_seconds", None if "partitioner" in provenance else 0.0)
    known = isinstance(seconds, int | float) and "model_part" not in provenance
    return float(seconds) if known and 0 <= seconds < math.inf else None
