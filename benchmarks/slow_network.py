"""A slow network between ranks that are threads of this process.

A message takes a latency, and its bytes at a bandwidth, asleep, which needs no core. So the order
of epochs is measured, not predicted.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.training import training_options
from plancc.predict.machine import Machine, Node
from plancc.predict.machine_files import find_machine
from plancc.threads import usable_cores
from plancc_runtime.train import train
from plancc_runtime.transport.base import Channel
from plancc_runtime.transport.local import LocalTransport, Threads, run_threads
from plancc_runtime.transport.messages import Addressed


@dataclass
class Network:
    """The cards of all groups.

    Attributes:
        node (int32[num_ranks]): Group of every rank.
        free: When every card has sent what it has.
        latency, bandwidth: Seconds per message, and bytes per second of a card.
        due: When the messages between two ranks arrive, in their order.
    """

    node: np.ndarray
    free: list[float]
    latency: float
    bandwidth: float
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

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        return _SlowChannel(self, super().exchange(sends, receives), sends, receives)

    def nodes_of_ranks(self) -> list[str]:
        return [str(node) for node in self.network.node]


class _SlowChannel(Channel):
    def __init__(
        self, transport: SlowTransport, inner: Channel, sends: Addressed, receives: Addressed
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


@dataclass(frozen=True)
class SlowNetwork:
    """Network cards whose messages take time and no core.

    Attributes:
        latency: Seconds of a message.
        bandwidth: Bytes per second of a card.
    """

    latency: float = 1e-4
    bandwidth: float = 2e7

    def __str__(self) -> str:
        return f"{1e3 * self.latency:g} ms latency and {self.bandwidth / 1e6:g} MB/s"

    def machine(self, num_ranks: int) -> Machine:
        """For predictions: a card for every rank, and the cores of this machine for all of them.

        Rates are those of `small-cpu`, where they were measured with one core for a rank.
        """
        return replace(
            find_machine("small-cpu"),
            latency=self.latency,
            bandwidth=self.bandwidth,
            node=Node(ranks=1),
            speed=(min(1.0, len(usable_cores()) / num_ranks),) * num_ranks,
        )

    def epoch(
        self,
        plan: plancc.Plan,
        node: Sequence[int] | None = None,
        first: int | None = None,
        **options: Any,
    ) -> float:
        """Median seconds of an epoch.

        Parameters:
            node: The group of every rank: ranks of one share a card, and messages between them are
                copies. Default: every rank has a card.
            first: The first epoch that counts. Default: half of them are left out.
            options: As of `benchmarks.training.trained`.
        """
        chosen = training_options(**options)
        node_of_rank = np.arange(plan.num_parts) if node is None else np.asarray(node)
        cards = [0.0] * (int(node_of_rank.max()) + 1)
        network = Network(node_of_rank, cards, self.latency, self.bandwidth)
        group = Threads(plan.num_parts)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "plan.h5")
            plan.save(path)
            found = run_threads(
                group,
                lambda rank: SlowTransport(group, rank, network),
                lambda transport: train(path, chosen, transport),
            )
        epochs = found[0].epochs
        late = epochs[len(epochs) // 2 if first is None else first :]
        return statistics.median(each.seconds_max["total"] for each in late)
