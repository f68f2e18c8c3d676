"""`inspect`, `compare`, `verify`, `export` and `refine` of an edge plan."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import worlds
from cli_helpers import ok

pytestmark = pytest.mark.usefixtures("opened_once")

PARTS = 5


@pytest.fixture(scope="module")
def edges(tmp_path_factory) -> tuple[Path, np.ndarray, dict[tuple[int, int], int]]:
    """An edge plan of the graph, with the owners of rows and of every nonzero."""
    path = tmp_path_factory.mktemp("edges") / "edges.h5"
    worlds.plan("hubs", "edge", PARTS).save(path)
    matrix, owner = worlds.graph("hubs"), worlds.owners(90, PARTS)
    held = worlds.nonzero_owners(matrix, owner, PARTS).tolist()
    return path, owner, dict(zip(worlds.places(matrix), held, strict=True))


def test_export(edges, tmp_path: Path) -> None:
    path, owner, of_pair = edges
    ok("export", path, "-o", tmp_path / "graph.part.5")
    assert np.loadtxt(tmp_path / "graph.part.5", dtype=int).tolist() == owner.tolist()
    ok("export", path, "-o", tmp_path / "graph.part.mtx")
    found = scipy.io.mmread(tmp_path / "graph.part.mtx").tocoo()
    entries = zip(found.row.tolist(), found.col.tolist(), found.data.tolist(), strict=True)
    assert {(i, j): part - 1 for i, j, part in entries} == of_pair
