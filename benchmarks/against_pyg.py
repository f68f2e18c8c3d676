"""Test accuracy of `plancc-run` over that of a PyTorch Geometric script with the same settings.

    python -m benchmarks against-pyg                   all; the results are kept, so that it goes on
    python -m benchmarks.against_pyg --graphs AmazonPhoto --models sage,gcn --python PYTHON

Raw features, 60/20/20 splits drawn per seed and the same for both, two layers of width 64, dropout
0.5 between them, Adam at 0.01, 100 epochs, the weights of the last. Directed graphs are symmetrised
for both. `plancc-run` has two ranks that are threads. PyTorch Geometric runs in an environment of
its own, or by the Python of --python or of the variable PLANCC_PYG_PYTHON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console

import plancc
from benchmarks.inputs import BIN, ROOT, SHARED, Inputs
from benchmarks.replay import sources_hash
from benchmarks.report import Report, show
from benchmarks.rivals.environment import PYG
from plancc.errors import BackendError, BackendUnavailable
from plancc.sampling.splits import random_split
from plancc_lab.kept import Kept
from plancc_runtime.data import SPLITS

GRAPHS = ("AmazonPhoto", "CoauthorCS")
MODELS = ("sage", "gcn", "gat")
SEEDS, EPOCHS, RANKS = 5, 100, 2
SHARES = (0.6, 0.2, 0.2)
GOAL = 0.99
PYTHON = "PLANCC_PYG_PYTHON"
SCRIPT = ROOT / "benchmarks" / "rivals" / "pyg_accuracy.py"
TIMEOUT = 3600


@dataclass(frozen=True)
class Accuracies:
    """Test accuracies of all seeds."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        return statistics.mean(self.ours) / statistics.mean(self.theirs)


class Bench:
    """What is measured, and with which Python.

    Parameters:
        python: One that has torch_geometric.
        seeds: Number of them, from 0.
    """

    def __init__(
        self,
        inputs: Inputs,
        python: str,
        graphs: tuple[str, ...],
        models: tuple[str, ...] = MODELS,
        seeds: int = SEEDS,
    ) -> None:
        self.graphs, self.models, self._python = graphs, models, python
        self.seeds, self.epochs = (1, 5) if inputs.quick else (seeds, EPOCHS)
        file = inputs.results("against-pyg") / "against-pyg.jsonl"
        self._folder = file.parent
        self._ours = Kept(file, sources_hash(ROOT, ("plancc", "runtime")))
        self._theirs = Kept(file, hashlib.sha256(SCRIPT.read_bytes()).hexdigest())

    def run(self, console: Console) -> dict[tuple[str, str], Accuracies]:
        """Accuracies by graph and model; a line per run as it ends."""
        found = {each: Accuracies([], []) for each in product(self.graphs, self.models)}
        for seed, (graph, model) in product(range(self.seeds), found):
            key = graph, model, seed, self.epochs
            ours = self._ours.step(("plancc", *key), partial(self._plancc, *key[:3]))
            theirs = self._theirs.step(("pyg", *key), partial(self._pyg, *key[:3]))
            found[graph, model].ours.append(ours)
            found[graph, model].theirs.append(theirs)
            console.print(
                f"{graph:<12} {model:<5} seed {seed}: plancc {ours:.4f}, PyTorch Geometric "
                f"{theirs:.4f}"
            )
        return found

    def _plancc(self, graph: str, model: str, seed: int) -> float:
        plan = self._folder / f"{graph}.h5"
        if not plan.exists():
            read = plancc.read_graph(SHARED / f"{graph}.mtx.gz", symmetrize=True)
            data = SHARED / f"{graph}.npz"
            plancc.compile(read, "hp", RANKS, data=data, seed=1).save(plan)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            finished(
                *(BIN / "plancc-run", plan, "--ranks", RANKS, "--threads", 1, "--model", model),
                *("--hidden", 64, "--dropout", 0.5, "--input-dropout", 0, "--optimizer", "adam"),
                *("--lr", 0.01, "--epochs", self.epochs, "--eval-every", 0, "--seed", seed),
                *("--split", ",".join(map(str, SHARES)), "--json", result),
            )
            return float(json.loads(result.read_text())["final"]["accuracy"]["test"])

    def _pyg(self, graph: str, model: str, seed: int) -> float:
        read = plancc.read_graph(SHARED / f"{graph}.mtx.gz", symmetrize=True)
        with np.load(SHARED / f"{graph}.npz") as file:
            names = ("labels", "feat_data", "feat_indices", "feat_indptr", "feat_shape")
            arrays = {name: file[name] for name in names}
        known = arrays["labels"] >= 0
        masks = random_split(np.arange(read.num_vertices), SHARES, seed)
        arrays |= {f"{name}_mask": m & known for name, m in zip(SPLITS, masks, strict=True)}
        problem = self._folder / f"{graph}-pyg.npz"
        np.savez(problem, indptr=read.indptr, indices=read.indices, **arrays)
        options = ("--model", model, "--seed", seed, "--epochs", self.epochs)
        told = finished(self._python, SCRIPT, problem, *options)
        return float(json.loads(told.splitlines()[-1])["accuracy"]["test"])


