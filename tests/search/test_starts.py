"""Which partitioner begins, by what is measured of a graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from search_helpers import check, graph_of, small_graph

from plancc.errors import BackendError
from plancc.graph.normalize import normalize
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.loads import Loads
from plancc.models.weights import vertex_weights
from plancc.options import SearchOptions
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.adapter import Adapter
from plancc.search import job, search
from plancc.search.starts import KINDS, beginnings, kind_of
from plancc_datasets import load_dataset


def problems(matrix, balance="nnz"):
    graph = GraphModel().build(matrix, 4, balance=balance, seed=1)
    return graph, HypergraphModel().build(matrix, 4, balance=balance, seed=1)


def names(kind, effort, matrix, balance="nnz"):
    found = beginnings(kind, effort, *problems(matrix, balance))
    return [" ".join([b.adapter.name, b.how.preset, b.how.objective]).strip() for b in found]


def star_forest():
    """Ten stars of 40 leaves on a ring of 2000: two kinds of degrees."""
    n = 2000
    ring = sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)).tolil()
    for hub in range(10):
        ring[hub, 100 + 40 * hub : 140 + 40 * hub] = 1
    return graph_of(ring.tocsr() + ring.tocsr().T)


def test_kinds():
    grid, _ = problems(small_graph("grid"))
    stars, _ = problems(star_forest())
    assert [kind_of(grid, share) for share in (None, 0.05, 0.3, 0.9)] == [
        *("even", "thin", "even", "dense")
    ]
    assert [kind_of(stars, share) for share in (None, 0.05, 0.3, 0.9)] == [
        *("hubs", "hubs", "hubs", "wide")
    ]
    empty, _ = problems(graph_of(sp.csr_matrix((40, 40))))
    assert kind_of(empty) == "even"


def test_the_best_start_is_first_and_best_has_those_of_all():
    for adapter in ("metis", "kaminpar", "mtkahypar"):
        if not PARTITIONERS[adapter].available():
            pytest.skip(f"{adapter} is not installed")
    grid = small_graph("grid")
    assert names("even", "fast", grid) == ["metis kway volume"]
    assert names("hubs", "fast", grid) == ["kaminpar default cut", "metis kway cut"]
    assert names("even", "balanced", grid) == ["metis kway volume", "kaminpar strong cut"]
    for kind in KINDS:
        every = names(kind, "best", grid)
        assert {"mtkahypar quality", "mtkahypar default", "metis kway cut"} <= {*every}
        assert set(names(kind, "balanced", grid)) <= {*every}
    graph, _ = problems(grid)
    assert not any(b.how.objective == "" for b in beginnings("thin", "best", graph, None))


def test_several_weights_on_long_boundaries_are_for_those_who_balance_them():
    grid = small_graph("grid")
    assert names("hubs", "balanced", grid, "nnz,rows") == ["metis kway cut"]
    assert "metis kway volume" in names("even", "balanced", grid, "nnz,rows")


def test_a_partitioner_of_another_package_begins_if_it_is_the_best(monkeypatch):
    mine = Adapter(
        name="mine",
        run=PARTITIONERS["builtin"].run,
        accepts=PARTITIONERS["builtin"].accepts,
        presets=("default",),
        objectives=("cut",),
        auto_rank={type(problems(small_graph("grid"))[0]): 99},
    )
    loaded = PARTITIONERS.loaded() | {"mine": mine}
    monkeypatch.setattr(type(PARTITIONERS), "loaded", lambda self: loaded)
    assert names("even", "balanced", small_graph("grid")) == []


def test_steps_of_a_road_and_of_a_mesh():
    """Few rows on the boundary: nothing is swept beyond the limit, minimum cuts come last."""
    road = normalize(load_dataset("grid", rows=80, cols=80).graph)
    result = search(road, 4, SearchOptions(effort="balanced"))
    assert check(result, road, 4) == 0
    steps = [trial.step for trial in result.tried]
    assert steps[1:] == ["climb", "minimum cuts", "V-cycle 1, seed 1", "polished"]
    volumes = [trial.volume for trial in result.tried[:3]]
    assert volumes == sorted(volumes, reverse=True)
    result = search(road, 4, SearchOptions(effort="fast"))
    assert [trial.step for trial in result.tried][1:] == ["climb", "minimum cuts"]
    mesh = small_graph("grid")
    steps = [trial.step for trial in search(mesh, 8, SearchOptions(effort="balanced")).tried]
    assert steps[-1] == "polished"
    assert "combined" in steps


def test_no_cycle_follows_one_that_found_nothing_better():
    for name in ("grid", "rmat"):
        result = search(small_graph(name), 8, SearchOptions(effort="balanced", seed=2))
        best = np.inf
        for before, trial in zip(result.tried, result.tried[1:], strict=False):
            best = min(best, before.volume)
            if "V-cycle" in before.step and "V-cycle" in trial.step:
                k = int(before.step.split()[1].rstrip(","))
                if k > 1:  # the first one follows sweeps
                    assert before.volume <= best


def test_a_start_that_fails_makes_room_for_the_next(monkeypatch):
    real = job.partition

    def partition(problem, num_parts, options, **more):
        if options.partitioner == "metis":
            raise BackendError("it crashed")
        return real(problem, num_parts, options, **more)

    monkeypatch.setattr(job, "partition", partition)
    result = search(small_graph("grid"), 4, SearchOptions(effort="fast"))
    check(result, small_graph("grid"), 4)
    assert "left out: it crashed" in result.warnings


def test_two_threads_find_what_one_finds():
    for name in ("grid", "rmat"):
        one, two = (
            search(small_graph(name), 8, SearchOptions(effort="balanced", threads=threads))
            for threads in (1, 2)
        )
        assert one.owners.rows.tobytes() == two.owners.rows.tobytes()


def test_two_balances_on_a_mesh():
    matrix, p = normalize(load_dataset("grid", rows=60, cols=60).graph), 8
    weights = vertex_weights(matrix, "nnz,rows")
    loads = Loads({"nnz": weights[:, 0], "rows": weights[:, 1]}, (0.1, 0.01))
    result = search(matrix, p, SearchOptions(effort="balanced"), loads=loads)
    for load, allowed in zip(weights.T, (0.1, 0.01), strict=True):
        heaviest = np.bincount(result.owners.rows, load, p).max()
        assert heaviest <= (1 + allowed) * -(-load.sum() // p)
