"""Move vertices into empty parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.models.limits import part_weights
from plancc.models.weights import combined


def fill_empty_parts(
    owner: npt.NDArray[np.int32], weights: npt.NDArray[np.int64], num_parts: int
) -> npt.NDArray[np.int32]:
    """Move one vertex into every empty part; return new owners, or `owner` if no part is empty."""
    if len(owner) < num_parts:
        raise InputError(f"{num_parts} parts for {len(owner)} vertices: each part needs a vertex")
    size = np.bincount(owner, minlength=num_parts)
    empty = np.flatnonzero(size == 0)
    if len(empty) == 0:
        return owner
    weights = combined(weights)
    # Sort the vertices by part, the heaviest part first, and in a part the lightest vertex first.
    # The last vertex of each part stays.
    heaviest_first = np.argsort(-part_weights(owner, weights, num_parts), kind="stable")
    rank = np.empty(num_parts, dtype=np.int64)
    rank[heaviest_first] = np.arange(num_parts)
    order = np.lexsort((weights, rank[owner]))
    may_move = np.ones(len(owner), dtype=bool)
    may_move[np.cumsum(size[heaviest_first])[size[heaviest_first] > 0] - 1] = False
    filled = owner.copy()
    filled[order[may_move][: len(empty)]] = empty
    return filled
