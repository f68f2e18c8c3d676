"""Files of one format under the name of another: refused, and what reads them is named."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest
from graph_helpers import entries, refused

from plancc.graph.folders import check_reading, to_folder
from plancc.graph.formats import check_beginning, read_graph
from plancc.graph.vertexsources import read_vertex_data

MTX = b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n"
CYCLE = "3 3\n2 3\n1 3\n1 2\n"
"""A triangle for METIS; four edges, of which one is a loop, for a reader of edges."""


def zipped():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("edges.txt", "0 1\n")
    return held.getvalue()


def array():
    held = io.BytesIO()
    np.save(held, np.eye(3))
    return held.getvalue()


KINDS = {
    "MatrixMarket": (MTX, ("mtx",), "`format` mtx reads it"),
    "MatrixMarket, one percent sign": (MTX[1:], ("mtx",), "`format` mtx reads it"),
    "MatrixMarket, byte order mark": (b"\xef\xbb\xbf" + MTX, ("mtx",), "`format` mtx reads it"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(60), ("h5ad",), "`format` h5ad reads it"),
    "Parquet": (b"PAR1" + bytes(60), ("parquet",), "`format` parquet reads it"),
    "a zip archive": (zipped(), ("npz", "pyg"), "`format` npz or pyg reads it"),
    "a numpy array": (array(), (), "a graph is read from .npz"),
    "gzip": (gzip.compress(b"0 1\n"), (), "give it a name that ends in .gz"),
    "bzip2": (bz2.compress(b"0 1\n"), (), "unpack it"),
    "xz": (lzma.compress(b"0 1\n"), (), "unpack it"),
    "HTML": (b"\n<!DOCTYPE html><html>", (), "returned a web page"),
    "DIMACS": (b"c a road\nc\np sp 3 2\na 1 2 5\na 2 3 5\n", (), "grep '^[ae]'"),
    "XML": (b"<?xml version='1.0'?><graphml/>", ("graphml",), "`format` graphml reads it"),
    "Pajek": (b"*Vertices 3\n*Edges\n1 2\n", ("pajek",), "`format` pajek reads it"),
    "GML": (b"graph [\n  node [ id 0 ]\n]\n", ("gml",), "`format` gml reads it"),
}
FILES = ("mtx", "metis", "edgelist", "npz", "pyg", "dgl", "parquet", "h5ad")
FILES += ("graphml", "gml", "pajek")


@pytest.mark.parametrize("kind", KINDS)
def test_no_reader_takes_another_format(tmp_path, kind):
    data, own, advice = KINDS[kind]
    path = tmp_path / "a.data"
    path.write_bytes(data)
    for format in FILES:
        if format not in own:
            refused(lambda p, f=format: read_graph(p, f), path, kind.split(",")[0], advice)


def test_what_reads_a_file_otherwise_refuses_too(tmp_path):
    for name in ("a.txt", "a.edges"):
        (tmp_path / name).write_bytes(MTX)
        for read in (
            lambda p: to_folder(p, tmp_path / "f", memory=1),
            lambda p: check_reading(p, 1),
        ):
            refused(read, tmp_path / name, "begins like MatrixMarket, not like an edge list")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("x.npy", "a zip archive", "give it a name that ends in .npz"),
        ("x.npy", "HDF5", ""),
        ("x.csv", "gzip", "give it a name that ends in .gz"),
        ("x.csv", "Parquet", "give it a name that ends in .parquet"),
        ("x.tsv", "a numpy array", "give it a name that ends in .npy"),
        ("x.csv", "HTML", "returned a web page"),
    ],
)
def test_vertex_data_under_another_name(tmp_path, name, kind, advice):
    (tmp_path / name).write_bytes(KINDS[kind][0])
    refused(lambda p: read_vertex_data(p, 3), tmp_path / name, f"begins like {kind}, not", advice)


def test_formats_of_others_may_begin_as_they_like(tmp_path):
    (tmp_path / "a.other").write_bytes(KINDS["HDF5"][0])
    check_beginning(tmp_path / "a.other", "other")
    check_beginning(tmp_path, "mtx")  # a folder


@pytest.mark.parametrize(
    "text",
    [CYCLE, "% c\n" + CYCLE, "4 3\n2\n1 3\n2 4\n3\n", "2 1 1 1\n2 5\n1 5\n", "3 1\n2\n1\n\n"],
)
def test_the_header_of_metis(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text)
    refused(read_graph, path, "this is the header of a METIS graph", "`format` metis reads it")
    graph = read_graph(path, "metis")
    assert graph.num_vertices == int(text.replace("% c\n", "").split()[0])


@pytest.mark.parametrize("text", ["1 1\n1 1\n", "3 3\n2 3\n1 3\n1 3\n", "2 2\n1 2\n2 1\n", "2 1\n"])
def test_edges_that_only_begin_as_metis(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    pairs = {tuple(map(int, line.split())) for line in text.splitlines()}
    ids = sorted({end for pair in pairs for end in pair})
    expected = {(ids.index(u), ids.index(v)): 1 for u, v in pairs}
    assert entries(read_graph(tmp_path / "a.txt")) == expected


def test_a_comment_makes_it_an_edge_list(tmp_path):
    (tmp_path / "a.txt").write_text("#\n" + CYCLE)
    assert entries(read_graph(tmp_path / "a.txt")) == {(2, 2): 1, (1, 2): 1, (0, 2): 1, (0, 1): 1}
