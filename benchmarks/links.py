"""Link prediction: test AUC over that of a PyTorch Geometric script on the same links.

    python -m benchmarks links                         all; the results are kept, so that it goes on

Features divided by their sum; of the edges 10% are validation and 10% test links, drawn per seed;
two layers of GraphSAGE of width 64, scalar products, a negative for every link, Adam at 0.01, 100
epochs, the weights with the best validation AUC of every fifth. PyTorch Geometric is found
as by `against-pyg`.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

import plancc
from benchmarks.against_pyg import finished, python_with_pyg
from benchmarks.inputs import ROOT, SHARED, Inputs
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from plancc.errors import BackendUnavailable
from plancc.graph.links import random_links, withheld, without
from plancc_lab.kept import Kept
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.local import run_ranks

GRAPHS = ("Cora", "AmazonPhoto", "CoauthorCS")
SHARES = (0.1, 0.1)
SEEDS, EPOCHS, RANKS = 5, 100, (1, 2, 4)
EVERY, FEW = 5, 10
"""Epochs between evaluations; those, in float64, after which numbers of ranks are compared."""
GOAL, SAME = 0.995, 1e-9
SCRIPT = ROOT / "benchmarks" / "rivals" / "pyg_links.py"


def run(inputs: Inputs) -> Report:
    graphs = [name for name in GRAPHS if (SHARED / f"{name}.npz").exists()]
    if not graphs:
        return Report([f"skipped: {SHARED} has none of {', '.join(GRAPHS)}"])
    try:
        python = sys.executable if find_spec("torch_geometric") else python_with_pyg()
    except BackendUnavailable as error:
        return Report([f"skipped: {error}"])
    seeds, epochs = (1, 5) if inputs.quick else (SEEDS, EPOCHS)
    file = inputs.results("links") / "links.jsonl"
    ours = Kept(file, sources_hash(ROOT, ("plancc", "runtime")) + hash_of(Path(__file__)))
    theirs = Kept(file, hash_of(SCRIPT))
    console = Console(highlight=False)
    report = Report([f"test AUC, mean of {seeds} seeds after {epochs} epochs"])
    for graph in graphs[: 1 if inputs.quick else None]:
        found = []
        for seed in range(seeds):
            key = graph, seed, epochs
            pair = (
                ours.step(("plancc", *key), partial(trained, file.parent, *key, RANKS[1])),
                theirs.step(("pyg", *key), partial(by_pyg, file.parent, python, *key)),
            )
            found.append(pair)
            console.print(
                f"{graph:<12} seed {seed}: plancc {pair[0]:.4f}, PyTorch Geometric {pair[1]:.4f}"
            )
        means = [statistics.mean(each) for each in zip(*found, strict=True)]
        for name, mean in zip(("plancc", "PyTorch Geometric"), means, strict=True):
            report.add(f"{graph}: {name}", mean)
        report.add(f"{graph}: plancc / PyTorch Geometric", means[0] / means[1], GOAL, ">=")
        work = partial(differences, file.parent, graph)
        report.add(f"{graph}: loss on {RANKS} ranks", ours.step(("ranks", graph), work), SAME)
    return report


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plan_of(folder: Path, graph: str, seed: int) -> Path:
    """A plan with links, made once."""
    path = folder / f"{graph}-{seed}.h5"
    if not path.exists():
        read = plancc.read_graph(SHARED / f"{graph}.mtx.gz", symmetrize=True)
        data, of_links = SHARED / f"{graph}.npz", {"link_split": SHARES, "seed": seed}
        plancc.compile(read, "hp", RANKS[-1], data=data, effort="fast", **of_links).save(path)
    return path


def trained(
    folder: Path, graph: str, seed: int, epochs: int, ranks: int, dtype: str = "float32"
) -> float:
    """The test AUC; in float64 the training loss of the last epoch."""
    plan = plan_of(folder, graph, seed)
    options = TrainOptions(
        "sage",
        hidden=64,
        epochs=epochs,
        lr=0.01,
        seed=seed,
        dtype=dtype,
        scale_features="rows",
        metric="auc",
        eval_every=EVERY,
        patience=epochs,
        threads=1,
    )

    def work(transport: Transport) -> float:
        torch.set_num_threads(1)
        result = train(plan, options, transport)
        return result.final.auc["test"] if dtype == "float32" else result.epochs[-1].loss

    return run_ranks(ranks, work)[0]


def differences(folder: Path, graph: str) -> float:
    """The largest relative difference of the losses of several numbers of ranks."""
    one, *others = (trained(folder, graph, 0, FEW, ranks, "float64") for ranks in RANKS)
    return max(abs(each / one - 1) for each in others)


def by_pyg(folder: Path, python: str, graph: str, seed: int, epochs: int) -> float:
    """The test AUC of the script."""
    read = plancc.read_graph(SHARED / f"{graph}.mtx.gz", symmetrize=True)
    links, away = withheld(random_links(read, SHARES, seed), 0, seed)
    carrying = without(read, away)
    with np.load(SHARED / f"{graph}.npz") as file:
        arrays = {name: file[name] for name in file.files if name.startswith("feat_")}
    problem = folder / f"{graph}-pyg.npz"
    of_graph = {"indptr": carrying.indptr, "indices": carrying.indices}
    np.savez(problem, **arrays, **of_graph, **links.pairs)
    told = finished(
        python, SCRIPT, problem, *("--seed", seed, "--epochs", epochs, "--every", EVERY)
    )
    return float(json.loads(told.splitlines()[-1])["auc"])
