"""First and second commands of a new environment: seconds, and those of processors.

An empty folder for kernels stands for a new environment. Then `plancc warm-up` fills another one,
and the same commands should compile nothing more.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.inputs import BIN, SHARED, Inputs
from benchmarks.report import Report

GRAPH = "Cora"
TARGETS = {"compile": (8.0, 1.5), "run on 4 ranks": (5.0, 2.5)}
"""Seconds of the first and the second command."""


def run(inputs: Inputs) -> Report:
    """Commands as a user types them, each in a process of its own."""
    path = SHARED / f"{GRAPH}.mtx.gz"
    if inputs.quick or not path.exists():
        path = inputs.folder / "karate.mtx"
        _spent(["plancc", "dataset", "karate", "-o", str(path)], inputs.folder)
    plan, kept = str(inputs.folder / "start.h5"), inputs.folder / "kernels"
    partition = ["--model", "block"] if inputs.quick else []
    commands = {
        "compile": ["plancc", "compile", str(path), "-p", "4", *partition, "-o", plan],
        "run on 4 ranks": ["plancc-run", plan, "--ranks", "4"],
    }
    how = " ".join(partition) or "default options"
    report = Report([f"{path.name}, 4 parts, {how}; kernels in an empty folder"])
    for count, which in enumerate(("first", "second")):
        for name, words in commands.items():
            wall, cpu = _spent(words, kept)
            report.add(f"{which} {name}", wall, TARGETS[name][count], unit="s")
            report.add(f"{which} {name}, CPU", cpu, unit="s")
    if not inputs.quick:
        warm = inputs.folder / "warm"
        wall, cpu = _spent(["plancc", "warm-up", "-q"], warm)
        report.add("warm-up", wall, unit="s")
        report.add("warm-up, CPU", cpu, unit="s")
        known = _kernels(warm)
        for words in (*commands.values(), [*commands["run on 4 ranks"], "--model", "gat"]):
            _spent(words, warm)
        report.add("kernels compiled after it", len(_kernels(warm) - known), 0, "=")
    return report


def _kernels(folder: Path) -> set[Path]:
    return set(folder.glob("*.kernel"))


def _spent(words: list[str], kernels: Path) -> tuple[float, float]:
    """Seconds of a command on the wall and of processors, with its kernels in a folder."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]],
        env=os.environ | {"NUMBA_CACHE_DIR": str(kernels)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu
