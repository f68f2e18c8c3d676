"""Passes that make an epoch send fewer words, and the steps of layers when these passes are on.

Names are as in `plancc_runtime.options.PASSES`; "overlap" is missing, since it saves no words.

    no pass    the rows that a layer exchanges have d_in columns in the forward pass, and d_out
               columns in the backward pass (`ProductOptions`, order "paper")
    order      a layer exchanges rows of H or of H W, whichever has fewer columns
    constant   the product of A with the features is computed once, not in every epoch
    dead-rows  rows on which no labelled training vertex depends are left out (`Tables.live`)
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
"""Ways in which an epoch adds up partial sums of edge plans: at once, late, or never."""
DELAY = 5
"""Default number of epochs by which sums are late, as in the runtime."""
DEFAULT_DIMS = (128, 128, 16)
"""Default widths d_0..d_L of the layers."""


def layers_of(
    dims: Sequence[int], passes: Sequence[str], options: ConvOptions | None = None
) -> list[BothWays]:
    """Return each layer's steps in the forward and backward pass; no `options` mean a GCN."""
    for name in passes:
        check_choice("pass", name, PASSES)
    if len(dims) < 2 or min(dims) < 1:
        raise InputError(f"dims {list(dims)}: give two or more widths, each at least 1")
    chosen = options or GCNOptions()
    if "order" not in passes and chosen.with_order("auto") == chosen:  # the order can be chosen
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
    """Return the widths of the rows that each layer of a GCN sends: (forward, backward)."""
    layers = layers_of(dims, passes)
    return [(moved_columns(each.forward), moved_columns(each.back)) for each in layers]
