"""One rank on its own: no MPI library needed, no messages possible."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from plancc_runtime.transport.base import Buffer, Exchange, Transport


def usable_cores() -> set[int]:
    """Numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


class SingleTransport(Transport):
    """The transport of a run with one rank."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def exchange(
        self, sends: Sequence[tuple[int, Buffer]], receives: Sequence[tuple[int, Buffer]]
    ) -> Exchange:
        for peer, _ in (*sends, *receives):
            raise ValueError(f"one rank alone cannot talk to rank {peer}")
        return _NoExchange()

    def allreduce_sum(self, array: Buffer) -> None:
        """One rank's sum is its own array."""

    def allreduce_max(self, array: Buffer) -> None:
        """One rank's maximum is its own array."""

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def cores_per_rank(self) -> int:
        return len(usable_cores())

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)


class _NoExchange(Exchange):
    def start(self) -> None:
        """Nothing is received."""

    def send(self, k: int) -> None:
        raise IndexError(f"there is no message {k}")

    def arrivals(self) -> Iterator[int]:
        return iter(())

    def finish(self) -> None:
        """Nothing was sent."""
