"""The volume that no balanced partition is below."""

from __future__ import annotations

import numpy as np

from plancc.models.limits import Limits
from plancc.passes.kernels.nets import Nets, net_weights
from plancc.passes.presets import NEAR_LEAST


def least_volume(nets: Nets, limits: Limits) -> int:
    """Rows that every partition within the limits moves at least.

    The pins of a net fill as many parts as it takes to hold their weight, the roomiest ones at
    best. So only nets heavier than a part count: nets of hubs. Graphs without any have bound 0.
    """
    weight = net_weights(nets)
    room = np.sort(limits.limit, axis=0)[::-1].cumsum(axis=0)
    parts = np.zeros(len(weight), dtype=np.int64)
    for of_nets, of_parts in zip(weight.T, room.T, strict=True):
        parts = np.maximum(parts, np.searchsorted(of_parts, of_nets))
    return int((nets.cost * np.minimum(parts, limits.num_parts - 1)).sum())


def reaches(volume: int, overload: float, least: int) -> bool:
    """Whether a balanced partition is so near `least` that there is nothing to look for."""
    return overload == 0 and volume <= (1 + NEAR_LEAST) * least
