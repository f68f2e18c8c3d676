"""After how many epochs a plan has paid for its search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plancc.report.provenance import decoded

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
    """Wall-clock seconds in which the owners of a plan were found, `decoded` or not.

    Of model auto those of all candidates. A refined or patched plan adds its own to those of the
    search; of several refinements only the last is recorded. 0 where a model assigns the owners
    itself; None for a part vector, and for unreadable values.
    """
    found = decoded(provenance)
    if "model_part" in found:
        return None
    candidates, tried = (
        sum(each.get("seconds") or 0.0 for each in steps) if isinstance(steps, list) else 0.0
        for steps in (found.get("candidates"), found.get("tried"))
    )
    seconds = candidates or found.get("partition_seconds", 0.0)
    if not isinstance(seconds, int | float):
        return None
    if "refined_from" in found or "patched_from" in found:
        seconds += tried
    elif "effort" not in found:  # no search: the first step tried is the partitioner's
        seconds = max(seconds, tried)
    return float(seconds) if 0 <= seconds < math.inf else None
