"""First and second commands of a new environment: seconds, and those of processors.

A folder for kernels stands for a new environment: an empty one for what 0.1 was, one with portable
kernels for a wheel, one that `plancc warm-up --first` has filled for a checkout. The same plan is
refined, and a product computed, by kernels for this processor and by portable ones in turn.

Modules that commands import (``python -X importtime -m plancc_cli ...``), and seconds of the
processor, when every kernel imported numba, and since its first call does:

                  numba, llvmlite    scipy     h5py     plancc      all         seconds
    compile --help    189 -> 0     76 -> 0   40 -> 0  195 -> 94   955 -> 392  0.69 -> 0.21
    models            189 -> 0     11 -> 0   0        74 -> 72    712 -> 370  0.41 -> 0.19
    inspect           252 -> 0   491 -> 76   40       194 -> 123  1490 -> 677 1.30 -> 0.39
    compile         252 -> 189  160 -> 114   40       219 -> 208  1177 -> 1054 1.07 -> 0.86
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.inputs import BIN, ROOT, SHARED, Inputs
from benchmarks.report import Report
from plancc import jit

GRAPH = "Cora"
TARGETS = {"compile": (3.0, 1.2), "inspect": (0.8, 0.8), "run on 4 ranks": (3.5, 2.5)}
"""Seconds of the first and the second command, where no kernel is compiled."""
PRODUCT = """
import time, torch
from plancc.graph.canonical import to_scipy
from plancc_datasets import load_dataset
from plancc_runtime.kernels.spmm import prepare
torch.set_num_threads(1)
graph = load_dataset("rmat", scale=14, edge_factor=16, seed=1).graph
matrix = prepare(to_scipy(graph).tocsr(), torch.float32, kernel="numba")
x, out, seconds = torch.randn(graph.num_vertices, 64), torch.empty(graph.num_vertices, 64), []
for _ in range(50):
    begin = time.thread_time()
    matrix.multiply(x, out)
    seconds.append(time.thread_time() - begin)
print(min(seconds))
"""


def run(inputs: Inputs) -> Report:
    """Commands as a user types them, each in a process of its own."""
    path = SHARED / f"{GRAPH}.mtx.gz"
    if inputs.quick or not path.exists():
        path = inputs.folder / "karate.mtx"
        _spent(["plancc", "dataset", "karate", "-o", str(path)], inputs.folder)
    plan = str(inputs.folder / "start.h5")
    partition = ["--model", "block"] if inputs.quick else []
    ranks = ["mpirun", "--oversubscribe", "-n", "4", str(BIN / "plancc-run"), plan]
    commands = {
        "compile": ["plancc", "compile", str(path), "-p", "4", *partition, "-o", plan],
        "inspect": ["plancc", "inspect", plan],
        "run on 4 ranks": [*ranks, "--epochs", "5"],
    }
    how = " ".join(partition) or "default options"
    report = Report([f"{path.name}, 4 parts, {how}"])
    empty, portable, first, own = (
        _new(inputs.folder / name) for name in ("empty", "portable", "first", "own")
    )
    _commands(report, "no kernels", commands, empty, compiles=True)
    _light(report, plan, empty)
    if inputs.quick:
        return report
    for folder, words in [(first, ["--first"]), (own, []), (portable, ["--portable", portable])]:
        wall, cpu = _spent(["plancc", "warm-up", "-q", *map(str, words)], folder)
        name = " ".join(["warm-up", *map(str, words[:1])])
        report.add(name, wall, unit="s")
        report.add(f"{name}, CPU", cpu, unit="s")
    _commands(report, "as from a wheel", commands, shutil.copytree(portable, empty / "wheel"))
    _commands(report, "as from a checkout", commands, first)
    _portable_over_own(report, own, portable)
    _packages(report, inputs.folder, portable)
    return report


def _commands(
    report: Report,
    where: str,
    commands: dict[str, list[str]],
    kernels: Path,
    compiles: bool = False,
) -> None:
    """Every command twice."""
    known = _kernels(kernels)
    for count, which in enumerate(("first", "second")):
        for name, words in commands.items():
            wall, cpu = _spent(words, kernels)
            target = None if compiles else TARGETS[name][count]
            report.add(f"{where}: {which} {name}", wall, target, unit="s")
            report.add(f"{where}: {which} {name}, CPU", cpu, unit="s")
    compiled = len(_kernels(kernels) - known)
    name = f"{where}: kernels compiled; a child may compile the product"
    report.add(name, compiled, None if compiles else 1)


def _light(report: Report, plan: str, kernels: Path) -> None:
    """Commands that need no kernel: the quickest of five."""
    for line, target in {"compile --help": 0.4, "models": 0.4, f"inspect {plan}": 0.8}.items():
        spent = [_spent(["plancc", *line.split(" ", 1)], kernels) for _ in range(5)]
        wall, cpu = map(min, zip(*spent, strict=True))
        name = line.removesuffix(plan).strip()
        report.add(name, wall, target, unit="s")
        report.add(f"{name}, CPU", cpu, unit="s")


def _portable_over_own(report: Report, own: Path, portable: Path) -> None:
    """CPU seconds of a search and of a product, in turn.

    numba is told the level, so that no child compiles the product for the processor meanwhile.
    """
    level = {"NUMBA_CPU_NAME": jit.levels(jit.processor())[0], "NUMBA_CPU_FEATURES": ""}
    search: dict[Path, list[float]] = {own: [], portable: []}
    product: dict[Path, list[float]] = {own: [], portable: []}
    graph, plan, refined = (str(portable / name) for name in ("rmat.mtx", "block.h5", "refined.h5"))
    _spent(["plancc", "dataset", "rmat", "--scale", "15", "-o", graph], own)
    _spent(["plancc", "compile", graph, "-p", "16", "--model", "block", "-o", plan], own)
    for _ in range(5):
        for kernels, told in ((own, {}), (portable, level)):
            words = ["plancc", "refine", plan, "--cycles", "4", "-o", refined]
            search[kernels].append(_spent(words, kernels, told)[1])
            told = os.environ | {"NUMBA_CACHE_DIR": str(kernels)} | told
            words = [sys.executable, "-c", PRODUCT]
            product[kernels].append(float(subprocess.check_output(words, env=told, text=True)))
    report.add_ratio("search, portable over own", search[portable], search[own], 1.10)
    report.add_ratio("product, portable over own", product[portable], product[own], 1.15)


def _packages(report: Report, folder: Path, portable: Path) -> None:
    """The size of a wheel, and the seconds that setting up a checkout takes."""
    wheels, checkout = _new(folder / "wheels"), _new(folder / "checkout")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    environment = os.environ | {"PLANCC_KERNELS": str(portable)}
    subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = wheels.iterdir()
    report.add("wheel", wheel.stat().st_size / 1e6, 6.0, unit="MB")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    begin = time.perf_counter()
    words = ["make", "--quiet", f"PYTHON={Path(sys.base_prefix, 'bin', 'python3')}"]
    subprocess.run([*words, ".venv/.installed"], cwd=checkout, check=True, capture_output=True)
    report.add("set-up of a checkout", time.perf_counter() - begin, 110.0, unit="s")


def _new(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _kernels(folder: Path) -> set[Path]:
    return set(folder.glob("[!.]*.kernel"))


def _spent(
    words: list[str], kernels: Path, told: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Seconds of a command on the wall and of processors, with its kernels in a folder."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]],
        env=os.environ | {"NUMBA_CACHE_DIR": str(kernels)} | dict(told or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu
