"""Random graphs that plans are made of, and what ranks that train on them count."""

from __future__ import annotations

from functools import cache
from typing import Any

from plancc.graph.graph import Graph
from plancc_datasets import load_dataset
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks


@cache
def rmat(scale: int = 9, edge_factor: int = 3) -> Graph:
    return load_dataset("rmat", scale=scale, edge_factor=edge_factor, seed=3).graph


def trained(plan: Any, ranks: int = 2, **options: Any) -> list[Any]:
    """The epochs of ranks that are threads of this process; `plan` is a plan or its file."""
    chosen = TrainOptions(eval_every=0, threads=1, **options)
    if hasattr(plan, "part"):
        slices = [(plan.header, plan.part(m)) for m in range(plan.num_parts)]
        return run_ranks(len(slices), lambda t: train(slices[t.rank], chosen, t))[0].epochs
    return run_ranks(ranks, lambda t: train(plan, chosen, t))[0].epochs
