"""Random hypergraphs and plain-Python counts, written without the code under test."""

import itertools
from collections import Counter

import numpy as np
import scipy.sparse as sp
import worlds
from worlds import net_list

from plancc.graph.graph import Graph
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Bounds, Limits
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.kernels.state import state_of

KINDS = [(2, 8), (3, 3), (4, 12), (7, 5), (40, 9)]  # parts, most pins of a net
CURVES = {
    "volume": lambda pins: np.minimum(pins, 1.0),
    "cut": lambda pins: pins.astype(float),
    "half": lambda pins: 1 - 0.5**pins,
    "few": lambda pins: 1 - 0.98**pins,
    "square root": np.sqrt,
    "nothing": lambda pins: np.zeros(len(pins)),
}
"""Probabilities that a batch asks for a row of which so many pins are in another part."""


def context(problem, num_parts: int, epsilon=0.01, capacities=None, **others) -> Context:
    """What passes keep to: limits of a problem's vertices, or of a matrix' nonzeros."""
    ones = isinstance(problem, Graph) and np.ones(problem.num_nonzeros, np.int64)
    weights = ones if isinstance(problem, Graph) else problem.vertex_weights
    return Context(Limits(weights, num_parts, epsilon, capacities), **others)


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


def make(seed, num_parts, most_pins, n=40, num_nets=70, sized=False, **options):
    """Random numbers, a problem, its nets and the state of random owners."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n, num_nets, most_pins=most_pins, **options)
    nets = nets_of(problem, sized=sized)
    return rng, problem, nets, state_of(nets, random_owner(rng, n, num_parts), num_parts)


def random_label(rng, n: int, number: int) -> np.ndarray:
    """Clusters at random, at most so many, without gaps in their numbers."""
    return np.unique(rng.integers(number, size=n), return_inverse=True)[1].astype(np.int32)


def bounds(num_parts: int, target, price, cap=np.inf, *, constraints: int = 1) -> Bounds:
    """Bounds of a sweep; numbers, or numbers of the parts for one constraint."""
    shape = num_parts, constraints

    def full(value) -> np.ndarray:
        column = np.reshape(value, (-1, 1)) if np.ndim(value) == 1 else value
        return np.ascontiguousarray(np.broadcast_to(column, shape).astype(float))

    return Bounds(full(target), full(price), full(cap), np.ones(num_parts))


def slow_volume(problem: Hypergraph | Nets, owner) -> int:
    """Connectivity - 1, by sets."""
    cost = problem.cost if isinstance(problem, Nets) else problem.net_costs
    costs = itertools.repeat(1) if cost is None else cost.tolist()
    return sum(
        c * (len({int(owner[v]) for v in pins}) - 1)
        for pins, c in zip(net_list(problem), costs, strict=False)
    )


def slow_expected(problem: Hypergraph, owner, reach) -> float:
    """Part by part, from sets of pins; only nets with a source and costs, or costs of 1."""
    total = 0.0
    for e, pins in enumerate(net_list(problem)):
        cost = 1 if problem.net_costs is None else int(problem.net_costs[e])
        source = int(problem.net_sources[e])
        count = Counter(int(owner[v]) for v in pins if owner[v] != owner[source])
        total += cost * sum(float(reach[c]) for c in count.values())
    return total


def counts(state, e: int) -> dict[int, int]:
    """Part to pins of net e, from its slots in use."""
    slots = range(state.slot_ptr[e], state.slot_ptr[e + 1])
    if len(slots) < len(state.sums):
        slots = slots[: state.spread[e]]
    return {int(state.part[k]): int(state.count[k]) for k in slots if state.count[k] > 0}


def hypergraph(graph: Graph, num_parts: int = 2, balance: str = "nnz") -> Hypergraph:
    return HypergraphModel().build(graph, num_parts, balance=balance, seed=0)


def grid(rows: int, columns: int) -> Graph:
    """Five-point mesh with its diagonal."""
    number = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(number[:, 1:], number[:, :-1]), (number[1:], number[:-1])]
    edges = np.concatenate([[one.ravel(), two.ravel()] for one, two in pairs], axis=1)
    return graph_of(np.concatenate([edges, edges[::-1]], axis=1), rows * columns)


def random_graph(rng, n: int, edges: int) -> Graph:
    """A directed graph with heavy columns, with its diagonal."""
    ends = np.stack([rng.integers(n, size=edges), (n * rng.random(edges) ** 3).astype(int)])
    return graph_of(ends, n)


def graph_of(edges, n: int) -> Graph:
    """Pairs of ends, with the diagonal."""
    rows, columns = np.concatenate([edges, [np.arange(n), np.arange(n)]], axis=1)
    return worlds.graph_of(sp.coo_array((np.ones(len(rows), bool), (rows, columns)), (n, n)))


def random_pairs(rng, p: int, fill: float = 0.5, most: int = 50) -> np.ndarray:
    """Rows from part to part, none from a part to itself."""
    return rng.integers(1, most, (p, p)) * (rng.random((p, p)) < fill) * (1 - np.eye(p, dtype=int))


def renumbered(dense: np.ndarray, number) -> np.ndarray:
    """The pairs under new numbers of the parts."""
    found = np.zeros_like(dense)
    found[np.ix_(number, number)] = dense
    return found


def groupings(parts: tuple[int, ...], size: int):
    """Every way to put parts on nodes of so many, one order of each."""
    if not parts:
        yield ()
        return
    for others in itertools.combinations(parts[1:], size - 1):
        rest = tuple(q for q in parts[1:] if q not in others)
        for more in groupings(rest, size):
            yield (parts[0], *others, *more)
