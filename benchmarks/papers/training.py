"""Short trainings of plans, ranks as threads of this process. Knows the runtime; no item."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.papers.items import name_of
from benchmarks.slow_link import Network, SlowTransport
from plancc.errors import InputError
from plancc.graph.chunks import usable_cores
from plancc.predict.machine import Machine, Node
from plancc.predict.machine_files import find_machine

CLASSES = 16
"""Random classes, of graphs without labels."""


def data_of(graph: Path) -> Path | None:
    """Features and labels beside a graph; None: there are none."""
    found = graph.with_name(f"{name_of(graph)}.npz")
    return found if found.exists() else None


def labelled(graph: Path) -> Path:
    """`data_of`; InputError if there are none."""
    found = data_of(graph)
    if found is None:
        raise InputError(
            f"{graph}: accuracy needs {name_of(graph)}.npz with features and labels beside it"
        )
    return found


def split_of(graph: Path) -> tuple[float, ...] | None:
    """Shares of a split for data without masks; None where they have them."""
    with np.load(labelled(graph)) as data:
        return None if "train_mask" in data.files else (0.3, 0.2, 0.5)


def trained(plan: plancc.Plan, **options: Any) -> Any:
    """The result of a run on as many ranks as the plan has parts; options as of `TrainOptions`."""
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train
    from plancc_runtime.transport.local import run_ranks

    chosen = TrainOptions(**({"eval_every": 0, "threads": 1, "kernel": "numba"} | options))
    if chosen.sampler is None:
        slices = [(plan.header, plan.part(m)) for m in range(plan.num_parts)]
        return run_ranks(plan.num_parts, lambda t: train(slices[t.rank], chosen, t))[0]
    with tempfile.TemporaryDirectory() as folder:  # samplers may need the whole pattern
        path = str(Path(folder) / "plan.h5")
        plan.save(path)
        return run_ranks(plan.num_parts, lambda t: train(path, chosen, t))[0]


def accuracy(plan: plancc.Plan, **options: Any) -> float:
    """Test accuracy at the end of a run."""
    return float(trained(plan, **options).final.accuracy["test"])


@dataclass(frozen=True)
class SlowNetwork:
    """A network card for every rank, whose messages take time and no core.

    Attributes
    ----------
    latency : float
        Seconds of a message.
    bandwidth : float
        Bytes per second of a card.
    """

    latency: float = 1e-4
    bandwidth: float = 2e7

    def __str__(self) -> str:
        return f"{1e3 * self.latency:g} ms and {self.bandwidth / 1e6:g} MB/s"

    def machine(self, num_ranks: int) -> Machine:
        """For predictions: a card for every rank, and the cores of this machine for all of them.

        Rates are those of `small-cpu`, where they were measured with one core for a rank.
        """
        return replace(
            find_machine("small-cpu"),
            latency=self.latency,
            bandwidth=self.bandwidth,
            node=Node(ranks=1),
            speed=(min(1.0, usable_cores() / num_ranks),) * num_ranks,
        )

    def epoch(self, plan: plancc.Plan, **options: Any) -> float:
        """Median seconds of an epoch, its first ones left out; `options` as of `trained`."""
        from plancc_runtime.options import TrainOptions
        from plancc_runtime.train import train
        from plancc_runtime.transport.local import Threads, in_threads

        chosen = TrainOptions(**({"eval_every": 0, "threads": 1, "kernel": "numba"} | options))
        num_ranks = plan.num_parts
        network = Network(np.arange(num_ranks), [0.0] * num_ranks, self.latency, self.bandwidth)
        group = Threads(num_ranks)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "plan.h5")
            plan.save(path)
            found = in_threads(
                group,
                lambda rank: SlowTransport(group, rank, network),
                lambda transport: train(path, chosen, transport),
            )
        epochs = found[0].epochs
        return statistics.median(each.seconds_max["total"] for each in epochs[len(epochs) // 2 :])
