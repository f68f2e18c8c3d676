"""The halo exchange of a block: own rows to the peers that need them, and sums back.

Knows the send and receive lists of a block and a transport; must not know matrices or layers.

Small messages are handled in *groups* of neighbours: packed by one call, multiplied or added by one
call once the last of the group is here. A call of torch costs some 10 to 50 microseconds whatever
it does, which for 500 peers with a few rows each would be a thousand times the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from plancc_runtime.clock import Clock
from plancc_runtime.layouts.block import Block
from plancc_runtime.transport.base import Exchange, Transport

GROUP_ROWS = 2048  # to pack, or to add: as much work as one call of torch costs


class Group(Protocol):
    """Consecutive messages of one exchange."""

    @property
    def messages(self) -> range: ...


G = TypeVar("G", bound=Group)


@dataclass(frozen=True)
class OuterBlock:
    """The own rows that a group of peers needs.

    Attributes
    ----------
    messages : range
        Of this rank's messages in the order of its send masks.
    at : slice
        Their place in `Buffers.outer`.
    rows : int64[m]
        Local rows; those that several peers need occur once for each.
    """

    messages: range
    at: slice
    rows: Tensor


@dataclass(frozen=True)
class Buffers:
    """What crosses the network in one product of a given width, owned by the caller.

    Attributes
    ----------
    outer : Tensor[rows in the send masks, width]
        Copies of own rows: sent by `Halo.expand`, received by `Halo.reduce`.
    halo : Tensor[halo rows, width]
        Rows of the peers: received by `Halo.expand`, sent by `Halo.reduce`.
    expand, reduce : Exchange
        Of these buffers: forward, and back.
    """

    outer: Tensor
    halo: Tensor
    expand: Exchange
    reduce: Exchange


class Halo:
    """The exchange of one block's halo rows, forward and back.

    Parameters
    ----------
    block : Block
    transport : Transport
    dtype : torch.dtype
        Of the rows.
    clock : Clock, optional
        Gets the time of "pack" and "wait".
    """

    def __init__(
        self, block: Block, transport: Transport, dtype: torch.dtype, clock: Clock | None = None
    ) -> None:
        self.num_inputs, self.num_halo = block.num_inputs, block.num_halo
        self.dtype = dtype
        self._transport = transport
        self._clock = clock or Clock()
        self._send = list(zip(block.send_peer.tolist(), _slices(block.send_ptr), strict=True))
        self._recv = list(zip(block.recv_peer.tolist(), _slices(block.recv_ptr), strict=True))
        send_row = torch.from_numpy(block.send_row.astype(np.int64))
        self._outer = [
            OuterBlock(group, at, send_row[at])
            for group, at in groups(block.send_ptr, np.diff(block.send_ptr), GROUP_ROWS)
        ]

    def buffers(self, width: int) -> Buffers:
        """New buffers for products of `width` columns; reusable for any number of them."""
        num_outer = sum(where.stop - where.start for _, where in self._send)
        outer = torch.empty(num_outer, width, dtype=self.dtype)
        halo = torch.empty(self.num_halo, width, dtype=self.dtype)
        out = [(n, outer[at]) for n, at in self._send]
        into = [(n, halo[at]) for n, at in self._recv]
        exchange = self._transport.exchange
        return Buffers(outer, halo, exchange(out, into), exchange(into, out))

    def send_rows(self, h: Tensor, buffers: Buffers) -> None:
        """Start a round of `buffers.expand`, with the own rows of h. Collective."""
        clock = self._clock
        with clock("wait"):
            buffers.expand.start()
        for outer in self._outer:
            with clock("pack"):
                torch.index_select(h, 0, outer.rows, out=buffers.outer[outer.at])
            with clock("wait"):
                for k in outer.messages:
                    buffers.expand.send(k)

    def expand(self, h: Tensor, buffers: Buffers) -> None:
        """Fill `buffers.halo` with the halo rows of h, Tensor[num_inputs, width]. Collective."""
        self.send_rows(h, buffers)
        with self._clock("wait"):
            for _ in buffers.expand.arrivals():
                pass
            buffers.expand.finish()

    def reduce(self, out: Tensor, buffers: Buffers) -> None:
        """The adjoint of `expand`: add `buffers.halo` to the owners' rows of `out`. Collective.

        Parameters
        ----------
        out : Tensor[num_inputs, width]
        buffers : Buffers
        """
        with self._clock("wait"):
            buffers.reduce.start()
            for k in range(len(self._recv)):
                buffers.reduce.send(k)
        self.add_arrived(out, buffers)

    def add_arrived(self, out: Tensor, buffers: Buffers) -> None:
        """Add what the peers return, and end the round of `buffers.reduce`."""
        clock = self._clock
        arrived = complete(buffers.reduce.arrivals(), self._outer)
        while True:
            with clock("wait"):
                outer = next(arrived, None)
            if outer is None:
                break
            with clock("pack"):
                out.index_add_(0, outer.rows, buffers.outer[outer.at])
        with clock("wait"):
            buffers.reduce.finish()


def _slices(ptr: np.ndarray) -> list[slice]:
    return [slice(a, b) for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]


def groups(ptr: np.ndarray, work: np.ndarray, least: int) -> Iterator[tuple[range, slice]]:
    """Neighbouring messages with at least `least` work together, and the rows they cover."""
    first = total = 0
    for last, amount in enumerate(work.tolist(), 1):
        total += amount
        if total >= least or last == len(work):
            yield range(first, last), slice(int(ptr[first]), int(ptr[last]))
            first, total = last, 0


def complete(arrivals: Iterator[int], parts: Sequence[G]) -> Iterator[G]:
    """The groups in their order, each once its messages and those of all before it are here."""
    group_of = [g for g, group in enumerate(parts) for _ in group.messages]
    missing = [len(group.messages) for group in parts]
    ready = 0
    for k in arrivals:
        missing[group_of[k]] -= 1
        while ready < len(parts) and missing[ready] == 0:
            yield parts[ready]
            ready += 1
