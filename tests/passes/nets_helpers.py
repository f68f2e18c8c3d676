"""Random hypergraphs and plain-Python counts, written without the code under test."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from plancc.graph.graph import Graph
from plancc.models.problem import Hypergraph
from plancc.passes.kernels.nets import Nets
from plancc.passes.kernels.volume import Bounds


def random_problem(
    rng, n: int, num_nets: int, *, most_pins: int = 8, constraints: int = 1, costs=False
) -> Hypergraph:
    """Nets of 1..most_pins pins with a source each, weights from 0 on."""
    size = rng.integers(1, min(most_pins, n) + 1, num_nets)
    pins = [np.sort(rng.choice(n, k, replace=False)).astype(np.int32) for k in size]
    weights = rng.integers(0, 5, (n, constraints))
    return Hypergraph(
        np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        np.concatenate([np.empty(0, np.int32), *pins]),
        weights[:, 0].copy() if constraints == 1 else weights,
        rng.integers(1, 6, num_nets) if costs else None,
        np.array([rng.choice(net) for net in pins], dtype=np.int32),
    )


def random_owner(rng, n: int, num_parts: int) -> np.ndarray:
    """Every part has a vertex if there are enough."""
    owner = np.concatenate([np.arange(min(n, num_parts)), rng.integers(num_parts, size=n)])[:n]
    return rng.permutation(owner).astype(np.int32)


def bounds(num_parts: int, target, price, cap=np.inf, *, constraints: int = 1) -> Bounds:
    """Bounds of a sweep; numbers, or numbers of the parts for one constraint."""
    shape = num_parts, constraints

    def full(value) -> np.ndarray:
        column = np.reshape(value, (-1, 1)) if np.ndim(value) == 1 else value
        return np.ascontiguousarray(np.broadcast_to(column, shape).astype(float))

    return Bounds(full(target), full(price), full(cap), np.ones(num_parts))


def net_list(problem: Hypergraph | Nets) -> list[list[int]]:
    return [problem.pins[a:b].tolist() for a, b in itertools.pairwise(problem.net_ptr.tolist())]


def slow_volume(problem: Hypergraph | Nets, owner) -> int:
    """Connectivity - 1, by sets."""
    cost = problem.cost if isinstance(problem, Nets) else problem.net_costs
    costs = itertools.repeat(1) if cost is None else cost.tolist()
    return sum(
        c * (len({int(owner[v]) for v in pins}) - 1)
        for pins, c in zip(net_list(problem), costs, strict=False)
    )


def slow_overload(weights, owner, num_parts: int, epsilon: float, capacities=None) -> float:
    """Weight above the limit, each constraint over its even share; no hubs with capacities."""
    total = 0.0
    speed = [Fraction(c) for c in capacities or [1] * num_parts]
    for column in np.asarray(weights).reshape(len(owner), -1).T.tolist():
        loads = [0] * num_parts
        for q, w in zip(owner, column, strict=True):
            loads[q] += w
        mean = max(-(-sum(column) // num_parts), 1)
        for load, c in zip(loads, speed, strict=True):
            even = -(-sum(column) * c / sum(speed) // 1)
            limit = int((1 + epsilon) * int(even) + 1e-9)
            if capacities is None:
                limit = max(limit, *column)
            total += float(max(load - limit, 0) / (mean * c * num_parts / sum(speed)))
    return total


def grid(rows: int, columns: int) -> Graph:
    """Five-point mesh with its diagonal."""
    number = np.arange(rows * columns).reshape(rows, columns)
    edges = np.concatenate(
        [
            np.stack([number[:, 1:].ravel(), number[:, :-1].ravel()]),
            np.stack([number[1:].ravel(), number[:-1].ravel()]),
        ],
        axis=1,
    )
    return graph_of(np.concatenate([edges, edges[::-1]], axis=1), rows * columns)


def random_graph(rng, n: int, edges: int) -> Graph:
    """A directed graph with heavy columns, with its diagonal."""
    ends = np.stack([rng.integers(n, size=edges), (n * rng.random(edges) ** 3).astype(int)])
    return graph_of(ends, n)


def graph_of(edges, n: int) -> Graph:
    keys = np.unique(np.concatenate([edges[0] * n + edges[1], np.arange(n) * (n + 1)]))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys // n, minlength=n))])
    return Graph(indptr.astype(np.int64), (keys % n).astype(np.int32))
