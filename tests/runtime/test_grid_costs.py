"""An epoch on a process grid sends what the closed forms of Tripathy et al. 2020 say."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import worlds
from cases import long
from grid_words import executed, sum_of
from runs import on_ranks

from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train

N = 36
GRIDS = [
    *(Grid("1d", 1), Grid("1d", 4), Grid("1.5d", 4, 1), Grid("1.5d", 4, 2)),
    *(Grid("2d", 2, 2), Grid("2d", 2, 3), Grid("2d", 3, 1)),
    *(Grid("3d", 1, 2, 2), Grid("3d", 2, 1, 2)),
]
PASSES = [("order",), ("order", "constant", "overlap")]
"""Process grids always have the first."""
WIDTHS = [(12, 6, 12), (6, 12, 6)]
"""Of features, hidden layer, classes: narrower and wider ones on the way."""


def a_plan(grid: Grid, features: int, classes: int):
    """A directed matrix, every block of it with nonzeros, in even blocks of rows."""
    rng = np.random.default_rng(2)
    full = rng.random((N, N)) < 0.7
    np.fill_diagonal(full, True)
    graph = worlds.graph_of(np.where(full, rng.random((N, N)) + 0.1, 0) / N, directed=True)
    owner = rng.permutation(np.arange(N) % grid.num_parts).astype(np.int32)
    plan = lower(graph, Owners(owner), grid.num_parts, normalization="none", self_loops=False)
    data = worlds.data(N, features, classes)
    data = VertexData(features=data.features, labels=np.maximum(data.labels, 0))
    return with_grid(replace(plan, vertex_data=data.take(plan.global_id)), grid), graph.num_nonzeros


@pytest.mark.parametrize(
    ("grid", "widths", "passes"),
    [
        pytest.param(
            grid, WIDTHS[i], PASSES[j], marks=() if (i, j) == (k % 2, k // 2 % 2) else long
        )
        for k, grid in enumerate(GRIDS)
        for i, j in product(range(2), range(2))
    ],
    ids=str,
)
def test_counted_words_are_the_formulas(grid, widths, passes, tmp_path):
    features, hidden, classes = widths
    plan, nonzeros = a_plan(grid, features, classes)
    path = tmp_path / "plan.h5"
    plan.save(path)
    options = TrainOptions(
        **{"epochs": 1, "layers": 2, "hidden": hidden, "classes": classes},
        **{"eval_every": 0, "threads": 1, "passes": passes},
    )

    def work(transport):
        found = []
        train(path, options, transport, lambda measure: found.append(measure.spent.traffic))
        return found

    whole = sum_of(executed(grid, N, nonzeros, widths, passes))
    per_epoch = np.array(on_ranks(grid.num_ranks, work))  # [ranks, epochs, counters]
    for counted in per_epoch.sum(axis=0):
        messages_sent, words_sent, _, messages, words, _, reductions, reduced = counted
        assert (words_sent, words) == (whole.words, whole.words)
        assert (messages_sent, messages) == (whole.messages, whole.messages)
        assert (reductions, reduced) == (whole.reductions, whole.words_reduced)
