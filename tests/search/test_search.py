"""`search` on small graphs: its owners, its figures, its record, its options."""

import json
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long, some, turns
from search_helpers import DIMS, check, graph_of, limits_of, small_graph, value_of, within

from plancc.cost.objectives import OBJECTIVES
from plancc.cost.owners import random_traffic
from plancc.errors import BackendError, InputError
from plancc.models.graph import GraphModel
from plancc.models.limits import Limits
from plancc.models.medium_grain import MediumGrainModel
from plancc.models.weights import vertex_weights
from plancc.options import EFFORTS, SearchOptions
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.adapter import Adapter
from plancc.predict.passes import DEFAULT_DIMS
from plancc.search import rows
from plancc.search.edges import search_edges
from plancc.search.effort import search
from plancc.search.presets import ROW_REFINEMENT

CASES = (("rmat", 5), ("grid", 4), ("directed", 16))
EACH = [pytest.param("fast", marks=long), "balanced", pytest.param("best", marks=long)]
"""Efforts where each does what those below do, and then more."""
LIMITED = (("fast", "volume", (0.02, 0.4)), ("balanced", "max-volume", (0.4, 0.02)))


@pytest.mark.parametrize(
    ("name", "objective", "graph", "p"),
    [  # every effort with every objective; each of both on every graph, but for the slowest
        pytest.param(
            *(name, objective, *(CASES[(i + j) % len(CASES)] if name != "best" else CASES[1])),
            marks=long if name == "best" else (),  # test_memetic.py has it
        )
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
    ("name", "graph", "objective"),
    [
        ("fast", "rmat", "volume"),
        ("balanced", "rmat", "messages"),
        pytest.param("fast", "rmat", "messages", marks=long),
        *(pytest.param("balanced", graph, "volume", marks=long) for graph in ("rmat", "grid")),
    ],
)
def test_same_seed_same_owners_with_any_number_of_threads(name, graph, objective):
    def owners(seed, threads):
        options = SearchOptions(effort=name, objective=objective, seed=seed, threads=threads)
        result = search(small_graph(graph), 8, options)
        check(result, small_graph(graph), 8, objective=objective)
        return result.owners.rows.tobytes()

    assert owners(3, 1) == owners(3, 2)
    if (graph, objective) == ("rmat", "volume"):
        assert owners(3, 2) == owners(3, 2) != owners(4, 1)


def test_time_without_widths_is_that_of_the_default_ones():
    matrix = small_graph("grid")
    result = search(matrix, 4, SearchOptions(effort="fast", objective="time"))
    assert result.value == value_of("time", matrix, result.owners, 4, DEFAULT_DIMS)


def test_more_effort_is_never_worse_than_where_it_starts():
    """That best is no worse than balanced is in test_memetic.py."""
    matrix = small_graph("rmat")
    fast, balanced = (
        search(matrix, 8, SearchOptions(effort=name)) for name in ("fast", "balanced")
    )
    assert fast.volume < fast.tried[0].volume
    assert balanced.volume <= fast.volume


@pytest.mark.parametrize("objective", ["volume", pytest.param("time", marks=long)])
def test_a_budget_that_is_over(objective):
    """Every effort ends with fewer steps than balanced has, and with owners all the same."""
    matrix, p = small_graph("rmat"), 16
    options = SearchOptions(objective=objective, dims=DIMS, threads=2)
    whole = search(matrix, p, replace(options, effort="balanced"))
    for name in EFFORTS:
        result = search(matrix, p, replace(options, effort=name, budget=1e-3))
        check(result, matrix, p, objective=objective)
        assert len(result.tried) < len(whole.tried)


@pytest.mark.parametrize("objective", ["volume", "time"])
def test_best_takes_its_budget(objective):
    matrix, p, budget = small_graph("rmat"), 16, 0.5
    options = {"objective": objective, "dims": DIMS, "threads": 2, "budget": budget}
    begin = time.perf_counter()
    result = search(matrix, p, SearchOptions(effort="best", **options))
    seconds = time.perf_counter() - begin
    check(result, matrix, p, objective=objective)
    refined = [trial for trial in result.tried if f"for {objective}" in trial.step]
    assert seconds > 0.9 * budget or len(refined) > ROW_REFINEMENT.vain
    assert seconds < 120


@turns(name=EFFORTS, objective=OBJECTIVES, threads=[1, 2])
def test_nothing_to_search(name, objective, threads):
    options = SearchOptions(effort=name, objective=objective, dims=DIMS, threads=threads)
    ring = graph_of(np.roll(np.eye(4), 1, axis=0))
    directed, lone = small_graph("directed"), graph_of(sp.csr_matrix((40, 40)))
    for matrix, p in ((ring, 1), (ring, 4), (directed, 300), (lone, 7), (lone, 40), (lone, 1)):
        n = matrix.num_vertices
        result = search(matrix, p, options)
        assert check(result, matrix, p, objective=objective) == 0
        assert len(result.tried) == 1
        assert result.volume == (len(matrix.indices) - n if p == n else 0)


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EACH)
def test_many_parts(name):
    """Parts of one or two vertices: none may be emptied."""
    matrix = graph_of(np.random.default_rng(5).random((60, 60)) < 0.1)
    for p in (2, 40):
        check(search(matrix, p, SearchOptions(effort=name, epsilon=0.1)), matrix, p, epsilon=0.1)


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EACH)
def test_several_constraints(name):
    matrix, p = small_graph("grid"), 4
    weights = vertex_weights(matrix, "nnz,rows")
    strip = weights[:, 1]
    strip[:] = np.arange(len(weights)) % 16 < 4
    options = SearchOptions(effort=name, epsilon=0.1)
    limits = Limits(weights, p, 0.1, names=("nnz", "strip"))
    result = search(matrix, p, options, limits=limits)
    assert check(result, matrix, p, weights=weights, epsilon=0.1) == 0
    assert result.warnings == []

    strip[0] = 1000  # no balance can be
    result = search(matrix, p, options, limits=replace(limits))
    check(result, matrix, p, weights=weights, epsilon=0.1)
    assert any(
        note.startswith("strip: the heaviest vertex weighs 1000") for note in result.warnings
    )


