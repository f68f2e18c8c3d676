"""`mpirun plancc compile` beside one process with effort fast: volume, memory of a rank, seconds.

Memory is the largest anonymous memory of a process less that of the interpreter, asked every 20 ms.
Seconds are the commands' own, one after the other, without the compilation of kernels.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs import BIN, SHARED, Inputs, environment, launched
from benchmarks.memory import family, held
from benchmarks.report import Report

GRAPHS = (
    *("wiki-Vote", "email-Enron", "CoauthorCS", "cit-HepTh", "soc-Slashdot0902", "dblp-2010"),
    *("fb100-Cornell5", "delaunay_n15", "finan512", "USA-road.NY", "USA-road.NE"),
)
PARTS, RANKS = 64, 4
INTERPRETER = 57e6
"""Bytes of a rank before it has read anything."""


def run(inputs: Inputs) -> Report:
    report = Report([f"{PARTS} parts, {RANKS} ranks; volume over one process, effort fast"])
    ratios = []
    for name in GRAPHS[:2] if inputs.quick else GRAPHS:
        graph = SHARED / f"{name}.mtx.gz"
        if graph.exists():
            one, several, _ = _both(inputs, graph)
            ratio = several["metrics"]["volume"] / one["metrics"]["volume"]
            report.add(f"{name}: volume", ratio, 1.05, unit="x")
            ratios.append(ratio)
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        report.add("geometric mean", mean, 1.05, unit="x")
    one, several, memory = _both(inputs, inputs.rmat_file)
    name = inputs.rmat_name
    ratio = several["metrics"]["volume"] / one["metrics"]["volume"]
    report.add(f"{name}: volume", ratio, 1.05, unit="x")
    report.add(f"{name}: memory of a rank", memory, 0.40, unit="x")
    report.add(f"{name}: seconds", several["seconds"] / one["seconds"], unit="x")
    return report


def _both(inputs: Inputs, graph: Path) -> tuple[Any, Any, float]:
    """What one process says, what ranks say, and a rank's memory over the process'."""
    folder = inputs.folder / f"{graph.name.split('.')[0]}.arrays"
    if not folder.exists():
        words = [str(BIN / "plancc"), "convert", str(graph), "-o", str(folder)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    output = inputs.folder / "ranks.h5"
    words = ["compile", str(folder), "-p", str(PARTS), "-o", str(output), "--json"]
    one, most = _done([str(BIN / "plancc"), *words, "--effort", "fast"])
    several, of_rank = _done([*launched(RANKS), str(BIN / "plancc"), *words])
    return one, several, (of_rank - INTERPRETER) / (most - INTERPRETER)


def _done(command: list[str]) -> tuple[Any, int]:
    """What a command prints, and the largest anonymous memory of one of its processes."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            command, stdout=told, stderr=subprocess.DEVNULL, env=environment()
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, *(held(each)[0] for each in family(process.pid)))
            time.sleep(0.02)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        told.seek(0)
        return json.load(told), peak
