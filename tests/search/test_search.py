"""`search` on small graphs: its owners, its figures, its record, its options."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from search_helpers import DIMS, check, graph_of, small_graph, value_of

from plancc.cost.objectives import OBJECTIVES
from plancc.cost.owners import random_traffic
from plancc.errors import BackendError, InputError
from plancc.models.graph import GraphModel
from plancc.models.loads import Loads
from plancc.models.weights import vertex_weights
from plancc.options import EFFORTS, SearchOptions
from plancc.partitioners.adapter import Adapter
from plancc.predict.predictor import DEFAULT_DIMS
from plancc.search import effort, job, search

CASES = (("rmat", 5), ("grid", 4), ("directed", 16))


@pytest.mark.parametrize(
    ("name", "objective", "graph", "p"),
    [  # every effort with every objective; each of both on every graph
        (name, objective, *CASES[(i + j) % len(CASES)])
        for i, name in enumerate(EFFORTS)
        for j, objective in enumerate(OBJECTIVES)
    ],
)
@pytest.mark.usefixtures("one_round")
def test_owners_figures_and_record(name, objective, graph, p):
    matrix, told = small_graph(graph), []
    options = SearchOptions(effort=name, objective=objective, dims=DIMS)
    result = search(matrix, p, options, report=told.append)
    assert check(result, matrix, p, objective=objective) == 0
    assert told == result.tried
    assert result.volume < random_traffic(matrix, p).sent.sum()
    assert json.loads(result.tried_json())[-1]["step"] == told[-1].step
    assert result.seconds >= sum(trial.seconds for trial in told)  # one thread
    assert result.warnings == []


@pytest.mark.parametrize(
    ("name", "threads"), [*((name, 1) for name in EFFORTS), ("fast", 2), ("balanced", 2)]
)
@pytest.mark.usefixtures("one_round")
def test_same_seed_same_owners(name, threads):
    matrix = small_graph("rmat")

    def owners(seed, objective):
        options = {"effort": name, "objective": objective, "seed": seed, "threads": threads}
        result = search(matrix, 8, SearchOptions(**options))
        check(result, matrix, 8, objective=objective)
        return result.owners.rows.tobytes()

    for objective in ("volume",) if name == "best" else ("volume", "messages"):
        assert owners(3, objective) == owners(3, objective)
    assert owners(3, "volume") != owners(4, "volume")


def test_time_without_widths_is_that_of_the_default_ones():
    matrix = small_graph("grid")
    result = search(matrix, 4, SearchOptions(effort="fast", objective="time"))
    assert result.value == value_of("time", matrix, result.owners, 4, DEFAULT_DIMS)


@pytest.mark.usefixtures("one_round")
def test_best_with_two_threads():
    told = []
    result = search(
        small_graph("rmat"), 6, SearchOptions(effort="best", threads=2), report=told.append
    )
    check(result, small_graph("rmat"), 6)
    assert told == result.tried


def test_more_effort_is_never_worse_than_where_it_starts():
    matrix = small_graph("rmat")
    found = [search(matrix, 8, SearchOptions(effort=name, budget=2.0)) for name in EFFORTS]
    assert found[0].volume < found[0].tried[0].volume
    assert found[1].volume <= found[0].volume
    assert found[2].volume <= found[1].volume  # the budget is ample


@pytest.mark.parametrize("objective", ["volume", "time"])
@pytest.mark.parametrize("name", EFFORTS)
@pytest.mark.parametrize("budget", [1e-3, 1.0])
def test_budget(name, objective, budget):
    matrix, p = small_graph("rmat"), 16
    options = {"effort": name, "objective": objective, "dims": DIMS, "threads": 2}
    search(matrix, p, SearchOptions(**options, budget=0.01))  # compiles
    begin = time.perf_counter()
    result = search(matrix, p, SearchOptions(**options, budget=budget))
    seconds = time.perf_counter() - begin
    check(result, matrix, p, objective=objective)
    assert seconds < budget + 4  # METIS runs in a process of its own, whatever the budget
    refined = [trial for trial in result.tried if f"for {objective}" in trial.step]
    if name == "best":
        assert seconds > 0.9 * budget or len(refined) > effort.VAIN


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", EFFORTS)
def test_nothing_to_search(name, objective):
    options = {"effort": name, "objective": objective, "dims": DIMS}
    directed, lone = small_graph("directed"), graph_of(sp.csr_matrix((40, 40)))
    n = directed.num_vertices
    for matrix, p in ((directed, 1), (directed, n), (lone, 7), (lone, 40), (lone, 1)):
        result = search(matrix, p, SearchOptions(**options))
        assert check(result, matrix, p, objective=objective) == 0
        assert len(result.tried) == 1
        if p == n:
            assert result.volume == len(directed.indices) - n
        else:
            assert result.volume == 0


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EFFORTS)
def test_many_parts(name):
    """Parts of one or two vertices: none may be emptied."""
    matrix = graph_of(np.random.default_rng(5).random((60, 60)) < 0.1)
    for p in (2, 40):
        check(search(matrix, p, SearchOptions(effort=name, epsilon=0.1)), matrix, p, epsilon=0.1)


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EFFORTS)
def test_several_constraints(name):
    matrix, p = small_graph("grid"), 4
    weights = vertex_weights(matrix, "nnz,rows")
    strip = weights[:, 1]
    strip[:] = np.arange(len(weights)) % 16 < 4
    options = SearchOptions(effort=name, epsilon=0.1)
    loads = Loads({"nnz": weights[:, 0], "strip": strip}, 0.1)
    result = search(matrix, p, options, loads=loads)
    assert check(result, matrix, p, weights=weights, epsilon=0.1) == 0
    assert result.warnings == []

    strip[0] = 1000  # no balance can be
    loads = replace(loads)
    result = search(matrix, p, options, loads=loads)
    check(result, matrix, p, weights=weights, epsilon=0.1)
    assert any(
        note.startswith("strip: the heaviest vertex weighs 1000") for note in result.warnings
    )


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EFFORTS)
@pytest.mark.parametrize("objective", ["volume", "max-volume"])
@pytest.mark.parametrize("epsilon", [(0.02, 0.4), (0.4, 0.02)])
def test_limits_of_their_own(name, objective, epsilon):
    """Each constraint is within its own limit, whatever the epsilon of the options."""
    matrix, p = small_graph("rmat"), 4
    weights = vertex_weights(matrix, "nnz,rows")
    loads = Loads({"nnz": weights[:, 0], "rows": weights[:, 1]}, epsilon)
    options = SearchOptions(effort=name, objective=objective, epsilon=0.0)
    result = search(matrix, p, options, loads=loads)
    assert result.warnings == []
    for load, allowed in zip(weights.T, epsilon, strict=True):
        heaviest = np.bincount(result.owners.rows, load, p).max()
        assert heaviest <= (1 + allowed) * -(-load.sum() // p)


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EFFORTS)
def test_without_metis(name, monkeypatch):
    monkeypatch.setattr(Adapter, "available", lambda self: self.name == "builtin")
    result = search(small_graph("grid"), 4, SearchOptions(effort=name))
    check(result, small_graph("grid"), 4)
    assert result.tried[0].step.startswith("builtin")
    assert any("metis is not installed" in note for note in result.warnings)
    assert len(set(result.warnings)) == len(result.warnings)


@pytest.mark.usefixtures("one_round")
def test_a_partitioner_that_fails_is_left_out_unless_it_is_the_first(monkeypatch):
    real = job.partition

    def partition(problem, num_parts, options, **more):
        if options.partitioner == "mtkahypar" or options.seed == 99:
            raise BackendError("it crashed")
        return real(problem, num_parts, options, **more)

    monkeypatch.setattr(job, "partition", partition)
    result = search(small_graph("grid"), 4, SearchOptions(effort="best"))
    assert result.warnings == ["left out: it crashed"]
    with pytest.raises(BackendError, match="it crashed"):
        search(small_graph("grid"), 4, SearchOptions(effort="best", seed=99))


@pytest.mark.usefixtures("one_round")
def test_model_gp_has_no_partitioner_of_hypergraphs():
    result = search(small_graph("grid"), 4, SearchOptions(effort="best"), model=GraphModel())
    check(result, small_graph("grid"), 4)
    assert not any("mtkahypar" in trial.step for trial in result.tried)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effort": "most"}, "effort 'most'.*fast, balanced, best"),
        ({"objective": "luck"}, "objective 'luck'.*volume, max-volume, messages, time"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"budget": 0.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"time_limit": 0.0}, "time limit"),
        ({"num_parts": 0}, "0 parts"),
        ({"num_parts": 321}, "321 parts"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(InputError, match=words):
        search(small_graph("grid"), options.pop("num_parts", 4), SearchOptions(**options))


@pytest.mark.parametrize("objective", ["volume", "max-volume", "messages", "time"])
@pytest.mark.parametrize("name", EFFORTS)
def test_two_threads_where_there_is_nothing_to_search(name, objective):
    ring = graph_of(sp.csr_matrix(np.roll(np.eye(4), 1, axis=0)))
    empty = graph_of(sp.csr_matrix((6, 6)))
    options = SearchOptions(effort=name, objective=objective, threads=2, dims=DIMS)
    for matrix, num_parts in ((ring, 1), (ring, 4), (empty, 3)):
        check(search(matrix, num_parts, options), matrix, num_parts, objective=objective)


@pytest.mark.parametrize("name", EFFORTS)
def test_the_largest_seed(name):
    matrix = small_graph("grid")
    result = search(matrix, 2, SearchOptions(effort=name, seed=2**31 - 1))
    check(result, matrix, 2)
    assert not result.warnings
