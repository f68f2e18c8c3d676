"""Peak memory of `plancc compile`, all processes together, beside what was predicted.

The peak is the largest sum of the anonymous memory of the command and its children (PSS, so that
what they share counts once), asked every 20 ms.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.inputs import BIN, SHARED, Inputs
from benchmarks.report import Report
from plancc.plan.reader import PlanFile

PROC = Path("/proc")
CASES = (
    ("rmat", "--model rp -p 256"),
    ("rmat", "--effort fast -p 64"),
    ("dblp-2010", "--effort fast -p 64"),
    ("dblp-2010", "--effort balanced -p 64"),
    ("dblp-2010", "--effort balanced -p 64 --memory 300M"),
    ("soc-Slashdot0902", "--effort balanced -p 64"),
    ("fb100-Cornell5", "--effort balanced -p 64"),
    ("USA-road.NE", "--effort fast -p 64"),
    ("USA-road.NE", "--effort balanced -p 64"),
    ("fb100-Cornell5", "--model medium-grain -p 64"),
)
"""Graphs and options."""


def run(inputs: Inputs) -> Report:
    if not (PROC / "self/smaps_rollup").exists():
        return Report(["skipped: this system has no /proc/self/smaps_rollup"])
    report = Report([f"{inputs.rmat_name}; graphs of the shared folder where it is there"])
    for name, words in CASES[:2] if inputs.quick else CASES:
        graph = inputs.rmat_file if name == "rmat" else SHARED / f"{name}.mtx.gz"
        if not graph.exists():
            continue
        told, nonzeros, peak = _compiled(inputs, graph, words.split())
        case = f"{graph.name.split('.mtx')[0]} {words}"
        report.add(f"{case}: peak", peak / 1e6, unit="MB")
        report.add(f"{case}: per nonzero", peak / nonzeros, unit="bytes")
        ratio = told["provenance"]["predicted_memory"] / peak
        report.add(f"{case}: predicted over peak", ratio, 1.25, unit="x")
    _on_disk(inputs, report)
    return report


def _on_disk(inputs: Inputs, report: Report) -> None:
    """The same graph as a folder, in memory and with matrix, nets and plan in files."""
    folder = inputs.folder / "mapped"
    shutil.rmtree(folder, ignore_errors=True)
    convert = [str(BIN / "plancc"), "convert", str(inputs.rmat_file), "-o", str(folder)]
    subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
    words = ["--model", "hp", "--effort", "fast", "-p", "64"]
    told, nonzeros, peak = _compiled(inputs, folder, words)
    most = told["provenance"]["predicted_memory"] - 1
    files, _, least = _compiled(inputs, folder, [*words, "--memory", str(most)])
    for name, found, size in (("a folder", told, peak), ("on the disk", files, least)):
        case = f"{inputs.rmat_name}, {name}"
        report.add(f"{case}: per nonzero", size / nonzeros, unit="bytes")
        ratio = found["provenance"]["predicted_memory"] / size
        report.add(f"{case}: predicted over peak", ratio, unit="x")
    same = told["content_sha256"] == files["content_sha256"]
    report.add("the plan on the disk is the one in memory", float(same))


def _compiled(inputs: Inputs, graph: Path, words: list[str]) -> tuple[Any, int, int]:
    """What the command prints, nonzeros of the plan, and the peak in bytes."""
    output = inputs.folder / "memory.h5"
    command = [str(BIN / "plancc"), "compile", str(graph), *words, "-o", str(output), "--json"]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=told, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(map(anonymous, family(process.pid))))
            time.sleep(0.02)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        told.seek(0)
        with PlanFile(output) as plan:
            return json.load(told), plan.header.num_nonzeros, peak


def family(pid: int) -> Iterator[int]:
    """A process and those below it."""
    yield pid
    with suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from family(int(child))


def anonymous(pid: int) -> int:
    """Bytes of a process that are no file's."""
    with suppress(OSError):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return 1024 * int(line.split()[1])
    return 0
