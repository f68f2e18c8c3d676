"""What ranks do for `own_models`; two sides are timed in turns.

    mpirun -n RANKS python -m benchmarks.own_models_ranks TASK --whole one.h5 --plan plan.h5

Rank 0 prints one JSON line.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import time
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch.nn import functional

import plancc_runtime
from benchmarks.collectives import in_turns
from benchmarks.own_models import EXAMPLES, SAMPLES, TIMED
from benchmarks.rivals.bare_exchange import time_rounds
from plancc_runtime.pyg import distributed
from plancc_runtime.transport.mpi import load_mpi
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.typed import TypedGraph

HIDDEN, HEADS, SEEDS, CLASSES = 64, 8, 3, 15
SCRIPTS: dict[str, Any] = {
    # file, what the class is made with between the widths and behind them, learning rate
    "GCN": ("gcn.py", 16, {}, 0.01),
    "SAGE": ("reddit.py", HIDDEN, {}, 0.01),
    "GAT": ("gat.py", 8, {"heads": 8}, 0.005),
    "GIN": ("mutag_gin.py", HIDDEN, {"num_layers": 2}, 0.01),
}


class Training:
    """A network with its data: calling it trains an epoch.

    Parameters:
        graph: This rank's; the whole one for a plain loop.
        net: What is called with `given`: the network, or that of `distributed`.
    """

    def __init__(self, graph: Any, net: Any, *given: Any, lr: float = 0.01) -> None:
        self.graph, self.net, self.given = graph, net, given or (graph.features, graph.edge_index)
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=5e-4)
        self.train = graph.train_mask & (graph.labels >= 0)

    def loss(self) -> Any:
        out, labels = self.net.train()(*self.given)[self.train], self.graph.labels[self.train]
        if self.graph.num_ranks == 1:
            return functional.cross_entropy(out, labels)
        return self.graph.mean_loss(functional.cross_entropy(out, labels, reduction="none"))

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        if self.graph.num_ranks > 1:
            self.graph.sync_gradients(self.net)
        self.optimizer.step()

    def tested(self, epochs: int) -> float:
        """Test accuracy at the best of validation."""
        masks, best = (self.graph.val_mask, self.graph.test_mask), (0.0, 0.0)
        for _ in range(epochs):
            self()
            with torch.no_grad():
                right = self.net.eval()(*self.given).argmax(dim=1) == self.graph.labels
            counts = torch.stack([each for m in masks for each in (right[m].sum(), m.sum())])
            hits = self.graph.all_reduce(counts).tolist()
            now = hits[0] / hits[1], hits[2] / hits[3]
            best = now if now[0] > best[0] else best
        return best[1]


def network(name: str, graph: Any) -> Any:
    """Two layers, by the network of PyTorch Geometric itself."""
    torch.manual_seed(0)
    kind = {"SAGE": pyg.GraphSAGE, "GAT": pyg.GAT, "GCN": pyg.GCN}[name]
    more = {"heads": HEADS} if name == "GAT" else {}
    return kind(graph.features.shape[1], HIDDEN, 2, graph.num_classes, dropout=0.5, **more)


class OwnNetwork(torch.nn.Module):
    """The same with layers of plancc."""

    def __init__(self, name: str, graph: Any) -> None:
        super().__init__()
        layer = getattr(plancc_runtime.nn, f"{name}Conv")
        more = {"heads": HEADS} if name == "GAT" else {}
        self.first = layer(graph.features.shape[1], HIDDEN, random=0, **more)
        self.second = layer(HIDDEN, graph.num_classes, random=1)

    def forward(self, graph: Any, x: Any) -> Any:
        x = functional.dropout(self.first(graph, x).relu(), 0.5, self.training)
        return self.second(graph, x)


class HGT(torch.nn.Module):
    """Two layers, and classes of authors."""

    def __init__(self, graph: Any) -> None:
        super().__init__()
        kinds = [*graph.features], [*graph.edge_index]
        widths = {name: x.shape[1] for name, x in graph.features.items()}
        hidden = HIDDEN // 2
        layers = (pyg.HGTConv(width, hidden, kinds, heads=2) for width in (widths, hidden))
        self.layers, self.last = torch.nn.ModuleList(layers), torch.nn.Linear(hidden, CLASSES)

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        for layer in self.layers:
            x_dict = layer(x_dict, edge_index_dict)
        return self.last(x_dict["author"])


def authors(graph: Any) -> Any:
    """The authors of a graph with types, as `Training` takes a graph."""
    typed = TypedGraph(graph)
    given = {"features": typed.x_dict, "edge_index": typed.edge_index_dict}
    shared = ("num_ranks", "mean_loss", "sync_gradients", "all_reduce")
    given |= {name: getattr(graph, name) for name in shared}
    given |= {f"{split}_mask": mask for split, mask in typed.masks("author").items()}
    return SimpleNamespace(typed=typed, labels=typed.targets("author"), **given)


def example(name: str, graph: Any, seed: int) -> Any:
    """The class of an example script, as it stands there; or `HGT`."""
    torch.manual_seed(seed)
    if name not in SCRIPTS:
        return HGT(graph)
    file, hidden, more, _ = SCRIPTS[name]
    tree = ast.parse((Path(os.environ[EXAMPLES]) / file).read_text())
    tree.body = [each for each in tree.body if getattr(each, "name", "") == name]
    known = vars(pyg) | {"torch": torch, "F": functional, "args": SimpleNamespace(use_gdc=False)}
    known["global_add_pool"] = lambda x, batch: x  # a class for each vertex, not for each graph
    exec(compile(tree, file, "exec"), known)
    return known[name](graph.features.shape[1], hidden, graph.num_classes, **more)


def one_rank(_: Any, whole: Any, rounds: int, comm: Any) -> Any:
    found = {}
    for name in TIMED:
        net = distributed(network(name, whole), whole)
        sides: dict[str, Any] = {"plain": Training(whole, network(name, whole))}
        sides["distributed"] = Training(whole, net)
        sides["ours"] = Training(whole, OwnNetwork(name, whole), whole, whole.features)
        found[name] = in_turns(comm, rounds, sides)
    return found


def two_ranks(graph: Any, whole: Any, rounds: int, comm: Any) -> Any:
    owner = graph.gather(torch.full((graph.num_rows,), graph.rank), everywhere=True)
    source, target = whole.vertices.long()[whole.edge_index]
    pairs = torch.stack([owner[target], source])[:, owner[target] != owner[source]]
    rows = pairs.unique(dim=1).shape[1]  # that travel
    found = {}
    for name in TIMED:
        on_both = Training(graph, distributed(network(name, graph), graph))
        alone = Training(whole, network(name, whole))
        sides: dict[str, Any] = {"distributed": on_both, "plain": partial(on_first, alone, comm)}
        seconds = in_turns(comm, rounds, sides)
        before = graph.transport.traffic.words_sent
        on_both.loss().backward()
        sent = comm.allreduce(graph.transport.traffic.words_sent - before)
        found[name] = {**seconds, "words": sent / (rows * words_of_row(alone))}
    return found


def on_first(alone: Training, comm: Any) -> None:
    """An epoch of two threads on rank 0, to which the other leaves its core."""
    if comm.rank == 0:
        torch.set_num_threads(2)
        alone()
        torch.set_num_threads(1)
        comm.send(None, 1)
        return
    while not comm.iprobe():
        time.sleep(1e-3)  # MPI itself waits with the core busy
    comm.recv()


def words_of_row(alone: Training) -> int:
    """Numbers that messages read of a source, and of the gradients to these.

    In SAGE and GAT no two read the same; degrees, as of GCN, are not counted.
    """
    words: list[int] = []

    def look(_: Any, inputs: Any) -> None:
        read = (x for name, x in inputs[-1].items() if name.endswith("_j"))
        words.extend((1 + x.requires_grad) * x[0].numel() for x in read)

    for layer in alone.net.modules():
        if isinstance(layer, pyg.MessagePassing):
            layer.register_message_forward_pre_hook(look)
            layer.register_edge_update_forward_pre_hook(look)
    alone.loss()
    return sum(words)


def samples(graph: Any, _: Any, rounds: int, comm: Any) -> Any:
    torch.manual_seed(0)
    net = distributed(pyg.GraphSAGE(16, 16, 2, 16, node_dim=-2), graph)
    x = torch.randn(SAMPLES, graph.num_rows, 16)
    clock, traffic = graph.resources.clock, graph.transport.traffic

    def play(pieces: Any) -> None:
        for each in pieces:
            net(each, graph.edge_index).square().mean().backward()

    found: dict[str, list[Any]] = {"at once": [], "one by one": []}
    for _ in range(rounds + 1):
        for name, pieces in (("at once", [x]), ("one by one", x.split(1))):
            clock.restart()
            before = traffic.messages_sent
            time_rounds(comm, partial(play, pieces), 1)
            counted = [traffic.messages_sent - before, clock.read()["wait"]]
            found[name].append(comm.allreduce(np.array(counted)))
    once, single = (np.median(each[1:], axis=0) for each in found.values())
    names = ("messages", "waiting")
    return dict(zip(names, (once / single).tolist(), strict=True)) | {"seconds": once[1]}


def accuracy(name: str, graph: Any, whole: Any, epochs: int, comm: Any) -> Any:
    ours, plain, lr = [], [], SCRIPTS.get(name, (0.01,))[-1]
    if name not in SCRIPTS:
        graph, whole = authors(graph), authors(whole)
    more = (None,) if name == "GIN" else ()  # the batch of its forward
    for seed in range(SEEDS):
        net = distributed(example(name, graph, seed), getattr(graph, "typed", graph), seed)
        given = graph.features, graph.edge_index, *more
        ours.append(Training(graph, net, *given, lr=lr).tested(epochs))
        if seed % comm.size == comm.rank:
            given = whole.features, whole.edge_index, *more
            plain.append(Training(whole, example(name, whole, seed), *given, lr=lr).tested(epochs))
    return {"distributed": ours, "plain": [*chain.from_iterable(comm.allgather(plain))]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--whole", required=True, help="a plan of one part")
    parser.add_argument("--plan", required=True, help="one of a part for each rank")
    parser.add_argument("--rounds", type=int, required=True, help="or epochs")
    given = parser.parse_args()
    comm = load_mpi().COMM_WORLD
    whole = plancc_runtime.open(given.whole, SingleTransport(), threads=1)
    graph = plancc_runtime.open(given.plan, threads=1)
    tasks: dict[str, Any] = {"one-rank": one_rank, "two-ranks": two_ranks, "samples": samples}
    task = tasks.get(given.task) or partial(accuracy, given.task.removeprefix("accuracy-"))
    found = task(graph, whole, given.rounds, comm)
    if comm.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
