"""How often a row of H in a cache is read before it is evicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.graph.graph import Graph
from plancc.kernel import njit


def reuse(graph: Graph, blocks: int, capacity: int) -> float:
    """Reads of H and of the output over their loads (Md et al. 2021, Table 3).

    A product with `blocks` blocks of columns one after another reads for every row of a block the
    output's row and a row of H for every nonzero. The cache holds `capacity` rows of either kind
    and evicts the one that was read longest ago.
    """
    ends = np.linspace(0, graph.num_vertices, blocks + 1).astype(np.int64)
    order = np.argsort(np.searchsorted(ends, graph.indices, side="right"), kind="stable")
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))[order]
    # every nonzero reads a row of H, and the output's before it
    reads = np.stack([row + graph.num_vertices, graph.indices[order]], axis=1).ravel()
    return len(reads) / 2 / max(1, _loads(reads, 2 * graph.num_vertices, capacity))


@njit
def _loads(reads: Any, names: int, capacity: int) -> int:
    """Reads that find nothing, of a cache that is a list from the latest read to the oldest."""
    before, after = np.full(names + 1, -1, np.int64), np.full(names + 1, -1, np.int64)
    end = names  # both ends of the list
    before[end] = after[end] = end
    loads, held = 0, 0
    for name in reads:
        if after[name] >= 0:
            after[before[name]], before[after[name]] = after[name], before[name]
        else:
            loads += 1
            if held == capacity:
                oldest = before[end]
                after[before[oldest]], before[end] = end, before[oldest]
                after[oldest] = -1
            else:
                held += 1
        latest = after[end]
        before[name], after[name] = end, latest
        after[end] = before[latest] = name
    return loads
