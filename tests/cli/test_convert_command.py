"""`plancc convert`: a folder of arrays, and a plan of it."""

import json

import numpy as np
import pytest
from cli_helpers import plancc

from plancc.plan.reader import load

GRAPH = "%%MatrixMarket matrix coordinate pattern symmetric\n6 6 7\n" + "".join(
    f"{i} {j}\n" for i, j in [(2, 1), (3, 1), (3, 2), (4, 3), (5, 4), (6, 4), (6, 5)]
)


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "g.mtx"
    path.write_text(GRAPH)
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float16).reshape(6, 2))
    return path


def test_a_graph_becomes_a_folder(graph, tmp_path):
    folder = tmp_path / "folder"
    done = plancc(
        "convert", graph, "-o", folder, "--data", tmp_path / "x.npy", "--memory", "1K", "-q"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{folder}: 6 vertices, 14 nonzeros, undirected")
    plans = []
    for source in ([graph, "--data", tmp_path / "x.npy"], [folder]):
        done = plancc("compile", *source, "-p", 2, "-o", tmp_path / "p.h5")
        assert done.code == 0, done.err
        plans.append(load(tmp_path / "p.h5").content_sha256())
    assert plans[0] == plans[1]


def test_as_data(graph, tmp_path):
    done = plancc("convert", graph, "-o", tmp_path / "f", "--json", "--pattern")
    assert json.loads(done.out) == {
        "folder": str(tmp_path / "f"),
        "num_vertices": 6,
        "num_nonzeros": 14,
        "directed": False,
        "weighted": False,
    }


def test_what_cannot_be_converted(graph, tmp_path):
    for words, why in [
        ((tmp_path / "none.mtx", "-o", tmp_path / "f"), "none.mtx"),
        ((graph, "-o", tmp_path), "the folder is not empty"),
        ((graph, "-o", tmp_path / "no" / "f"), "does not exist"),
        ((graph, "-o", tmp_path / "f", "--memory", "much"), "much"),
        ((graph, "-o", tmp_path / "f", "--data", tmp_path / "none.npy"), "none.npy"),
    ]:
        done = plancc("convert", *words)
        assert done.code in (1, 2), words
        assert why in done.err
        assert "Traceback" not in done.err
        assert not (tmp_path / "f").exists()


def test_a_graph_that_does_not_fit_names_the_way_around(graph, tmp_path):
    done = plancc("compile", graph, "-p", 2, "-o", tmp_path / "p.h5", "--memory", "400")
    assert done.code == 2
    assert "reading it takes about" in done.err
    assert "plancc convert" in done.err
