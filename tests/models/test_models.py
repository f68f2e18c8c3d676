"""Models against independent, naive counts."""

import numpy as np
import pytest
import scipy.sparse as sp
import worlds
from hypothesis import given
from hypothesis import strategies as st
from worlds import graph_of

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models import MODELS
from plancc.models.block import BlockModel, block_owner
from plancc.models.file import FileModel
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.problem import Hypergraph
from plancc.models.random import random_owner
from plancc.models.rcm import RcmModel, bandwidth, pipeline_granularity, pipeline_stages


def rows_moved(graph: Graph, owner) -> int:
    return len(worlds.rows_moved(graph, owner))


def connectivity_cut(problem: Hypergraph, owner) -> int:
    return sum(len({owner[v] for v in pins}) - 1 for pins in worlds.net_list(problem))


@st.composite
def graphs(draw) -> Graph:
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    array = rng.random((n, n)) < draw(st.sampled_from([0.0, 0.1, 0.3, 1.0]))
    if draw(st.booleans()):
        array |= array.T
    diagonal = draw(st.sampled_from(["as is", "full", "none"]))
    if diagonal != "as is":
        np.fill_diagonal(array, diagonal == "full")
    return graph_of(array)


@given(graph=graphs(), num_parts=st.integers(1, 5), seed=st.integers(0, 1000))
def test_connectivity_cut_is_the_rows_moved(graph, num_parts, seed):
    num_parts = min(num_parts, graph.num_vertices)
    problem = HypergraphModel().build(graph, num_parts, balance="nnz", seed=0)
    owner = np.random.default_rng(seed).integers(num_parts, size=graph.num_vertices)
    assert connectivity_cut(problem, owner) == rows_moved(graph, owner)


@given(graph=graphs())
def test_nets_equal_their_numpy_twin(graph):
    problem = HypergraphModel().build(graph, 1, balance="rows", seed=0)
    columns = [
        sorted({i for i, c in worlds.places(graph) if c == j} | {j})
        for j in range(graph.num_vertices)
    ]
    columns = [pins for pins in columns if len(pins) > 1]
    assert problem.pins.tolist() == [i for pins in columns for i in pins]
    assert np.diff(problem.net_ptr).tolist() == [len(pins) for pins in columns]
    assert problem.pins.dtype == np.int32
    assert problem.net_ptr.dtype == np.int64


@given(graph=graphs())
def test_graph_model_is_the_symmetric_pattern(graph):
    problem = GraphModel().build(graph, 1, balance="nnz", seed=0)
    pairs = set(worlds.places(graph))
    expected = {(i, j) for i, j in pairs | {(j, i) for i, j in pairs} if i != j}
    assert set(worlds.places(Graph(problem.indptr, problem.indices))) == expected
    assert len(problem.indices) == len(expected)
    assert problem.edge_weights is None  # unit cost, Demirci et al. 2022, 4.3.1


@pytest.mark.parametrize(("n", "p"), [(1, 1), (10, 3), (7, 7), (1000, 13)])
def test_random_partition_is_even_and_repeatable(n, p):
    owner = random_owner(n, p, seed=5)
    sizes = np.bincount(owner, minlength=p)
    assert sizes.max() - sizes.min() <= 1
    assert owner.dtype == np.int32
    assert owner.tobytes() == random_owner(n, p, seed=5).tobytes()
    assert n < 20 or owner.tobytes() != random_owner(n, p, seed=6).tobytes()


@given(weights=st.lists(st.integers(0, 30), min_size=1, max_size=40), num_parts=st.integers(1, 40))
def test_blocks_are_contiguous_nonempty_and_even(weights, num_parts):
    weights = np.array(weights, dtype=np.int64)
    num_parts = min(num_parts, len(weights))
    owner = block_owner(weights, num_parts)
    assert np.bincount(owner, minlength=num_parts).min() >= 1
    assert (np.diff(owner) >= 0).all()
    assert owner.dtype == np.int32
    if weights.min() > 0:
        heaviest = np.bincount(owner, weights=weights).max()
        assert heaviest <= weights.sum() / num_parts + weights.max()


