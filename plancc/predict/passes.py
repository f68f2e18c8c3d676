"""Passes that leave words of an epoch out, and the widths that travel then. Knows widths only.

The names are those of `plancc_runtime.options.PASSES`; "overlap" moves as much as without it.

Rows that a layer moves, in columns, per epoch (d_in and d_out are the layer's widths):

==============  ==========================  ==========  ====================================
execution       if                          forward     back
==============  ==========================  ==========  ====================================
plain                                       d_in        d_out (Demirci et al. 2022, Algorithms 1 and
2) order           d_out < d_in: A (H W)       d_out       d_out
order           otherwise: (A H) W          d_in        d_in; nothing in the first layer
constant        in the first layer          nothing     nothing: A H^0 is exchanged once
==============  ==========================  ==========  ====================================
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

COMMON_PASSES = ("order", "constant")
"""Passes that every layout has."""
DEAD_ROWS = "dead-rows"
PASSES = (*COMMON_PASSES, DEAD_ROWS)
"""Passes of row plans."""


def moved_widths(dims: Sequence[int], passes: Sequence[str]) -> list[tuple[int, int]]:
    """Columns of the rows that every layer moves forward and back, with these passes."""
    widths = []
    for layer, (d_in, d_out) in enumerate(pairwise(dims)):
        forward, back = d_in, d_out
        if "order" in passes:
            forward = min(d_in, d_out)
            back = 0 if layer == 0 and d_in <= d_out else forward
        if "constant" in passes and layer == 0:
            forward = back = 0
        widths.append((forward, back))
    return widths
