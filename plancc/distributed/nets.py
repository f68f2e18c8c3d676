"""Build, on rank 0, a smaller hypergraph, whose partition one process can improve.

Vertices with the same label are merged. A label stands either for a cluster or for a part; in the
latter case, each vertex near a part's boundary (the *corridor*) has a label of its own:

    part 0  . . . o o | o o . . . . part 1        o  in the corridor: a separate vertex
            . . . o o | o o . . . .               .  merged into one vertex for each part
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.distributed.kernels import mark_columns, parts_of_nets
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Share
from plancc.models.limits import part_weights
from plancc.models.nets import merge_equal_nets
from plancc.models.problem import Hypergraph
from plancc.passes.kernels.label_propagation import numbered
from plancc.plan.exchange import Int32Array, Int64Array, offsets
from plancc.plan.lowering import mark_boundary
from plancc.search.presets import ON_RANKS


def nets_between(
    ranks: Ranks, share: Share, label: Int32Array, weight: Int64Array
) -> Hypergraph | None:
    """Return, on rank 0, the hypergraph whose vertices are the clusters 0..m-1. Collective.

    `label` has the cluster of every vertex of the graph, and `weight` has the vertices' weights.
    Nets with one pin are left out. Other ranks get a hypergraph without nets; all ranks get None if
    there would be too many pins.
    """
    num = int(label.max()) + 1
    ptr, entry = parts_of_nets(share.first, share.net_ptr, share.pins, label, num)
    sizes = np.diff(ptr)
    several = sizes > 1
    pins = (entry[np.repeat(several, sizes)] >> 1).astype(np.int32)
    sizes, cost = sizes[several], np.ones(np.count_nonzero(several), np.int64)
    sizes, pins, cost = _merged(sizes, pins, cost)
    if ranks.total(len(pins)) > ON_RANKS.most_pins:
        return None
    sizes, pins, cost = _merged(*(ranks.at_root(each) for each in (sizes, pins, cost)))
    return Hypergraph(offsets(sizes), pins, part_weights(label, weight, num), cost)


def _merged(sizes: Int64Array, pins: Int32Array, cost: Int64Array) -> Any:
    """Merge equal nets; return the number of pins of each net, the pins, and summed costs."""
    none = pins[:0]
    ptr, pins, _, cost, _ = merge_equal_nets(offsets(sizes), pins, none, cost, none)
    return np.diff(ptr), pins, cost


def corridor(ranks: Ranks, share: Share, owner: Int32Array) -> Int32Array | None:
    """Return labels, int32[n]: each vertex near a boundary has a label of its own. Collective.

    The other vertices of a part share one label. The result is None if the boundary rows alone have
    more than ``ON_RANKS.corridor`` nonzeros.
    """
    near = np.zeros(len(owner), dtype=np.bool_)
    new = mark_boundary(share.first, share.indptr, share.indices, owner).view(np.bool_)
    found, links = ranks.concatenated(np.flatnonzero(new).astype(np.int32) + share.first), 0
    while len(found) and links + share.degree[found].sum() <= ON_RANKS.corridor:
        links += int(share.degree[found].sum())
        near[found] = True
        own = found[(found >= share.first) & (found < share.last)] - share.first
        marked = near.copy()
        mark_columns(own, share.first, share.indptr, share.indices, marked)
        found = np.unique(ranks.concatenated(np.flatnonzero(marked != near).astype(np.int32)))
    if links == 0 and len(found):
        return None
    label, far = np.arange(len(owner), dtype=np.int32), np.flatnonzero(~near).astype(np.int32)
    first = np.zeros(int(owner.max()) + 1, dtype=np.int32)
    first[owner[far[::-1]]] = far[::-1]
    label[far] = first[owner[far]]
    numbered(label)
    return label
