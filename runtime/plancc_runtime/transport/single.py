"""The transport of a run with one rank: it needs no MPI, and sends no messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from plancc_runtime.transport.base import Channel, Transport
from plancc_runtime.transport.group import MessageGroup
from plancc_runtime.transport.messages import Addressed, Buffer


class SingleTransport(Transport):
    """The transport of a run with one rank. Each attempt to send raises ValueError."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def exchange(self, sends: Addressed, receives: Addressed) -> Channel:
        for peer, _ in (*sends, *receives):
            raise ValueError(f"one rank alone cannot send to rank {peer}")
        return _NoChannel()

    def subgroup(self, ranks: Sequence[int]) -> MessageGroup:
        return MessageGroup(self, ranks)

    def allreduce_sum(self, array: Buffer) -> None:
        """Leave the array unchanged: it is the sum over one rank."""

    def allreduce_max(self, array: Buffer) -> None:
        """Leave the array unchanged: it is the maximum over one rank."""

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def gather_bytes(self, data: bytes) -> list[bytes]:
        return [data]

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)


class _NoChannel(Channel):
    def start(self) -> None:
        """Do nothing: no message is received."""

    def send(self, k: int) -> None:
        raise IndexError(f"there is no message {k}")

    def arrivals(self) -> Iterator[int]:
        return iter(())

    def finish(self) -> None:
        """Do nothing: no message was sent."""
