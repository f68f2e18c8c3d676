"""Small graphs to search on, and what every result must be."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import worlds

from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.models.limits import Limits
from plancc.models.weights import vertex_weights
from plancc.options import SearchOptions
from plancc.plan.lowering import lower
from plancc.search import memetic
from plancc.search.effort import search
from plancc_datasets import load_dataset

DIMS = (16, 8, 4)


def graph_of(pattern) -> Graph:
    """The pattern with a full diagonal, as the front end would leave it."""
    pattern = sp.csr_matrix(pattern, dtype=bool)
    return worlds.graph_of(pattern + sp.eye_array(pattern.shape[0], dtype=bool))


@cache
def small_graph(name: str) -> Graph:
    if name == "rmat":
        return normalize(load_dataset("rmat", scale=9, edge_factor=8, seed=1).graph)
    if name == "grid":
        return normalize(load_dataset("grid", rows=16, cols=20).graph)
    return graph_of(np.random.default_rng(2).random((300, 300)) < 0.02)  # directed


@cache
def best_of(name: str):
    """What effort best finds in one round, by one thread, and what it told."""
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memetic, "EVOLUTION", replace(memetic.EVOLUTION, rounds=1))
        options = SearchOptions(effort="best", seed=3)
        return search(small_graph(name), 8, options, report=told.append), told


def record_is_right(tried, overload, value, volume):
    """Exactly those steps are the best that are better than all before; so is what was found."""
    best = (np.inf, np.inf, np.inf)
    for trial in tried:
        reached = (trial.overload, trial.value, trial.volume)
        assert trial.best == (reached < best)
        best = min(best, reached)
    assert best == (pytest.approx(overload), value, volume)


def value_of(
    objective: str, matrix: Graph, owners: Owners, num_parts: int, dims=DIMS
) -> int | float:
    """The objective's value; "time" is the simulation of the plan, which is built for it."""
    if objective != "time":
        return objective_value(objective, traffic(matrix, owners, num_parts), owners)
    valued = replace(matrix, values=np.ones(matrix.num_nonzeros, np.float32))
    plan = lower(valued, owners, num_parts, normalization="none", self_loops=False)
    return worlds.epoch_seconds(plan, dims)


def limits_of(matrix: Graph, num_parts: int, *allowed: float) -> Limits:
    """Nonzeros and rows, each with a limit of its own."""
    weights = vertex_weights(matrix, "nnz,rows")
    return Limits(weights, num_parts, allowed, names=("nnz", "rows"))


def within(result, limits: Limits) -> None:
    """Every constraint is within its own limit."""
    for load, allowed in zip(limits.weights.T, limits.epsilon, strict=True):
        heaviest = np.bincount(result.owners.rows, load, limits.num_parts).max()
        assert heaviest <= (1 + allowed) * -(-load.sum() // limits.num_parts)


def check(result, matrix, num_parts, *, objective="volume", weights=None, epsilon=0.01):
    """Owners, figures and the list of trials are right, and agree with each other."""
    assert result.owners.nonzeros is None
    owner = result.owners.rows
    assert owner.dtype == np.int32
    assert owner.shape == (matrix.num_vertices,)
    sizes = np.bincount(owner, minlength=num_parts)
    assert len(sizes) == num_parts
    assert sizes.min() >= 1

    parts = traffic(matrix, result.owners, num_parts)
    assert result.value == value_of(objective, matrix, result.owners, num_parts)
    assert result.volume == parts.sent.sum()
    weights = matrix.row_nonzeros() if weights is None else weights
    over = worlds.slow_overload(weights, owner, num_parts, epsilon)

    record_is_right(result.tried, over, result.value, result.volume)
    return over