def test_rcm_notes_and_order():
    n = 200
    path = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(n, n)).toarray() + np.eye(n)
    mixed = np.random.default_rng(0).permutation(n)
    graph = graph_of(path[np.ix_(mixed, mixed)])
    problem = RcmModel().build(graph, 4, balance="nnz", seed=0)
    before = max(abs(i - j) for i, j in worlds.places(graph))
    assert problem.notes["bandwidth_before"] == before
    assert problem.notes["bandwidth_after"] == 1
    assert problem.notes["stages_after"] == 3  # ceil(400 / 199)
    assert problem.notes["granularity_before"] == (n - before) / (2 * n)
    assert rows_moved(graph, problem.rows) == 6  # three cuts of a path, one row each way
    assert np.bincount(problem.rows).min() >= 49


def test_rcm_of_an_empty_and_of_a_full_matrix():
    empty = RcmModel().build(graph_of(np.zeros((5, 5))), 5, balance="nnz", seed=0)
    assert empty.notes["bandwidth_after"] == 0
    assert empty.notes["stages_after"] == 2
    assert sorted(empty.rows) == [0, 1, 2, 3, 4]
    full = RcmModel().build(graph_of(np.ones((6, 6))), 2, balance="nnz", seed=0)
    assert full.notes["bandwidth_before"] == 5
    assert full.notes["stages_before"] == 12  # b = n - 1: 2n stages
    assert bandwidth(graph_of(np.zeros((1, 1)))) == 0
    assert pipeline_stages(1, 0) == 2
    assert pipeline_stages(2**31 - 1, 2**31 - 2) == 2 * (2**31 - 1)
    assert pipeline_granularity(10, 8) == 0.1


def test_blocks_of_an_empty_matrix_are_even_in_rows():
    problem = BlockModel().build(graph_of(np.zeros((10, 10))), 4, balance="nnz", seed=0)
    assert sorted(np.bincount(problem.rows)) == [2, 2, 3, 3]


def test_file_model(tmp_path):
    graph = graph_of(np.eye(4))
    build = {"balance": "nnz", "seed": 0}
    assert FileModel([0, 1, 1, 0]).build(graph, 2, **build).rows.tolist() == [0, 1, 1, 0]
    path = tmp_path / "graph.part.2"
    path.write_text("1\n0\n0\n1\n")
    for given_path in (path, str(path)):
        owner = FileModel(given_path).build(graph, 2, **build).rows
        assert owner.tolist() == [1, 0, 0, 1]
        assert owner.dtype == np.int32
    path.write_text("1\n0\n")
    for wrong, words in (
        (FileModel([0, 1, 2, 0]), r"vertex 2 is in part 2.*0\.\.1"),
        (FileModel([0, -1, 0, 0]), "part -1"),
        (FileModel([0, 1, 1]), "3 part numbers for 4 vertices"),
        (FileModel([0.0, 1.0, 1.0, 0.0]), "integers"),
        (FileModel(), "`part`"),
        (FileModel(path), "the graph has 4 vertices"),
    ):
        with pytest.raises(InputError, match=words):
            wrong.build(graph, 2, **build)


def test_registry_and_impossible_numbers_of_parts():
    assert set(MODELS) >= {"rp", "block", "gp", "hp", "rcm", "file"}
    with pytest.raises(InputError, match=r"unknown model 'xp'.*hp.*file"):
        MODELS["xp"]
    graph = graph_of(np.ones((3, 3)))
    for name in set(MODELS) - {"auto"}:
        for p in (0, -1, 4):
            with pytest.raises(InputError, match="part"):
                MODELS[name]().build(graph, p, balance="nnz", seed=0)
    with pytest.raises(InputError, match="cut, volume"):
        GraphModel(objective="edges").build(graph, 2, balance="nnz", seed=0)