def finished(*command: object) -> str:
    """What a command prints; BackendError if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | {"OMP_WAIT_POLICY": "PASSIVE"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if done.returncode:
        raise BackendError(f"{command[0]} ended with code {done.returncode}:\n{done.stderr}")
    return done.stdout


def python_with_pyg() -> str:
    """A Python that has torch_geometric.

    Raises:
        BackendUnavailable: If there is none, and none can be made.
    """
    if os.environ.get(PYTHON):
        return checked(os.environ[PYTHON])
    try:
        return str(PYG.python(ROOT / "build" / "rivals"))
    except BackendUnavailable as error:
        raise BackendUnavailable(
            f"{error}; or install torch_geometric somewhere and set {PYTHON} to that Python"
        ) from error


def checked(python: str) -> str:
    """`python` itself; BackendUnavailable if it does not run or has no torch_geometric."""
    try:
        finished(python, "-c", "import torch_geometric")
    except (OSError, BackendError) as error:
        raise BackendUnavailable(
            f"{python} has no torch_geometric; install it there: pip install torch_geometric"
        ) from error
    return python


def run(inputs: Inputs) -> Report:
    graphs = tuple(name for name in GRAPHS if (SHARED / f"{name}.npz").exists())
    if not graphs:
        return Report([f"skipped: {SHARED} has none of {', '.join(GRAPHS)}"])
    try:
        python = python_with_pyg()
    except BackendUnavailable as error:
        return Report([f"skipped: {error}"])
    quick = slice(1 if inputs.quick else None)
    bench = Bench(inputs, python, graphs[quick], MODELS[quick])
    return report_of(bench, Console(highlight=False))


def report_of(bench: Bench, console: Console) -> Report:
    """The figures of a benchmark, which is run."""
    report = Report(
        [
            f"test accuracy, mean of {bench.seeds} seeds after {bench.epochs} epochs; raw "
            "features, splits 60/20/20, hidden 64, Adam 0.01, dropout 0.5"
        ]
    )
    for (graph, model), found in bench.run(console).items():
        for name, accuracies in (("plancc", found.ours), ("PyTorch Geometric", found.theirs)):
            report.add(f"{graph}, {model}: {name}", statistics.mean(accuracies))
            if len(accuracies) > 1:
                report.add(f"{graph}, {model}: {name}, deviation", statistics.stdev(accuracies))
        report.add(f"{graph}, {model}: plancc / PyTorch Geometric", found.ratio, GOAL, ">=")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_pyg", description=__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS), help="comma-separated [%(default)s]")
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated [%(default)s]")
    parser.add_argument("--python", help="a Python that has torch_geometric")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds [%(default)s]")
    given = parser.parse_args()
    try:
        python = checked(given.python) if given.python else python_with_pyg()
    except BackendUnavailable as error:
        sys.exit(str(error))
    inputs = Inputs(ROOT / "build" / "against-pyg", quick=False)
    inputs.folder.mkdir(parents=True, exist_ok=True)
    graphs, models = tuple(given.graphs.split(",")), tuple(given.models.split(","))
    console = Console(highlight=False)
    bench = Bench(inputs, python, graphs, models, given.seeds)
    show(console, "against-pyg", report_of(bench, console))


if __name__ == "__main__":
    main()
