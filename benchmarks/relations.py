"""Training by relation beside PyTorch Geometric's layers: CPU seconds of an epoch, on one thread.

Epochs of both are made in turns, in one process. `rgcn` stands beside RGCNConv on the union of the
types, `sage` and `gat` beside HeteroConv of SAGEConv and GATConv. The second layer of both has only
the relations that lead to papers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import plancc
from benchmarks.bfloat16 import prepared_run
from benchmarks.inputs import Inputs
from benchmarks.report import Report
from plancc_datasets import load_dataset
from plancc_runtime import open_typed
from plancc_runtime.typed import TypedGraph

MODELS, GOAL = ("rgcn", "sage", "gat"), 0.7
WIDTH, CLASSES, TARGET, WARM_UP = 64, 16, "paper", 2


def run(inputs: Inputs) -> Report:
    try:
        import torch_geometric  # noqa: F401
    except ImportError:
        return Report(["skipped: torch_geometric is not installed beside plancc"])
    plan, size = inputs.folder / "relations.h5", 2_000 if inputs.quick else 30_000
    read = load_dataset("academic", num_papers=size, num_authors=size // 2, num_venues=500, seed=1)
    types, random = read.graph.types, np.random.default_rng(0)
    assert types is not None
    data: dict[str, dict[str, Any]] = {
        name: {"features": random.standard_normal((count, WIDTH), np.float32)}
        for name, count in types.counts.items()
    }
    data[TARGET]["labels"] = random.integers(0, CLASSES, types.counts[TARGET])
    plancc.compile(read.graph, "block", 1, data=data).save(plan)
    note = f"{read.graph.num_vertices:,} vertices, {read.graph.num_nonzeros:,} nonzeros, two layers"
    report = Report([f"academic: {note}, {WIDTH} wide, one thread"])
    for model in MODELS:
        ours, theirs = _seconds(plan, model, inputs.repetitions)
        report.add_times(f"{model}: plancc", ours)
        report.add_times(f"{model}: PyTorch Geometric", theirs)
        report.add_ratio(f"{model}: plancc / PyTorch Geometric", ours, theirs, GOAL)
    return report


def _seconds(plan: Path, model: str, rounds: int) -> tuple[list[float], list[float]]:
    """CPU seconds of epochs, ours and theirs."""
    options = {"layers": 2, "hidden": WIDTH, "classes": CLASSES, "threads": 1, "lr": 0.01}
    ours, theirs = prepared_run(plan, "float32", model=model, **options), _rival(plan, model)
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + rounds):
        for seconds, epoch in zip(found, (ours.epoch, theirs), strict=True):
            start = time.process_time()
            epoch(number)
            seconds.append(time.process_time() - start)
    return found[0][WARM_UP:], found[1][WARM_UP:]


def _rival(plan: Path, model: str) -> Callable[[int], None]:
    """An epoch of PyTorch Geometric's layers on the same vertices."""
    graph = open_typed(plan, threads=1)
    make = _on_union if model == "rgcn" else _by_relation
    layers, forward = make(graph, model)
    labels, optimizer = graph.targets(TARGET), torch.optim.Adam(layers.parameters(), 0.01)

    def epoch(_: int) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(), labels).backward()
        optimizer.step()

    return epoch


def _on_union(graph: TypedGraph, _: str) -> tuple[torch.nn.Module, Callable[[], torch.Tensor]]:
    from torch_geometric.nn import RGCNConv

    types, known = graph.types, graph.types.relations
    x = torch.cat([graph.features(name) for name in types.counts])
    first = {name: types.vertices(name).start for name in types.counts}
    edges = [graph.edges(each) + _ends(first[each[0]], first[each[2]]) for each in known]
    kinds = torch.arange(len(known)).repeat_interleave(torch.tensor([e.shape[1] for e in edges]))
    ends, own = torch.cat(edges, dim=1), types.vertices(TARGET)
    widths = ((WIDTH, WIDTH), (WIDTH, CLASSES))
    layers = torch.nn.ModuleList(RGCNConv(a, b, len(known)) for a, b in widths)
    return layers, lambda: layers[1](layers[0](x, ends, kinds).relu(), ends, kinds)[own]


def _ends(*first: int) -> torch.Tensor:
    return torch.tensor(first)[:, None]


def _by_relation(
    graph: TypedGraph, model: str
) -> tuple[torch.nn.Module, Callable[[], torch.Tensor]]:
    from torch_geometric.nn import GATConv, HeteroConv, SAGEConv

    x = {name: graph.features(name) for name in graph.types.counts}
    edges = {each: graph.edges(each) for each in graph.types.relations}
    last = {each: ends for each, ends in edges.items() if each[2] == TARGET}

    def layer(relations: Any, width: int) -> Any:
        kind, options = (SAGEConv, {}) if model == "sage" else (GATConv, {"add_self_loops": False})
        return HeteroConv({each: kind((WIDTH, WIDTH), width, **options) for each in relations})

    layers = torch.nn.ModuleList([layer(edges, WIDTH), layer(last, CLASSES)])

    def forward() -> torch.Tensor:
        hidden = {name: each.relu() for name, each in layers[0](x, edges).items()}
        return layers[1](hidden, last)[TARGET]

    return layers, forward
