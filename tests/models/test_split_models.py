"""Medium-grain: what goes with rows and columns, and what the cut counts."""

import numpy as np
import pytest
from cases import seeds
from worlds import graph_of, net_list, places, rows_moved

from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models import MODELS
from plancc.models.medium_grain import MediumGrainModel, split_problem


def random_graph(seed: int, n: int = 25, diagonal: bool | None = None) -> Graph:
    """Directed, with a heavy row and a heavy column."""
    rng = np.random.default_rng(seed)
    array = rng.random((n, n)) < 0.1
    array[seed % n] |= rng.random(n) < 0.7
    array[:, (seed + 1) % n] |= rng.random(n) < 0.7
    if diagonal is not None:
        np.fill_diagonal(array, diagonal)
    return graph_of(array)


@pytest.mark.parametrize("seed", seeds(12, quick=6))
def test_cut_is_expand_and_fold(seed):
    graph = random_graph(seed, diagonal=(None, True, False)[seed % 3])
    rng, n, p = np.random.default_rng(seed), graph.num_vertices, 4
    row = np.repeat(np.arange(n), graph.row_nonzeros())
    splits = [rng.random(len(row)) < 0.5, np.zeros(len(row), bool), np.ones(len(row), bool)]
    problems = [split_problem(graph, split & (row != graph.indices)) for split in splits]
    problems.append(MediumGrainModel().build(graph, p, balance="nnz", seed=1))
    owner = rng.integers(p, size=n).astype(np.int32)
    for problem in problems:
        found = problem.owners(owner)
        assert (found.rows == owner).all()
        assert (found.nonzeros[row == graph.indices] == owner[row[row == graph.indices]]).all()
        nets = net_list(problem.hypergraph)
        cut = sum(len({int(owner[v]) for v in pins}) - 1 for pins in nets)
        assert cut == len(rows_moved(graph, owner, found.nonzeros))
        assert cut == traffic(graph, found, p).sent.sum()
        loads = np.bincount(found.nonzeros, minlength=p)
        weights = problem.hypergraph.vertex_weights
        assert np.bincount(owner, weights, minlength=p).tolist() == loads.tolist()
        for pins, source in zip(nets, problem.hypergraph.net_sources.tolist(), strict=True):
            assert pins[0] == source
            assert len(pins) == len(set(pins)) > 1


@pytest.mark.parametrize("seed", range(6))
def test_nonzeros_go_with_the_lighter_side(seed):
    graph = random_graph(seed)
    held = places(graph)
    in_row = [sum(i == v for i, _ in held) for v in range(graph.num_vertices)]
    in_column = [sum(j == v for _, j in held) for v in range(graph.num_vertices)]
    problem = MediumGrainModel().build(graph, 2, balance="nnz", seed=1)
    for k, (i, j) in enumerate(held):
        with_column = (in_column[j], j) < (in_row[i], i)
        assert problem.nonzero_vertex[k] == (j if with_column and i != j else i)


def test_symmetric_patterns_are_split_symmetrically():
    array = np.random.default_rng(3).random((30, 30)) < 0.1
    graph = graph_of(array | array.T)
    problem = MediumGrainModel().build(graph, 2, balance="nnz", seed=1)
    where = dict(zip(places(graph), problem.nonzero_vertex.tolist(), strict=True))
    assert all(where[i, j] == where[j, i] for i, j in where)


@pytest.mark.parametrize("name", ["medium-grain", "fine-grain", "libra"])
@pytest.mark.parametrize(
    ("num_parts", "balance", "words"),
    [(2, "rows", "balance 'rows'"), (26, "nnz", "26 parts for 25 vertices")],
)
def test_what_models_of_nonzeros_refuse(name, num_parts, balance, words):
    with pytest.raises(InputError, match=words):
        MODELS[name]().build(random_graph(1), num_parts, balance=balance, seed=1)


def test_no_nonzeros():
    graph = graph_of(np.zeros((3, 3), dtype=bool))
    problem = MediumGrainModel().build(graph, 2, balance="nnz", seed=1)
    assert problem.hypergraph.num_nets == len(problem.nonzero_vertex) == 0
    assert problem.hypergraph.vertex_weights.tolist() == [0, 0, 0]
