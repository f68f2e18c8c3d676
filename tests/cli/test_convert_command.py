"""`plancc convert`: a folder of arrays, and a plan of it."""

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
