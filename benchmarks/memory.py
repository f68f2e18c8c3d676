"""Peak memory of `plancc compile`, all processes together, beside what was predicted.

The peak is the largest sum of the memory of the command and its children, asked every 20 ms: PSS,
and the code of libraries once, whether or not other programs use them too. Pages of mapped files of
data (the graph's folder) are left out: the system takes them back when it needs room. Every kind of
graph is compiled from a text, without a search and with one, and from a folder.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generated import extreme
from benchmarks.inputs import BIN, SHARED, Inputs
from benchmarks.report import Report
from plancc.graph.canonical import build_graph
from plancc.graph.csr import write_csr
from plancc.graph.formats import write_graph
from plancc.graph.graph import Graph
from plancc.plan.reader import PlanFile
from plancc_datasets import load_dataset

PROC = Path("/proc")
PARTS = 64
LEAST, MOST = 0.8, 1.25
"""Predicted over measured."""
REAL = (
    ("dblp-2010", "--effort fast"),
    ("dblp-2010", "--effort balanced"),
    ("soc-Slashdot0902", "--effort balanced"),
    ("fb100-Cornell5", "--effort fast"),
    ("fb100-Cornell5", "--model medium-grain"),
    ("USA-road.NE", "--effort fast"),
    ("USA-road.NE", "--effort balanced"),
)
"""Graphs of the shared folder, and options."""


def road(side: int) -> Graph:
    """Streets side by side, of `side` vertices each, with a link to the next at every fourth."""
    number = np.arange(side * side).reshape(side, side)
    across = np.random.default_rng(1).random((side - 1, side)) < 0.25
    row = np.concatenate([number[:, :-1].ravel(), number[:-1][across]])
    column = np.concatenate([number[:, 1:].ravel(), number[1:][across]])
    return build_graph(side * side, row, column, symmetrize=True)


def web(pages: int) -> Graph:
    """Directed: most links lead to pages close by, the others to a few popular ones."""
    rng = np.random.default_rng(1)
    row = np.repeat(np.arange(pages), rng.geometric(1 / 8, pages))
    near = (row - rng.geometric(1 / 30, len(row))) % pages
    popular = (pages * rng.random(len(row)) ** 3).astype(np.int64)
    return build_graph(pages, row, np.where(rng.random(len(row)) < 0.8, near, popular))


def pieces(vertices: int) -> Graph:
    """Components of 12 vertices at most."""
    rng = np.random.default_rng(1)
    row = np.repeat(np.arange(vertices // 12 * 12), 3)
    column = row // 12 * 12 + rng.integers(0, 12, len(row))
    off = row != column
    return build_graph(vertices, row[off], column[off], symmetrize=True)


KINDS: dict[str, Callable[[bool], Graph]] = {
    "road": lambda quick: road(100 if quick else 1034),
    "mesh": lambda quick: (
        load_dataset("geometric", num_vertices=10_000 if quick else 500_000).graph
    ),
    "social": lambda quick: load_dataset("rmat", scale=12 if quick else 18, edge_factor=16).graph,
    "web": lambda quick: web(10_000 if quick else 400_000),
    "star": lambda quick: extreme(vertices=10_000 if quick else 600_000),
    "components": lambda quick: pieces(10_000 if quick else 600_000),
}
"""Makers of graphs by kind; the argument says whether of small ones."""


@dataclass(frozen=True)
class Compiled:
    """A compile that was watched.

    Attributes:
        told: What the command printed.
        nonzeros: Of the plan.
        peak, with_files: Bytes, without and with pages of mapped files of data.
    """

    told: dict[str, Any]
    nonzeros: int
    peak: int
    with_files: int

    @property
    def predicted(self) -> int:
        return int(self.told["provenance"]["predicted_memory"])

    def add(self, report: Report, case: str) -> None:
        """Append the figures."""
        report.add(f"{case}: peak", self.peak / 1e6, unit="MB")
        report.add(f"{case}: with pages of files", self.with_files / 1e6, unit="MB")
        report.add(f"{case}: predicted", self.predicted / 1e6, unit="MB")
        ratio = self.predicted / self.peak
        report.add(f"{case}: predicted over peak", ratio, MOST, unit="x")
        report.add(f"{case}: predicted over peak", ratio, LEAST, ">=", unit="x")


def run(inputs: Inputs) -> Report:
    if not (PROC / "self/smaps_rollup").exists():
        return Report(["skipped: this system has no /proc/self/smaps_rollup"])
    report = Report([f"{PARTS} parts; graphs of the shared folder where it is there"])
    for kind, made in KINDS.items():
        _of_kind(inputs, report, kind, made(inputs.quick))
    for name, words in () if inputs.quick else REAL:
        graph = SHARED / f"{name}.mtx.gz"
        if graph.exists():
            _compiled(inputs, graph, words.split()).add(report, f"{name} {words}")
    return report


def _of_kind(inputs: Inputs, report: Report, kind: str, graph: Graph) -> None:
    """A text without a search and with one; a folder."""
    text, folder = inputs.folder / f"{kind}.mtx", inputs.folder / kind
    if not text.exists():
        write_graph(graph, text)
    if not folder.exists():
        folder.mkdir()
        write_csr(graph, folder)
    kind = f"{kind}, {graph.num_vertices:,} vertices, {graph.num_nonzeros:,} nonzeros"
    del graph
    for words in ("--model rp", "--effort fast"):
        _compiled(inputs, text, words.split()).add(report, f"{kind}, {words}")
    found = _compiled(inputs, folder, ["--effort", "fast"])
    found.add(report, f"{kind}, folder, --effort fast")


def _compiled(inputs: Inputs, graph: Path, words: list[str]) -> Compiled:
    output = inputs.folder / "memory.h5"
    command = [str(BIN / "plancc"), "compile", str(graph), *words, "-p", str(PARTS)]
    command += ["-o", str(output), "--json"]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=told, stderr=subprocess.DEVNULL)
        peak, with_files = 0, 0
        while process.poll() is None:
            now = together(family(process.pid))
            peak, with_files = max(peak, now[0]), max(with_files, now[1])
            time.sleep(0.02)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        told.seek(0)
        with PlanFile(output) as plan:
            return Compiled(json.load(told), plan.header.num_nonzeros, peak, with_files)


def family(pid: int, first: bool = True) -> Iterator[int]:
    """A process and those below it, without those that do not run their own program yet.

    Until then a process is shown with the memory of the one that starts it. The `first` forks.
    """
    yield pid
    with suppress(OSError):
        program = (PROC / str(pid) / "cmdline").read_bytes()
        for thread in (PROC / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                with suppress(OSError):
                    if first or (PROC / child / "cmdline").read_bytes() != program:
                        yield from family(int(child), first=False)


def held(pid: int) -> tuple[int, int, dict[str, int]]:
    """Bytes of arrays (PSS), of mapped files of data (PSS) and of every other mapped file."""
    found, of_data, name = [0, 0], False, ""
    code: dict[str, int] = {}
    with suppress(OSError):
        for line in (PROC / str(pid) / "smaps").read_text().splitlines():
            first, *words = line.split()
            if not first.endswith(":"):
                name = " ".join(words[4:])
                of_data = name.endswith(".npy")
            elif first == "Pss:" and (of_data or not name.startswith("/")):
                found[of_data] += 1024 * int(words[0])
            elif first == "Rss:" and name.startswith("/") and not of_data:
                code[name] = code.get(name, 0) + 1024 * int(words[0])
    return found[0], found[1], code


def together(pids: Iterable[int]) -> tuple[int, int]:
    """Bytes of all processes, without and with mapped files of data; code counts once."""
    arrays, data, code = 0, 0, {}
    for pid in pids:
        own, of_files, its = held(pid)
        arrays, data = arrays + own, data + of_files
        code |= {name: max(size, code.get(name, 0)) for name, size in its.items()}
    arrays += sum(code.values())
    return arrays, arrays + data
