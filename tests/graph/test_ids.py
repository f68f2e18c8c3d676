"""Ids of edge lists: isolated vertices survive where the user says so, and nothing goes unsaid."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from graph_helpers import entries

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.edgelist import EdgeListEntries
from plancc.graph.formats import read_graph, reading_of
from plancc.graph.vertexsources import read_vertex_data

EDGES = "1 5\n5 3\n3 1\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(EDGES)
    return path


@pytest.mark.parametrize(("options", "n"), [({"keep_ids": True}, 6), ({"num_vertices": 9}, 9)])
@pytest.mark.filterwarnings("error", "ignore:.*the smallest id is 1:plancc.errors.PlanccWarning")
def test_isolated_vertices_survive(path, options, n):
    graph = read_graph(path, **options)
    assert graph.num_vertices == n
    assert graph.original_ids is None
    assert entries(graph) == {(1, 5): 1, (5, 3): 1, (3, 1): 1}
    assert reading_of(graph.source.reading) == options


def test_vertices_that_vanish_are_counted(path):
    words = "3 vertices occur; ids go up to 5: `keep_ids` or `num_vertices` 6 makes vertices"
    with pytest.warns(PlanccWarning, match=words):
        graph = read_graph(path)
    assert graph.original_ids.tolist() == [1, 3, 5]


@pytest.mark.parametrize("largest", [7, 8, 5_999_622])
def test_sparse_ids_are_not_advised_to_be_vertex_numbers(path, largest):
    path.write_text(f"0 1\n1 2\n2 {largest}\n")
    says = ": `keep_ids`" if largest < 2 * 4 else "$"
    with pytest.warns(PlanccWarning, match=f"4 vertices occur; ids go up to {largest:,}{says}"):
        assert read_graph(path).original_ids.tolist() == [0, 1, 2, largest]


def test_ids_from_one_are_no_loss(path):
    path.write_text("1 2\n2 3\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graph(path).original_ids.tolist() == [1, 2, 3]


def test_an_id_beyond_the_vertices(path):
    for read in (read_graph, EdgeListEntries):
        with pytest.raises(InputError, match=r"line \d: vertex id '5' is out of range 0\.\.4"):
            read(path, num_vertices=5)
    with pytest.raises(InputError, match="no vertices"):
        read_graph(path, num_vertices=0)
    path.write_text(f"1 {10**17}\n")
    with pytest.raises(InputError, match="too large to be a vertex number"):
        read_graph(path, keep_ids=True)
    with pytest.warns(PlanccWarning, match="2 vertices occur; ids go up to [0-9,]*$"):
        read_graph(path)


def test_data_of_all_ids_names_the_way_out(path, tmp_path):
    np.savez(tmp_path / "a.npz", labels=np.arange(6))
    with pytest.warns(PlanccWarning):
        graph = read_graph(path)
    words = r"has '6' rows, but the graph has 3 vertices: ids up to 5 occur in the graph, 3 in all"
    with pytest.raises(InputError, match=words + "; read it with `num_vertices` 6"):
        read_vertex_data(tmp_path / "a.npz", graph)
    with pytest.warns(PlanccWarning), pytest.raises(InputError, match="`num_vertices` 6"):
        plancc.compile(path, "block", 2, data=tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", labels=np.arange(5))
    words = "ids up to 5 occur in the graph, 3 in all; subtract 1 from them, and read it with"
    with pytest.raises(InputError, match=f"{words} `num_vertices` 5"):
        read_vertex_data(tmp_path / "b.npz", graph)
    read = read_graph(path, num_vertices=6)
    plan = plancc.compile(read, "block", 2, data=tmp_path / "a.npz")
    assert np.array_equal(plan.vertex_data.labels, plan.global_id)


def test_options_are_for_formats_that_have_them(tmp_path):
    (tmp_path / "a.graph").write_text("2 1\n2\n1\n")
    with pytest.raises(InputError, match="unknown reading option 'bogus'"):
        read_graph(tmp_path / "a.graph", bogus=True)


def test_more_rows_than_vertices_without_holes(tmp_path):
    """Vertices at the end without an edge: the ids alone do not show them."""
    path, data = tmp_path / "a.txt", tmp_path / "a.npz"
    path.write_text("0 1\n1 2\n")
    words = "ids up to 2 occur in the graph, 3 in all; read it with `num_vertices` 5"
    features = np.arange(10, dtype=np.float32).reshape(5, 2)
    sparse = sp.csr_array(features)
    held = {name: getattr(sparse, name) for name in ("indptr", "indices", "data", "shape")}
    for arrays in (
        {"features": features},
        {f"feat_{name}": np.asarray(array) for name, array in held.items()},
        {"labels": np.zeros(3, np.int64), "train_idx": np.array([0, 4])},
    ):
        np.savez(data, **arrays)
        with pytest.raises(InputError, match=words):
            read_vertex_data(data, read_graph(path))
    np.savez(data, features=features)
    assert read_vertex_data(data, read_graph(path, num_vertices=5)).features.shape == (5, 2)
    (tmp_path / "a.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n"
    )
    with pytest.raises(
        InputError, match=r"has '5' rows, but the graph has 3 vertices; give every vertex one row$"
    ):
        read_vertex_data(data, read_graph(tmp_path / "a.mtx"))


@pytest.mark.parametrize(
    ("options", "name"), [({"keep_ids": True}, "keep_ids"), ({"num_vertices": 4}, "num_vertices")]
)
def test_ids_that_count_from_one_are_no_vertex_numbers(tmp_path, options, name):
    path, data = tmp_path / "a.txt", tmp_path / "a.npy"
    path.write_text("1 2\n2 3\n")
    words = "the smallest id is 1, and vertex 0 has no edge: if ids count from 1, leave out"
    with pytest.warns(PlanccWarning, match=words):
        graph = read_graph(path, **options)
    assert graph.num_vertices == 4
    np.save(data, np.eye(3))
    words = f"but the graph has 4 vertices: vertex 0 has no edge; .* from 1, leave out `{name}`$"
    with pytest.raises(InputError, match=words):
        read_vertex_data(data, graph)
    assert read_vertex_data(data, read_graph(path)).features.shape == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = read_graph(path, num_vertices=9)  # what is beyond is meant
        path.write_text("0 1\n2 3\n")
        read_graph(path, keep_ids=True)
    np.save(data, np.eye(7))
    with pytest.raises(
        InputError, match=r"has '7' rows, but the graph has 9 vertices; give every vertex one row$"
    ):
        read_vertex_data(data, graph)
