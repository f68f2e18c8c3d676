"""DGL's Libra, the partitioner of DistGNN, on edges in the order of a CSR matrix or shuffled.

Runs in DGL's own environment, so it knows numpy and nothing of plancc. Prints one JSON line:
``seconds`` (they include writing every part as text, which the call does too), the
``replication_factor``, parts that hold a vertex over vertices with an edge, and the
``edge_imbalance``, max / mean - 1.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from dgl._sparse_ops import libra_vertex_cut
from dgl.random import seed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("matrix", type=Path, help=".npz with indptr and indices, of a CSR matrix")
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with np.load(options.matrix) as file:
        indptr, column = file["indptr"], file["indices"].astype(np.int64)
    n = len(indptr) - 1
    row = np.repeat(np.arange(n), np.diff(indptr))
    row, column = row[row != column], column[row != column]
    if options.shuffle:
        order = np.random.default_rng(options.seed).permutation(len(row))
        row, column = row[order], column[order]
    seed(options.seed)

    # what dgl.distgnn.partition.libra_partition hands over
    degree = torch.from_numpy(np.bincount(row, minlength=n) + np.bincount(column, minlength=n))
    owner = torch.zeros(len(row), dtype=torch.int32)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        libra_vertex_cut(
            options.parts,
            degree,
            degree.clone(),
            torch.zeros(options.parts, dtype=torch.int64),
            torch.from_numpy(row),
            torch.from_numpy(column),
            torch.ones(len(row), dtype=torch.int64),
            owner,
            n,
            len(row),
            folder,
        )
        seconds = time.perf_counter() - start

    part = owner.numpy().astype(np.int64)
    held = np.zeros((n, options.parts), dtype=bool)
    held[row, part] = held[column, part] = True
    edges = np.bincount(part, minlength=options.parts)
    found = {
        "seconds": seconds,
        "replication_factor": float(held.sum() / (degree > 0).sum()),
        "edge_imbalance": float(edges.max() / edges.mean() - 1),
    }
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
