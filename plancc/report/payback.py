"""Payback: the number of epochs after which a search has saved as much time as it took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEVER = "never"
Payoff = float | str | None
"""A number of epochs, or `NEVER` if the search never pays off; None: unknown."""


@dataclass(frozen=True)
class Spending:
    """Seconds of the search for owners, and of a predicted epoch; None: unknown."""

    search: float | None
    epoch: float | None

    def pays_over(self, other: Spending) -> Payoff:
        """Return after how many epochs shorter epochs than `other`'s make up for a longer search.

        0: the search is not longer; `NEVER`: epochs save no time; None: a time is unknown.
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
    """Return the wall-clock seconds that finding, refining and patching a plan's owners has taken.

    Return 0 if a model assigned the owners itself; None if the owners are the user's, or if the
    provenance holds no valid number.
    """
    seconds = provenance.get("search_seconds", None if "partitioner" in provenance else 0.0)
    known = isinstance(seconds, int | float) and "model_part" not in provenance
    return float(seconds) if known and 0 <= seconds < math.inf else None
