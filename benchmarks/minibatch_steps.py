"""Milliseconds of a step of GraphSAGE in mini-batches: against DGL, and an older commit.

    python -m benchmarks minibatch-steps
    python -m benchmarks.minibatch_steps soc-Slashdot0902.mtx.gz --commit OLD --rounds 8 --threads 1

One rank; 2 layers, 128 wide, 1,024 seeds, fan-outs 5 from the seeds and 10 behind, random features.
All sides run at once and take turns of 40 steps; every figure is the median of the rounds. On a
busy machine CPU time on one thread tells more than wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console

import plancc
from benchmarks.inputs import SHARED, Inputs, name_of
from benchmarks.replay import PACKAGES, ROOT, work_tree
from benchmarks.report import Report, show
from benchmarks.rivals.environment import DGL
from plancc.errors import BackendUnavailable
from plancc.graph.graph import Graph
from plancc_datasets import load_dataset

SEEDS, FANOUTS, WIDTH, CLASSES = 1024, "5,10", 128, 16
CORES = 2
OVER_DGL, DRAWING, OVER_SMALL = 0.7, 3.0, 1.15
"""The targets: a step over DGL's, milliseconds of drawing, a step with 8 times the vertices."""
Figures = dict[str, float]


def run(inputs: Inputs) -> Report:
    """soc-Slashdot0902, and R-MAT graphs of 2^17, 2^19 and 2^20 vertices."""
    report = Report()
    scales = (8, 9, 10) if inputs.quick else (17, 19, 20)
    graphs = {f"R-MAT {scale}": _rmat(scale) for scale in scales}
    file = SHARED / "soc-Slashdot0902.mtx.gz"
    if not inputs.quick and file.is_file():
        graphs = {name_of(file): plancc.read_graph(file)} | graphs
    try:
        dgl = DGL.python(inputs.folder / "environments", make=not inputs.quick)
    except BackendUnavailable as error:
        dgl = None
        report.notes.append(f"DGL is left out: {error}")
    rounds, threads = (1, 1) if inputs.quick else (5, CORES)
    steps = {}
    for name, graph in graphs.items():
        plan = _plan(graph, inputs.folder, "minibatch-steps")
        found = measure({"plancc": _ours(ROOT, plan)} | _theirs(dgl, plan), rounds, threads)
        add_figures(report, name, found)
        steps[name] = found["plancc"]["step"]
    small, *_, large = (f"R-MAT {scale}" for scale in scales)
    report.add(f"step, {large} / {small}", steps[large] / steps[small], OVER_SMALL)
    return report


def add_figures(report: Report, name: str, found: Mapping[str, Figures]) -> None:
    """Figures of one graph by side."""
    report.add(f"{name}: drawing", found["plancc"]["drawing"], DRAWING, unit="ms")
    for other, figures in found.items():
        if other != "plancc":
            target = OVER_DGL if other == "DGL" else None
            for what in ("step", "cpu"):
                ratio = found["plancc"][what] / figures[what]
                report.add(f"{name}: {what} / {other}", ratio, target if what == "step" else None)
        text = ", ".join(f"{what} {value:.2f} ms" for what, value in figures.items())
        report.notes.append(f"{name}: {other}: {text}")


def measure(sides: Mapping[str, Sequence[str]], rounds: int, threads: int) -> dict[str, Figures]:
    """Medians over the rounds, by side; sides with losses must agree in all their bits."""
    count = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environment = os.environ | count | {"DGLBACKEND": "pytorch"}
    words = [str(each) for each in (threads, SEEDS, FANOUTS, WIDTH, CLASSES)]
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(_start([*command, *words], environment))
            for name, command in sides.items()
        }
        for name in processes:
            assert _answer(processes[name]) == "ready", name
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, process in processes.items():
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                found[name].append(json.loads(_answer(process)))
        for process in processes.values():
            process.stdin.close()  # type: ignore[union-attr]
    losses = {tuple(r["loss"] for r in all_) for all_ in found.values() if "loss" in all_[0]}
    assert len(losses) == 1, "losses differ"
    return {
        name: {key: median(r[key] for r in all_) for key in ("drawing", "step", "cpu")}
        for name, all_ in found.items()
    }


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _ours(tree: Path, plan: Path) -> list[str]:
    """The command of a worker with the packages of a tree."""
    path = os.pathsep.join(str(tree / each) for each in ("", *PACKAGES[1:]))
    script = Path(__file__).with_name("minibatch_worker.py")
    return ["env", f"PYTHONPATH={path}", sys.executable, "-P", str(script), str(plan)]


def _theirs(python: Path | None, plan: Path) -> dict[str, list[str]]:
    script = Path(__file__).parent / "rivals" / "dgl_minibatches.py"
    return {"DGL": [str(python), str(script), str(plan.with_suffix(".npz"))]} if python else {}


def _rmat(scale: int) -> Graph:
    return load_dataset("rmat", scale=scale, edge_factor=8, seed=1).graph


def _plan(graph: Graph, folder: Path, name: str) -> Path:
    """A plan of one part, and beside it the pattern without a diagonal."""
    rows = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    others = graph.indices != rows
    indptr = np.append(0, np.cumsum(np.bincount(rows[others], minlength=graph.num_vertices)))
    path = folder / f"{name}.h5"
    np.savez(path.with_suffix(".npz"), indptr=indptr, indices=graph.indices[others])
    plancc.compile(graph, "block", 1).save(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--commit", help="an older one, whose losses must be the same")
    parser.add_argument("--dgl", type=Path, metavar="PYTHON", help="a Python that finds DGL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=CORES)
    given = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        trees = {"plancc": ROOT}
        if given.commit:
            trees[given.commit] = stack.enter_context(work_tree(given.commit))
        for graph in given.graphs:
            plan = _plan(plancc.read_graph(graph), Path(folder), name_of(graph))
            sides = {name: _ours(tree, plan) for name, tree in trees.items()}
            found = measure(sides | _theirs(given.dgl, plan), given.rounds, given.threads)
            add_figures(report, name_of(graph), found)
    show(Console(highlight=False), "minibatch-steps", report)


if __name__ == "__main__":
    main()
