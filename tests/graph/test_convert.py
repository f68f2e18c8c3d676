"""Python objects as graphs: against scipy and networkx, and what is refused."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from graph_helpers import dense_entries, entries
from hypothesis import given
from hypothesis import strategies as st

import plancc
from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.convert import as_graph


def test_graph_and_path(tmp_path):
    graph = build_graph(2, np.array([0]), np.array([1]))
    assert as_graph(graph) is graph
    (tmp_path / "a.txt").write_text("0 1\n")
    for path in (tmp_path / "a.txt", str(tmp_path / "a.txt")):
        assert entries(as_graph(path)) == {(0, 1): 1}


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_scipy(layout):
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((12, 12)) < 0.2, rng.integers(1, 9, (12, 12)), 0)
    for kind in ("array", "matrix"):
        graph = as_graph(getattr(sp, f"{layout}_{kind}")(dense))
        assert entries(graph) == dense_entries(dense)
        assert graph.directed
    assert not as_graph(sp.csr_array(dense + dense.T)).directed


def test_scipy_with_duplicates_is_left_alone():
    data, ij = np.array([2.0, -2.0, 1.0, 0.0]), ([0, 0, 1, 1], [1, 1, 0, 1])
    matrix = sp.coo_array((data, ij), shape=(2, 2))
    assert entries(as_graph(matrix)) == {(1, 0): 1}
    assert matrix.nnz == 4


@given(
    st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(1, 5)),
             min_size=1, max_size=20),
)  # fmt: skip
def test_networkx(kind, triples):
    reference = kind()
    for u, v, weight in triples:
        reference.add_edge(u, v, **({} if weight is None else {"weight": weight}))
    graph = as_graph(reference)
    dense = nx.to_numpy_array(reference)
    weighted = any(weight is not None for _, _, weight in reference.edges(data="weight"))
    if not weighted:
        dense = (dense != 0).astype(float)
    assert entries(graph) == dense_entries(dense)
    assert (graph.values is not None) == weighted
    assert graph.directed == reference.is_directed()
    nodes = list(reference)
    if nodes == list(range(len(nodes))):
        assert graph.original_ids is None
    else:
        assert graph.original_ids.tolist() == nodes


def test_networkx_with_names():
    for made, ids in (
        (nx.DiGraph([("zoë", "b"), ("c", "zoë")]), ["zoë".encode(), b"b", b"c"]),
        (nx.DiGraph([("x", 7), ("8", "x")]), [b"x", b"7", b"8"]),
        (nx.DiGraph([("12", 7), ("9", "12")]), [12, 7, 9]),
        (nx.DiGraph([("12", "9" * 19), ("9", "12")]), [b"12", b"9" * 19, b"9"]),
        (nx.DiGraph([("12", "1" * 19), ("9", "12")]), [12, int("1" * 19), 9]),
        (nx.DiGraph([("7", 7), ("9", "7")]), None),
        (nx.DiGraph([("", 7), ("9", "")]), None),
        (nx.DiGraph([(1.5, 7), ("9", 1.5)]), None),
        (nx.DiGraph([(True, 7), ("9", True)]), None),
        (nx.DiGraph([("0", "1"), ("2", "0")]), None),
    ):
        graph = as_graph(made)
        assert entries(graph) == {(0, 1): 1, (2, 0): 1}
        assert (None if graph.original_ids is None else graph.original_ids.tolist()) == ids


@pytest.mark.filterwarnings("error::plancc.errors.PlanccWarning")
def test_data_follow_the_nodes_or_their_names():
    graph, right = nx.DiGraph([("zoë", "b"), ("c", "zoë")]), [5, 3, 4]
    for data in ({"y": right}, {"id": ["b", "c", "zoë"], "y": [3, 4, 5]}):
        plan = plancc.compile(graph, "block", 1, data=data)
        assert plan.original_id.tolist() == ["zoë".encode(), b"b", b"c"]
        assert plan.vertex_data.labels[np.argsort(plan.global_id)].tolist() == right


@pytest.mark.parametrize("make", [np.array, "torch"])
def test_edge_index(make):
    if make == "torch":
        make = pytest.importorskip("torch").tensor
    graph = as_graph((3, make([[0, 0, 2], [1, 1, 0]])))
    assert entries(graph) == {(1, 0): 1, (0, 2): 1}  # A[destination, source]
    assert graph.directed
    assert graph.values is None
    assert not as_graph((2, make([[0, 1], [1, 0]]))).directed


def test_edge_index_without_edges():
    graph = as_graph((4, np.zeros((2, 0))))
    assert (graph.num_vertices, graph.num_nonzeros) == (4, 0)


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (np.eye(3), "dense matrix"),
        ([[0, 1], [1, 0]], "dense matrix"),
        (np.arange(3), "'ndarray' is not a graph"),
        (7, "'int' is not a graph"),
        (None, "'NoneType' is not a graph"),
        (sp.csr_array((0, 3)), "type 'rows' has '0' vertices"),
        (sp.csr_array((0, 0)), "no vertices"),
        (sp.csr_array(np.array([[np.nan, 1], [0, 1]])), "'nan'"),
        (sp.csr_array(np.array([[np.inf, 1], [0, 1]])), "'inf'"),
        (sp.csr_array(np.array([[1j, 1], [0, 1]])), "complex"),
        (nx.Graph(), "no vertices"),
        (nx.Graph([(0, 1, {"weight": "heavy"})]), "heavy"),
        (nx.Graph([(0, 1, {"weight": [1]})]), "'weight' is not a number"),
        (nx.Graph([(0, 1, {"weight": float("nan")})]), "'nan'"),
        ((2, np.array([[0, 1], [1, 2]])), "'2' is out of range 0..1"),
        ((2, np.array([[0, 1], [1, -1]])), "'-1' is out of range"),
        ((2, np.array([[0.5], [1]])), "'float64'"),
        ((2, np.array([[0, 1, 1]])), r"\(1, 3\)"),
        ((2.5, np.array([[0], [1]])), "'2.5'"),
        ((0, np.zeros((2, 0), int)), "no vertices"),
        ((2, np.array([[0, 1], [1, 0], [0, 0]])), r"not \(3, 2\): transpose it"),
        ((np.array([[0, 1], [1, 0]]), 2), r"in the wrong order; pass \(num_vertices, edge_index\)"),
        (
            np.zeros((2, 5), int),
            r"a bare edge_index of shape \(2, 5\) .* \(num_vertices, edge_index",
        ),
        (np.zeros((5, 2), int), r"pass \(num_vertices, edge_index\.T\)"),
    ],
)
def test_refused(obj, words):
    with pytest.raises(InputError, match=words):
        as_graph(obj)
