"""Networks of PyTorch Geometric on ranks, by `plancc_runtime.pyg.distributed`, and as they are.

    python -m benchmarks own-models
    mpirun -n RANKS python -m benchmarks.own_models TASK --folder FOLDER ...     what it starts

Results are kept, so that interrupted work goes on. Two sides are timed in turns, in one process.
Features of CoauthorCS are projected to 128 numbers, since the messages of PyTorch Geometric hold
those of every edge. The networks of its example scripts are read from the folder that the variable
PLANCC_PYG_EXAMPLES names, and are not changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console

import plancc
from benchmarks.inputs import ROOT, SHARED, Inputs, on_ranks
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from plancc.sampling.splits import random_split
from plancc_datasets import load_dataset
from plancc_lab.kept import Kept

EXAMPLES = "PLANCC_PYG_EXAMPLES"
WIDTH, HIDDEN, SAMPLES = 128, 64, 8
SCRIPTS = {
    # graph, file and class of the example, what else it is made with, learning rate, epochs
    "GCN": ("Cora", "gcn.py", (16,), {}, 0.01, 200),
    "SAGE": ("CoauthorCS", "reddit.py", (HIDDEN,), {}, 0.01, 40),
    "GAT": ("CoauthorCS", "gat.py", (8,), {"heads": 8}, 0.005, 40),
    "GIN": ("CoauthorCS", "mutag_gin.py", (HIDDEN,), {"num_layers": 2}, 0.01, 40),
}
SEEDS = 3
POINTS = 0.5
TIMED = ("SAGE", "GAT")
LIMIT = 1800
"""Seconds that a task may take."""


def run(inputs: Inputs) -> Report:
    if not find_spec("torch_geometric") or not (SHARED / "CoauthorCS.npz").exists():
        return Report([f"skipped: needs torch_geometric, and {SHARED}"])
    bench = _Bench(inputs)
    report = Report(["preliminary: a short run"] if inputs.quick else [])
    graph = "Cora" if inputs.quick else "CoauthorCS"
    rounds = 3 if inputs.quick else 20

    found = bench.task("one-rank", 1, graph, rounds)
    for name in (*TIMED, "GCN"):
        seconds = found[name]
        report.add(f"{name}, 1 rank: epoch of `distributed` / plain", *_ratio(seconds, 1.05))
        ours = seconds["ours"] / seconds["plain"]
        report.add(f"{name}, 1 rank: epoch of plancc's own layer / plain", ours)
    found = bench.task("two-ranks", 2, graph, rounds)
    for name in TIMED:
        each = found[name]
        report.add(f"{name}: 2 ranks / 1 rank of 2 threads", *_ratio(each["seconds"], 1.15))
        report.add(f"{name}: words / those that messages read, once", each["words"], 1.0, "=")
    found = bench.task("samples", 4, "mesh", rounds)
    report.add(f"{SAMPLES} samples at once / one by one: messages", found["messages"], 1 / SAMPLES)
    report.add(f"{SAMPLES} samples at once / one by one: waiting", found["waiting"], 0.5)
    if not os.environ.get(EXAMPLES):
        report.notes.append(f"no accuracy: set {EXAMPLES} to the examples of PyTorch Geometric")
        return report
    for name, (of, *_, epochs) in SCRIPTS.items():
        task = f"accuracy-{name}"
        accuracy = bench.task(task, 2, of, 3 if inputs.quick else epochs)
        plain, ours = (100 * statistics.mean(accuracy[k]) for k in ("plain", "distributed"))
        report.add(f"{name} on {of}: accuracy of the plain loop", plain, unit="%")
        report.add(f"{name} on {of}: `distributed` on 2 ranks less", ours - plain, -POINTS, ">=")
    return report


def _ratio(seconds: dict[str, float], target: float) -> tuple[float, float]:
    return seconds["distributed"] / seconds["plain"], target


class _Bench:
    """Starts tasks, whose results are kept."""

    def __init__(self, inputs: Inputs) -> None:
        self._folder = inputs.results("own-models")
        sources = sources_hash(ROOT, ("plancc", "runtime")) + Path(__file__).read_text()
        digest = hashlib.sha256(sources.encode()).hexdigest()
        self._kept = Kept(self._folder / "own-models.jsonl", digest)
        self._console = Console(highlight=False)

    def task(self, name: str, ranks: int, graph: str, rounds: int) -> Any:
        """What rank 0 of a task prints, which is shown."""

        def work() -> Any:
            begin = time.perf_counter()
            for parts in {1, ranks}:
                _compile(graph, parts, _plan(self._folder, graph, parts))
            words = ["--folder", self._folder, "--graph", graph, "--rounds", rounds]
            command = ["--bind-to", "none", sys.executable, "-m", "benchmarks.own_models", name]
            told = on_ranks(ranks, *command, *words, timeout=LIMIT)
            self._console.print(f"{name}: {time.perf_counter() - begin:.0f} s")
            return json.loads(told.splitlines()[-1])

        found = self._kept.step((name, graph, rounds), work)
        self._console.print(f"{name}, {graph}: {json.dumps(found)}")
        return found


# Graphs


def _plan(folder: Path, graph: str, parts: int) -> Path:
    return folder / f"own-models-{graph}-{parts}.h5"


def _compile(graph: str, parts: int, path: Path) -> None:
    """A plan of the graph as it is; not again."""
    if path.exists():
        return
    if graph == "mesh":
        source: Any = load_dataset("grid", rows=120, cols=120).graph
        data = None
    else:
        source = plancc.read_graph(SHARED / f"{graph}.mtx.gz")
        with np.load(SHARED / f"{graph}.npz") as file:
            arrays = dict(file)
        found = [arrays[f"feat_{key}"] for key in ("data", "indices", "indptr")]
        rows = sp.csr_matrix(tuple(found), shape=tuple(arrays["feat_shape"]))
        rows = rows.multiply(1 / np.maximum(rows.sum(1), 1)).tocsr()
        if graph == "Cora":
            features = rows.toarray()
        else:
            random = np.random.default_rng(0)
            features = rows @ random.standard_normal((rows.shape[1], WIDTH))
            features /= features.std()
        masks = random_split(np.arange(len(arrays["labels"])), (0.6, 0.2, 0.2), 0)
        splits = ("train_mask", "val_mask", "test_mask")
        data = plancc.VertexData(
            features=features.astype(np.float32),
            labels=arrays["labels"].astype(np.int32),
            **{k: arrays.get(k, mask) for k, mask in zip(splits, masks, strict=True)},
        )
    options = {"normalize": "none", "self_loops": False, "data": data}
    plancc.compile(source, "hp", parts, **options).save(path)


# What ranks do


class Training:
    """A network with its data: calling it trains an epoch.

    Parameters:
        graph: This rank's; of one part for the plain loop.
        net: What is called: the network, or that of `distributed`.
        sync: Whether other ranks have rows too.
    """

    def __init__(self, graph: Any, net: Any, lr: float, *first: Any, sync: bool = False) -> None:
        import torch

        self.graph, self.net, self.sync = graph, net, sync
        self.given = *first, graph.features, *(() if first else (graph.edge_index,))
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=5e-4)

    def loss(self) -> Any:
        """Its backward pass is left to the caller."""
        from torch.nn.functional import cross_entropy

        graph = self.graph
        chosen = graph.train_mask & (graph.labels >= 0)
        out = self.net.train()(*self.given)
        losses = cross_entropy(out[chosen], graph.labels[chosen], reduction="none")
        return graph.mean_loss(losses) if self.sync else losses.mean()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        if self.sync:
            self.graph.sync_gradients(self.net)
        self.optimizer.step()

    def tested(self, epochs: int) -> float:
        """Test accuracy at the best of validation."""
        import torch

        best = np.zeros(2)
        for _ in range(epochs):
            self()
            with torch.no_grad():
                right = self.net.eval()(*self.given).argmax(dim=1) == self.graph.labels
            masks = self.graph.val_mask, self.graph.test_mask
            counts = torch.stack([each for m in masks for each in (right[m].sum(), m.sum())])
            hits = np.array(self.graph.all_reduce(counts).tolist()).reshape(2, 2)
            now = hits[:, 0] / hits[:, 1]
            best = now if now[0] > best[0] else best
        return float(best[1])


def network(name: str, graph: Any, seed: int = 0) -> Any:
    """Two layers of PyTorch Geometric's own kind, or an example's class by "example NAME"."""
    import torch
    from torch_geometric import nn

    widths = graph.features.shape[1], graph.num_classes
    kind = name.removeprefix("example ")
    torch.manual_seed(seed)
    if kind == name:
        made = {"SAGE": nn.GraphSAGE, "GAT": nn.GAT, "GCN": nn.GCN}[name]
        more = {"heads": 8} if name == "GAT" else {}
        return made(widths[0], HIDDEN, 2, widths[1], dropout=0.5, **more)
    _, file, hidden, more, *_ = SCRIPTS[kind]
    tree = ast.parse((Path(os.environ[EXAMPLES]) / file).read_text())
    tree.body = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind]
    names = vars(nn) | {"torch": torch, "F": torch.nn.functional}
    names |= {"args": SimpleNamespace(use_gdc=False)}
    names["global_add_pool"] = lambda x, batch: x  # a class for each vertex, not for each graph
    exec(compile(tree, file, "exec"), names)
    found = names[kind](widths[0], *hidden, widths[1], **more)
    if kind == "GIN":  # its forward takes the batch that it pools by
        found.forward = lambda x, edges, forward=found.forward: forward(x, edges, None)
    return found


def own_network(name: str, graph: Any) -> Any:
    """The same sizes with layers of plancc."""
    import torch

    from plancc_runtime import nn

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            d_in, d_out = graph.features.shape[1], graph.num_classes
            kind = getattr(nn, f"{name}Conv")
            more = {"heads": 8} if name == "GAT" else {}
            self.first = kind(d_in, HIDDEN, random=0, **more)
            self.second = kind(HIDDEN, d_out, random=1)

        def forward(self, on: Any, x: Any) -> Any:
            x = torch.nn.functional.dropout(self.first(on, x).relu(), 0.5, self.training)
            return self.second(on, x)

    return Net()


def one_rank(given: Any, comm: Any) -> Any:
    from benchmarks.collectives import in_turns
    from plancc_runtime.pyg import distributed

    graph = _opened(given, 1, alone=True)
    found = {}
    for name in (*TIMED, "GCN"):
        plain = network(name, graph)
        sides: dict[str, Callable[[], object]] = {
            "plain": Training(graph, plain, 0.01),
            "distributed": Training(graph, distributed(network(name, graph), graph), 0.01),
            "ours": Training(graph, own_network(name, graph), 0.01, graph),
        }
        found[name] = in_turns(comm, given.rounds, sides)
    return found


def two_ranks(given: Any, comm: Any) -> Any:
    import torch

    from benchmarks.collectives import in_turns
    from plancc_runtime.pyg import distributed

    graph, whole = _opened(given, 2), _opened(given, 1, alone=True)
    owner = graph.gather(torch.full((graph.num_rows,), graph.rank), everywhere=True)
    source, target = whole.vertices.long()[whole.edge_index]
    pairs = torch.stack([owner[target], source])[:, owner[target] != owner[source]]
    rows = pairs.unique(dim=1).shape[1]
    found = {}
    for name in TIMED:
        on_both = Training(graph, distributed(network(name, graph), graph), 0.01, sync=True)
        alone = Training(whole, network(name, graph), 0.01)

        def one(alone: Training = alone) -> None:
            if comm.rank == 0:
                torch.set_num_threads(2)
                alone()
                torch.set_num_threads(1)
                comm.send(None, 1)
            while comm.rank and not comm.iprobe():
                time.sleep(1e-3)  # leaves the core to rank 0
            if comm.rank:
                comm.recv()

        seconds = in_turns(comm, given.rounds, {"distributed": on_both, "plain": one})
        before = graph.transport.traffic.words_sent
        on_both.loss().backward()
        sent = comm.allreduce(graph.transport.traffic.words_sent - before)
        found[name] = {"seconds": seconds, "words": sent / (rows * _words_of_row(alone))}
    return found


def _words_of_row(alone: Training) -> int:
    """Numbers that messages read of a source, and of the gradients to these.

    No two layers of `TIMED` read the same.
    """
    from torch_geometric.nn import MessagePassing

    words = []

    def look(_: Any, inputs: Any) -> None:
        words.extend(
            (1 + x.requires_grad) * x[0].numel() for k, x in inputs[-1].items() if k.endswith("_j")
        )

    for layer in alone.net.modules():
        if isinstance(layer, MessagePassing):
            layer.register_message_forward_pre_hook(look)
            layer.register_edge_update_forward_pre_hook(look)
    alone.loss()
    return sum(words)


def samples(given: Any, comm: Any) -> Any:
    import torch
    from torch_geometric.nn import GraphSAGE

    from benchmarks.rivals.bare_exchange import time_rounds
    from plancc_runtime.pyg import distributed

    graph = _opened(given, 4)
    torch.manual_seed(0)
    net = distributed(GraphSAGE(16, 16, 2, 16, node_dim=-2), graph)
    x = torch.randn(SAMPLES, graph.num_rows, 16)

    def play(pieces: Any) -> None:
        for each in pieces:
            net(each, graph.edge_index).square().mean().backward()

    clock, traffic = graph.resources.clock, graph.transport.traffic
    sides = {"at once": [x], "one by one": [*x.split(1)]}
    waited: dict[str, list[float]] = {name: [] for name in sides}
    messages = dict.fromkeys(sides, 0)
    for number in range(given.rounds + 1):
        for name, pieces in sides.items():
            clock.restart()
            before = traffic.messages_sent
            time_rounds(comm, lambda pieces=pieces: play(pieces), 1)
            messages[name] = comm.allreduce(traffic.messages_sent - before)
            if number:
                waited[name].append(comm.allreduce(clock.read()["wait"]))
    (once, single), counts = map(statistics.median, waited.values()), [*messages.values()]
    return {"messages": counts[0] / counts[1], "waiting": once / single, "seconds": [once, single]}


def accuracy(given: Any, comm: Any) -> Any:
    from plancc_runtime.pyg import distributed

    graph, whole = _opened(given, 2), _opened(given, 1, alone=True)
    name = f"example {given.task.removeprefix('accuracy-')}"
    lr = SCRIPTS[name.split()[1]][4]
    ours, plain = [], []
    for seed in range(SEEDS):
        net = distributed(network(name, graph, seed), graph, seed)
        ours.append(Training(graph, net, lr, sync=True).tested(given.rounds))
        if seed % comm.size == comm.rank:
            plain.append(Training(whole, network(name, graph, seed), lr).tested(given.rounds))
    return {"distributed": ours, "plain": [k for of_rank in comm.allgather(plain) for k in of_rank]}


def _opened(given: Any, parts: int, alone: bool = False) -> Any:
    """This rank's graph; `alone`: the whole graph, on every rank by itself."""
    import plancc_runtime
    from plancc_runtime.transport.single import SingleTransport

    plan = _plan(given.folder, given.graph, parts)
    return plancc_runtime.open(plan, SingleTransport() if alone else "auto", threads=1)


def main() -> None:
    from plancc_runtime.transport.mpi import load_mpi

    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--graph", required=True)
    parser.add_argument("--rounds", type=int, required=True, help="or epochs")
    given = parser.parse_args()
    comm = load_mpi().COMM_WORLD
    tasks = {"one-rank": one_rank, "two-ranks": two_ranks, "samples": samples}
    found = tasks.get(given.task, accuracy)(given, comm)
    if comm.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
