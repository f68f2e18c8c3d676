"""Choosing a format, files that cannot be read, and how quickly plancc imports."""

import os
import subprocess
import sys

import numpy as np
import pytest
from graph_helpers import entries

from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.formats import FORMATS, find_format, read_graph, write_graph


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.mtx", "mtx"), ("A.MTX.GZ", "mtx"), ("a.b.graph", "metis"), ("a.metis.gz", "metis"),
        ("a.txt", "edgelist"), ("a.csv", "edgelist"), ("a.tsv.gz", "edgelist"),
        ("a.el", "edgelist"), ("a.edges", "edgelist"), ("a.npz", "npz"),
    ],
)  # fmt: skip
def test_extensions(name, format):
    assert find_format(name) == format


@pytest.mark.parametrize("name", ["a.xyz", "a", "a.npz.gz", "a.gz"])
def test_unknown_extension(tmp_path, name):
    (tmp_path / name).write_text("0 1\n")
    with pytest.raises(InputError) as caught:
        read_graph(tmp_path / name)
    for words in (str(tmp_path / name), "`format`", *FORMATS):
        assert words in str(caught.value)


def test_format_overrides(tmp_path):
    (tmp_path / "a.xyz").write_text("0 1\n")
    assert entries(read_graph(tmp_path / "a.xyz", "edgelist")) == {(0, 1): 1}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    (tmp_path / "a.mtx").write_text("x")
    (tmp_path / "a.mtx").chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        read_graph(tmp_path / "a.mtx")


def test_formats_without_writer(tmp_path):
    graph = build_graph(2, np.array([0]), np.array([1]))
    with pytest.raises(InputError, match="choose from mtx, metis"):
        write_graph(graph, tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def test_interrupt_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("scipy.io.mmwrite", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_graph(build_graph(2, np.array([0]), np.array([1])), tmp_path / "a.mtx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("row", "col", "values", "words"),
    [
        ([0, 2], [0, 0], None, "'2' is out of range 0..1"),
        ([0, -1], [0, 0], None, "'-1'"),
        ([0, 0], [1, 1], [1e308, 1e308], "'inf'"),
    ],
)
def test_build_graph_refuses(row, col, values, words):
    values = None if values is None else np.array(values)
    with pytest.raises(InputError, match=words):
        build_graph(2, np.array(row), np.array(col), values)


def test_many_duplicates_of_a_pattern():
    # 256 ones overflow the int8 that merging uses; the nonzero must stay
    graph = build_graph(2, np.zeros(256, int), np.ones(256, int))
    assert entries(graph) == {(0, 1): 1}


def test_symmetrized_sums_are_symmetric():
    row, col = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 0])
    graph = build_graph(2, row, col, np.array([1e20, 1.0, -1e20, 0.5]), symmetrize=True)
    found = entries(graph)
    assert found[0, 1] == found[1, 0]


def test_import_is_light():
    code = (
        "import sys, plancc.graph.formats, plancc.graph.convert, plancc.graph.vertexdata, "
        "plancc.models.hmetis, plancc.graph.partvector, plancc.graph.mtx, plancc_datasets; "
        "print([m for m in ('numba', 'networkx', 'sklearn', 'torch', 'scipy.sparse') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
