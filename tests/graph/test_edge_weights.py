"""What is taken as weights of edges is said, whatever the source; times bring a warning."""

import gzip
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from graph_helpers import write_parquet

import plancc
from plancc.errors import PlanccWarning
from plancc.graph.edge_weights import WeightRange
from plancc.graph.folders import to_folder
from plancc.graph.formats import read_graph
from plancc.graph.graph import Source

TIMES = [1217567877, 1254192988, 1082040961]
"""Seconds since 1970, as SNAP's temporal graphs have them."""
EDGES = np.array([[0, 1], [1, 2], [2, 0]])
ROWS = list(zip(*EDGES.T.tolist(), TIMES, strict=True))
LINES = "".join(f"{u} {v} {t}\n" for u, v, t in ROWS)
HEAD = "%%MatrixMarket matrix coordinate integer general\n3 3 3\n"
MTX = HEAD + "".join(f"{u + 1} {v + 1} {t}\n" for u, v, t in ROWS)
METIS = "3 3 1\n2 1217567877 3 1082040961\n1 1217567877 3 1254192988\n1 1082040961 2 1254192988\n"


def text(name, content):
    def write(folder):
        data = content.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return folder / name

    return write


def parquet(folder):
    columns = {"src": EDGES[:, 0], "dst": EDGES[:, 1], "weight": TIMES}
    write_parquet(folder / "a.parquet", columns)
    return folder / "a.parquet"


SOURCES = {
    "text": (text("a.txt", LINES), "column '3' is"),
    "gzipped": (text("a.el.gz", LINES), "column '3' is"),
    "named": (text("a.csv", "u,v,when\n" + LINES.replace(" ", ",")), "column 'when' is"),
    "mtx": (text("a.mtx", MTX), "the values are"),
    "metis": (text("a.graph", METIS), "the edge weights are"),
    "parquet": (parquet, "column 'weight' is"),
}
RANGE = "1,082,040,961 to 1,254,192,988"
DOUBT = f"read as weights of the edges, {RANGE}: whole numbers this large are often times or ids"


@pytest.mark.parametrize("name", SOURCES)
def test_times_are_not_taken_as_weights_in_silence(tmp_path, name):
    write, words = SOURCES[name]
    path = write(tmp_path)
    with pytest.warns(PlanccWarning, match=f"{words} {DOUBT}; `pattern`") as caught:
        graph = read_graph(path)
    assert len(caught) == 1
    assert set(graph.values.tolist()) == set(map(float, TIMES))
    called = words.removesuffix(" is").removesuffix(" are")
    assert graph.source.weights_in_words == f"{called}, {RANGE}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = read_graph(path, pattern=True)
    assert graph.values is None
    assert graph.source.weights_in_words == ""


@pytest.mark.parametrize("made", [nx.DiGraph, sp.csr_array])
def test_objects_of_python(made):
    if made is nx.DiGraph:
        graph = nx.DiGraph()
        graph.add_weighted_edges_from(ROWS)
    else:
        graph = sp.coo_array((TIMES, EDGES.T), shape=(3, 3)).tocsr()
    with pytest.warns(PlanccWarning, match=DOUBT):
        assert plancc.as_graph(graph).source.weight_range == RANGE


def doubt(name, *parts):
    """The warning for values of a name, "" for none, and what is said of them."""
    found = WeightRange(name)
    for values in parts:
        found.add(np.array(values))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        source = found.described(Source("a", weights=name))
    return "".join(str(each.message) for each in caught), source.weight_range


@pytest.mark.parametrize(
    "name", ["timestamp", "Time", "edge_type", "relationId", "created date", "LABEL", "types"]
)
def test_names_that_say_no_weight(name):
    said, _ = doubt(f"column '{name}'", [0.5, 2])
    assert "read as weights of the edges, 0.5 to 2: the name says " in said


@pytest.mark.parametrize("name", ["weight", "candidate", "ideal", "prototype", "sometimes_w"])
def test_names_that_only_hold_such_a_word(name):
    assert doubt(f"column '{name}'", [0.5, 2]) == ("", "0.5 to 2")


@pytest.mark.parametrize(
    ("parts", "large"),
    [
        ([[1.0, 999_999.0]], False),
        ([[1, 10**6]], True),
        ([[-(10**6), 5]], True),
        ([[1.0, 1e6], [2.5e7]], True),
        ([[0.5, 1e6]], False),
        ([[1e6, 2e6], [1e6 + 0.5]], False),
        ([[]], False),
    ],
)
def test_large_whole_numbers(parts, large):
    assert ("this large" in doubt("", *parts)[0]) == large


def test_features_that_are_whole_numbers_may_be_types():
    assert "may be types of edges" in doubt("'edge_attr'", [1, 2])[0]
    assert doubt("'edge_attr'", [1, 2.5])[0] == doubt("'edge_weight'", [1, 2])[0] == ""


def test_equal_values():
    assert doubt("'w'", [1, 1]) == ("", "all 1")


@pytest.mark.parametrize("memory", [1, None])
def test_a_converted_graph_keeps_what_was_said(tmp_path, memory):
    """Sorted on the disk or in memory; the folder is read without another warning."""
    path = text("a.txt", LINES + "0 1 1217567878\n")(tmp_path)
    with pytest.warns(PlanccWarning, match="often times or ids") as caught:
        to_folder(path, tmp_path / "folder", memory=memory)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = read_graph(tmp_path / "folder")
    words = f"column '3', {RANGE}, repeated entries summed: 1"
    assert graph.source.weights_in_words == words
    plan = plancc.compile(graph, "block", 2, data=False)
    assert plan.provenance["source_weights"] == words
