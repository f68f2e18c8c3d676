"""Graphs and plans that several files of tests look at; made once, never changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import worlds
from cli_helpers import MACHINE, ok

from plancc.plan import reader


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


@pytest.fixture(scope="module")
def opened_once() -> Iterator[None]:
    """Commands share a plan file that is open: opening and checking it is most of a command.

    For modules about figures. Change a plan in a copy at a path without a file.
    """
    original = reader.PlanFile
    opened: dict[tuple[object, ...], reader.PlanFile] = {}

    def replace(old: object, new: object) -> None:
        for module in [*sys.modules.values()]:
            if isinstance(module, ModuleType) and vars(module).get("PlanFile") is old:
                module.PlanFile = new  # type: ignore[attr-defined]

    with ExitStack() as stack:

        @contextmanager
        def shared(path: str | Path) -> Iterator[reader.PlanFile]:
            found = os.stat(path) if os.path.exists(path) else None
            key = (os.fspath(path), found and (found.st_ino, found.st_size, found.st_mtime_ns))
            if key not in opened:
                opened[key] = stack.enter_context(original(path))
            yield opened[key]

        replace(original, shared)
        yield
        replace(shared, original)
