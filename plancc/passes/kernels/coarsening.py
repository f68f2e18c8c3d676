"""Kernels that cluster vertices with many common nets, and build the hypergraph of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.models.nets import merge_equal_nets
from plancc.passes.kernels.label_propagation import numbered
from plancc.passes.kernels.nets import Nets, transpose
from plancc.passes.presets import Coarsening


def cluster(
    nets: Nets,
    order: Any,
    together: Any,
    heaviest: Any,
    overlap: float = 1.0,
    rated_pins: int = Coarsening.rated_pins,
) -> Any:
    """Return the cluster of every vertex, numbered 0..m-1, int32[num_vertices].

    Parameters:
        nets: The hypergraph.
        order (int64[num_vertices]): Order in which vertices choose a cluster.
        together (int[num_vertices]): Only vertices with the same number may be in one cluster.
        heaviest (int64[num_constraints]): Largest weight of a cluster of several vertices.
        overlap: Share of a net's cost that is saved if two of its pins, both outside the source's
            part, share a part: 1 for the volume, 0 for the edge cut.
        rated_pins: See `Coarsening`.
    """
    order, together = (np.ascontiguousarray(each, np.int64) for each in (order, together))
    return _cluster(nets, order, together, heaviest, rated_pins, overlap)


@njit(cache=True, nogil=True)
def _cluster(
    nets: Any, order: Any, together: Any, heaviest: Any, max_pins: int, overlap: float
) -> Any:
    """Let each vertex in `order` that is alone in its cluster join the best cluster with room.

    A net of the vertex, if it has at most `max_pins` pins, adds ``cost * overlap / (pins - 1)`` to
    a cluster's rating for each pin there. Any net adds ``cost * (1 - overlap)`` if the vertex or
    the pin is the net's source, whose row the other pins need. For the parameters see `cluster`.
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
            num_pins = nets.net_ptr[e + 1] - nets.net_ptr[e]
            if num_pins < 2:
                continue
            # Heavy-edge rating: a net of k pins gives each of its k - 1 other pins an equal share.
            gain = 0.0 if num_pins > max_pins else overlap * nets.cost[e] / (num_pins - 1)
            extra = 0.0
            if overlap < 1:
                extra = (1 - overlap) * nets.cost[e]
                source = nets.source[e]
                # The pair of v and the source counts once, with any number of pins.
                if source != v and together[source] == together[v]:
                    if score[label[source]] == 0.0:
                        seen[num_seen] = label[source]
                        num_seen += 1
                    score[label[source]] += extra * nets.size_at_vertex[a]
                # only the source has a pair with every pin
                if source != v:
                    extra = 0.0
            if gain + extra == 0:
                continue
            for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                u = nets.pins[k]
                if together[u] != together[v]:
                    continue
                # the first link to this cluster
                if score[label[u]] == 0.0:
                    seen[num_seen] = label[u]
                    num_seen += 1
                score[label[u]] += gain
                if extra > 0:
                    score[label[u]] += extra * nets.size[k]
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
    numbered(label)
    return label


def contract(nets: Nets, label: Any) -> Nets:
    """Build the hypergraph of clusters, without nets of one pin; equal nets are merged."""
    num = int(label.max()) + 1
    *found, weight = _contract(nets, label, num)
    net_ptr, pins, size, cost, source = merge_equal_nets(*found)
    vertex_ptr, vertex_nets, size_at_vertex = transpose(net_ptr, pins, size, num)
    return Nets(net_ptr, pins, cost, source, vertex_ptr, vertex_nets, weight, size, size_at_vertex)


@njit(cache=True, nogil=True)
def _contract(nets: Any, label: Any, num: int) -> Any:
    """Return the nets of the clusters, without merging equal nets, and the clusters' weights."""
    num_nets = len(nets.net_ptr) - 1
    sourced, sized = len(nets.source) > 0, len(nets.size) > 0
    last = np.full(num, -1, dtype=np.int64)
    place = np.empty(num, dtype=np.int64)
    out_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    out = np.empty(len(nets.pins), dtype=np.int32)
    size = np.empty(len(nets.size), dtype=np.int32)
    cost = np.empty(num_nets, dtype=np.int64)
    source = np.empty(num_nets if sourced else 0, dtype=np.int32)
    kept, end = 0, 0
    for e in range(num_nets):
        start = end
        for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
            c = label[nets.pins[k]]
            # If `last[c] == e`, net e has a pin of cluster c already, at `place[c]`.
            if last[c] != e:
                last[c] = e
                place[c] = end
                out[end] = c
                if sized:
                    size[end] = 0
                end += 1
            if sized:
                size[place[c]] += nets.size[k]
        # A net within one cluster can never be cut: drop it.
        if end - start < 2:
            end = start
            continue
        if sourced:
            source[kept] = label[nets.source[e]]
        cost[kept] = nets.cost[e]
        kept += 1
        out_ptr[kept] = end
    weight = np.zeros((num, nets.weight.shape[1]), dtype=np.int64)
    for v in range(len(label)):
        for c in range(weight.shape[1]):
            weight[label[v], c] += nets.weight[v, c]
    source = source[: kept if sourced else 0]
    size = size[: end if sized else 0]
    return out_ptr[: kept + 1].copy(), out[:end], size, cost[:kept], source, weight
