"""Clusters of vertices that share much of their nets, and the hypergraph of the clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from plancc.passes.kernels.nets import Nets, transpose

MAX_RATED_PINS = 100
"""Nets with more pins say little about who belongs together: clustering ignores them."""


def cluster(nets: Nets, order: Any, together: Any, heaviest: Any) -> Any:
    """Cluster of every vertex, numbered 0..m-1.

    Parameters
    ----------
    nets : Nets
    order : int64[num_vertices]
        In which vertices choose.
    together : int64[num_vertices]
        Only vertices with the same number meet.
    heaviest : int64[num_constraints]
        No joined cluster is above it.

    Returns
    -------
    int32[num_vertices]
    """
    return _cluster(nets, order, together, heaviest, MAX_RATED_PINS)


@njit(cache=True, nogil=True)
def _cluster(nets: Any, order: Any, together: Any, heaviest: Any, max_pins: int) -> Any:
    """Every still single vertex joins the cluster with the best rating that has room.

    Rating of a cluster: sum over shared nets of cost / (pins - 1) per shared pin.
    """
    n, num_constraints = nets.weight.shape
    label = np.arange(n).astype(np.int32)
    load = nets.weight.copy()
    single = np.ones(n, dtype=np.bool_)
    score = np.zeros(n)
    seen = np.empty(n, dtype=np.int32)
    for v in order:
        if not single[v]:
            continue
        num_seen = 0
        for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
            e = nets.nets[a]
            size = nets.net_ptr[e + 1] - nets.net_ptr[e]
            if size < 2 or size > max_pins:
                continue
            gain = nets.cost[e] / (size - 1)
            for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                u = nets.pins[k]
                if together[u] != together[v]:
                    continue
                if score[label[u]] == 0.0:
                    seen[num_seen] = label[u]
                    num_seen += 1
                score[label[u]] += gain
        best = v
        best_score = 0.0
        for k in range(num_seen):
            label_k = seen[k]
            rating = score[label_k]
            score[label_k] = 0.0
            if label_k == v or rating <= best_score:
                continue
            fits = True
            for c in range(num_constraints):
                fits &= load[label_k, c] + nets.weight[v, c] <= heaviest[c]
            if fits:
                best = label_k
                best_score = rating
        if best != v:
            label[v] = best
            single[v] = False
            single[best] = False
            for c in range(num_constraints):
                load[best, c] += nets.weight[v, c]
    number = np.full(n, -1, dtype=np.int32)
    count = 0
    for v in range(n):
        if number[label[v]] < 0:
            number[label[v]] = count
            count += 1
        label[v] = number[label[v]]
    return label


def contract(nets: Nets, label: Any) -> Nets:
    """The hypergraph of the clusters: nets of one pin dropped, equal nets merged.

    Nets are equal if they have the same pins and, where sources are known, the same source, judged
    by their size and a 64-bit hash of both.
    """
    num = int(label.max()) + 1
    net_ptr, pins, cost, source, mark, weight = _contract(nets, label, num)
    order = np.lexsort((mark, np.diff(net_ptr)))
    net_ptr, pins, cost, source = _merge_equal_nets(net_ptr, pins, cost, source, mark, order)
    vertex_ptr, vertex_nets = transpose(net_ptr, pins, num)
    return Nets(net_ptr, pins, cost, source, vertex_ptr, vertex_nets, weight)


@njit(cache=True, nogil=True)
def _mixed(x: int) -> Any:
    """A hash of a small number (splitmix64)."""
    y = np.uint64(x + 1) * np.uint64(0x9E3779B97F4A7C15)
    y = (y ^ (y >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    y = (y ^ (y >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return y ^ (y >> np.uint64(31))


@njit(cache=True, nogil=True)
def _contract(nets: Any, label: Any, num: int) -> Any:
    """Nets over clusters, each with a mark that equal nets share."""
    num_nets = len(nets.net_ptr) - 1
    sourced = len(nets.source) > 0
    last = np.full(num, -1, dtype=np.int64)
    out_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    out = np.empty(len(nets.pins), dtype=np.int32)
    cost = np.empty(num_nets, dtype=np.int64)
    source = np.empty(num_nets if sourced else 0, dtype=np.int32)
    mark = np.empty(num_nets, dtype=np.uint64)
    kept, end = 0, 0
    for e in range(num_nets):
        start = end
        code = np.uint64(0)
        for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
            c = label[nets.pins[k]]
            if last[c] != e:
                last[c] = e
                out[end] = c
                end += 1
                code += _mixed(c)
        if end - start < 2:
            end = start
            continue
        if sourced:
            source[kept] = label[nets.source[e]]
            code ^= _mixed(source[kept] + num)
        cost[kept] = nets.cost[e]
        mark[kept] = code
        kept += 1
        out_ptr[kept] = end
    weight = np.zeros((num, nets.weight.shape[1]), dtype=np.int64)
    for v in range(len(label)):
        for c in range(weight.shape[1]):
            weight[label[v], c] += nets.weight[v, c]
    source = source[: kept if sourced else 0]
    return out_ptr[: kept + 1].copy(), out[:end], cost[:kept], source, mark[:kept], weight


@njit(cache=True, nogil=True)
def _merge_equal_nets(
    net_ptr: Any, pins: Any, cost: Any, source: Any, mark: Any, order: Any
) -> Any:
    """Nets with the same size and mark become one with the sum of their costs."""
    sourced = len(source) > 0
    first = np.empty(len(order), dtype=np.int64)
    total = np.empty(len(order), dtype=np.int64)
    out_ptr = np.zeros(len(order) + 1, dtype=np.int64)
    kept = 0
    for e in order:
        size = net_ptr[e + 1] - net_ptr[e]
        if kept > 0:
            before = first[kept - 1]
            same_size = net_ptr[before + 1] - net_ptr[before] == size
            if same_size and mark[before] == mark[e]:
                total[kept - 1] += cost[e]
                continue
        first[kept], total[kept] = e, cost[e]
        out_ptr[kept + 1] = out_ptr[kept] + size
        kept += 1
    out = np.empty(out_ptr[kept], dtype=np.int32)
    out_source = np.empty(kept if sourced else 0, dtype=np.int32)
    for k in range(kept):
        start = net_ptr[first[k]]
        for i in range(out_ptr[k + 1] - out_ptr[k]):
            out[out_ptr[k] + i] = pins[start + i]
        if sourced:
            out_source[k] = source[first[k]]
    return out_ptr[: kept + 1].copy(), out, total[:kept].copy(), out_source
