"""GraphML, GML and Pajek: files that networkx and igraph wrote, and hostile ones."""

import gzip

import networkx as nx
import numpy as np
import pytest
from cases import long
from graph_helpers import entries

from plancc.errors import InputError
from plancc.graph.canonical import to_scipy
from plancc.graph.formats import read_graph
from plancc.testing.formats import FormatTests


def networkx_of(graph):
    matrix = to_scipy(graph).tocoo()
    made = nx.DiGraph()
    made.add_nodes_from(range(graph.num_vertices))
    row, col = matrix.coords
    made.add_weighted_edges_from(zip(row.tolist(), col.tolist(), matrix.data.tolist(), strict=True))
    return made


class OfNetworkx(FormatTests):
    garbage = b""

    def write(self, graph, path):
        getattr(nx, f"write_{self.name}")(networkx_of(graph), path)


class TestGraphML(OfNetworkx):
    name = "graphml"
    laughs = b"".join(
        b'<!ENTITY l%d "%s">' % (k, b"ha" if k == 0 else b"&l%d;" % (k - 1) * 10) for k in range(12)
    )
    hostile = (
        b"<!DOCTYPE graphml [" + laughs + b"]><graphml>&l11;</graphml>",
        b'<!DOCTYPE graphml SYSTEM "file:///etc/passwd"><graphml/>',
        b"<!-- " + b"x" * (1 << 21),
    )


class DamagedAsGraphML(OfNetworkx):
    @long
    def test_damage(self, path):
        super().test_damage(path)


class TestGML(DamagedAsGraphML):
    name = "gml"
    hostile = (b"graph [\n" + b"a [\n" * 100_000,)


class TestPajek(DamagedAsGraphML):
    name = "pajek"
    garbage = b"? ? ? ? ?"
    hostile = (b"*Vertices 999999999999\n*Arcs\n",)

    def write(self, graph, path):
        made = networkx_of(graph)
        nx.write_pajek(nx.relabel_nodes(made, str), path)


@pytest.mark.parametrize("name", ["graphml", "gml", "pajek"])
def test_undirected(tmp_path, name):
    graph = nx.Graph([("3", "8"), ("8", "20"), ("20", "20")])
    graph.add_node("4")
    path = tmp_path / {"pajek": "a.net"}.get(name, f"a.{name}")
    getattr(nx, f"write_{name}")(graph, path)
    read = read_graph(path)
    assert not read.directed
    assert read.num_vertices == 4
    assert read.original_ids.tolist() == [3, 8, 20, 4]
    assert set(entries(read)) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)}


def test_what_igraph_writes(tmp_path):
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph([(0, 1), (1, 2)], directed=True, edge_attrs={"weight": [0.5, 2.0]}, n=4)
    for name, method in {"a.graphml": "write_graphml", "a.gml": "write_gml"}.items():
        getattr(graph, method)(str(tmp_path / name))
        read = read_graph(tmp_path / name)
        assert entries(read) == {(0, 1): 0.5, (1, 2): 2}
        assert (read.num_vertices, read.directed) == (4, True)


def test_names_that_are_no_numbers(tmp_path):
    nx.write_graphml(nx.DiGraph([("a", "1"), ("01", "a")]), tmp_path / "a.graphml")
    read = read_graph(tmp_path / "a.graphml")
    assert read.original_ids.tolist() == [b"a", b"1", b"01"]
    assert set(entries(read)) == {(0, 1), (2, 0)}


def test_text_that_is_something_else(tmp_path):
    for name in ("a.graphml", "a.gml", "a.net", "a.graphml.gz"):
        text = b"%PDF-1.7\n\0\xff"
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        with pytest.raises(InputError, match=name):
            read_graph(tmp_path / name)


def test_weights_that_are_no_numbers(tmp_path):
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight="heavy")
    nx.write_graphml(graph, tmp_path / "a.graphml")
    with pytest.raises(
        InputError, match=r"a\.graphml, line \d+: the weight is not a number \(.*\): 'heavy'"
    ):
        read_graph(tmp_path / "a.graphml")
    graph["a"]["b"]["weight"] = float("nan")
    nx.write_graphml(graph, tmp_path / "a.graphml")
    with pytest.raises(InputError, match="'nan'"):
        read_graph(tmp_path / "a.graphml")
    assert np.array_equal(read_graph(tmp_path / "a.graphml", pattern=True).indices, [1])
