"""Mini-batches of GraphSAGE whose features stay in the plan's file: memory of a rank.

    python -m benchmarks features-on-disk
    python -m benchmarks.features_on_disk plan.h5       a rank of what it starts

10^6 vertices of degree 10 with 1,024 features (4 GB; the disk needs 8) on one rank, 500 seeds,
fan-outs 10 and 10, hidden 16, `feature_cache` 256 MB, an epoch of 20 steps and an evaluation.
Memory is the peak without files: those of libraries are 0.2 GB, which ranks of a node share.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

import plancc
from benchmarks.epoch_ranks import resident
from benchmarks.inputs import ROOT, Inputs
from benchmarks.report import Report

VERTICES, DEGREE, WIDTH, CACHE = 10**6, 10, 1024, 256 * 10**6
MEMORY = 700.0
"""The target, in MB."""


def run(inputs: Inputs) -> Report:
    """Memory and loss, with a graph of a hundredth of the size if quick."""
    report = Report()
    plan = inputs.folder / "features-on-disk.h5"
    _compile(VERTICES // 100 if inputs.quick else VERTICES, plan)
    words = [sys.executable, "-m", "benchmarks.features_on_disk", str(plan)]
    done = subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    report.add("features on disk: memory", found["memory"], MEMORY, unit="MB")
    report.notes.append(f"with files of libraries {found['resident']:,.0f} MB")
    plan.unlink()
    return report


def _compile(n: int, path: Path) -> None:
    random = np.random.default_rng(0)
    row = np.repeat(np.arange(n), DEGREE // 2)
    column = (row + random.integers(1, 2000, len(row))) % n
    a = csr_matrix((np.ones(len(row), np.float32), (row, column)), (n, n))
    held = path.with_suffix(".npy")
    x = np.lib.format.open_memmap(held, "w+", np.float32, (n, WIDTH))
    for first in range(0, n, 10_000):
        x[first : first + 10_000] = random.random((min(10_000, n - first), WIDTH), np.float32)
    data = {
        "x": np.load(held, mmap_mode="r"),
        "y": random.integers(0, 8, n),
        "train_mask": np.arange(n) % 2 == 0,
    }
    plancc.compile(a + a.T, "block", 1, data=data).save(path)
    held.unlink()


def main() -> None:
    from plancc_runtime.launch import open_transport
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train

    options = TrainOptions(
        model="sage", hidden=16, sampler="neighbour", batch_size=500, fanouts=(10, 10), steps=20,
        epochs=1, eval_every=0, threads=1, features_on_disk=True, feature_cache=CACHE,
    )  # fmt: skip
    train(sys.argv[1], options, open_transport())
    peak = resident("VmHWM")
    print(json.dumps({"memory": (peak - resident("RssFile")) / 1e6, "resident": peak / 1e6}))


if __name__ == "__main__":
    main()
