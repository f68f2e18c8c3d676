"""Epochs of GraphSAGE (mean) beside DGL's SAGEConv: 3 layers, 128 features, full batch, one core.

Both train in processes of their own with one thread, one after the other, round by round.
"""

from __future__ import annotations

import json
import statistics
import subprocess

import plancc
from benchmarks.epochs import CLASSES, LR
from benchmarks.inputs import BIN, SHARED, Inputs
from benchmarks.report import Report
from benchmarks.rivals import rivals
from benchmarks.rivals import run as run_rival
from benchmarks.rivals.harness import LAYERS, WARM_UP
from benchmarks.rivals.problem import write_problem
from plancc_datasets import load_dataset

FEATURES, ROUNDS, EPOCHS = 128, 5, 6
GOALS = {32: 0.60, 128: 0.45}
FILE = SHARED / "soc-Slashdot0902.mtx.gz"


def run(inputs: Inputs) -> Report:
    [rival] = rivals(inputs.folder, ["dgl-sage"], make=inputs.kept and not inputs.quick)
    if not rival.available:
        return Report([f"skipped: {rival.why_not}"])
    small = inputs.quick or not FILE.is_file()
    graph = load_dataset("rmat", scale=10).graph if small else None
    graph = plancc.read_graph(FILE, symmetrize=True) if graph is None else graph
    report = Report([f"{graph.source.name}, {graph.num_vertices:,} vertices, one thread"])
    problem, plan = inputs.folder / "sage.npz", inputs.folder / "sage.h5"
    write_problem(problem, graph, FEATURES, CLASSES)
    plancc.compile(graph, "block", 1, data=problem, self_loops=False).save(plan)
    for hidden, goal in GOALS.items():
        options = f"--model sage --layers {LAYERS} --hidden {hidden} --epochs {WARM_UP + EPOCHS} "
        options += f"--optimizer sgd --lr {LR} --eval-every 0 --threads 1"
        result = inputs.folder / "sage.json"
        command = [str(BIN / "plancc-run"), str(plan), "--json", str(result), *options.split()]
        ours, theirs = list[float](), list[float]()
        for _ in range(1 if inputs.quick else ROUNDS):
            subprocess.run(command, check=True, capture_output=True, timeout=600)
            epochs = json.loads(result.read_text())["epochs"][WARM_UP:]
            ours.append(statistics.median(epoch["seconds_max"]["total"] for epoch in epochs))
            found = run_rival(rival, problem, hidden, EPOCHS, 1, lr=LR)
            theirs.append(found["median"])
        report.add_times(f"{hidden} wide: plancc", ours)
        report.add_times(f"{hidden} wide: DGL", theirs)
        report.add_ratio(f"{hidden} wide: plancc / DGL", ours, theirs, goal)
    return report
