"""Passes that leave words of an epoch out, and the steps of layers with them.

The names as in `plancc_runtime.options.PASSES`; "overlap" moves as much as without it.

    plain      products move d_in columns forward, d_out back (`ProductOptions`, order "paper")
    order      products move the narrower of H and H W
    constant   what the first layer needs of the features is known
    dead-rows  rows that no labelled training vertex depends on are left out (`Tables.live`)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from plancc.errors import InputError
from plancc.plan.convolutions import ConvOptions, GCNOptions
from plancc.plan.layers import Activation, BothWays, WholeRows, moved_columns
from plancc.registry import check_choice

COMMON_PASSES = ("order", "constant")
"""Passes that every layout has."""
DEAD_ROWS = "dead-rows"
PASSES = (*COMMON_PASSES, DEAD_ROWS)
"""Passes of row plans."""
FOLDS = ("sync", "delayed", "none")
"""How an epoch adds up partial sums of edge plans: at once, late, or never."""
DELAY = 5
"""Epochs that they are late by default, as in the runtime."""
DEFAULT_DIMS = (128, 128, 16)
"""Widths d_0..d_L of the layers where nothing gives others."""


def layers_of(
    dims: Sequence[int], passes: Sequence[str], options: ConvOptions | None = None
) -> list[BothWays]:
    """The steps of every layer of these widths d_0..d_L; by default the steps of a GCN.

    Raises:
        InputError: If there is no such pass, or the options do not fit the widths.
    """
    for name in passes:
        check_choice("pass", name, PASSES)
    if len(dims) < 2 or min(dims) < 1:
        raise InputError(f"dims {list(dims)}: give at least two widths from 1")
    chosen = options or GCNOptions()
    if "order" not in passes and chosen.with_order("auto") == chosen:  # it has no other order
        chosen = chosen.with_order("paper")
    last = len(dims) - 2
    return [
        chosen.both_ways(
            widths,
            last=k == last,
            first=k == 0,
            fixed=k == 0 and "constant" in passes,
            after=[(WholeRows if k == last else Activation)(widths[1])],
        )
        for k, widths in enumerate(pairwise(dims))
    ]


def moved_widths(dims: Sequence[int], passes: Sequence[str]) -> list[tuple[int, int]]:
    """Columns of the rows that every layer of a GCN moves forward and back, with these passes."""
    layers = layers_of(dims, passes)
    return [(moved_columns(each.forward), moved_columns(each.back)) for each in layers]
