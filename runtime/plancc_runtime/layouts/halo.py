"""The halo exchange of a block: owners send rows, and gradients come back to be added.

One call of torch handles a *group* of small consecutive messages: at 10 to 50 microseconds, a call
per message would take a thousand times as long as the arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from plancc.clock import Clock
from plancc.plan.exchange import Exchange, Int32Array
from plancc.plan.metrics import StepTraffic
from plancc_runtime.kernels.rows import add_rows, pack
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Channel, Transport
from plancc_runtime.transport.row_numbers import send_numbers

ALL = slice(None)
GROUP_ROWS = 2048  # packing or adding 2048 rows takes about as long as one call of torch


class MessageRun(Protocol):
    """Protocol of an object for some consecutive messages, whose indices are `messages`."""

    @property
    def messages(self) -> range: ...


class RowRun(MessageRun, Protocol):
    """Protocol of a piece of a block's matrix, for the halo rows of consecutive messages.

    The piece multiplies the range `source` of the rows of its operand, and its product is the range
    `target` of the rows of the result.
    """

    @property
    def source(self) -> slice: ...

    @property
    def target(self) -> slice: ...


G = TypeVar("G", bound=MessageRun)
P = TypeVar("P", bound=RowRun)


@dataclass(frozen=True)
class OuterBlock:
    """Own rows that this rank sends in some consecutive messages.

    Attributes:
        messages: Indices of these messages among all messages that the rank sends.
        at: Range of the rows in `MessageBuffers.outer`.
        rows (int64[m]): Local indices; a row occurs once for each peer that needs it.
    """

    messages: range
    at: slice
    rows: Tensor


@dataclass(frozen=True)
class Buffers:
    """Message buffers for products with matrices of `width` columns. The caller owns the buffers.

    Attributes:
        halo (Tensor[halo rows, width]): Rows that `HaloExchange.expand` receives and `reduce`
            sends.
    """

    halo: Tensor


@dataclass(frozen=True, kw_only=True)
class MessageBuffers(Buffers):
    """Message buffers of the direct exchange (`Halo`).

    Attributes:
        outer (Tensor[sent rows, width]): Own rows that a forward round sends, or the terms of these
            rows that a backward round receives.
        outer_packed, halo_packed: `outer` and `halo`, or copies in the type in which rows are sent.
        expand, reduce: Channels of the packed rows in a forward, and in a backward round.
    """

    outer: Tensor
    outer_packed: Tensor
    halo_packed: Tensor
    expand: Channel
    reduce: Channel


B = TypeVar("B", bound=Buffers)
M = TypeVar("M")


class RowMover(ABC, Generic[M]):
    """Moves rows to a product that reads the rows piece by piece.

    A *forward round* moves all rows from owners to the product; a *backward round* moves the result
    of the adjoint product back to the owners.

    Attributes:
        idle: Whether this rank neither sends nor receives.
    """

    idle: bool

    @abstractmethod
    def buffers_for(self, width: int) -> M:
        """Return uninitialised buffers for a product of this width."""

    @abstractmethod
    def send_rows(self, h: Tensor, buffers: M) -> None:
        """Begin to move own rows to the product (a forward round). Collective.

        Parameters:
            h (Tensor[num_inputs, width]): Own rows.
        """

    @abstractmethod
    def arriving(self, pieces: Sequence[Any], buffers: M) -> Iterator[tuple[Any, Tensor]]:
        """Yield the pieces of a block in their order, each with the rows that it reads.

        A piece is yielded as soon as its rows have arrived. With the last piece, the forward round
        that `send_rows` began ends.
        """

    @abstractmethod
    def leaving(
        self, pieces: Sequence[Any], out: Tensor, buffers: M
    ) -> Iterator[tuple[Any, Tensor]]:
        """Yield the pieces of a block in a backward round, each with memory for the piece's rows.

        Collective. The caller writes the rows of the adjoint product into this memory. They are
        sent when the caller asks for the next piece.
        """

    @abstractmethod
    def add_arrived(self, out: Tensor, buffers: M) -> None:
        """Add rows that have arrived from peers to own rows `out`; end the backward round."""


class HaloExchange(RowMover[B]):
    """The exchange of one block's halo rows, in forward and backward rounds.

    Forward: `send_rows`, then `arriving` or `take`. Backward: `leaving` or `send_all_back`, then
    `add_arrived`.

    Attributes:
        num_inputs, num_halo: Number of own rows, and number of halo rows.
        steps: This rank's traffic in a forward round: one entry, or one for each hop.
    """

    steps: tuple[StepTraffic, ...]

    def __init__(self, num_inputs: int, num_halo: int, resources: Resources) -> None:
        self.num_inputs, self.num_halo, self.resources = num_inputs, num_halo, resources
        self._clock = resources.clock
        self._kept: dict[int, B] = {}

    @abstractmethod
    def buffers(self, width: int) -> B:
        """Return new message buffers, which all products of `width` columns can use."""

    def buffers_for(self, width: int) -> B:
        if width not in self._kept:
            with torch.inference_mode(False):  # training could not use inference tensors
                self._kept[width] = self.buffers(width)
        return self._kept[width]

    def release_buffers(self) -> None:
        """Free the buffers that `buffers_for` keeps. Not collective."""
        self._kept.clear()

    @abstractmethod
    def take(self, buffers: B) -> Tensor:
        """End the round that `send_rows` started; return the received halo rows, `buffers.halo`."""

    @abstractmethod
    def send_all_back(self, buffers: B) -> None:
        """Start a backward round that sends all of `buffers.halo`. Collective."""

    def expand(self, h: Tensor, buffers: B) -> Tensor:
        """Send own rows, and return the received halo rows, which are `buffers.halo`. Collective.

        Parameters:
            h (Tensor[num_inputs, width]): Own rows.
        """
        self.send_rows(h, buffers)
        return self.take(buffers)

    def reduce(self, out: Tensor, buffers: B) -> None:
        """Add the rows of `buffers.halo` to their owners' rows `out`, in place. Collective.

        This is the adjoint of `expand`.
        """
        self.send_all_back(buffers)
        self.add_arrived(out, buffers)


class Halo(HaloExchange[MessageBuffers]):
    """The direct exchange: the owner of a row sends the row to each rank that needs the row."""

    def __init__(self, exchange: Exchange, num_inputs: int, resources: Resources) -> None:
        send, receive = exchange.send, exchange.receive
        super().__init__(num_inputs, receive.volume, resources)
        self._rounds = resources.wire == "bf16"
        self._send = list(zip(send.peer.tolist(), _slices(send.row_ptr), strict=True))
        self._recv = list(zip(receive.peer.tolist(), _slices(receive.row_ptr), strict=True))
        self.idle = not self._send and not self._recv
        self._exchange = exchange
        send_row = torch.from_numpy(send.row.astype(np.int64)).to(resources.device)
        self._outer = [
            OuterBlock(group, at, send_row[at])
            for group, at in groups(send.row_ptr, np.diff(send.row_ptr), GROUP_ROWS)
        ]

    @property
    def steps(self) -> tuple[StepTraffic, ...]:  # type: ignore[override]
        return (StepTraffic.of(self._exchange),)

    def buffers(self, width: int, halo: Tensor | None = None) -> MessageBuffers:
        """Return new message buffers, which all products of `width` columns can use.

        `halo` is used for halo rows; None: a new tensor.
        """
        num_outer = self._send[-1][1].stop if self._send else 0
        dtype, device = self.resources.dtype, self.resources.device
        outer = torch.empty(num_outer, width, dtype=dtype, device=device)
        if halo is None:
            halo = torch.empty(self.num_halo, width, dtype=dtype, device=device)
        transport = self.resources.transport
        outer_packed, halo_packed = outer, halo
        if self._rounds:
            outer_packed, halo_packed = (
                torch.empty_like(rows, dtype=torch.bfloat16) for rows in (outer, halo)
            )
        out = [(n, outer_packed[at]) for n, at in self._send]
        into = [(n, halo_packed[at]) for n, at in self._recv]
        return MessageBuffers(
            halo=halo,
            outer=outer,
            outer_packed=outer_packed,
            halo_packed=halo_packed,
            expand=transport.exchange(out, into),
            reduce=transport.exchange(into, out),
        )

    def send_rows(self, h: Tensor, buffers: MessageBuffers) -> None:
        clock = self._clock
        with clock("wait"):
            buffers.expand.start()
        for outer in self._outer:
            with clock("pack"):
                pack(h, outer.rows, buffers.outer[outer.at])
                if self._rounds:
                    buffers.outer_packed[outer.at].copy_(buffers.outer[outer.at])
            with clock("wait"):
                for k in outer.messages:
                    buffers.expand.send(k)

    def arriving(self, pieces: Sequence[P], buffers: MessageBuffers) -> Iterator[tuple[P, Tensor]]:
        for piece in complete(buffers.expand.arrivals(), pieces, self._clock):
            yield piece, self._received(piece.source, buffers)
        with self._clock("wait"):
            buffers.expand.finish()

    def take(self, buffers: MessageBuffers) -> Tensor:
        with self._clock("wait"):
            buffers.expand.finish()
        return self._received(ALL, buffers)

    def _received(self, at: slice, buffers: MessageBuffers) -> Tensor:
        if self._rounds:
            with self._clock("pack"):
                buffers.halo[at].copy_(buffers.halo_packed[at])
        return buffers.halo[at]

    def leaving(
        self, pieces: Sequence[P], out: Tensor, buffers: MessageBuffers
    ) -> Iterator[tuple[P, Tensor]]:
        with self._clock("wait"):
            buffers.reduce.start()
        for piece in pieces:
            yield piece, at_rows(buffers.halo, piece.target)
            self._send_back(piece.messages, piece.target, buffers)

    def send_all_back(self, buffers: MessageBuffers) -> None:
        with self._clock("wait"):
            buffers.reduce.start()
        self._send_back(range(len(self._recv)), ALL, buffers)

    def _send_back(self, messages: range, at: slice, buffers: MessageBuffers) -> None:
        if self._rounds:
            with self._clock("pack"):
                buffers.halo_packed[at].copy_(buffers.halo[at])
        with self._clock("wait"):
            for k in messages:
                buffers.reduce.send(k)

    def add_arrived(self, out: Tensor, buffers: MessageBuffers) -> None:
        clock = self._clock
        for outer in complete(buffers.reduce.arrivals(), self._outer, clock):
            with clock("pack"):
                rows = buffers.outer[outer.at]
                if self._rounds:
                    rows.copy_(buffers.outer_packed[outer.at])
                add_rows(out, outer.rows, rows)
        with clock("wait"):
            buffers.reduce.finish()


def halo_vertices(block: Block, transport: Transport) -> Int32Array:
    """Return the vertex of every halo row of a block: int32[num_halo]. Collective."""
    return send_numbers(block.expand, block.inputs[block.expand.send.row], transport)


def at_rows(x: Tensor, at: slice) -> Tensor:
    """Return the rows of x in the range `at`, or x itself if `at` is `ALL`."""
    return x if at is ALL else x[at]


def _slices(ptr: np.ndarray) -> list[slice]:
    return [slice(a, b) for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]


def groups(ptr: np.ndarray, work: np.ndarray, least: int) -> Iterator[tuple[range, slice]]:
    """Divide messages into groups of consecutive messages; yield messages and rows of each group.

    Parameters:
        ptr (int64[messages + 1]): Message k has the rows ``ptr[k]:ptr[k + 1]``.
        work (int64[messages]): Work of every message, such as its number of rows or nonzeros.
        least: Smallest amount of work of a group; the last group may have less.
    """
    first = total = 0
    for last, amount in enumerate(work.tolist(), 1):
        total += amount
        if total >= least or last == len(work):
            yield range(first, last), slice(int(ptr[first]), int(ptr[last]))
            first, total = last, 0


def complete(arrivals: Iterator[int], parts: Sequence[G], clock: Clock) -> Iterator[G]:
    """Yield each group of messages in `parts`, in order, once all its messages have arrived.

    `arrivals` are the messages' indices, counted over all groups. `clock` counts the waiting time
    as "wait".
    """
    group_of = [g for g, group in enumerate(parts) for _ in group.messages]
    missing = [len(group.messages) for group in parts]
    for g, group in enumerate(parts):
        with clock("wait"):
            while missing[g]:
                missing[group_of[next(arrivals)]] -= 1
        yield group
