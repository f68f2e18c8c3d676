"""`Nets`: a hypergraph in the form that kernels need."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.models.problem import Hypergraph


class Nets(NamedTuple):
    """A hypergraph, stored by nets and by vertices; every net has at least two pins.

    Attributes:
        net_ptr (int64[num_nets + 1]): Net e has the pins ``pins[net_ptr[e]:net_ptr[e + 1]]``.
        pins (int32[num_pins]): The pins of every net.
        cost (int64[num_nets]): Number of rows that a net stands for.
        source (int32[num_nets], or int32[0]): The pin that owns the net's rows. The traffic of
            single parts depends on it, but the volume does not.
        vertex_ptr (int64[num_vertices + 1]): Offsets of the vertices' nets in `nets`.
        nets (int32[num_pins]): The nets of every vertex.
        weight (int64[num_vertices, num_constraints]): Weights of the vertices.
        size, size_at_vertex (int32[num_pins], or int32[0]): Number of pins of the original
            hypergraph that were merged into a pin, in the order of `pins`, and of `nets`. Both are
            empty if only the volume is needed.
    """

    net_ptr: Any
    pins: Any
    cost: Any
    source: Any
    vertex_ptr: Any
    nets: Any
    weight: Any
    size: Any
    size_at_vertex: Any


def nets_of(problem: Hypergraph, sized: bool = False) -> Nets:
    """Convert a hypergraph to `Nets`; nets with fewer than two pins are left out.

    `sized` says whether the result has sizes of pins (`Hypergraph.pin_sizes`). The result shares
    arrays with `problem`; new arrays take 4 bytes per pin, or 12 if `sized`.
    """
    weight = problem.vertex_weights
    n = len(weight)
    net_ptr, cost, source = problem.net_ptr, problem.net_costs, problem.net_sources
    if cost is None:
        cost = np.ones(problem.num_nets, dtype=np.int64)
    if source is None:
        source = np.empty(0, dtype=np.int32)
    pins, size = problem.pins, problem.pin_sizes if sized else np.empty(0, dtype=np.int32)
    if size is None:
        size = np.ones(len(pins), dtype=np.int32)
    num_pins = np.diff(net_ptr)
    kept = num_pins > 1
    if not kept.all():
        several = np.repeat(kept, num_pins)
        pins, size = pins[several], size[several] if sized else size
        net_ptr = np.concatenate([[0], np.cumsum(num_pins[kept])])
        cost = cost[kept]
        source = source[kept] if len(source) > 0 else source
    vertex_ptr, nets, size_at_vertex = transpose(net_ptr, pins, size, n)
    weight = np.ascontiguousarray(weight.reshape(n, -1))
    return Nets(net_ptr, pins, cost, source, vertex_ptr, nets, weight, size, size_at_vertex)


def without_transpose(nets: Nets) -> Nets:
    """Drop the arrays that list the nets of every vertex, which halves the memory.

    `with_transpose` computes them again.
    """
    none = np.empty(0, dtype=np.int32)
    return nets._replace(vertex_ptr=none.astype(np.int64), nets=none, size_at_vertex=none)


def with_transpose(nets: Nets) -> Nets:
    """Compute the arrays that `without_transpose` has dropped, and return the complete `Nets`."""
    vertex_ptr, of_vertices, size = transpose(nets.net_ptr, nets.pins, nets.size, len(nets.weight))
    return nets._replace(vertex_ptr=vertex_ptr, nets=of_vertices, size_at_vertex=size)


@njit(cache=True, nogil=True)
def transpose(net_ptr: Any, pins: Any, size: Any, n: int) -> Any:
    """Transpose a CSR pattern: given the pins of every net, compute the nets of every vertex.

    Returns offsets, int64[n + 1]; the nets of every vertex, ascending, int32[num_pins]; and `size`
    (one value per pin, or empty) in the order of these nets.
    """
    ptr = np.zeros(n + 1, dtype=np.int64)
    for pin in pins:
        ptr[pin + 1] += 1
    ptr = np.cumsum(ptr)
    # Counting sort: nets of a vertex come in ascending order.
    end = ptr[:-1].copy()
    nets = np.empty(len(pins), dtype=np.int32)
    size_at_vertex = np.empty(len(size), dtype=size.dtype)
    for e in range(len(net_ptr) - 1):
        for k in range(net_ptr[e], net_ptr[e + 1]):
            v = pins[k]
            nets[end[v]] = e
            if len(size) > 0:
                size_at_vertex[end[v]] = size[k]
            end[v] += 1
    return ptr, nets, size_at_vertex


@njit(cache=True, nogil=True)
def net_weights(nets: Any) -> Any:
    """Return, for every net, the total weight of its pins: int64[num_nets, num_constraints]."""
    num_nets, num_constraints = len(nets.net_ptr) - 1, nets.weight.shape[1]
    total = np.zeros((num_nets, num_constraints), dtype=np.int64)
    for e in range(num_nets):
        # every pin counts with all its weights
        for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
            for c in range(num_constraints):
                total[e, c] += nets.weight[nets.pins[k], c]
    return total
