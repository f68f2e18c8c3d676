"""Model libra: edges a second on one core, copies and balance, against DGL's Libra."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs import Inputs
from benchmarks.report import Report
from benchmarks.rivals import TIMEOUT
from benchmarks.rivals.environment import DGL
from plancc.errors import BackendError, BackendUnavailable
from plancc.graph.graph import Graph
from plancc.models.libra import LibraModel
from plancc_datasets import load_dataset

NUM_PARTS, SEED, REPETITIONS = 64, 1, 3
SCRIPT = Path(__file__).parent / "rivals" / "dgl_libra.py"


def run(inputs: Inputs) -> Report:
    report = Report(
        [
            f"{inputs.rmat_name}, p = {NUM_PARTS}; times of plancc are of its one core (CPU time)",
            "replication factor: parts that hold a vertex, over vertices with an edge",
            "its targets are DGL's figures for shuffled edges, which are balanced",
            "DGL's time includes writing the parts as text; its environment is made where "
            "--folder is given, without --quick",
        ]
    )
    _build(load_dataset("rmat", scale=8, edge_factor=8, seed=1).graph)  # compiles the kernels
    seconds = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        notes = _build(inputs.rmat)
        seconds.append(time.process_time() - start)
    edges = inputs.rmat.num_nonzeros
    factor, imbalance = notes["replication_factor"], notes["edge_imbalance"]
    report.add_times("time", seconds)
    report.add("edges a second, millions, of the minimum", edges / min(seconds) / 1e6)
    report.add("seconds per 5 million edges", 5e6 * min(seconds) / edges, 1.0, unit="s")
    try:
        python = DGL.python(inputs.folder / "environments", inputs.kept and not inputs.quick)
    except BackendUnavailable as error:
        report.notes.append(f"DGL: left out, {error}")
        report.add("replication factor", factor)
        report.add("edge imbalance", imbalance, 0.02)
        return report
    matrix = inputs.folder / f"rmat-{inputs.scale}.npz"
    np.savez(matrix, indptr=inputs.rmat.indptr, indices=inputs.rmat.indices)
    shuffled, in_rows = _dgl(python, matrix, "--shuffle"), _dgl(python, matrix)
    report.add("replication factor", factor, shuffled["replication_factor"])
    report.add("edge imbalance", imbalance, 0.02)
    for name, found in (("shuffled edges", shuffled), ("edges row by row", in_rows)):
        report.add(f"DGL, {name}: replication factor", found["replication_factor"])
        report.add(f"DGL, {name}: edge imbalance", found["edge_imbalance"])
        report.add(f"DGL, {name}: time", found["seconds"], unit="s")
    return report


def _build(graph: Graph) -> dict[str, Any]:
    return LibraModel().build(graph, NUM_PARTS, balance="nnz", seed=SEED).notes


def _dgl(python: Path, matrix: Path, *options: str) -> dict[str, Any]:
    """What `SCRIPT` prints."""
    command = [python, SCRIPT, matrix, "--parts", NUM_PARTS, "--seed", SEED, *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DGLBACKEND": "pytorch"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(map(str, command)),
        env=environment,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BackendError(f"DGL's Libra ended with code {done.returncode}: {reason}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
