"""Epochs of DGL 2.1.0 and of plancc's one rank, in turns on one core."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import plancc
from benchmarks.inputs import ROOT, name_of
from benchmarks.papers.items import Bench, Row, read
from benchmarks.rivals import Rival, rivals, run
from benchmarks.rivals.harness import LAYERS, WARM_UP
from benchmarks.rivals.problem import write_problem
from benchmarks.training import CLASSES, trained

WIDTH = 128
DIMS = (*[WIDTH] * LAYERS, CLASSES)
EPOCHS, ROUNDS = 4, 3


def measure(bench: Bench) -> None:
    """A row for every graph; none, if DGL cannot be had. Its environment takes 5 GB."""
    folder = ROOT / "build" / "rivals"
    [dgl] = rivals(folder, ["dgl"], make=bench.install and not bench.quick)
    if not dgl.available:
        bench.report(f"{bench.item.name}: left out, {dgl.why_not}")
        return
    for path in bench.graphs():
        bench.row({"graph": name_of(path), "model": "DGL"}, partial(_epochs, dgl, path))


def _epochs(dgl: Rival, path: Path) -> Row:
    """The least epoch of each, which other work on the machine lengthens least."""
    options = {"layers": LAYERS, "hidden": WIDTH, "optimizer": "sgd", "parametrization": "paper"}
    theirs, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        write_problem(problem, read(path, symmetrize=True), WIDTH, CLASSES)
        plan = plancc.compile(read(path, symmetrize=True), "rp", 1, data=problem)
        for _ in range(ROUNDS):
            theirs += run(dgl, problem, WIDTH, EPOCHS, threads=1)["seconds"]
            found = trained(plan, epochs=WARM_UP + EPOCHS, lr=0.1, **options)
            ours += [each.seconds_max["total"] for each in found.epochs[WARM_UP:]]
    return {"DGL, s": min(theirs), "plancc, s": min(ours)}
