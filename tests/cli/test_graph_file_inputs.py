"""Graph files and the values of their entries: read as they are meant, or said, or refused."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from input_case import Case, plan_entries, run_case

MTX = "%%MatrixMarket matrix coordinate "
FLAGS = "--effort fast -p 1 -o p.h5"


def both(*pairs: tuple[int, int], value: float = 1.0) -> dict[tuple[int, int], float]:
    """Entries in both directions."""
    return {end: value for i, j in pairs for end in ((i, j), (j, i))}


def torch_file(**given: Any) -> bytes:
    """A file of torch.save with these lists as tensors."""
    import torch

    stream = io.BytesIO()
    torch.save({name: torch.tensor(each) for name, each in given.items()}, stream)
    return stream.getvalue()


def several(count: int, slices: bool) -> bytes:
    """A tuple of graphs, or of one and its slices, as torch.save writes it."""
    import torch

    graph = {"edge_index": torch.tensor(RINGED), "num_nodes": 6}
    stream = io.BytesIO()
    torch.save((graph,) * count + ({"edge_index": torch.tensor([0, 6])},) * slices, stream)
    return stream.getvalue()


def refused(name: str, file: str, content: Any, words: str, options: str = "") -> Case:
    return Case(name, {file: content}, f"compile {file} {FLAGS} {options}", refused=words)


ORDER = (3, 0, 4, 1, 2)


def of_networkx(path: Any, names: list[str]) -> None:
    """Write a path of these vertices."""
    import networkx as nx

    kind = path.suffix[1:].replace("net", "pajek")
    getattr(nx, f"write_{kind}")(nx.path_graph(names, nx.Graph), path)


XML = (
    '<graphml><key id="d0" for="edge" attr.name="Weight" attr.type="double"/>'
    '<key id="d1" for="node" attr.name="pop" attr.type="int"/><graph edgedefault="undirected">\n'
    '<node id="10"><data key="d1">3</data></node><node id="11"/><node id="12"/>\n{}\n'
    "</graph></graphml>\n"
)
EDGE = '<edge source="{}" target="{}"{}><data key="d0">{}</data></edge>'
TRIPLE = '*Vertices 3\n1 "a"\n2 "b"\n3 "a"\n'  # two labels are the same
RINGED = [[*range(6)], [1, 2, 3, 4, 5, 0]]

CASES = [
    Case("pairs with ids from 0", {"g.txt": "0 1\n1 2\n2 0\n"},
         entries={(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0}),
    Case("F2 Pajek *Arcslist",
         {"g.net": "*Vertices 6\n1 \"A\"\n*Arcslist\n1 2 3 6\n2 1 4 5 6\n5 1 2\n"},
         entries=dict.fromkeys([(0, 1), (0, 2), (0, 5), (1, 0), (1, 3), (1, 4), (1, 5), (4, 0),
         (4, 1)], 1.0)),
    Case("F2 Pajek sections of relations",
         {"g.net": TRIPLE + '*Arcs :2 "main"\n1 2 1\n3 1 1\n*Arcs :3 "other"\n1 2 4\n'},
         says=("ignored|numbers of 2 relations", "repeated entries summed: 1"),
         entries={(0, 1): 5.0, (2, 0): 1.0}),
    Case("F2 Pajek numbers of relations and times",
         {"g.net": "*Network x\n*Vertices 3\n1 \"a\" [1-3]\n*Arcs :1\n1: 1 2 1\n2: 2 3 1 [2]\n"},
         says=("ignored|times|numbers of 2 relations",), entries={(0, 1): 1.0, (1, 2): 1.0}),
    Case("Pajek labels, two of which are the same", {"g.net": TRIPLE + "*Edges\n1 2 1\n2 3 1\n"},
         says=("g.net: ignored: names of vertices",), entries=both((0, 1), (1, 2))),
    *(
        Case(f"{kind} by networkx, nodes {prefix or 'of numbers'}",
             {f"g.{kind}": lambda path, p=prefix: of_networkx(path, [f"{p}{k}" for k in ORDER]),
             "n.csv": "id,f0\n" + "".join(f"{prefix}{k},{k}\n" for k in range(5))},
             f"compile g.{kind} --data n.csv PLAIN", silent=("warning",),
             entries=both(*(tuple(f"{prefix}{k}".encode() if prefix else k for k in pair)
             for pair in pairwise(ORDER))), rows={"features": np.array(ORDER, np.float32)[:, None]})
        for kind in ("graphml", "gml", "net")
        for prefix in ("", "n")
    ),
    Case("GML with a label and a name of every vertex",
         {"g.gml": "graph [ node [ id 0 name 'x1' label 'b' ] node [ id 1 name 'x2' label 'a' ] "
         "edge [ source 0 target 1 ] ]".replace("'", '"')},
         says=("g.gml: ignored: names of vertices",), entries=both((b"b", b"a"))),
    Case("GraphML nodes that only count, as igraph names them",
         {"g.graphml": lambda path: of_networkx(path, [f"n{k}" for k in range(3)])},
         silent=("warning",), entries=both((0, 1), (1, 2))),
    Case("F2 Pajek arcs beside edges", {"g.net": "% c\n*Vertices 3\n*Arcs\n1 2 2\n*Edges\n2 3 4\n"},
         silent=("warning",), entries={(0, 1): 2.0, (1, 2): 4.0, (2, 1): 4.0}),
    Case("F2 Pajek matrix", {"g.net": "*Vertices 2\n*Matrix\n0 1.5\n2 0\n"},
         entries={(0, 1): 1.5, (1, 0): 2.0}),
    Case("F2 Pajek of two modes", {"g.net": "*Vertices 5 3\n*Edges\n1 4\n5 2\n3 4\n"},
         entries={(0, 3): 1.0, (1, 4): 1.0, (2, 3): 1.0}),
    Case("F2 Pajek attributes after the weight", {"g.net": '*Vertices\n1 "L" 0 0 ellipse pop 300\n'
         '2 "K"\n*Edges\n1\t2\t2 distance 30\n'}, entries=both((b"L", b"K"), value=2.0),
         says=("ignored|'pop' of vertices|'distance' of edges",)),
    refused("F2 Pajek section", "g.net", "*Vertices 2\n*Partition x\n1\n", "line 2|'*Partition'"),
    refused("F2 Pajek range", "g.net", "*Vertices 2\n*Edges\n1 3\n", "line 3|range 1..2|'3'"),
    refused("F2 Pajek within a mode", "g.net", "*Vertices 3 1\n*Edges\n2 3\n", "line 3|rows"),
    refused("F2 Pajek weight", "g.net", "*Vertices 2\n*Edges\n1 2 nan\n", "line 3|finite|'nan'"),
    Case("F3 GML value",
         {"g.gml": "graph [ node [ id 0 ] node [ id 1 ] edge [ source 1 target 0 value 10 ] ]"},
         says=("ignored|'value' of edges|--columns source,target,value",), entries=both((0, 1))),
    Case("F3 GML value by --columns",
         {"g.gml": "graph [ node [ id 0 ] node [ id 1 ] edge [ source 1 target 0 value 10 ] ]"},
         "--columns source,target,value", says=("weights of the edges: 'value'",),
         silent=("warning",), entries=both((0, 1), value=10.0)),
    refused("F3 GML attribute", "g.gml", "graph [ node [ id 0 ] edge [ source 0 target 0 v 1 ] ]",
         "no edge has the attribute 'w'|'v'", "--columns source,target,w"),
    Case("M1 GML edge twice", {"g.gml": "graph [ directed 1 node [ id 1 ] node [ id 2 ]"
         + " edge [ source 1 target 2 ]" * 2 + " ]"}, says=("repeated entries merged: 1",),
         entries={(1, 2): 1.0}),
    refused("M1 GML twice", "g.gml", "graph [\nnode [ id 0 ]\nnode [ id 0 ] ]", "line 3|'0'|twice"),
    refused("M1 GML end", "g.gml", "graph [\nnode [ id 0 ]\nedge [ source 0 ] ]", "line 3|target"),
    Case("F3 GraphML Weight, one directed edge", {"g.graphml": XML.format(EDGE.format(10, 11, "",
         2) + EDGE.format(11, 12, ' directed="true"', 4))},
         says=("ignored|'pop' of vertices", "'Weight', 2 to 4"),
         entries={(10, 11): 2.0, (11, 10): 2.0, (11, 12): 4.0}),
    refused("M1 GraphML end", "g.graphml", XML.format(EDGE.format(10, 13, "", 1)), "line 3|'13'"),
    refused("M1 hyperedge", "g.graphml", XML.format("<hyperedge/>"), "line 3|hyperedge"),
    refused("M1 weight", "g.graphml", XML.format(EDGE.format(10, 11, "", "x")), "line 3|'x'"),
    refused("C16 both triangles", "g.mtx", MTX + "real symmetric\n4 4 3\n2 1 3\n1 2 3\n1 4 2\n",
         "line 4|symmetric|both are given|'1 2 3'"),
    Case("C16 an entry above the diagonal",
         {"g.mtx": MTX + "real symmetric\n4 4 2\n2 1 3\n1 4 2\n"},
         entries=both((0, 1), value=3.0) | both((0, 3), value=2.0)),
    Case("C16 --symmetrize of edges listed both ways", {"g.txt": "0 1 3\n1 0 3\n1 2 1\n"},
         "--symmetrize", says=("entries listed both ways, whose values --symmetrize adds: 2 of 3",),
         entries=both((0, 1), value=6.0) | both((1, 2))),
    Case("i15 a diagonal of zeros", {"g.mtx": MTX + "real skew-symmetric\n3 3 2\n2 1 1.5\n2 2 0\n"},
         says=("entries of value 0 left out (--pattern keeps them): 1",),
         entries={(1, 0): 1.5, (0, 1): -1.5}),
    refused("i15 a diagonal", "g.mtx", MTX + "real skew-symmetric\n3 3 1\n3 3 4\n",
         "line 3|'3 3 4'"),
    Case("F9 repeated pairs", {"g.txt": "0 1\n0 1\n1 2\n"}, says=("repeated entries merged: 1",),
         entries={(0, 1): 1.0, (1, 2): 1.0}),
    Case("F9 loops beside the identity", {"g.txt": "0 1\n1 1\n"},
         f"compile g.txt --normalize none {FLAGS}",
         says=("self loops of the source raised by the identity: 1",),
         entries={(0, 0): 1.0, (0, 1): 1.0, (1, 1): 2.0}),
    Case("F9 nothing to count", {"g.txt": "0 1 2\n1 2 3\n"},
         silent=("merged", "left out", "both ways", "raised"), entries={(0, 1): 2.0, (1, 2): 3.0}),
    *(
        Case(f"M2 --pattern: {kind} {line}", {"g.mtx": f"{MTX}{kind}\n2 2 1\n{line}\n"},
             "--pattern", entries=right)
        for kind, line, right in (
            ("complex general", "1 2 1.0 2.0", {(0, 1): 1.0}),
            ("complex hermitian", "2 1 1.0 2.0", both((0, 1))),
            ("integer general", "1 2 99999999999999999999", {(0, 1): 1.0}),
            ("real general", "1 2 inf", {(0, 1): 1.0}),
            ("real general", "1 2 1.0D+00", {(0, 1): 1.0}),
        )
    ),
    Case("M2 integer hermitian", {"g.mtx": MTX + "integer hermitian\n2 2 1\n2 1 5\n"},
         entries=both((0, 1), value=5.0)),
    *(
        Case(f"one line of a {name} is there twice", {f"g.{name.partition(' ')[0]}": text},
             says=(f"repeated entries {what}: 1;",))
        for name, text, what in (
            ("mtx", MTX + "real symmetric\n3 3 3\n2 1 5\n2 1 5\n3 2 1\n", "summed"),
            ("mtx of loops", MTX + "real symmetric\n3 3 3\n1 1 5\n1 1 5\n3 2 1\n", "summed"),
            ("mtx of both triangles", MTX + "pattern symmetric\n3 3 2\n1 2\n2 1\n", "merged"),
            ("net", "*Vertices 3\n*Edges\n1 2 2\n2 1 2\n2 3 1\n", "summed"),
            ("gml", "graph [ node [ id 0 ] node [ id 1 ]"
             + " edge [ source 0 target 1 ]" * 2 + " ]", "merged"),
        )
    ),
    Case("one line of a symmetric mtx is there twice, sorted on the disk",
         {"g.mtx": MTX + "real symmetric\n3 3 3\n2 1 5\n2 1 5\n3 2 1\n"},
         "convert g.mtx -o f --memory 10",
         says=("weights of the edges: the values, 1 to 5, repeated entries summed: 1",)),
    *(
        Case(f"values that are wrong, sorted on the disk, {kind}",
             {"g.mtx": MTX + f"{kind}\n3 3 2\n2 1 inf\n3 2 1\n"},
             "convert g.mtx -o f --memory 10 --pattern", says=(f"f: 3 vertices, {count} nonzeros",))
        for kind, count in (("real general", 2), ("real symmetric", 4))
    ),
    *(
        refused(f"--pattern helps, {kind} {line}", "g.mtx", f"{MTX}{kind} general\n2 2 1\n{line}\n",
             f"line 3: 'ROW COLUMN{value}' is expected (--pattern reads without values), not")
        for kind, line, value in (("pattern", "1 2 5", ""), ("real", "1 2", " VALUE"))
    ),
    Case("weights and sizes of vertices of METIS",
         {"g.graph": "4 3 110\n7 100 2\n7 1 1 3\n7 1 2 4\n7 1 3\n"},
         "compile g.graph --normalize none --effort fast -p 2 -o p.h5",
         says=("g.graph: ignored: the sizes of vertices",
         "g.graph: its weights of vertices are not balanced; give --balance weights")),
    *(
        Case(f"weights of vertices of METIS, {more}",
             {"g.graph": "4 3 010\n1 2\n1 1 3\n1 2 4\n1 3\n"},
             f"compile g.graph --normalize none --effort fast {more} -o p.h5",
             silent=("not balanced",))
        for more in ("-p 2 --balance weights", "-p 2 --balance rows", "-p 1")
    ),
    Case("weights in float32", {"g.pt": torch_file(edge_index=RINGED, num_nodes=6,
         edge_weight=[0.1, 0.2, 0.3, 0.5, 0.7, 16777216.0])},
         says=("weights of the edges: 'edge_weight', 0.1 to 16,777,216;",)),
    Case("F3 .pt attributes of edges of other names, and links",
         {"g.pt": torch_file(edge_index=RINGED, num_nodes=8, x=[[1.0]] * 8, msg=[1.0] * 6,
         edge_label=[1.0, 1.0], edge_label_index=[[0, 1], [1, 2]])},
         says=("g.pt: ignored: 'msg' of edges", "g.pt: ignored: 'edge_label_index', links")),
    Case("GraphML with other ids", {"g.graphml": XML.format(EDGE.format(10, 11, "",
         2)).replace("pop", "id")}, says=("g.graphml: ignored: 'id' of vertices",)),
    refused("M2 complex", "g.mtx", MTX + "complex general\n2 2 0\n", "line 1|--pattern"),
    refused("M2 inf", "g.mtx", MTX + "real general\n2 2 1\n1 2 inf\n", "line 3|--pattern|'inf'"),
    Case("C17 digits", {"g.txt": "0 1 16777217\n1 0 1e-46\n"},
         f"compile g.txt --normalize none --no-self-loops {FLAGS}",
         says=("1 weights above 16,777,216 lose digits|--dtype float64",
         "1 weights are 0 in float32|--dtype float64"), entries={(0, 1): 16777216.0}),
    refused("C17 size", "g.mtx", MTX + "pattern general\n2 2 18446744073709551615\n1 2\n",
         "after 1"),
    refused("long size", "g.mtx", f"{MTX}pattern general\n2 2 {'9' * 5000}\n", "line 2|range"),
    refused("long row", "g.mtx", f"{MTX}pattern general\n2 2 1\n1 {'9' * 5000}\n", "line 3|1..2"),
    Case("F3 .pt attributes of edges", {"g.pt": torch_file(edge_index=RINGED, num_nodes=8,
         edge_time=[1.0] * 6)}, says=("ignored|'edge_time' of edges",),
         entries=dict.fromkeys(zip(RINGED[1], RINGED[0], strict=True), 1.0)),
    *(
        refused(f"a tuple of {count} graphs", "g.pt", lambda path, count=count: path.write_bytes(
            several(count, slices=False)), f"g.pt: holds {count} graphs; one is expected")
        for count in (2, 3)
    ),
    Case("a graph and its slices", {"g.pt": lambda path: path.write_bytes(several(1, slices=True))},
         entries=dict.fromkeys(zip(RINGED[1], RINGED[0], strict=True), 1.0)),
    Case("F3 OGB edge_weight", {"g/raw/edge.csv": "0,1\n1,2\n", "g/raw/num-node-list.csv": "3\n",
         "g/raw/edge_weight.csv": "2\n3\n"}, says=("edges in raw/: 'edge_weight.csv'",),
         entries={(1, 0): 1.0, (2, 1): 1.0}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_graph_file_is_read_as_it_is_meant(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_features_reach_the_edges_of_a_matrix(layout, turned, tmp_path, monkeypatch):
    """C21: features in the order of the file's ``data``."""
    random = sp.random(20, 20, 0.2, random_state=1)
    matrix = getattr(sp, f"{layout}_array")(random)
    row, column = matrix.tocoo().coords
    np.save(tmp_path / "f.npy", 1000.0 * row + column)
    sp.save_npz(tmp_path / "m.npz", matrix)
    options = "--edge-features f.npy" + " --transpose" * turned

    def check(folder):
        import h5py

        ends = plan_entries(folder / "p.h5")
        right = [1000 * j + i if turned else 1000 * i + j for i, j in ends]
        with h5py.File(folder / "p.h5") as file:
            assert file["matrix/edge_features"][:, 0].tolist() == right

    run_case(Case("C21", {}, f"compile m.npz PLAIN {options}", check=check), tmp_path, monkeypatch)


def test_a_converted_graph_is_verified(tmp_path, monkeypatch):
    """Its columns were chosen, and its mirror was added, when it was converted."""
    monkeypatch.chdir(tmp_path)
    files = {"g.csv": "source,target,w\n0,1,2\n1,2,3\n"}
    reading = "--columns source,target,w --symmetrize"
    run_case(Case("compile", files, f"compile g.csv PLAIN {reading}"), tmp_path, monkeypatch)
    run_case(Case("convert", {}, f"convert g.csv -o f {reading}"), tmp_path, monkeypatch)
    run_case(Case("verify", {}, "verify p.h5 --against f", says=("valid",)), tmp_path, monkeypatch)
