"""Epochs of plans with hops and without, on ranks in groups between which a network card is slow.

Ranks are threads. What leaves a group goes through one card, message after message: each takes
`LATENCY` and its bytes at `BANDWIDTH`, asleep, which needs no core. Inside a group messages are
copies. So the order of the epochs is measured, not predicted; the prediction for a machine with
these numbers stands beside it.
"""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.plan.topology import Topology
from plancc.predict.machine import Machine, Node
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.base import Exchange
from plancc_runtime.transport.local import LocalTransport, Threads, in_threads
from plancc_runtime.transport.messages import Addressed

GRAPHS = ("wiki-Vote", "email-Enron", "CoauthorCS")
SHAPE = "2x4"
LATENCY, BANDWIDTH = 1e-3, 2e7
"""Seconds per message, and bytes per second of a group's card."""
DIMS = (64, 64, 16)
EPOCHS = 6


@dataclass
class Network:
    """The cards of all groups.

    Attributes
    ----------
    node : int32[num_ranks]
        Group of every rank.
    free : list of float
        When every card has sent what it has.
    latency, bandwidth : float
        Seconds per message, and bytes per second of a card.
    due : dict
        When the messages between two ranks arrive, in their order.
    """

    node: np.ndarray
    free: list[float]
    latency: float = LATENCY
    bandwidth: float = BANDWIDTH
    due: dict[tuple[int, int], deque[float]] = field(default_factory=lambda: defaultdict(deque))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, source: int, target: int, num_bytes: int) -> None:
        with self.lock:
            card = self.node[source]
            begin = max(time.perf_counter(), self.free[card])
            self.free[card] = begin + self.latency + num_bytes / self.bandwidth
            self.due[source, target].append(self.free[card])

    def arrive(self, source: int, target: int) -> None:
        """Wait for a message that was sent."""
        while True:
            with self.lock:
                queue = self.due[source, target]
                when = queue.popleft() if queue else None
            if when is not None:
                break
            time.sleep(1e-4)
        time.sleep(max(0.0, when - time.perf_counter()))


class SlowTransport(LocalTransport):
    """A rank whose messages to other groups go through a card."""

    def __init__(self, group: Threads, rank: int, network: Network) -> None:
        super().__init__(group, rank, 600)
        self.network = network

    def exchange(self, sends: Addressed, receives: Addressed) -> Exchange:
        return _SlowExchange(self, super().exchange(sends, receives), sends, receives)

    def nodes_of_ranks(self) -> list[str]:
        return [str(node) for node in self.network.node]


class _SlowExchange(Exchange):
    def __init__(
        self, transport: SlowTransport, inner: Exchange, sends: Addressed, receives: Addressed
    ) -> None:
        self._rank, self._network, self._inner = transport.rank, transport.network, inner
        self._sends = [(peer, buffer.nbytes) for peer, buffer in sends]
        self._sources = [peer for peer, _ in receives]
        self._left: list[int] = []

    def _is_far(self, peer: int) -> bool:
        return bool(self._network.node[peer] != self._network.node[self._rank])

    def start(self) -> None:
        self._left = [k for k, peer in enumerate(self._sources) if self._is_far(peer)]
        self._inner.start()

    def send(self, k: int) -> None:
        peer, size = self._sends[k]
        if self._is_far(peer) and size:
            self._network.send(self._rank, peer, size)
        self._inner.send(k)

    def arrivals(self) -> Iterator[int]:
        for k in self._inner.arrivals():
            self._wait(k)
            yield k

    def finish(self) -> None:
        for k in list(self._left):
            self._wait(k)
        self._inner.finish()

    def _wait(self, k: int) -> None:
        if k in self._left:
            self._left.remove(k)
            self._network.arrive(self._sources[k], self._rank)


def run(inputs: Inputs) -> Report:
    warnings.simplefilter("ignore")
    report = Report(
        [
            f"{SHAPE} ranks as threads, GCN {DIMS}, a card of {1e3 * LATENCY:g} ms and "
            f"{BANDWIDTH / 1e6:g} MB/s for every group; medians of {EPOCHS - 1} epochs"
        ]
    )
    topology = Topology.parse(SHAPE)
    for name in GRAPHS[:1] if inputs.quick else GRAPHS:
        if not (SHARED / f"{name}.mtx.gz").exists():
            continue
        for model in ("hp", "medium-grain"):
            plan = plancc.compile(
                SHARED / f"{name}.mtx.gz",
                model,
                topology.num_ranks,
                effort="fast",
                topology=SHAPE,
                exchange="nodes",
            )
            measured = {each: _epoch(plan, topology, each) for each in ("flat", "nodes")}
            ratio = measured["nodes"] / measured["flat"]
            machine = Machine(
                latency=LATENCY,
                bandwidth=BANDWIDTH,
                multiply_adds=1e9,
                node=Node(ranks=4, injection=BANDWIDTH, latency=2e-5, bandwidth=2e9),
            )
            tables, predictor = tables_of(plan), Predictor(DIMS, machine)
            predicted = predictor.epoch(tables).seconds / predictor.epoch(tables.flat()).seconds
            report.add(f"{model} {name}: epoch with hops, measured", ratio, 1.0, unit="x")
            report.add(f"{model} {name}: the same, predicted", predicted, unit="x")
            print(f"{model} {name}: measured {ratio:.3f}, predicted {predicted:.3f}", flush=True)
    return report


def _epoch(plan: plancc.Plan, topology: Topology, exchange: str) -> float:
    """Median seconds of an epoch."""
    num_ranks = topology.num_ranks
    options = TrainOptions(
        epochs=EPOCHS,
        features=DIMS[0],
        hidden=DIMS[1],
        classes=DIMS[-1],
        threads=1,
        eval_every=0,
        exchange=exchange,
    )
    network = Network(topology.node_of_rank(), [0.0] * topology.nodes)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "plan.h5")
        plan.save(path)

        def work(transport: SlowTransport) -> Any:
            return train(path, options, transport)

        group = Threads(num_ranks)
        found = in_threads(group, lambda rank: SlowTransport(group, rank, network), work)
    seconds = [epoch.seconds_max["total"] for epoch in found[0].epochs[1:]]
    return float(np.median(seconds))
