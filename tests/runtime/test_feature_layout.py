"""Feature-parallel plans against dense float64 matrices: products, gradients, words, pipelines.

What is expected comes from dense matrices alone; the paper's formula for the words is written down
again here. Training on them is in `test_trained_layouts`.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
import worlds
from cases import long
from reference import normalised
from runs import on_ranks

from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.layers import Aggregate
from plancc.plan.lowering import lower
from plancc.plan.slices import read_rank_slice
from plancc.plan.stages import Batches, wanted_stages
from plancc_runtime.layouts.feature import FeatureGraph
from plancc_runtime.layouts.order import order_rows
from plancc_runtime.layouts.pipeline import bandwidth
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.testing import Layout, LayoutTests
from plancc_runtime.transport.base import Pending


def matrix(n: int, directed: bool, seed: int = 0, reach: int | None = None) -> np.ndarray:
    """Normalised; with `reach` only nonzeros at most that far from the diagonal."""
    random = np.random.default_rng(seed)
    pattern = random.random((n, n)) < 0.15
    pattern[n // 2] = False  # a vertex that needs none
    if reach is not None:
        pattern &= np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= reach
    return normalised(pattern if directed else pattern | pattern.T)


def slices_on(a, grid, data=None):
    """What every rank of a feature plan of the dense matrix reads; owners are random."""
    owner = np.random.default_rng(1).integers(grid.num_parts, size=len(a)).astype(np.int32)
    options = {"normalization": "sym", "self_loops": True}  # they are in the matrix already
    plan = lower(worlds.graph_of(a), Owners(owner), grid.num_parts, **options)
    plan = with_grid(replace(plan, vertex_data=(data or VertexData()).take(plan.global_id)), grid)
    with TemporaryDirectory() as folder:
        plan.save(file := Path(folder, "plan.h5"))
        return [read_rank_slice(file, rank, grid.num_ranks) for rank in range(grid.num_ranks)]


def on_grid(a, grid, work, options=None, data=None):
    """``work(graph, part)`` on every rank of a feature plan of the dense matrix."""
    of_ranks = slices_on(a, grid, data)
    options = options or TrainOptions()

    def rank(transport):
        header, part = of_ranks[transport.rank]
        part = order_rows(part, options.row_order, options.pipeline, transport)
        resources = Resources(transport, getattr(torch, options.dtype))
        graph = FeatureGraph(part, header, resources, options.pipeline, options.aggregate_on)
        return work(graph, part)

    return on_ranks(grid.num_ranks, rank)


def cases():
    """Grid, matrix, options, and shape of a weight: first all rows at once, then by batches."""
    grids = [(1, 3), (2, 1), (2, 3), (3, 2), (1, 1)]
    for turn, grid in enumerate(grids):
        yield grid, matrix(31, turn % 2 == 0), {}, (13, 9)
    for turn, stages in enumerate(("2", "50", "3", "7", "auto")):
        reach = (None, 4)[turn // 2 % 2]
        order = "auto" if reach is None else "none"
        a = matrix(29, turn % 2 == 0, reach=reach)
        yield (1, 1 + turn % 3), a, {"pipeline": stages, "row_order": order}, (11, 6)
    for grid, stages in (((1, 5), "off"), ((1, 5), "3"), ((2, 3), "off")):  # ranks without a column
        yield grid, matrix(23, True), {"pipeline": stages, "row_order": "none"}, (2, 1)
    yield (1, 2), matrix(23, True), {"aggregate_on": "cpu", "pipeline": "3"}, (8, 5)
    yield (2, 2), matrix(23, True), {"aggregate_on": "cpu", "row_order": "rcm"}, (8, 5)


QUICK = (2, 6, 7, 11, 13, 14)
"""Several groups; batches of any size; ranks without a column; products on the CPU."""


class TestProducts(LayoutTests):
    @pytest.fixture(
        scope="class",
        params=[
            pytest.param(case, id=f"{case[0]} {case[2]}", marks=() if k in QUICK else long)
            for k, case in enumerate(cases())
        ],
    )
    @classmethod
    def layout(cls, request):
        shape, a, options, (width, columns) = request.param
        grid, options = Grid("feature", *shape), TrainOptions(**options)
        of_ranks = slices_on(a, grid)

        def make(transport, resources):
            header, part = of_ranks[transport.rank]
            part = order_rows(part, options.row_order, options.pipeline, transport)
            return FeatureGraph(part, header, resources, options.pipeline, options.aggregate_on)

        return Layout(grid.num_ranks, make, {"plan": a}, width=width, columns=columns)


@pytest.mark.parametrize("overlap", [True, False])
def test_messages_travel_while_batches_are_multiplied(overlap):
    """With a narrow band: the input of the next batch, and the output of the last one."""
    stages, n = 5, 50
    a = matrix(n, False, reach=3)
    log: list[tuple[str, int]] = []

    class Watched:
        """All-to-alls are numbered as they begin."""

        def __init__(self, members):
            self.members, self.rank, self.begun = members, members.rank, 0

        def start_alltoall(self, sends, receives):
            number, self.begun = self.begun, self.begun + 1
            log.append(("begin", number))
            pending = self.members.start_alltoall(sends, receives)

            def finish():
                pending.wait()
                log.append(("end", number))

            return Pending(finish)

    def work(graph, part):
        if graph._slicing.members.rank == 0:
            graph._slicing = replace(
                graph._slicing,
                members=Watched(graph._slicing.members),
                resources=replace(graph._slicing.resources, overlap=overlap),
            )
            multiply = graph.multiply

            def logged(stage, *rest):
                log.append(("multiply", stage))
                return multiply(stage, *rest)

            graph.multiply = logged
        graph.product(torch.ones(part.num_rows, 4))

    options = TrainOptions(pipeline=str(stages), row_order="none")
    on_grid(a, Grid("feature", 1, 2), work, options)
    at = {event: place for place, event in enumerate(log)}
    ended = [number for kind, number in log if kind == "end"]
    assert ended == sorted(ended) == list(range(2 * stages))
    if not overlap:
        assert all(at["end", k] == at["begin", k] + 1 for k in ended)
        return
    # a batch needs the next one at most: begun are 0 1 2, out 0, 3, out 1, 4, out 2, out 3, out 4
    inputs, outputs = [0, 1, 2, 4, 6], [3, 5, 7, 8, 9]
    for stage in range(stages - 1):
        begin, following = at["multiply", stage], at["multiply", stage + 1]
        assert at["begin", outputs[stage]] < following < at["end", outputs[stage]]
        if stage + 2 < stages:
            assert at["begin", inputs[stage + 2]] < begin < at["end", inputs[stage + 2]]
        assert at["end", inputs[stage + 1]] < begin


def test_the_volume_is_the_papers_and_the_same_for_any_number_of_ranks():
    """2 n d (c - 1) / c words there and back, and as much in the adjoint (Proposition 3.4)."""
    n, width = 60, 12
    for ranks in (1, 2, 4):

        def words(graph, part):
            steps = (Aggregate(width, back=back) for back in (False, True))
            return sum(int(graph.counts(step).words_sent[0]) for step in steps)

        counted = on_grid(matrix(n, True), Grid("feature", 1, ranks), words)
        assert sum(counted) == 2 * width * 2 * n * (ranks - 1) / ranks


def test_what_a_batch_needs():
    """A product that begins too early is right where messages are quick, as those of threads."""
    a = matrix(30, True, reach=3)
    rows, columns = np.nonzero(a)
    row_ptr = np.concatenate([[0], np.cumsum(np.count_nonzero(a, axis=1))])
    assert bandwidth(row_ptr, columns) == np.abs(rows - columns).max() == 3
    for stages in (1, 2, 4, 7, 30):
        batches = Batches(30, 2, stages)
        of_row = np.empty(30, int)
        for stage in range(stages):
            of_row[slice(*batches.bounds(stage))] = stage
        expected = np.maximum.accumulate(
            [of_row[columns[of_row[rows] == stage]].max(initial=0) for stage in range(stages)]
        )
        expected[-1] = stages - 1
        assert batches.needs(row_ptr, columns) == expected.tolist()
        assert sorted(np.concatenate([batches.rows_of(k) for k in range(2)])) == list(range(30))


def test_stages_follow_the_bandwidth():
    """Proposition 3.5: (n - b) / 2n is at least 1 / s, for the smallest such s."""
    for n, b in ((100, 0), (100, 10), (100, 50), (1000, 899)):
        stages = wanted_stages(n, b)
        assert (n - b) / (2 * n) >= 1 / stages
        assert stages == 2 or (n - b) / (2 * n) < 1 / (stages - 1)
    assert wanted_stages(100, 99) == 2  # 200 would only cost
