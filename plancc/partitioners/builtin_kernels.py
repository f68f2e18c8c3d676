"""Kernels that make the initial partitions of the builtin partitioner."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.nets import Nets

MAX_SEARCHED_PINS = 1000
"""Breadth-first search skips nets with more pins, which would reach most vertices at once."""


def bisect(nets: Nets, weight: Any, shares: Any, order: Any) -> Any:
    """Return owners found by recursive bisection along breadth-first orders, int32[num_vertices].

    `weight`, int64[num_vertices], is one number per vertex. `shares` has the share of the weight
    that each part gets. The first search starts at ``order[0]``.
    """
    return _bisect(nets, weight, shares, order.copy())


@njit(cache=True, nogil=True)
def _bisect(nets: Any, weight: Any, shares: Any, order: Any) -> Any:
    """Do the work of `bisect`, and change `order`."""
    n = len(weight)
    owner = np.zeros(n, dtype=np.int32)
    region = np.zeros(n, dtype=np.int64)
    net_seen = np.full(len(nets.net_ptr) - 1, -1, dtype=np.int64)
    searches = 0
    todo = [(0, n, 0, len(shares))]
    while len(todo) > 0:
        low, high, first, parts = todo.pop()
        if parts == 1 or high - low <= 1:
            for k in range(low, high):
                owner[order[k]] = first
            continue
        # Two searches: the first finds a far end, the second orders the vertices from there.
        for _ in range(2):
            searches += 1
            _search(nets, order[low:high], region, net_seen, searches)
            # The second search starts at the last vertex that the first one reached.
            order[low:high] = order[low:high][::-1].copy()
        total = 0
        for k in range(low, high):
            total += weight[order[k]]
        left = parts // 2
        # Cut the order where the left half has its share of the weight.
        wanted = total * (shares[first : first + left].sum() / shares[first : first + parts].sum())
        reached = 0
        middle = low
        while middle < high and reached + weight[order[middle]] / 2 < wanted:
            reached += weight[order[middle]]
            middle += 1
        # every part keeps at least one vertex
        middle = max(min(middle, high - (parts - left)), min(low + left, high))
        todo.append((low, middle, first, left))
        todo.append((middle, high, first + left, parts - left))
    return owner


@njit(cache=True, nogil=True)
def _search(nets: Any, order: Any, region: Any, net_seen: Any, search: int) -> None:
    """Sort the vertices in `order` by a breadth-first search from the first of them.

    `region` is scratch: it is ``2 * search`` for vertices in `order`, and 1 more once they are
    found. `net_seen` has the last search that visited each net.
    """
    for v in order:
        region[v] = 2 * search
    found = np.empty(len(order), dtype=np.int64)
    head, tail = 0, 0
    for root in order:
        if region[root] != 2 * search:
            continue
        region[root] += 1
        found[tail] = root
        tail += 1
        while head < tail:
            v = found[head]
            head += 1
            for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
                e = nets.nets[a]
                if net_seen[e] == search:
                    continue
                net_seen[e] = search
                if nets.net_ptr[e + 1] - nets.net_ptr[e] > MAX_SEARCHED_PINS:
                    continue
                for b in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                    u = nets.pins[b]
                    if region[u] == 2 * search:
                        region[u] += 1
                        found[tail] = u
                        tail += 1
    order[:] = found
