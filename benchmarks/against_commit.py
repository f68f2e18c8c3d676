"""CPU seconds of `plancc compile` and what its plans move, against an older commit.

    python -m benchmarks.against_commit COMMIT graph.mtx ... -p 256 --repetitions 3
    python -m benchmarks.against_commit COMMIT graph.mtx -p 64 --model hp

The two commits take turns, on one thread, each once before to compile its kernels if there are more
repetitions than one. CPU seconds are those of all processes of the command. Models for mini-batches
are compared on fresh batches as well.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.replay import PACKAGES, ROOT, work_tree
from benchmarks.tables import Table


def plancc_of(tree: Path, *words: str) -> tuple[dict[str, Any], float]:
    """What a command of a tree prints as JSON, and its CPU seconds."""
    places = [tree, *(tree / package for package in PACKAGES[1:])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [sys.executable, "-m", "plancc_cli.main", *words, "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, cwd=tree, check=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("-p", "--parts", default="256")
    parser.add_argument("--model", default="stochastic-hp")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--batches", default="1000")
    given = parser.parse_args()
    head = [
        "graph",
        "CPU s before",
        "CPU s",
        "ratio",
        "value, ratio",
        "batches, ratio",
        "imbalance",
    ]
    title = f"model {given.model}, p = {given.parts}; value, and rows of batches, over those before"
    table = Table(title, head)
    with work_tree(given.commit) as old, tempfile.TemporaryDirectory() as folder:
        for graph in map(Path.resolve, given.graphs):
            seconds: dict[Path, list[float]] = {old: [], ROOT: []}
            found, plans = {}, {old: f"{folder}/old.h5", ROOT: f"{folder}/new.h5"}
            for _ in range(given.repetitions + (given.repetitions > 1)):
                for tree, plan in plans.items():
                    words = "--model", given.model, "-p", given.parts, "-o", plan, "-q"
                    found[tree], used = plancc_of(tree, "compile", str(graph), *words)
                    seconds[tree].append(used)
            before, after = (median(each[given.repetitions > 1 :]) for each in seconds.values())
            value = found[ROOT]["value"] / found[old]["value"]
            drawn = "--batches", given.batches, "--seed", "7"
            of_batches = ""
            if "sampler" in found[ROOT]["provenance"]:
                volumes = [
                    plancc_of(ROOT, "inspect", plan, *drawn)[0]["batches"]["volume"]["mean"]
                    for plan in plans.values()
                ]
                of_batches = f"{volumes[1] / volumes[0]:.4f}"
            balance = found[ROOT]["metrics"]["nonzero_imbalance"]
            numbers = f"{before:.1f}", f"{after:.1f}", f"{after / before:.2f}", f"{value:.4f}"
            name = graph.name.partition(".")[0]
            table.rows.append([name, *numbers, of_batches, f"{balance:.4f}"])
    table.show(Console())


if __name__ == "__main__":
    main()
