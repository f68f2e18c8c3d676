"""The fine-grain hypergraph: its cut against the volume of the edge plan that it stands for."""

import numpy as np
import pytest
from cases import seeds
from worlds import graph_of, net_list, places, rows_moved

from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.models import fine_grain
from plancc.models.fine_grain import FineGrainModel


def build(dense, num_parts=1):
    return FineGrainModel().build(graph_of(dense), num_parts, balance="nnz", seed=0)


def random_pattern(seed, n=None):
    random = np.random.default_rng(seed)
    n = n or int(random.integers(1, 25))
    dense = random.random((n, n)) < random.choice([0.05, 0.2, 0.6])
    if seed % 2:
        dense |= dense.T
    np.fill_diagonal(dense, random.random(n) < [0, 0.5, 1][seed % 3])
    return dense


@pytest.mark.parametrize("seed", seeds(30, quick=15))
def test_the_cut_is_the_volume_of_expand_and_fold(seed):
    dense = random_pattern(seed)
    problem = build(dense)
    num_parts = 1 + seed % 5
    part = np.random.default_rng(seed).integers(num_parts, size=problem.hypergraph.num_vertices)
    owners = problem.owners(part.astype(np.int32))

    graph = graph_of(dense)
    volume = len(rows_moved(graph, owners.rows, owners.nonzeros))
    cut = sum(len({part[v] for v in net}) - 1 for net in net_list(problem.hypergraph))
    assert cut == volume
    assert traffic(graph, owners, num_parts).sent.sum() == volume
    for (i, j), m in zip(places(graph), owners.nonzeros, strict=True):
        assert i != j or m == owners.rows[i]


@pytest.mark.parametrize("seed", seeds(15, quick=6))
def test_vertices_and_nets_are_those_of_plain_python(seed):
    dense = random_pattern(seed)
    n = len(dense)
    problem = build(dense)
    vertices = [tuple(pair) for pair in np.argwhere(dense).tolist()]
    vertices += [(i, i) for i in range(n) if not dense[i, i]]
    place = {pair: v for v, pair in enumerate(vertices)}
    nets, sources = [], []
    for axis in (1, 0):  # of the columns, then of the rows
        for k in range(n):
            net = [v for v, pair in enumerate(vertices) if pair[axis] == k]
            if len(net) > 1:
                nets.append(net)
                sources.append(place[k, k])
    hypergraph = problem.hypergraph
    assert net_list(hypergraph) == nets
    assert hypergraph.net_sources.tolist() == sources
    assert hypergraph.vertex_weights.tolist() == [int(dense[pair]) for pair in vertices]
    assert problem.row_vertex.tolist() == [place[i, i] for i in range(n)]
    assert problem.nonzero_vertex.tolist() == list(range(dense.sum()))
    assert hypergraph.net_ptr.dtype == hypergraph.vertex_weights.dtype == np.int64
    for array in (hypergraph.pins, hypergraph.net_sources, problem.row_vertex):
        assert array.dtype == np.int32
    assert problem.nonzero_vertex.dtype == np.int32


def test_a_matrix_without_nonzeros_has_a_vertex_per_row():
    problem = build(np.zeros((4, 4), dtype=bool), num_parts=4)
    assert problem.hypergraph.num_nets == 0
    assert problem.hypergraph.vertex_weights.tolist() == [0] * 4
    owners = problem.owners(np.arange(4, dtype=np.int32))
    assert owners.rows.tolist() == [0, 1, 2, 3]
    assert len(owners.nonzeros) == 0


def test_what_is_refused(monkeypatch):
    dense = random_pattern(2, n=6)
    size = build(dense).hypergraph.num_vertices
    monkeypatch.setattr(fine_grain, "MAX_NUM_VERTICES", size)
    build(dense)
    monkeypatch.setattr(fine_grain, "MAX_NUM_VERTICES", size - 1)
    with pytest.raises(InputError, match=f"{size} nonzeros and zeros .* use 'medium-grain'"):
        build(dense)
