"""Ranks in threads of this process, whole runs of training on them, and plan files of worlds."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import worlds

from plancc.graph.vertexdata import VertexData
from plancc.plan.parts import Part
from plancc.plan.plan import Plan
from plancc.plan.slices import read_rank_slice
from plancc.plan.values import Header
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import TrainResult
from plancc_runtime.train import train
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

TIMEOUT = 180


def on_ranks(num_ranks: int, work: Callable[[Transport], Any]) -> list[Any]:
    """The results of all ranks, each with one thread of torch."""

    def quietly(transport: Transport) -> Any:
        torch.set_num_threads(1)  # of this rank's thread
        return work(transport)

    if num_ranks == 1:
        return [work(SingleTransport())]
    return run_ranks(num_ranks, quietly, TIMEOUT)


def trained(
    plan: Path | tuple[Header, list[Part]] | list[tuple[Header, Part]],
    options: TrainOptions,
    num_ranks: int | None = None,
    report: Callable[..., None] | None = None,
) -> list[TrainResult]:
    """The results of all ranks, as many as the plan has slices; of a file say how many."""
    if isinstance(plan, Path):
        return run_ranks(num_ranks, lambda t: train(plan, options, t, report), TIMEOUT)
    slices = plan if isinstance(plan, list) else [(plan[0], part) for part in plan[1]]
    return run_ranks(len(slices), lambda t: train(slices[t.rank], options, t, report), TIMEOUT)


@cache
def _folder() -> TemporaryDirectory:
    return TemporaryDirectory()


@cache
def file_of(name: str, layout: str = "row", num_parts: int = 4) -> Path:
    """The file of a plan of `worlds`, written once for this process."""
    path = Path(_folder().name, re.sub(r"\W", "-", f"{name}-{layout}-{num_parts}") + ".h5")
    worlds.plan(name, layout, num_parts).save(path)
    return path


@cache
def slices_of(name: str, layout: str = "row", num_parts: int = 4) -> list[tuple[Header, Part]]:
    """What all ranks of a plan of `worlds` read; the undirected world has loops added."""
    file, grid = file_of(name, layout, num_parts), worlds.plan(name, layout, num_parts).header.grid
    ranks = num_parts if grid is None else grid.num_ranks
    read = (read_rank_slice(file, rank, ranks) for rank in range(ranks))
    return [(replace(header, self_loops=name == "undirected"), part) for header, part in read]


def with_data(plan: Plan, data: VertexData, path: Path) -> Path:
    """A file of the plan with other data, given in vertex order."""
    replace(plan, vertex_data=data.take(plan.global_id)).save(path)
    return path
