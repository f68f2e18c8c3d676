"""`search_edges` on small graphs: its owners, its figures, its record, its options."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import worlds
from cases import long
from search_helpers import DIMS, record_is_right, small_graph, value_of

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import BackendError
from plancc.models.fine_grain import FineGrainModel
from plancc.models.medium_grain import MediumGrainModel
from plancc.options import EFFORTS, SearchOptions
from plancc.search import edges
from plancc.search.edges import search_edges
from plancc.search.effort import search
from plancc.search.presets import EDGE_EFFORTS, NONZERO_REFINEMENT

CASES = (*((MediumGrainModel(), effort) for effort in EFFORTS), (FineGrainModel(), "best"))


@pytest.fixture
def builtin(monkeypatch):
    """Native partitioners are not asked: their processes take longer than the rest."""

    def partition(problem, num_parts, options):
        if options.partitioner == "mtkahypar":
            raise BackendError("partitioner 'mtkahypar' failed")
        if options.partitioner == "auto":
            options = replace(options, partitioner="builtin")
        return original(problem, num_parts, options)

    original = edges.partition
    monkeypatch.setattr(edges, "partition", partition)


@pytest.fixture
def few_combinations(monkeypatch):
    best = replace(EDGE_EFFORTS["best"], starts=2, combinations=1)
    monkeypatch.setitem(EDGE_EFFORTS, "best", best)


def check(result, matrix, num_parts, *, objective="volume", epsilon=0.01):
    """Owners, figures and the list of trials are right; returns the overload."""
    owner, nonzero_owner = result.owners.rows, result.owners.nonzeros
    assert owner.dtype == nonzero_owner.dtype == np.int32
    assert owner.shape == (matrix.num_vertices,)
    assert nonzero_owner.shape == (matrix.num_nonzeros,)
    assert sorted(set(owner.tolist())) == list(range(num_parts))
    if matrix.num_nonzeros > 0:
        assert 0 <= nonzero_owner.min() <= nonzero_owner.max() < num_parts
    for (i, j), part in zip(worlds.places(matrix), nonzero_owner.tolist(), strict=True):
        assert i != j or part == owner[i]

    assert result.volume == len(worlds.rows_moved(matrix, owner, nonzero_owner))
    assert result.value == value_of(objective, matrix, result.owners, num_parts)
    even = -(-matrix.num_nonzeros // num_parts)
    loads = np.bincount(nonzero_owner, minlength=num_parts)
    over = np.maximum(loads - int((1 + epsilon) * even + 1e-9), 0).sum() / max(even, 1)
    record_is_right(result.tried, over, result.value, result.volume)
    return over


@cache
def by_rows():
    return search(small_graph("rmat"), 8, SearchOptions(effort="balanced"))


@cache
def of_least_volume():
    return search_edges(
        small_graph("directed"), MediumGrainModel(), 12, SearchOptions(effort="fast")
    )


@pytest.mark.parametrize(("model", "effort"), CASES)
@pytest.mark.usefixtures("builtin", "few_combinations")
def test_owners_figures_and_record(model, effort):
    matrix, p, told = small_graph("rmat"), 8, []
    result = search_edges(matrix, model, p, SearchOptions(effort=effort), report=told.append)
    assert check(result, matrix, p) == 0
    assert told == result.tried
    assert result.seconds >= sum(trial.seconds for trial in told)
    assert result.volume < 0.8 * by_rows().volume
    left_out = ["left out: partitioner 'mtkahypar' failed"]  # where it would be the second start
    medium = isinstance(model, MediumGrainModel)
    assert result.warnings == (left_out if medium and effort == "best" else [])
    assert any("combined" in trial.step for trial in told) == (effort == "best")


@pytest.mark.parametrize("objective", [*OBJECTIVES][1:])
def test_objectives(objective):
    matrix = small_graph("directed")
    options = SearchOptions(effort="fast", dims=DIMS, objective=objective)
    result = search_edges(matrix, MediumGrainModel(), 12, options)
    assert check(result, matrix, 12, objective=objective) == 0
    assert result.value < value_of(objective, matrix, of_least_volume().owners, 12)


@pytest.mark.usefixtures("builtin", "few_combinations")
@pytest.mark.parametrize("effort", ["balanced", pytest.param("best", marks=long)])
def test_same_seed_same_owners(effort):
    def found(seed):
        matrix = small_graph("directed")
        result = search_edges(
            matrix, MediumGrainModel(), 4, SearchOptions(effort=effort, seed=seed)
        )
        return result.owners.rows.tobytes() + result.owners.nonzeros.tobytes()

    assert found(3) == found(3)
    assert effort == "best" or found(3) != found(4)


def test_small_and_extreme():
    rng = np.random.default_rng(4)
    patterns = [
        np.zeros((5, 5), dtype=bool),
        np.ones((1, 1), dtype=bool),
        np.eye(6, dtype=bool),
        rng.random((9, 9)) < 0.4,  # without some of its diagonal
        np.arange(8)[:, None] * np.arange(8) == 0,  # a star
    ]
    for pattern in patterns:
        matrix, n = worlds.graph_of(pattern), len(pattern)
        for p in {1, min(2, n), n}:
            result = search_edges(matrix, MediumGrainModel(), p)
            check(result, matrix, p)
            if p == 1:
                assert result.volume == 0


@pytest.mark.usefixtures("builtin")
def test_best_around_fixed_rows():
    """Starts only; nothing is combined, and only the best of them are kept."""
    matrix = small_graph("rmat")
    where = np.full(matrix.num_vertices, -1, dtype=np.int32)
    where[:8] = np.arange(8)
    options = SearchOptions(effort="best", objective="max-volume", fixed=where)
    result = search_edges(matrix, MediumGrainModel(), 8, options)
    assert check(result, matrix, 8, objective="max-volume") == 0
    assert result.owners.rows[:8].tolist() == [*range(8)]
    steps = [trial.step for trial in result.tried]
    assert sum(step.startswith("by rows") for step in steps) == EDGE_EFFORTS["best"].starts
    refined = sum("for max-volume" in step for step in steps)
    assert refined == NONZERO_REFINEMENT.starts + 2  # and one each of efforts fast and balanced


def test_one_part_of_best():
    result = search_edges(small_graph("grid"), MediumGrainModel(), 1, SearchOptions(effort="best"))
    assert check(result, small_graph("grid"), 1) == 0
    assert result.volume == 0


@pytest.mark.usefixtures("builtin")
@pytest.mark.parametrize("objective", ["max-volume", pytest.param("volume", marks=long)])
def test_budget(objective):
    matrix, budget = small_graph("rmat"), 0.5
    options = SearchOptions(effort="best", objective=objective, budget=budget)
    result = search_edges(matrix, MediumGrainModel(), 8, options)
    check(result, matrix, 8, objective=objective)
    steps = {trial.step.split()[0].strip(",") for trial in result.tried}
    assert "by" in steps
    assert {"split", "nonzeros"} <= steps or result.seconds > budget
    refined = [trial for trial in result.tried if f"for {objective}" in trial.step]
    if objective != "volume":  # again and again, until time is up or nothing is found for long
        one = max(trial.seconds for trial in refined)
        assert len(refined) > NONZERO_REFINEMENT.starts or result.seconds + one > budget
    assert result.seconds > budget or len(refined) > NONZERO_REFINEMENT.vain
