"""Folders of the Open Graph Benchmark, as OGB's downloads and its DatasetSaver lay them out."""

import gzip

import numpy as np
import pytest
from graph_helpers import entries, refused

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_source
from plancc.graph.formats import find_format, read_graph
from plancc.graph.vertexsources import read_vertex_data

X = np.arange(10, dtype=np.float32).reshape(5, 2) / 4
LABELS = [0, 2, -1, 1, 0]
EDGES = {(1, 0): 1, (2, 1): 1, (2, 3): 1}  # 0 -> 1, 1 -> 2, 3 -> 2; vertex 4 is isolated


def table(folder, name, lines):
    file = folder / f"{name}.csv.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt") as stream:
        stream.writelines(",".join(map(str, np.ravel(line))) + "\n" for line in lines)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "ogbn_small"
    table(folder, "raw/edge", [(0, 1), (1, 2), (3, 2)])
    table(folder, "raw/num-node-list", [5])
    table(folder, "raw/num-edge-list", [3])
    table(folder, "raw/node-feat", X)
    table(folder, "raw/node-label", [0.0, 2.0, "nan", 1.0, 0.0])
    for name, rows in {"train": [0, 3], "valid": [1], "test": [4]}.items():
        table(folder, f"split/time/{name}", rows)
    return folder


def check(data):
    np.testing.assert_array_equal(data.features, X)
    assert data.labels.tolist() == LABELS
    assert data.train_mask.tolist() == [True, False, False, True, False]
    assert data.val_mask.tolist() == [False, True, False, False, False]
    assert data.test_mask.tolist() == [False, False, False, False, True]


def test_a_folder(folder):
    assert find_format(folder) == "ogb"
    graph = read_graph(folder)
    assert entries(graph) == EDGES
    assert (graph.num_vertices, graph.directed, graph.values) == (5, True, None)
    assert (graph.source.name, graph.source.format) == ("ogbn_small", "ogb")
    check(read_vertex_data(folder, graph))
    both = read_graph(f"{folder}/", symmetrize=True)
    assert set(entries(both)) == {*EDGES, *((j, i) for i, j in EDGES)}
    assert both.source.name == "ogbn_small"


@pytest.fixture
def hetero(tmp_path):
    """Three authors write five papers, as ogbn-mag lies on disk."""
    folder = tmp_path / "ogbn_hetero"
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    table(folder, "raw/triplet-type-list", [writes, cites])
    table(folder, "raw/num-node-dict", [("author", "paper"), (3, 5)])
    table(folder, f"raw/relations/{'___'.join(writes)}/edge", [(0, 1), (2, 4)])
    table(folder, f"raw/relations/{'___'.join(cites)}/edge", [(4, 0)])
    table(folder, "raw/node-feat/paper/node-feat", X)
    table(folder, "raw/node-label/paper/node-label", [0.0, 2.0, "nan", 1.0, 0.0])
    for name, rows in {"train": [0, 3], "valid": [1], "test": [4]}.items():
        table(folder, f"split/time/paper/{name}", rows)
    return folder


@pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")
def test_a_heterogeneous_folder(hetero):
    graph, data = as_source(str(hetero))
    assert graph.types.counts == {"author": 3, "paper": 5}
    assert [name for _, name, _ in graph.types.relations] == ["writes", "cites"]
    assert set(entries(graph)) == {(4, 0), (7, 2), (3, 7)}
    assert [*data.of_type] == ["paper"]
    check(data.of_type["paper"])
    before = graph.source.sha256
    table(hetero, "raw/relations/paper___cites___paper/edge", [(4, 1)])
    assert read_graph(hetero).source.sha256 != before
    with pytest.raises(InputError, match="no split 'random'; choose from time"):
        as_source(str(hetero), split="random")


