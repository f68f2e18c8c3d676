"""What `pipeline` measures inside the ranks: epochs of variants of one training, in turns.

    mpirun -n RANKS python -m benchmarks.pipeline_ranks plan.h5 --hidden 64 --rounds 20

With `--bandwidth` an all-to-all ends no earlier than a network card of so many bytes per second
would have brought what this rank receives, one all-to-all after the other, while its core is free.

Rank 0 prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plancc_runtime.transport.base import Group, Pending, Transport

LAYERS = 3
WARM_UP = 2
SECONDS = 100.0  # after which no round begins
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"row_order": "none"},
    "rcm": {"row_order": "rcm"},
    "pipeline": {"row_order": "none", "pipeline": "auto"},
    "pipeline, rcm": {"pipeline": "auto"},
    "4 stages, rcm": {"pipeline": "4"},
}


class Card:
    """A group whose all-to-alls take the time of a network card."""

    def __init__(self, members: Group, bandwidth: float) -> None:
        self.rank, self._members, self._bandwidth = members.rank, members, bandwidth
        self._free = 0.0

    def start_alltoall(self, sends: Sequence[Any], receives: Sequence[Any]) -> Pending:
        pending = self._members.start_alltoall(sends, receives)
        seconds = sum(piece.nbytes for piece in receives) / self._bandwidth
        self._free = end = max(self._free, time.perf_counter()) + seconds

        def finish() -> None:
            pending.wait()
            time.sleep(max(0.0, end - time.perf_counter()))

        return Pending(finish)


class Variant:
    """One way to train: everything is made before the first epoch. Making one is collective."""

    def __init__(
        self,
        plan: Path,
        hidden: int,
        bandwidth: float | None,
        transport: Transport,
        chosen: dict[str, Any],
    ) -> None:
        import torch

        from plancc.clock import Clock
        from plancc.plan.slices import read_rank_slice
        from plancc_runtime.data import load_data
        from plancc_runtime.layouts.feature import FeatureGraph
        from plancc_runtime.layouts.order import order_rows
        from plancc_runtime.layouts.resources import Resources
        from plancc_runtime.learner import Learner
        from plancc_runtime.networks import make_network
        from plancc_runtime.options import TrainOptions
        from plancc_runtime.views import View

        options = TrainOptions(
            layers=LAYERS, hidden=hidden, random_features=hidden, optimizer="sgd", **chosen
        )
        header, part = read_rank_slice(plan, transport.rank, transport.size)
        part = order_rows(part, options.row_order, options.pipeline, transport)
        clock = Clock()
        self._data = load_data(part, transport, torch.float32, options)
        network = make_network(options, self._data, transport, torch.float32)
        graph = FeatureGraph(
            part, header, Resources(transport, torch.float32, clock), options.pipeline
        )
        if bandwidth is not None:
            card: Any = Card(graph._slicing.members, bandwidth)
            graph._slicing = replace(graph._slicing, members=card)
        self.pipelining = graph.pipelining
        self._view = View([graph] * LAYERS, fixed=network.fixed(graph, self._data.features))
        self._learner = Learner(network, options, transport, clock)

    def epoch(self, number: int) -> tuple[float, dict[str, float]]:
        """Loss, and seconds of every phase on this rank. Collective."""
        before = self._learner.start()
        loss, _ = self._learner.gradients(self._view, self._data, number, f"epoch {number}")
        self._learner.update(0.1)
        return loss, self._learner.measure(before).seconds


def measure(
    plan: Path, hidden: int, rounds: int, bandwidth: float | None, transport: Transport
) -> dict[str, Any]:
    """Seconds of the slowest rank, and losses, of every variant's epochs. Collective.

    In at most `rounds` rounds, and fewer where they take long.
    """
    import numpy as np
    import torch

    torch.set_num_threads(1)
    variants = {
        name: Variant(plan, hidden, bandwidth, transport, chosen)
        for name, chosen in VARIANTS.items()
    }
    found: dict[str, Any] = {}
    for name, variant in variants.items():
        found[name] = {"seconds": [], "losses": [], "phases": {}}
        if variant.pipelining is not None:
            found[name]["pipeline"] = vars(variant.pipelining)
    begin = time.perf_counter()
    for number in range(rounds + WARM_UP):
        late = np.array([time.perf_counter() - begin > SECONDS], np.int8)
        transport.allreduce_max(late)
        if late[0]:
            break
        for name, variant in variants.items():
            loss, phases = variant.epoch(number)
            seconds = np.array(list(phases.values()))
            transport.allreduce_max(seconds)
            found[name]["losses"].append(loss)
            if number >= WARM_UP:  # the first ones make what the others use again
                for phase, taken in zip(phases, seconds.tolist(), strict=True):
                    found[name]["phases"].setdefault(phase, []).append(taken)
                found[name]["seconds"].append(found[name]["phases"]["total"][-1])
    return found


def main() -> None:
    from plancc_runtime.launch import open_transport

    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--bandwidth", type=float, help="bytes per second of an emulated network")
    options = parser.parse_args()
    transport = open_transport()
    found = measure(options.plan, options.hidden, options.rounds, options.bandwidth, transport)
    if transport.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
