"""Label propagation: clusters keep to their limits, the graph between them has their sums."""

import numpy as np
import pytest
import scipy.sparse as sp

from plancc.graph.canonical import build_graph
from plancc.graph.graph import Graph
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.passes.clusters import degrees_of, find_clusters, links_of
from plancc.passes.kernels.nets import nets_of
from plancc.passes.presets import PROPAGATION, Propagation
from plancc_datasets import load_dataset


def communities(directed: bool, n: int = 600, size: int = 12) -> Graph:
    """Groups of `size` vertices with many links inside and few to the rest, under mixed numbers."""
    rng = np.random.default_rng(5)
    row = rng.integers(0, n, 10 * n)
    column = row // size * size + rng.integers(0, size, len(row))
    far = rng.random(len(row)) < 0.1
    column[far] = rng.integers(0, n, far.sum())
    mixed = rng.permutation(n)
    row, column = mixed[row], mixed[column]
    if not directed:
        row, column = np.concatenate([row, column]), np.concatenate([column, row])
    return build_graph(n, row, column, directed=directed)


def links_and_weights(matrix: Graph):
    nets = nets_of(HypergraphModel().build(matrix, 2, balance="nnz,rows", seed=1))
    return links_of(matrix, nets), nets


@pytest.mark.parametrize("directed", [False, True])
def test_the_graph_between_clusters(directed):
    matrix = communities(directed)
    links, nets = links_and_weights(matrix)
    limits = Limits(nets.weight, 2, 0.1)
    found = find_clusters(links, nets.weight, limits, np.random.default_rng(1))
    assert found is not None
    num = found.graph.num_vertices
    assert set(found.label) == set(range(num))
    assert num < matrix.num_vertices / 4  # most of the communities are found

    pattern = sp.csr_array(
        (np.ones(matrix.num_nonzeros, dtype=np.int64), matrix.indices, matrix.indptr)
    )
    which = sp.csr_array((np.ones(len(found.label)), found.label, np.arange(len(found.label) + 1)))
    expected = (which.T @ (pattern + pattern.T if directed else pattern) @ which).toarray()
    np.fill_diagonal(expected, 0)
    between = sp.csr_array((found.graph.edge_weights, found.graph.indices, found.graph.indptr))
    np.testing.assert_array_equal(between.toarray(), expected)
    np.testing.assert_array_equal(found.graph.vertex_weights, which.T @ nets.weight)
    heaviest = nets.weight.sum(axis=0) // 2 // PROPAGATION.per_part
    joined = np.bincount(found.label) > 1
    assert (found.graph.vertex_weights[joined] <= heaviest).all()


def test_clusters_of_clusters_follow_while_there_are_many_links():
    matrix = communities(directed=True)
    links, nets = links_and_weights(matrix)
    limits = Limits(nets.weight, 2, 0.1)
    found = []
    for numbers in (Propagation(rounds=1), Propagation(rounds=1, many_links=0, shrunk=0.95)):
        rng = np.random.default_rng(1)
        found.append(find_clusters(links, nets.weight, limits, rng, how=numbers))
    once, twice = found
    assert once is not None
    assert twice is not None
    assert twice.graph.num_vertices < once.graph.num_vertices
    for cluster in range(once.graph.num_vertices):  # they keep together
        assert len(set(twice.label[once.label == cluster])) == 1
    np.testing.assert_array_equal(
        twice.graph.vertex_weights.sum(axis=0), once.graph.vertex_weights.sum(axis=0)
    )


def test_no_clusters_without_communities_or_of_too_few_vertices():
    random = load_dataset("rmat", scale=11, edge_factor=8).graph
    for matrix, num_parts in ((random, 64), (communities(False), 200)):
        links, nets = links_and_weights(matrix)
        limits = Limits(nets.weight, num_parts, 0.1)
        assert find_clusters(links, nets.weight, limits, np.random.default_rng(1)) is None


@pytest.mark.parametrize("directed", [False, True])
def test_degrees_are_those_of_the_undirected_graph(directed):
    matrix = communities(directed)
    _, nets = links_and_weights(matrix)
    graph = GraphModel().build(matrix, 2, balance="nnz", seed=1)
    np.testing.assert_array_equal(degrees_of(matrix, nets), np.diff(graph.indptr))
