"""Weights of vertices: from files of their own, arrays and vertex data."""

import gzip
import warnings
from dataclasses import replace

import numpy as np
import pytest
import worlds

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_source
from plancc.graph.vertexdata import save_vertex_data
from plancc.graph.vertexsources import read_vertex_data
from plancc.graph.weights import read_weights, weighted

GRAPH = worlds.graph("tiny")  # 5 vertices
IDS = replace(GRAPH, original_ids=np.array([4, 9, 17, 20, 31]))
ONE = [[3], [1], [4], [1], [5]]
TWO = [[3, 10], [1, 0], [4, 0], [1, 7], [5, 2]]
TEXTS = {
    "lines.txt": ("3\n1\n4\n1\n5\n", ONE),
    "floats.csv": ("3.0\n1\n4e0\n1\n5\n", ONE),
    "named.csv": ("weight\n3\n1\n4\n1\n5\n", ONE),
    "two.txt": ("3 10\n1 0\n4  0\n1 7\n5 2\n", TWO),
    "two.csv": ("a,b\n3,10\n1,0\n4,0\n1,7\n5,2\n", TWO),
    "tabs.tsv": ("3\t10\n1\t0\n4\t0\n1\t7\n5\t2\n", TWO),
}
OF_IDS = {
    "id.csv": ("id,weight\n31,5\n4,3\n17,4\n9,1\n20,1\n", ONE),
    "several.csv": ("x,id,y\n2,31,5\n1,4,3\n0,17,4\n0,9,1\n0,20,1\n", None),
    "bare.csv": ("31,5\n4,3\n17,4\n9,1\n20,1\n", ONE),
    "bare_two.csv": ("31,5,2\n4,3,10\n17,4,0\n9,1,0\n20,1,7\n", TWO),
    "node.csv": ("cost,Node_ID\n5,31\n3,4\n4,17\n1,9\n1,20\n", ONE),
    "vertex.tsv": ("vertex\tcost\n31\t5\n4\t3\n17\t4\n9\t1\n20\t1\n", ONE),
}
OF_NUMBERS = {
    "one.csv": "5,5\n1,3\n3,4\n2,1\n4,1\n",
    "one.txt": "5 5\n1 3\n3 4\n2 1\n4 1\n",
    "nil.csv": "4,5\n0,3\n2,4\n1,1\n3,1\n",
    "id.csv": "id,cost\n5,5\n1,3\n3,4\n2,1\n4,1\n",
}


@pytest.mark.parametrize("name", [*TEXTS, *OF_IDS])
def test_texts(name, tmp_path):
    text, expected = (TEXTS | OF_IDS)[name]
    graph = GRAPH if name in TEXTS else IDS
    path = tmp_path / name
    path.write_text(text)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    expected = expected or [[1, 3], [0, 1], [0, 4], [0, 1], [2, 5]]
    for each in (path, packed):
        found = read_weights(each, graph)
        assert found.dtype == np.int64
        assert found.tolist() == expected


NAMED = replace(GRAPH, original_ids=np.char.encode(["a, b", "carol", "dan", "renée", "7"], "utf-8"))
OF_NAMES = {
    "id.csv": ('cost,id\n5,7\n3,"a, b"\n1,renée\n1,carol\n4,dan\n', ONE),
    "bare.csv": ('7,5\n"a, b",3\nrenée,1\ncarol,1\ndan,4\n', ONE),
    "two.txt": ('renée 1 7\n"a, b" 3 10\ncarol 1 0\n7 5 2\ndan 4 0\n', TWO),
    "tabs.tsv": ("carol\t1\na, b\t3\ndan\t4\n7\t5\nrenée\t1\n", ONE),
    "person.csv": ('person,cost\n7,5\n"a, b",3\nrenée,1\ncarol,1\ndan,4\n', "call it 'id'"),
    "lines.txt": ("cost\n3\n1\n4\n1\n5\n", ONE),
    "more.csv": ('zed,9\n"a, b",3\nrenée,1\ncarol,1\ndan,4\n7,5\n', "1 of 6 rows are left out"),
    "less.csv": ('"a, b",3\nrenée,1\ncarol,1\ndan,4\n', "vertex '7' of the graph has no row"),
    "twice.csv": ('"a, b",3\ndan,1\ncarol,1\ndan,4\n7,5\n', "holds 'dan' twice"),
    "word.csv": (
        'id,w\n"a, b",3\nrenée,x\ncarol,1\ndan,4\n7,5\n',
        "line 3: not a table of numbers: 'x' in column 'w'",
    ),
    "below.csv": ('"a, b",3\nrenée,1\ncarol,-1\ndan,4\n7,5\n', "line 3: weights are .*'-1'"),
}


@pytest.mark.parametrize("name", OF_NAMES)
def test_names(name, tmp_path):
    (tmp_path / name).write_text(OF_NAMES[name][0])
    right = OF_NAMES[name][1]
    if isinstance(right, list):
        assert read_weights(tmp_path / name, NAMED).tolist() == right
    elif name == "more.csv":
        with pytest.warns(PlanccWarning, match=right):
            assert read_weights(tmp_path / name, NAMED).tolist() == ONE
    else:
        with pytest.raises(InputError, match=right):
            read_weights(tmp_path / name, NAMED)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_ids_from_0_or_1_of_a_graph_without_ids(name, tmp_path):
    path = tmp_path / name
    path.write_text(OF_NUMBERS[name])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert read_weights(path, GRAPH).tolist() == ONE
    told = ["ids count from 1 here" in str(each.message) for each in said]
    assert told == [] if name == "nil.csv" else any(told)  # the graph's own ids want no word


