"""The page of a plan of many parts: how long `plancc report` takes, its size, how soon it opens."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import plancc
from benchmarks.inputs import BIN, SHARED, Inputs
from benchmarks.report import Report
from plancc.graph.graph import Graph
from plancc_datasets import load_dataset

PARTS = 4096
GRAPH = "dblp-2010"
MOST_SECONDS, MOST_BYTES, MOST_TO_OPEN = 5.0, 5e6, 2.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def run(inputs: Inputs) -> Report:
    """Random parts talk to each other most, so that their page has most to show."""
    parts, graph = _graph(inputs)
    plan, page = inputs.folder / "page.h5", inputs.folder / "page.html"
    plancc.compile(graph, model="rp", num_parts=parts).save(plan)
    report = Report([f"plancc report of {parts:,} random parts, {graph.num_nonzeros:,} nonzeros"])
    command = [str(BIN / "plancc"), "report", str(plan), "-o", str(page)]
    report.add(
        "seconds to write, median",
        median(_seconds(command, inputs.repetitions)),
        MOST_SECONDS,
        unit="s",
    )
    report.add("size", page.stat().st_size / 1e6, MOST_BYTES / 1e6, unit="MB")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        report.notes.append("no Chromium: not opened")
        return report
    empty = inputs.folder / "empty.html"
    empty.write_text("<!doctype html><title>empty</title>")
    shown = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,9000"]
    picture = f"--screenshot={inputs.folder / 'page.png'}"
    opened = [
        median(_seconds([*shown, picture, path.absolute().as_uri()], inputs.repetitions))
        for path in (page, empty)
    ]
    report.add("seconds to start Chromium and draw an empty page", opened[1], unit="s")
    report.add("and more to draw all of this page", opened[0] - opened[1], MOST_TO_OPEN, unit="s")
    return report


def _graph(inputs: Inputs) -> tuple[int, Graph]:
    if inputs.quick:
        return 64, load_dataset("rmat", scale=10, seed=1).graph
    path = SHARED / f"{GRAPH}.mtx.gz"
    if not path.exists():
        return PARTS, load_dataset("rmat", scale=17, edge_factor=8, seed=1).graph
    return PARTS, plancc.read_graph(path, symmetrize=True)


def _seconds(command: Sequence[str | Path], times: int) -> list[float]:
    """Wall seconds of a command that must succeed, several times."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        found.append(time.perf_counter() - begin)
        if done.returncode:
            sys.exit(f"{command[0]}: {done.stderr}")
    return found
