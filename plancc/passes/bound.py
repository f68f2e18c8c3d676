"""A lower bound on the volume of all balanced partitions."""

from __future__ import annotations

import numpy as np

from plancc.models.limits import Limits
from plancc.passes.kernels.nets import Nets, net_weights
from plancc.passes.presets import NEAR_LEAST


def least_volume(nets: Nets, limits: Limits) -> int:
    """Return a lower bound on the volume of every partition within the limits, in rows.

    A net whose pins weigh more than one part's limit touches several parts. Without such nets, the
    bound is 0.
    """
    weight = net_weights(nets)
    room = np.sort(limits.limit, axis=0)[::-1].cumsum(axis=0)
    parts = np.zeros(len(weight), dtype=np.int64)
    for of_nets, of_parts in zip(weight.T, room.T, strict=True):
        parts = np.maximum(parts, np.searchsorted(of_parts, of_nets))
    return int((nets.cost * np.minimum(parts, limits.num_parts - 1)).sum())


def reaches(volume: int, overload: float, least: int) -> bool:
    """Whether the volume is close to the lower bound `least`, and no part is above its limit."""
    return overload == 0 and volume <= (1 + NEAR_LEAST) * least