def test_arrays_and_vertex_data(tmp_path):
    one, two = np.array(ONE).ravel(), np.array(TWO)
    np.save(tmp_path / "one.npy", one)
    np.save(tmp_path / "two.npy", two.astype(np.float32))
    np.savez(tmp_path / "data.npz", weight=one, labels=np.arange(5))
    (tmp_path / "data.csv").write_text("label,weight\n0,3\n1,1\n2,4\n3,1\n4,5\n")
    for given, expected in (
        *((each, ONE) for each in (one, one.tolist(), one[:, None], tmp_path / "one.npy")),
        *((each, TWO) for each in (two, two.astype(np.uint8), tmp_path / "two.npy")),
        (tmp_path / "data.npz", ONE),
    ):
        assert weighted(GRAPH, given).vertex_weights.tolist() == expected
    for data in ({"weights": one}, tmp_path / "data.npz", tmp_path / "data.csv"):
        graph, found = as_source(GRAPH, data)
        assert graph.vertex_weights.tolist() == ONE
        assert found.weights is None
    data = read_vertex_data(tmp_path / "data.csv", GRAPH)
    save_vertex_data(data, tmp_path / "again.npz")
    assert read_vertex_data(tmp_path / "again.npz", GRAPH).weights.tolist() == ONE
    (tmp_path / "cost.csv").write_text("label,cost\n0,3\n1,1\n2,4\n3,1\n4,5\n")
    renamed = read_vertex_data(tmp_path / "cost.csv", GRAPH, keys={"weights": "cost"})
    assert renamed.weights.tolist() == ONE


def test_fractions_are_scaled_by_columns():
    fractions = np.array([0.5, 0, 0.25, 1.25, 0.5])
    found = weighted(GRAPH, np.stack([fractions, [3, 1, 4, 1, 5]], axis=1)).vertex_weights
    assert found[:, 0].tolist() == [1_000_000, 0, 500_000, 2_500_000, 1_000_000]
    assert found[:, 1].tolist() == [3, 1, 4, 1, 5]


def test_weights_of_edges_beside_a_graph_are_not_of_vertices():
    u, v = np.array([0, 1, 2]), np.array([1, 2, 0])
    record = {"edge_index": np.stack([u, v]), "num_nodes": 4, "weights": np.ones(3)}
    graph, data = as_source(record)
    assert graph.vertex_weights is None
    assert data.weights is None


WRONG = {
    "blank.txt": ("3\n\n1\n\n-4\n1\n5\n", "line 5: weights are finite numbers"),
    "huge.csv": ("3\n1e300\n4\n1\n5\n", "line 2: weights are finite .*'1e\\+300'"),
    "word.txt": ("3\n1\nx\n1\n5\n", "line 3: not a table of numbers: 'x'"),
    "twice.csv": ("id,weight\n0,1\n1,1\n2,1\n3,1\n3,1\n", "'3' twice"),
    "missing.csv": ("id,weight\n0,1\n1,1\n2,1\n3,1\n7,1\n", "vertex '4' of the graph has no row"),
    "other.csv": ("cost,person\n1,3\n1,0\n1,2\n1,1\n3,4\n", "column 'person' holds every vertex"),
    "ids.csv": ("id\n0\n1\n2\n3\n4\n", "must have a number, or several, for every vertex"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_name_file_line_and_value(name, tmp_path):
    text, words = WRONG[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_weights(path, GRAPH)
    assert str(caught.value).startswith(str(path))


def test_wrong_arrays(tmp_path):
    np.savez(tmp_path / "labels.npz", labels=np.arange(5))
    for given, words in (
        ([1, 2, 3, 4, -5], "`weights`: key 'weights' holds '-5' in row 4"),
        ([1, 2, 3], "'3' rows, but the graph has 5 vertices"),
        (["a"] * 5, "must have a number"),
        (np.ones((5, 0)), "must have a number"),
        (tmp_path / "labels.npz", "no 'weight'"),
        (tmp_path / "none.csv", "none.csv"),
    ):
        with pytest.raises(InputError, match=words):
            weighted(GRAPH, given)


@pytest.mark.filterwarnings("ignore:this plan is predicted")
@pytest.mark.parametrize("kind", ["directed", "undirected"])
def test_parts_share_weights(kind, tmp_path):
    """Every one of several constraints; by the parts' sums."""
    graph = worlds.graph(kind)
    weights = np.random.default_rng(2).integers(0, 9, (graph.num_vertices, 2))
    plan = plancc.compile(graph, num_parts=3, weights=weights, epsilon=0.1)
    assert plan.provenance["balance"] == "weights"
    sums = np.zeros((3, 2))
    np.add.at(sums, plan.owner(), weights)
    reached = sums.max(axis=0) / sums.mean(axis=0) - 1
    found = [float(each) for each in plan.provenance["balance_imbalance"].split(",")]
    np.testing.assert_allclose(found, reached, atol=1e-6)
    assert (sums.max(axis=0) <= np.floor(1.1 * np.ceil(sums.sum(axis=0) / 3))).all()
    again = plancc.compile(
        graph, num_parts=3, data={"weights": weights}, balance="weights", epsilon=0.1
    )
    assert (again.owner() == plan.owner()).all()


def test_weights_that_are_not_there():
    with pytest.raises(
        InputError,
        match="needs vertex weights, but the graph has none; give `weights`, or a column 'weight",
    ):
        plancc.compile(GRAPH, num_parts=2, balance="weights")
