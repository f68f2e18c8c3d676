"""What every rival shares: the options, the problem, the weights, the clock, the JSON line.

Runs in a rival's own environment, so it knows numpy and nothing of plancc or of the rival.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

LAYERS = 3
WARM_UP = 2
"""Epochs that are not timed; their losses are written."""

IGNORED = -100
"""The default ``ignore_index`` of torch's cross_entropy."""


@dataclass(frozen=True)
class Problem:
    """A graph convolutional network to train: ``H^k = relu(A H^{k-1} W^k)``.

    Attributes:
        indptr: int64[n + 1].
        indices (int32[nnz]): Columns ascend in every row.
        values (float32[nnz]): The normalised matrix, D^-1/2 (A + I) D^-1/2 of a symmetric pattern
            A.
        adjacency (int32[nnz]): The entries of A + I: 2 where A has a self loop.
        features: float32[n, d_0].
        target (int64[n]): Classes; `IGNORED` at vertices that the loss, a mean over the others,
            leaves out.
        weights (list of float32[d_{k-1}, d_k]): Initial W^1..W^L, the same for every rival.
        lr: Of plain SGD.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    adjacency: np.ndarray
    features: np.ndarray
    target: np.ndarray
    weights: list[np.ndarray]
    lr: float

    @property
    def num_vertices(self) -> int:
        return len(self.indptr) - 1


def glorot_weights(dims: list[int], seed: int) -> list[np.ndarray]:
    """float32[d_{k-1}, d_k], uniform in +-sqrt(6 / (d_{k-1} + d_k)).

    The draws of `plancc_runtime.nn.conv.glorot`, so that plancc's losses compare too.
    """
    random = np.random.default_rng(seed)
    weights = [random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b)) for a, b in pairwise(dims)]
    return [w.astype(np.float32) for w in weights]


def main(builders: Mapping[str, Callable[[Problem], Callable[[], float]]]) -> None:
    """Train what the command line names, and print one JSON line.

    Parameters:
        builders: From the name of a rival to a callable that makes of a problem a callable which
            trains one epoch and returns its loss.
    """
    options = _parser(list(builders)).parse_args()
    with np.load(options.problem) as file:
        arrays = {key: file[key] for key in file.files}
    hidden = [options.hidden] * (LAYERS - 1)
    dims = [arrays["features"].shape[1], *hidden, int(arrays["num_classes"])]
    problem = Problem(
        indptr=arrays["indptr"].astype(np.int64),
        indices=arrays["indices"].astype(np.int32),
        values=arrays["values"].astype(np.float32),
        adjacency=arrays["adjacency"].astype(np.int32),
        features=arrays["features"].astype(np.float32),
        target=np.where(arrays["train_mask"], arrays["labels"], IGNORED).astype(np.int64),
        weights=glorot_weights(dims, options.seed),
        lr=options.lr,
    )
    del arrays
    epoch = builders[options.rival](problem)
    losses, seconds = [], []
    for _ in range(WARM_UP + options.epochs):
        start = time.perf_counter()
        losses.append(epoch())
        seconds.append(time.perf_counter() - start)
    seconds = seconds[WARM_UP:]
    found = {
        "rival": options.rival,
        "dims": dims,
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        "median": statistics.median(seconds),
        "minimum": min(seconds),
        "seconds": seconds,
        "losses": losses,
        "peak_rss": _peak_rss(),
    }
    print(json.dumps(found))


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("rival", choices=names)
    parser.add_argument("problem", type=Path, help=".npz of benchmarks.rivals.problem")
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True, help=f"after {WARM_UP} of warm-up")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    return parser


def _peak_rss() -> int | None:
    """Bytes; VmHWM, because ru_maxrss is inherited from the process that started this one."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * int(fields["VmHWM"].split()[0])