@pytest.mark.parametrize(
    ("name", "lines", "words"),
    [
        (
            "raw/num-node-dict",
            [("author", "paper"), (3, "x")],
            "line 2: 'x' is not a number of vertices",
        ),
        ("raw/num-node-dict", [("author", "paper"), (3, -5)], "line 2: '-5' is not a number of v"),
        ("raw/num-node-dict", [("author", "paper"), (3,)], "a line of types and a line"),
        ("raw/num-node-dict", [("author", "papers"), (3, 5)], "does not list vertex type 'pap"),
        ("raw/triplet-type-list", [("author", "reads", "paper")], "author___reads___paper/edge.cs"),
        ("raw/relations/paper___cites___paper/edge", [(0, 1), (5, 1)], "edge.csv.gz, line 2: rel"),
        (
            "raw/relations/paper___cites___paper/edge",
            [(1, 5)],
            "type 'paper' is out of range 0..4: '5'",
        ),
        ("raw/relations/author___writes___paper/num-edge-list", [3], "'3' edges, but there are 2"),
        (
            "raw/triplet-type-list",
            [("author", "writes", "paper")] * 2,
            "line 2: relation 'author writes paper' is listed twice",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")
def test_wrong_heterogeneous_folders(hetero, name, lines, words):
    table(hetero, name, lines)
    with pytest.raises(InputError) as caught:
        read_graph(hetero)
    assert words in str(caught.value)


def test_the_hash_is_of_the_graph(folder):
    before = read_graph(folder).source.sha256
    table(folder, "raw/node-feat", X + 1)
    assert read_graph(folder).source.sha256 == before != ""
    table(folder, "raw/edge", [(0, 1), (1, 2), (3, 4)])
    assert read_graph(folder).source.sha256 != before


def test_unpacked_tables(folder):
    for file in folder.glob("raw/*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    assert entries(read_graph(folder)) == EDGES
    check(read_vertex_data(folder, 5))


def test_several_splits(folder):
    for name, rows in {"train": [4], "valid": [0], "test": [1]}.items():
        table(folder, f"split/random/{name}", rows)
    with pytest.raises(InputError, match="choose one by `split`, random or time"):
        read_vertex_data(folder, 5)
    with pytest.raises(InputError, match="no split 'year'; choose from random, time"):
        read_vertex_data(folder, 5, split="year")
    check(read_vertex_data(folder, 5, split="time"))
    assert read_vertex_data(folder, 5, split="random").train_mask.tolist() == [False] * 4 + [True]


def test_several_tasks(folder):
    tasks = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]])
    table(folder, "raw/node-label", tasks)
    data = read_vertex_data(folder, 5)
    assert data.labels is None
    np.testing.assert_array_equal(data.targets, tasks)
    table(folder, "raw/node-label", np.where(tasks, tasks, np.nan))
    with pytest.raises(InputError, match="with several tasks, every label must be 0 or 1"):
        read_vertex_data(folder, 5)


def test_features_of_edges(folder):
    table(folder, "raw/edge-feat", [0.5, 2, 3])
    assert entries(read_graph(folder)) == {(1, 0): 0.5, (2, 1): 2, (2, 3): 3}
    assert read_graph(folder, pattern=True).values is None
    table(folder, "raw/edge-feat", np.ones((3, 8)))
    with pytest.warns(PlanccWarning, match="'edge-feat' has 8 columns and is left out"):
        assert entries(read_graph(folder)) == EDGES
    table(folder, "raw/edge-feat", [1, 2])
    with pytest.raises(InputError, match=r"of shape \(2,\) must have one value for each of"):
        read_graph(folder)


def binary(folder, **others):
    """The binary form, as DatasetSaver and ogbn-papers100M have it."""
    raw = folder / "raw"
    for file in raw.glob("*.gz"):
        file.unlink()
    arrays = {
        "edge_index": [[0, 1, 3], [1, 2, 2]],
        "num_nodes_list": [5],
        "num_edges_list": [3],
        "node_feat": X,
        "node_year": np.full((5, 1), 2015),
    }
    np.savez_compressed(raw / "data.npz", **(arrays | others))
    labels = np.array([[0.0], [2.0], [np.nan], [1.0], [0.0]])
    np.savez_compressed(raw / "node-label.npz", node_label=labels)


def test_binary_form(folder):
    binary(folder)
    assert entries(read_graph(folder)) == EDGES
    check(read_vertex_data(folder, 5))


def test_the_real_library(folder, tmp_path):
    """A folder that OGB's DatasetSaver wrote, and our tables read by OGB's own reader."""
    pytest.importorskip("ogb")
    from ogb.io import DatasetSaver
    from ogb.io.read_graph_raw import read_csv_graph_raw

    (theirs,) = read_csv_graph_raw(str(folder / "raw"))
    src, dst = theirs["edge_index"]
    graph = read_graph(folder)
    assert sorted(entries(graph)) == sorted(zip(dst.tolist(), src.tolist(), strict=True))
    np.testing.assert_array_equal(theirs["node_feat"], X)
    assert theirs["num_nodes"] == graph.num_vertices

    saver = DatasetSaver("ogbn-saved", is_hetero=False, root=str(tmp_path / "sub"), version=1)
    graph = {"edge_index": theirs["edge_index"], "num_nodes": 5, "node_feat": X, "edge_feat": None}
    saver.save_graph_list([graph])
    saver.save_target_labels(np.array([[0.0], [2.0], [np.nan], [1.0], [0.0]]))
    parts = {"train": [0, 3], "valid": [1], "test": [4]}
    saver.save_split({name: np.array(rows) for name, rows in parts.items()}, "time")
    saved = tmp_path / "sub_ogbn_saved" / "saved"
    assert entries(read_graph(saved)) == EDGES
    check(read_vertex_data(saved, 5))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: table(f, "raw/num-node-list", [2]), "'num_nodes' is 2; give the number of all"),
        (lambda f: table(f, "raw/num-node-list", [5, 5]), "holds 2 graphs; one is expected"),
        (lambda f: table(f, "raw/num-node-list", [2**40]), "vertices; the limit"),
        (lambda f: table(f, "raw/num-node-list", ["nan"]), "not the number of vertices"),
        (lambda f: (f / "raw/num-node-list.csv.gz").unlink(), "list.csv.gz is missing"),
        (lambda f: table(f, "raw/edge", [(0, 1), (1,)]), "edge.csv.gz, line 2: 2 columns"),
        (lambda f: table(f, "raw/edge", [(0, 1), (1, "x")]), "csv.gz, line 2: this is not a whole"),
        (lambda f: table(f, "raw/triplet-type-list", ["a"]), "line 1: 'a' is not a relation"),
        (lambda f: table(f, "raw/triplet-type-list", [("a", "..", "b")]), "is not a relation"),
        (lambda f: (f / "raw/edge.csv.gz").write_bytes(b"\x1f\x8b\x08"), "gzip data is damaged"),
        (lambda f: binary(f, edge_index=[[0, 1, 2]]), "must be (2, edges), not (1, 3)"),
        (lambda f: binary(f, num_nodes_list=[3, 2]), "holds 2 graphs"),
        (lambda f: binary(f, edge_index=np.array([[None], [None]])), "'edge_index' holds Python"),
    ],
)  # fmt: skip
def test_wrong_graphs(folder, change, words):
    change(folder)
    refused(read_graph, folder, words, names="ogbn_small")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: table(f, "raw/node-feat", np.full((5, 2), np.nan)), "'features' holds 'nan'"),
        (lambda f: table(f, "raw/node-feat", [["x", 1]] * 5), "not a table of numbers"),
        (lambda f: table(f, "raw/node-label", [0.5] * 5), "the label holds '0.5'"),
        (lambda f: table(f, "split/time/test", [9]), "holds vertex '9', out of range 0..4"),
        (lambda f: table(f, "split/time/test", [0.5]), "test.csv.gz: the line holds '0.5'"),
    ],
)
def test_wrong_data(folder, change, words):
    change(folder)
    refused(lambda at: plancc.compile(at, "block", 2), folder, words)
    plancc.compile(folder, "block", 2, data=False)


def test_other_folders(tmp_path):
    with pytest.raises(InputError, match="is a folder, but in none of the formats"):
        read_graph(tmp_path)
