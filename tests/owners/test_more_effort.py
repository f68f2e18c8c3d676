"""More effort, or a topology, gives no worse plan by the objective that is asked for."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
import worlds
from cases import long, some

import plancc
from plancc.options import EFFORTS, SearchOptions
from plancc.owners.numbering import mapped
from plancc.plan.lowering import lower
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.topology import Topology
from plancc.predict.machine import Machine, Node
from plancc.predict.schedules import tables_of
from plancc.search.starts import highest

NODES = Machine(2e-5, 1e9, 5e9, node=Node(ranks=2, latency=1e-6, bandwidth=2e10))
"""Links between nodes are slow."""


@cache
def graph(name):
    rng = np.random.default_rng(5)
    n, group = 160, np.arange(160) // 20
    if name == "communities":
        dense = rng.random((n, n)) < 0.004 + 0.2 * (group[:, None] == group)
    else:  # hubs
        dense = rng.random((n, n)) < 0.01
        dense[:, :4] |= rng.random((n, 4)) < 0.4
    return worlds.graph_of(dense | dense.T)


@cache
def compiled(name, model, objective, effort, topology=None, num_parts=8, seed=1):
    options = {"topology": topology, "dims": (16, 8, 4), "machine": NODES, "seed": seed}
    options |= {"batch_size": 30} if model == "stochastic-hp" else {"objective": objective}
    if model == "auto":
        options |= {"candidates": ("hp", "medium-grain")}
    return plancc.compile(graph(name), model, num_parts, effort=effort, **options)


def value(plan, objective, topology=None):
    """The plan is judged by the rows that it moves and by the simulation of its tables."""
    if objective == "expected":
        return plan.provenance["expected_volume"]
    if objective == "time":
        predictor = SearchOptions(dims=(16, 8, 4), machine=NODES, topology=topology).predictor
        return predictor.epoch(tables_of(plan)).seconds
    matrix, owners = graph_of(plan), owners_of(plan)
    moved = worlds.rows_moved(matrix, owners.rows, owners.nonzeros)
    if objective == "volume":
        return len(moved)
    if objective == "messages":
        return len({(step, *ends) for step, _, *ends in moved})
    ends = Counter((what, part) for _, _, *both in moved for what, part in enumerate(both))
    return max(ends.values(), default=0)


QUICK = ("hubs hp max-volume", "hubs hp time", "communities medium-grain messages")
cases = some(
    lambda *case: " ".join(case) in QUICK,
    name=("communities", "hubs"),
    model=("hp", "medium-grain", "auto"),
    objective=("volume", "max-volume", "messages", "time"),
)


@cases
def test_more_effort_is_never_worse(name, model, objective):
    fast, balanced = (
        value(compiled(name, model, objective, effort), objective) for effort in EFFORTS[:2]
    )
    assert balanced <= fast


@pytest.mark.parametrize("name", ["communities", pytest.param("hubs", marks=long)])
def test_more_effort_is_never_worse_for_mini_batches(name):
    fast, balanced = (
        value(compiled(name, "stochastic-hp", None, effort), "expected") for effort in EFFORTS[:2]
    )
    assert balanced <= fast


@cases
def test_a_topology_is_never_worse(name, model, objective):
    """On the nodes, which the parts of the plan without a topology are numbered for."""
    topology = Topology.parse("2x4")
    quick = compiled(name, model, objective, "fast")
    matrix, owners = graph_of(quick), owners_of(quick)
    ways = [owners, mapped(owners, matrix, topology)]
    least = min(
        value(lower(matrix, each, 8, normalization="none", self_loops=False), objective, topology)
        for each in ways
    )
    found = [
        value(compiled(name, model, objective, effort, "2x4"), objective, topology)
        for effort in EFFORTS[:2]
    ]
    assert found[1] <= found[0] <= least


@long  # their owners are members of its population: tests/search/test_memetic.py
@pytest.mark.parametrize("name", ["communities", "hubs"])
def test_best_is_never_above_a_partitioner(name):
    options = {"balance": "nnz", "epsilon": 0.05, "seed": 2}
    best = plancc.compile(graph(name), "hp", 4, effort="best", **options)
    for how in highest(hypergraphs=True):
        alone = plancc.compile(
            *(graph(name), how.adapter.model, 4),
            partitioner=how.adapter.name,
            preset=how.how.preset,
            **options,
            **({"objective": how.how.objective} if how.how.objective else {}),
        )
        over = alone.metrics().nonzero_imbalance > max(0.05, best.metrics().nonzero_imbalance)
        assert over or value(best, "volume") <= value(alone, "volume"), how.name
