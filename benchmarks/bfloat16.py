"""Training with rows of bfloat16 over training in float32: seconds, bytes, memory and accuracy.

Epochs of both types are made in turns, in one process of one rank. Peaks of memory are those of
processes of their own. Ranks of the accuracy are threads of this process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report

TYPES = ("float32", "bfloat16")
GRAPH, ROUNDS, WARM_UP = "soc-Slashdot0902", 12, 2
LAYERS = (3, 6)
RANKS, SEEDS = 2, 10
KIPF: dict[str, Any] = {  # and Welling (2017)
    **{"hidden": 16, "dropout": 0.5, "weight_decay": 5e-4, "epochs": 200},
    **{"scale_features": "rows", "parametrization": "paper"},
}
_CHILD = """
import sys
from pathlib import Path
from benchmarks.bfloat16 import prepared_run
run = prepared_run(sys.argv[1], sys.argv[2], layers=int(sys.argv[3]), hidden=128,
    random_features=128)
clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
clear.write_text("5")  # the peak is from now on
for epoch in range(3):
    run.epoch(epoch)
print(dict(line.split(":", 1) for line in status.read_text().splitlines())["VmHWM"].split()[0])
"""


def run(inputs: Inputs) -> Report:
    graph, cora = (SHARED / f"{name}.mtx.gz" for name in (GRAPH, "Cora"))
    if not graph.exists() or not cora.exists():
        return Report([f"skipped: {SHARED} has no {GRAPH} or no Cora"])
    report = Report([f"bfloat16 over float32; {GRAPH}, 3 layers, 2 threads; Cora on {RANKS} ranks"])
    single = inputs.folder / "bfloat16.h5"
    plancc.compile(plancc.read_graph(graph, symmetrize=True), "rp", 1).save(single)
    for hidden in (32, 128):
        for model in ("gcn", "sage"):
            seconds = _epochs(single, hidden, model, 3 if inputs.quick else ROUNDS)
            narrow, wide = seconds["bfloat16"], seconds["float32"]
            name = f"hidden {hidden}, {model}: epoch"
            report.add(f"{name}, medians", statistics.median(narrow) / statistics.median(wide))
            report.add(f"{name}, minima", min(narrow) / min(wide))
    if Path("/proc/self/clear_refs").exists():
        peaks = {(name, n): _peak(single, name, n) for name in TYPES for n in LAYERS}
        few, many = LAYERS
        for n in LAYERS:
            ratio = peaks["bfloat16", n] / peaks["float32", n]
            report.add(f"hidden 128, gcn: peak memory of the process, {n} layers", ratio)
        more = {name: peaks[name, many] - peaks[name, few] for name in TYPES}
        ratio = more["bfloat16"] / more["float32"]
        report.add("hidden 128, gcn: memory of another layer at the peak", ratio, 0.6)
    plan = inputs.folder / "bfloat16-cora.h5"
    read = plancc.read_graph(cora, symmetrize=True)
    plancc.compile(read, "hp", RANKS, data=SHARED / "Cora.npz", seed=1).save(plan)
    accuracies, sent = {}, {}
    for name in TYPES:
        results = [_trained(plan, name, seed) for seed in range(1 if inputs.quick else SEEDS)]
        accuracies[name] = [result.final.accuracy["test"] for result in results]
        sent[name] = results[0].epochs[-1].bytes_sent
    report.add("Cora: bytes sent per epoch", sent["bfloat16"] / sent["float32"], 0.5)
    for name, found in accuracies.items():
        report.add(f"Cora: test accuracy, {name}", statistics.mean(found))
        if len(found) > 1:
            report.add(f"Cora: test accuracy, {name}, deviation", statistics.stdev(found))
    return report


def prepared_run(plan: str | Path, dtype: str, **options: Any) -> Any:
    """A run on one rank that is ready for its first epoch."""
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import prepared
    from plancc_runtime.transport.single import SingleTransport

    chosen = TrainOptions(
        **{"layers": 3, "classes": 8, "threads": 2, "kernel": "numba", "eval_every": 0, **options},
        dtype=dtype,
    )
    return prepared(plan, chosen, SingleTransport())


def _epochs(plan: Path, hidden: int, model: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of epochs by type, after the warm-up."""
    runs = {
        t: prepared_run(plan, t, hidden=hidden, random_features=hidden, model=model) for t in TYPES
    }
    seconds = defaultdict(list)
    for number in range(WARM_UP + rounds):
        for name, each in runs.items():
            seconds[name].append(each.epoch(number).spent.seconds["total"])
    return {name: found[WARM_UP:] for name, found in seconds.items()}


def _peak(plan: Path, dtype: str, layers: int) -> int:
    """Bytes of a process that trains for some epochs."""
    command = [sys.executable, "-c", _CHILD, str(plan), dtype, str(layers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return 1024 * int(json.loads(done.stdout))


def _trained(plan: Path, dtype: str, seed: int) -> Any:
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train
    from plancc_runtime.transport.local import run_ranks

    options = TrainOptions(**KIPF, dtype=dtype, seed=seed, eval_every=0, threads=1, kernel="numba")
    return run_ranks(RANKS, lambda transport: train(plan, options, transport))[0]
