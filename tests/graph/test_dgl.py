"""Graphs of DGL and partitions of DistDGL: by objects that look like DGL's, and by dgl itself."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from graph_helpers import entries

import plancc
from plancc.errors import BackendUnavailable, InputError
from plancc.graph.formats import read_graph
from plancc.graph.partvector import read_part_vector

SRC, DST = np.array([0, 1, 3]), np.array([1, 2, 2])
EDGES = {(1, 0): 0.5, (2, 1): 2.0, (2, 3): 3.0}
X = np.arange(10, dtype=np.float32).reshape(5, 2)


def looks_like_dgl(**others):
    data = {"feat": X, "label": np.arange(5), "train_mask": np.arange(5) < 2}
    held = {
        "ndata": data,
        "edata": {"weight": np.array([0.5, 2.0, 3.0])},
        "ntypes": ["_N"],
        "etypes": ["_E"],
        "edges": lambda: (SRC, DST),
        "num_nodes": lambda: 5,
        "is_block": False,
    }
    return SimpleNamespace(**(held | others))


def check(plan):
    np.testing.assert_array_equal(plan.vertex_data.features, X[plan.global_id])
    assert np.array_equal(plan.vertex_data.labels, plan.global_id)
    assert np.array_equal(plan.vertex_data.train_mask, plan.global_id < 2)


def test_objects():
    graph = plancc.as_graph(looks_like_dgl())
    assert entries(graph) == EDGES
    assert (graph.num_vertices, graph.directed, graph.source.format) == (5, True, "dgl")
    check(plancc.compile(looks_like_dgl(), "block", 2))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"is_block": True}, "is a block of a mini-batch"),
        ({"num_nodes": lambda: 2}, r"vertex '3' is out of range 0\.\.1"),
    ],
)
def test_refused(others, words):
    with pytest.raises(InputError, match=words):
        plancc.as_graph(looks_like_dgl(**others))


def test_without_dgl(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dgl", None)
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(BackendUnavailable, match=r"a\.bin: reading this format needs dgl"):
        read_graph(tmp_path / "a.bin")


def test_igraph():
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph([(0, 1), (1, 1)], directed=True, edge_attrs={"weight": [0.5, 2]}, n=3)
    assert entries(plancc.as_graph(graph)) == {(0, 1): 0.5, (1, 1): 2}
    graph = plancc.as_graph(graph.as_undirected(combine_edges="first"))
    assert entries(graph) == {(0, 1): 0.5, (1, 0): 0.5, (1, 1): 2}
    assert (graph.num_vertices, graph.directed) == (3, False)
    named = igraph.Graph([(0, 1)], vertex_attrs={"name": ["b", "a"]}, n=2)
    assert plancc.as_graph(named).original_ids.tolist() == [b"b", b"a"]


DESCRIBED = {
    "graph_name": "small",
    "num_parts": 2,
    "num_nodes": 5,
    "node_map": {"_N": [[0, 3], [3, 5]]},
    "part-0": {"part_graph": "part0/graph.dgl"},
    "part-1": {"part_graph": "part1/graph.dgl"},
}
ORIGINAL = [4, 0, 2, 3, 1]
OWNER = [0, 1, 0, 1, 0]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(DESCRIBED))
    return path


def test_a_partition(path):
    np.save(path.with_name("orig_nids.npy"), ORIGINAL)
    assert read_part_vector(path).tolist() == OWNER
    graph = (5, np.stack([SRC, DST]))
    plan = plancc.compile(graph, "file", 2, part=path)
    assert plan.owner().tolist() == OWNER
    with pytest.raises(InputError, match=r"the graph has 6 vertices, but the partition has 5"):
        plancc.compile((6, np.stack([SRC, DST])), "file", 2, part=path)


def test_a_partition_by_torch(path):
    torch = pytest.importorskip("torch")
    torch.save({"_N": torch.tensor(ORIGINAL)}, path.with_name("node_mapping.pt"))
    assert read_part_vector(path).tolist() == OWNER


def described(**others):
    return json.dumps(DESCRIBED | others)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (described(), "save as orig_nids.npy what partition_graph"),
        ("{", "not JSON"),
        ("[1]", "does not describe a partition of DGL"),
        (described(node_map={"a": [[0, 1]], "b": [[1, 2]]}), "heterogeneous"),
        (described(node_map={"_N": [[0, 3], [2, 5]]}), "hold consecutive ranges"),
        (described(node_map={"_N": [[0, 3], [3, 1]]}), "hold consecutive ranges"),
        (described(node_map={"_N": [[0, 3], [3]]}), "hold consecutive ranges"),
        (described(node_map={"_N": [["a", 3]]}), "hold consecutive ranges"),
        (described(node_map={"_N": []}), "hold consecutive ranges"),
        (described(node_map={"_N": [[0, 2**40]]}), "hold consecutive ranges"),
    ],
)
def test_partitions_refused(path, text, words):
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_part_vector(path)


@pytest.mark.parametrize("original", [[0, 1, 2, 3], [0, 1, 2, 3, 3], [0, 1, 2, 3, -1], [0.5] * 5])
def test_mappings_refused(path, original):
    np.save(path.with_name("orig_nids.npy"), original)
    with pytest.raises(InputError, match=r"each of the 5 vertices once|out of range|not a list of"):
        read_part_vector(path)


class TestWithDgl:
    @pytest.fixture(autouse=True)
    def made(self):
        self.dgl = pytest.importorskip("dgl")
        self.torch = pytest.importorskip("torch")
        self.graph = self.dgl.graph((self.torch.tensor(SRC), self.torch.tensor(DST)), num_nodes=5)
        for name, array in looks_like_dgl().ndata.items():
            self.graph.ndata[name] = self.torch.tensor(array)
        self.graph.edata["weight"] = self.torch.tensor([[0.5], [2.0], [3.0]])

    def test_object_and_file(self, tmp_path):
        assert entries(plancc.as_graph(self.graph)) == EDGES
        check(plancc.compile(self.graph, "block", 2))
        path = tmp_path / "a.bin"
        self.dgl.save_graphs(str(path), [self.graph])
        assert entries(read_graph(path)) == EDGES
        check(plancc.compile(path, "block", 2))
        self.dgl.save_graphs(str(path), [self.graph, self.graph])
        with pytest.raises(InputError, match="holds 2 graphs; one is expected"):
            read_graph(path)
        path.write_bytes(b"no graph")
        with pytest.raises(InputError, match=r"a\.bin"):
            read_graph(path)

    def test_heterogeneous(self):
        ends = {("a", "to", "b"): ([0, 1], [1, 0]), ("a", "is", "a"): ([1], [0])}
        graph = self.dgl.heterograph(ends, {"a": 2, "b": 3})
        graph.edges["to"].data["w"] = self.torch.tensor([2.0, 3.0])
        found = plancc.as_graph(graph)
        assert found.types.counts == {"a": 2, "b": 3}
        assert sorted(found.types.relations) == sorted(ends)
        assert entries(found) == {(3, 0): 2, (2, 1): 3, (0, 1): 1}
        graph.nodes["b"].data["feat"] = self.torch.eye(3)
        data = plancc.compile(graph, "block", 2).vertex_data
        assert data.of_type["b"].features.tolist() == np.eye(3).tolist()