@pytest.mark.usefixtures("one_round")
@some(
    lambda *case: case in LIMITED,
    **{
        "name": EFFORTS,
        "objective": ("volume", "max-volume"),
        "epsilon": ((0.02, 0.4), (0.4, 0.02)),
    },
)
def test_limits_of_their_own(name, objective, epsilon):
    """Each constraint is within its own limit, whatever the epsilon of the options."""
    matrix, p = small_graph("rmat"), 4
    limits = limits_of(matrix, p, *epsilon)
    options = SearchOptions(effort=name, objective=objective, epsilon=0.0)
    result = search(matrix, p, options, limits=limits)
    assert result.warnings == []
    within(result, limits)


@pytest.mark.usefixtures("one_round")
@pytest.mark.parametrize("name", EACH)
def test_without_metis(name, monkeypatch):
    monkeypatch.setattr(Adapter, "available", lambda self: self.name == "builtin")
    result = search(small_graph("grid"), 4, SearchOptions(effort=name))
    check(result, small_graph("grid"), 4)
    assert result.tried[0].step.startswith("builtin")
    assert any("metis is not installed" in note for note in result.warnings)
    assert len(set(result.warnings)) == len(result.warnings)


@pytest.mark.usefixtures("one_round")
def test_a_partitioner_that_fails_is_left_out_unless_it_is_the_first(failing):
    failing(lambda _, options: options.partitioner == "mtkahypar" or options.seed == 99)
    result = search(small_graph("grid"), 4, SearchOptions(effort="best"))
    assert result.warnings == ["left out: it crashed"]
    with pytest.raises(BackendError, match="it crashed"):
        search(small_graph("grid"), 4, SearchOptions(effort="best", seed=99))


def test_two_parts_of_a_graph_with_hubs_are_improved_by_a_library(monkeypatch):
    if not PARTITIONERS["mtkahypar"].available():
        pytest.skip("mtkahypar is not installed")
    monkeypatch.setattr(rows, "IMPROVED", (1000, 10**6))
    graph = small_graph("rmat")
    options = SearchOptions(effort="balanced")
    one, two = (search(graph, 2, replace(options, threads=t)) for t in (1, 2))
    check(one, graph, 2)
    assert (one.owners.rows == two.owners.rows).all()
    steps = [trial.step for trial in one.tried]
    assert steps.count("V-cycle of a library, seed 1") == 1
    both = Limits(vertex_weights(graph, "nnz,rows"), 2, 0.1, names=("nnz", "rows"))
    for parts, limits in ((3, None), (2, both)):
        result = search(graph, parts, options, limits=limits)
        assert not any("library" in trial.step for trial in result.tried)

    def crash(*given):
        raise BackendError("it crashed")

    monkeypatch.setattr(rows, "improve", crash)
    result = search(graph, 2, options)
    check(result, graph, 2)
    assert result.warnings == ["left out: it crashed"]


@pytest.mark.usefixtures("one_round")
def test_model_gp_has_no_partitioner_of_hypergraphs():
    result = search(small_graph("grid"), 4, SearchOptions(effort="best"), model=GraphModel())
    check(result, small_graph("grid"), 4)
    assert not any(trial.step.startswith("kahypar") for trial in result.tried)
    assert any(trial.step.startswith("mtkahypar") for trial in result.tried)  # of graphs too


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effort": "most"}, "effort 'most'.*fast, balanced, best"),
        ({"objective": "luck"}, "objective 'luck'.*volume, max-volume, messages, time"),
        ({"num_parts": 0}, "0 parts"),
        ({"num_parts": 321}, "321 parts"),
    ],
)
def test_wrong_options(options, words):
    """Searches for rows and for nonzeros refuse them alike."""
    num_parts = options.get("num_parts", 4)
    given = {name: options[name] for name in options if name != "num_parts"}
    matrix = small_graph("grid")
    for found in (partial(search, matrix), partial(search_edges, matrix, MediumGrainModel())):
        with pytest.raises(InputError, match=words):
            found(num_parts, SearchOptions(**given))


@pytest.mark.parametrize("name", EACH)
@pytest.mark.usefixtures("one_round")
def test_the_largest_seed(name):
    matrix = graph_of(np.random.default_rng(5).random((60, 60)) < 0.1)
    result = search(matrix, 2, SearchOptions(effort=name, seed=2**31 - 1, epsilon=0.1))
    check(result, matrix, 2, epsilon=0.1)
    assert not result.warnings
