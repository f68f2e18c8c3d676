"""Random graphs that plans are made of, and what ranks that train on them count."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import worlds

from plancc.graph.graph import Graph
from plancc_datasets import load_dataset
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks


def widths_of(dims: Sequence[int], passes: Sequence[str]) -> list[tuple[int, int]]:
    """Columns that every layer of a GCN moves forward and back (`plancc.plan.convolutions`)."""
    found = []
    for layer, (d_in, d_out) in enumerate(pairwise(dims)):
        forward, back = d_in, d_out
        if "order" in passes:
            forward = min(d_in, d_out)
            back = 0 if layer == 0 and d_in <= d_out else forward
        found.append((0, 0) if "constant" in passes and layer == 0 else (forward, back))
    return found


@cache
def rmat(scale: int = 9, edge_factor: int = 3) -> Graph:
    return load_dataset("rmat", scale=scale, edge_factor=edge_factor, seed=3).graph


def trained(plan: Any, **options: Any) -> list[Any]:
    """The epochs of ranks that are threads of this process; `plan` is a plan or its file."""
    chosen = TrainOptions(eval_every=0, threads=1, **options)
    if hasattr(plan, "part"):
        slices = [(plan.header, plan.part(m)) for m in range(plan.num_parts)]
        return run_ranks(len(slices), lambda t: train(slices[t.rank], chosen, t))[0].epochs
    return run_ranks(2, lambda t: train(plan, chosen, t))[0].epochs


@pytest.fixture(scope="session")
def matrix():
    """240 vertices, directed, a full diagonal; some rows have nothing else."""
    array = np.abs(worlds.random_array(np.random.default_rng(3), 240, 0.02))
    np.fill_diagonal(array, 1)
    return worlds.graph_of(array, directed=True, dtype=np.float32)
