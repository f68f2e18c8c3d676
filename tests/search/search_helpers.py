"""Small graphs to search on, and what every result must be."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.models.weights import part_weights
from plancc.plan.lowering import lower
from plancc.predict.machine_files import find_machine
from plancc.predict.schedules import schedule_of, tables_of
from plancc.predict.simulation import simulate
from plancc_datasets import load_dataset

DIMS = (16, 8, 4)


def graph_of(pattern) -> Graph:
    """The pattern with a full diagonal, as the front end would leave it."""
    matrix = sp.csr_matrix(pattern) + sp.eye(pattern.shape[0], format="csr")
    matrix.sort_indices()
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


@cache
def small_graph(name: str) -> Graph:
    if name == "rmat":
        return normalize(load_dataset("rmat", scale=9, edge_factor=8, seed=1).graph)
    if name == "grid":
        return normalize(load_dataset("grid", rows=16, cols=20).graph)
    return graph_of(np.random.default_rng(2).random((300, 300)) < 0.02)  # directed


def value_of(
    objective: str, matrix: Graph, owners: Owners, num_parts: int, dims=DIMS
) -> int | float:
    """The objective's value; "time" is the simulation of the plan, which is built for it."""
    if objective != "time":
        return objective_value(objective, traffic(matrix, owners, num_parts), owners)
    valued = replace(matrix, values=np.ones(matrix.num_nonzeros, np.float32))
    plan = lower(valued, owners, num_parts, normalization="none", self_loops=False)
    return simulate(schedule_of(tables_of(plan), dims), find_machine("cpu-cluster")).seconds


def limits(weights, num_parts, epsilon):
    """Of every constraint: the allowed weight, or the heaviest vertex."""
    columns = weights.reshape(len(weights), -1)
    even = -(-columns.sum(axis=0) // num_parts)
    return even, np.maximum(np.floor((1 + epsilon) * even + 1e-9), columns.max(axis=0))


def overload(owner, weights, num_parts, epsilon):
    even, limit = limits(weights, num_parts, epsilon)
    loads = part_weights(owner, weights, num_parts).reshape(num_parts, -1)
    return (np.maximum(loads - limit, 0).sum(axis=0) / np.maximum(even, 1)).sum()


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
    over = overload(owner, weights, num_parts, epsilon)

    best = (np.inf, np.inf, np.inf)
    for trial in result.tried:
        reached = (trial.overload, trial.value, trial.volume)
        assert trial.best == (reached < best)
        best = min(best, reached)
    assert best == (pytest.approx(over), result.value, result.volume)
    return over
