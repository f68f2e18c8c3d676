"""Graphs and plans that several files of tests look at; made once, never changed."""

from pathlib import Path

import numpy as np
import pytest
import worlds
from cli_helpers import MACHINE, ok


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directed graph with weights, self loops, hubs and isolated vertices."""
    path = tmp_path_factory.mktemp("graph") / "graph.mtx"
    return worlds.write_mtx(path, worlds.array("hubs"))


@pytest.fixture(scope="session")
def data(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(6)
    path = tmp_path_factory.mktemp("data") / "data.npz"
    train = np.arange(90) % 3 == 0
    np.savez(
        path,
        features=rng.random((90, 5), dtype=np.float32),
        labels=rng.integers(-1, 4, 90),
        train_mask=train,
        test_mask=~train,
    )
    return path


@pytest.fixture(scope="session")
def plan(graph: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph in 7 parts by hp, with vertex data."""
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    ok("compile", graph, "-p", 7, "--data", data, "-o", path)
    return path


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine of nodes of two ranks."""
    path = tmp_path_factory.mktemp("machine") / "ours.toml"
    path.write_text(MACHINE)
    return path
