"""Short trainings of plans, ranks as threads of this process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.inputs import name_of
from plancc.errors import InputError
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import TrainResult
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

CLASSES = 16
"""Random classes, of graphs without labels."""


def labelled(graph: Path) -> Path:
    """Features and labels beside a graph; InputError if there are none."""
    found = graph.with_name(f"{name_of(graph)}.npz")
    if not found.exists():
        raise InputError(
            f"{graph}: accuracy needs {name_of(graph)}.npz with features and labels beside it"
        )
    return found


def split_of(graph: Path) -> tuple[float, ...] | None:
    """Shares of a split for data without masks; None where they have them."""
    with np.load(labelled(graph)) as data:
        return None if "train_mask" in data.files else (0.3, 0.2, 0.5)


def training_options(**options: Any) -> TrainOptions:
    """Options as of `TrainOptions`; by default one thread, compiled kernels, no evaluation."""
    ours: dict[str, Any] = {"eval_every": 0, "threads": 1, "kernel": "numba"}
    return TrainOptions(**(ours | options))


def trained(plan: plancc.Plan, **options: Any) -> TrainResult:
    """The result of a run on as many ranks as the plan has parts.

    `options` as of `training_options`.
    """
    chosen = training_options(**options)
    if chosen.sampler is None:
        slices = [(plan.header, plan.part(m)) for m in range(plan.num_parts)]
        return run_ranks(plan.num_parts, lambda t: train(slices[t.rank], chosen, t))[0]
    with tempfile.TemporaryDirectory() as folder:  # samplers may need the whole pattern
        path = str(Path(folder) / "plan.h5")
        plan.save(path)
        return run_ranks(plan.num_parts, lambda t: train(path, chosen, t))[0]


def accuracy(plan: plancc.Plan, **options: Any) -> float:
    """Test accuracy at the end of a run."""
    return float(trained(plan, **options).final.accuracy["test"])
