"""A hypergraph as the refinement walks it: pins of every net, and nets of every vertex."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from plancc.models.problem import Hypergraph


class Nets(NamedTuple):
    """A hypergraph with its transpose; every net has at least two pins.

    Attributes
    ----------
    net_ptr : int64[num_nets + 1]
    pins : int32[num_pins]
    cost : int64[num_nets]
        Rows that travel to every part of the net except the one that owns them.
    source : int32[num_nets], or int32[0]
        The vertex that those rows belong to, always a pin of the net; needed for the traffic of
        single parts, not for the volume.
    vertex_ptr : int64[num_vertices + 1]
    nets : int32[num_pins]
        The nets of every vertex.
    weight : int64[num_vertices, num_constraints]
    """

    net_ptr: Any
    pins: Any
    cost: Any
    source: Any
    vertex_ptr: Any
    nets: Any
    weight: Any


def nets_of(problem: Hypergraph) -> Nets:
    """The nets of a problem that have several pins; 4 bytes per pin beside those it holds."""
    weight = problem.vertex_weights
    n = len(weight)
    net_ptr, cost, source = problem.net_ptr, problem.net_costs, problem.net_sources
    if cost is None:
        cost = np.ones(problem.num_nets, dtype=np.int64)
    if source is None:
        source = np.empty(0, dtype=np.int32)
    pins = problem.pins
    size = np.diff(net_ptr)
    kept = size > 1
    if not kept.all():
        pins = pins[np.repeat(kept, size)]
        net_ptr = np.concatenate([[0], np.cumsum(size[kept])])
        cost = cost[kept]
        source = source[kept] if len(source) > 0 else source
    vertex_ptr, nets = transpose(net_ptr, pins, n)
    weight = np.ascontiguousarray(weight.reshape(n, -1))
    return Nets(net_ptr, pins, cost, source, vertex_ptr, nets, weight)


def without_transpose(nets: Nets) -> Nets:
    """The same without the nets of the vertices: half the memory, for a level that waits."""
    none = np.empty(0, dtype=np.int32)
    return nets._replace(vertex_ptr=none.astype(np.int64), nets=none)


def with_transpose(nets: Nets) -> Nets:
    """The inverse of `without_transpose`."""
    vertex_ptr, of_vertices = transpose(nets.net_ptr, nets.pins, len(nets.weight))
    return nets._replace(vertex_ptr=vertex_ptr, nets=of_vertices)


@njit(cache=True, nogil=True)
def transpose(net_ptr: Any, pins: Any, n: int) -> Any:
    """The nets of every vertex: ``(vertex_ptr int64[n + 1], nets int32[num_pins])``."""
    ptr = np.zeros(n + 1, dtype=np.int64)
    for pin in pins:
        ptr[pin + 1] += 1
    ptr = np.cumsum(ptr)
    end = ptr[:-1].copy()
    nets = np.empty(len(pins), dtype=np.int32)
    for e in range(len(net_ptr) - 1):
        for k in range(net_ptr[e], net_ptr[e + 1]):
            v = pins[k]
            nets[end[v]] = e
            end[v] += 1
    return ptr, nets
