"""Refinement for volume alone: gain evaluations a second on one core, and the memory it takes;
what minimum cuts find on meshes and road networks, and how long they take with one and two threads.

Measured in a process of its own that holds the hypergraph and a METIS partition, after a call on a
small graph: what the process grows by during the timed call is the memory of refinement.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.methods import METHODS, Case, Options
from benchmarks.report import Report
from plancc.cost.owners import traffic
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.models.limits import Limits
from plancc.passes.context import Context
from plancc.passes.flows import Flows
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.refine import RefineVolume
from plancc_datasets import load_dataset

NUM_PARTS = 256
START = "metis-cut"
GRAPH, QUICK_GRAPH = "soc-Slashdot0902.mtx.gz", "CoauthorCS.mtx.gz"
OPTIONS = Options(threads=1)
MESH_PARTS = 64
MESHES, QUICK_MESHES = ("USA-road.NY.mtx.gz", "delaunay_n15.mtx.gz"), ("4elt.mtx.gz",)
MESH_TARGETS = {"USA-road.NY.mtx.gz": 0.76, "delaunay_n15.mtx.gz": 0.94, "4elt.mtx.gz": 0.98}
"""Volume after refinement over that of the start."""

ENVIRONMENT = {
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # glibc gives large arrays back when freed: else a later one may take their place unseen
    "MALLOC_MMAP_THRESHOLD_": "65536",
}


def run(inputs: Inputs) -> Report:
    path = SHARED / (QUICK_GRAPH if inputs.quick else GRAPH)
    path = path if path.exists() else inputs.rmat_file
    command = [sys.executable, "-m", "benchmarks.refinement", str(path)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | ENVIRONMENT
    )
    found = json.loads(done.stdout)

    report = Report([f"{path.name}, p = {NUM_PARTS}, from {START}; one core"])
    report.add("volume / that of the start", found["after"] / found["before"], 1.0)
    report.add("time", found["seconds"], unit="s")
    rate = found["evaluations"] / found["seconds"]
    report.add("seconds per 2 million gain evaluations", 2e6 / rate, 1.0, unit="s")
    report.add("gain evaluations a second, millions", rate / 1e6)
    if found["bytes"] is not None:
        allowed = 16 * found["nonzeros"] + 8 * found["pairs"]
        report.add("memory", found["bytes"] / 1e6, unit="MB")
        name = "memory / (16 bytes per nonzero + 8 per (net, part) pair)"
        report.add(name, found["bytes"] / allowed, 1.0)
    for mesh in QUICK_MESHES if inputs.quick else MESHES:
        if (SHARED / mesh).exists():
            _add_mesh(report, SHARED / mesh)
    return report


def _add_mesh(report: Report, path: Path) -> None:
    """Rows of a mesh: minimum cuts alone, and the whole refinement."""
    command = [sys.executable, "-m", "benchmarks.refinement", str(path), "cuts"]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | ENVIRONMENT
    )
    found, name = json.loads(done.stdout), f"{path.name}, p = {MESH_PARTS}"
    report.add(f"{name}: volume after minimum cuts / before", found["cuts"] / found["before"])
    for threads, seconds in found["seconds"].items():
        report.add(f"{name}: time of minimum cuts, {threads} threads", seconds, unit="s")
    ratio = found["after"] / found["before"]
    report.add(f"{name}: volume after refinement / before", ratio, MESH_TARGETS[path.name])
    report.add(f"{name}: time of refinement", found["refinement"], unit="s")


def _refine(case: Case, owner: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], int]:
    """Owners after `RefineVolume`, and how many gains it evaluated."""
    limits = Limits(case.hypergraph.vertex_weights, case.num_parts, OPTIONS.epsilon)
    refined = RefineVolume().refine(owner, case.hypergraph, Context(limits))
    return refined.owner, refined.evaluations


def _measure(path: Path) -> dict[str, Any]:
    """Refine once, timed; run in a process of its own."""
    small = _case(load_dataset("rmat", scale=11, edge_factor=8, seed=1).graph, 8)
    _refine(small, _start(small))
    case = _case(plancc.read_graph(path), NUM_PARTS)
    owner, hypergraph = _start(case), case.hypergraph
    before = traffic(case.matrix, Owners(owner), NUM_PARTS)
    assert hypergraph.num_vertices == len(owner)  # made by now: not part of what is measured

    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    held = status_bytes("VmRSS")
    start = time.perf_counter()
    refined, evaluations = _refine(case, owner)
    seconds = time.perf_counter() - start
    peak = status_bytes("VmHWM")

    after = traffic(case.matrix, Owners(refined), NUM_PARTS)
    moved = int(before.sent.sum())
    return {
        "before": moved,
        "after": int(after.sent.sum()),
        "seconds": seconds,
        "evaluations": int(evaluations),
        "nonzeros": case.matrix.num_nonzeros,
        "pairs": moved + case.matrix.num_vertices,  # every net also touches its owner's part
        "bytes": None if peak is None or held is None else peak - held,
    }


def _measure_cuts(path: Path) -> dict[str, Any]:
    """Minimum cuts on the finest level with one and two threads, then the whole refinement."""
    cases = [_case(load_dataset("grid", rows=64, cols=64).graph, 8)]
    cases.append(_case(plancc.read_graph(path), MESH_PARTS))
    for case in cases:  # the first compiles the kernels
        owner, nets = _start(case), nets_of(case.hypergraph)
        limits = Limits(nets.weight, case.num_parts, OPTIONS.epsilon)
        seconds = {}
        for threads in (1, 2):
            state = state_of(nets, owner, case.num_parts)
            before, start = volume(nets, state), time.perf_counter()
            Flows(limits, threads=threads).refine(nets, state)
            seconds[threads] = time.perf_counter() - start
        start = time.perf_counter()
        refined = RefineVolume().refine(owner, case.hypergraph, Context(limits))
        refinement = time.perf_counter() - start
    return {
        "before": before,
        "cuts": volume(nets, state),
        "seconds": seconds,
        "after": refined.after.volume,
        "refinement": refinement,
    }


def _case(graph: Graph, num_parts: int) -> Case:
    return Case("refinement", normalize(graph), num_parts, OPTIONS)


def _start(case: Case) -> npt.NDArray[np.int32]:
    return METHODS[START].run(case).owner.astype(np.int32, copy=False)


def status_bytes(name: str) -> int | None:
    """A size that Linux says of this process, None elsewhere."""
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    status = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return 1024 * int(status[name].split()[0])


if __name__ == "__main__":
    measure = _measure_cuts if sys.argv[2:] == ["cuts"] else _measure
    print(json.dumps(measure(Path(sys.argv[1]))))
