"""Networks of PyTorch Geometric on ranks, by `plancc_runtime.pyg.distributed`, and as they are.

Results are kept, so that interrupted work goes on. Features of CoauthorCS are projected to 128
numbers, since PyTorch Geometric holds those of every edge. The networks of its example scripts are
read, unchanged, from the folder that the variable PLANCC_PYG_EXAMPLES names. HGT is trained on the
authors of CoauthorCS and the terms that a few of them use.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console

import plancc
from benchmarks.inputs import ROOT, SHARED, Inputs, on_ranks
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from plancc.sampling.splits import random_split
from plancc_datasets import load_dataset
from plancc_lab.kept import Kept
from plancc_runtime.data import SPLITS

EXAMPLES = "PLANCC_PYG_EXAMPLES"
SCRIPTS = {"GCN": "Cora", "SAGE": "CoauthorCS", "GAT": "CoauthorCS", "GIN": "CoauthorCS"}
"""Networks of examples, and the graphs that they are trained on."""
TYPED, AUTHORS_OF_TERM = {"HGT": "CoauthorCS-terms"}, 30
EPOCHS = {"Cora": 200, "CoauthorCS": 40, "CoauthorCS-terms": 20}
TIMED, WIDTH, SAMPLES = ("SAGE", "GAT", "GCN"), 128, 8
LIMIT = 1800
"""Seconds that a task may take."""


def run(inputs: Inputs) -> Report:
    if not find_spec("torch_geometric") or not (SHARED / "CoauthorCS.npz").exists():
        return Report([f"skipped: needs torch_geometric, and {SHARED}"])
    report, bench = Report(), _Bench(inputs)
    graph, mesh, rounds = ("Cora", 40, 2) if inputs.quick else ("CoauthorCS", 120, 20)

    for name, seconds in bench.task("one-rank", 1, graph, rounds).items():
        ratio = seconds["distributed"] / seconds["plain"]
        report.add(f"{name}, 1 rank: epoch / plain", ratio, 1.05)
        ours = seconds["ours"] / seconds["plain"]
        report.add(f"{name}, 1 rank: epoch of plancc's own layers / plain", ours)
    for name, found in bench.task("two-ranks", 2, graph, rounds).items():
        ratio = found["distributed"] / found["plain"]
        target = None if name == "GCN" else 1.15
        report.add(f"{name}, 2 ranks of 1 thread / 1 rank of 2, plain", ratio, target)
        if target:
            report.add(f"{name}: words / those that messages read", found["words"], 1.0, "=")
    found = bench.task("samples", 4, f"mesh-{mesh}", rounds)
    for what, target in (("messages", 1 / SAMPLES), ("waiting", 0.5)):
        report.add(f"{SAMPLES} samples at once / one by one: {what}", found[what], target)
    scripts = SCRIPTS if os.environ.get(EXAMPLES) else {}
    if not scripts:
        report.notes.append(f"of HGT alone: set {EXAMPLES} to the examples of PyTorch Geometric")
    for name, graph in (scripts | TYPED).items():
        epochs = 2 if inputs.quick else EPOCHS[graph]
        accuracy = bench.task(f"accuracy-{name}", 2, graph, epochs)
        plain, ours = (100 * statistics.mean(accuracy[k]) for k in ("plain", "distributed"))
        report.add(f"{name}, {graph}: accuracy of the plain loop", plain, unit="%")
        report.add(f"{name}, {graph}: points of 2 ranks over it", ours - plain, -0.5, ">=")
    return report


class _Bench:
    """Starts tasks of `own_models_ranks`, whose results are kept."""

    def __init__(self, inputs: Inputs) -> None:
        self._folder = inputs.results("own-models")
        here = Path(__file__)
        digest = hashlib.sha256(sources_hash(ROOT, ("plancc", "runtime")).encode())
        for file in (here, here.with_name("own_models_ranks.py")):
            digest.update(file.read_bytes())
        self._kept = Kept(self._folder / "own-models.jsonl", digest.hexdigest())
        self._console = Console(highlight=False, soft_wrap=True)

    def task(self, name: str, ranks: int, graph: str, rounds: int) -> Any:
        """What rank 0 of a task prints, which is shown."""

        def work() -> Any:
            begin = time.perf_counter()
            plans = {parts: _plan(self._folder, graph, parts) for parts in (1, ranks)}
            command = [sys.executable, "-m", "benchmarks.own_models_ranks", name]
            words = ["--rounds", rounds, "--whole", plans[1], "--plan", plans[ranks]]
            told = on_ranks(ranks, "--bind-to", "none", *command, *words, timeout=LIMIT)
            self._console.print(f"{name}: {time.perf_counter() - begin:.0f} s")
            return json.loads(told.splitlines()[-1])

        found = self._kept.step((name, graph, rounds), work)
        self._console.print(f"{name}, {graph}: {json.dumps(found)}")
        return found


def _plan(folder: Path, graph: str, parts: int) -> Path:
    """A file with a plan of the graph as it is; not made again."""
    path = folder / f"own-models-{graph}-{parts}.h5"
    if path.exists():
        return path
    source: Any
    data: Any = None
    if graph.startswith("mesh-"):
        size = int(graph.removeprefix("mesh-"))
        source = load_dataset("grid", rows=size, cols=size).graph
    elif graph.endswith("-terms"):
        source, data = _with_terms(graph.removesuffix("-terms"))
    else:
        source, data = plancc.read_graph(SHARED / f"{graph}.mtx.gz"), _data(graph)
    plan = plancc.compile(source, "hp", parts, normalize="none", self_loops=False, data=data)
    plan.save(path)
    return path


def _with_terms(graph: str) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Authors, and terms of 2 to `AUTHORS_OF_TERM` of them, with features of as many numbers."""
    arrays, rows = _read(graph)
    authors = np.bincount(rows.indices, minlength=rows.shape[1])
    kept = np.flatnonzero((authors > 1) & (authors <= AUTHORS_OF_TERM))
    author, term = rows[:, kept].nonzero()
    target = np.arange(rows.shape[0]).repeat(np.diff(arrays["indptr"]))
    edges = {
        ("author", "with", "author"): np.stack([arrays["indices"], target]),
        ("author", "uses", "term"): np.stack([author, term]),
        ("term", "of", "author"): np.stack([term, author]),
    }
    features = np.random.default_rng(1).standard_normal((len(kept), WIDTH), np.float32)
    known = _data(graph)
    taken = ("features", "labels", *(f"{split}_mask" for split in SPLITS))
    data = {"author": {name: getattr(known, name) for name in taken}}
    data["term"] = {"features": features}
    return {"author": rows.shape[0], "term": len(kept)} | edges, data


def _read(graph: str) -> tuple[dict[str, Any], sp.csr_matrix]:
    """The arrays of a data set, and its features."""
    with np.load(SHARED / f"{graph}.npz") as file:
        arrays = dict(file)
    found = [arrays[f"feat_{key}"] for key in ("data", "indices", "indptr")]
    return arrays, sp.csr_matrix(tuple(found), shape=tuple(arrays["feat_shape"]))


def _data(graph: str) -> plancc.VertexData:
    """Features, labels, and the public split where there is one."""
    arrays, rows = _read(graph)
    rows = rows.multiply(1 / np.maximum(rows.sum(1), 1)).tocsr()
    features = rows.toarray()
    if graph != "Cora":
        features = rows @ np.random.default_rng(0).standard_normal((rows.shape[1], WIDTH))
        features /= features.std()
    drawn = random_split(np.arange(len(features)), (0.6, 0.2, 0.2), 0)
    masks: dict[str, Any] = {
        f"{split}_mask": mask for split, mask in zip(SPLITS, drawn, strict=True)
    }
    masks = {name: arrays.get(name, mask) for name, mask in masks.items()}
    labels = arrays["labels"].astype(np.int32)
    return plancc.VertexData(features=features.astype(np.float32), labels=labels, **masks)
