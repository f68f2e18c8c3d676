"""The messages of a feature-parallel product: for each batch of rows, two all-to-alls.

The ranks that share a part form a group. Before the product, a rank sends to every other rank of
its group those columns of its own rows that the other rank multiplies; afterwards, results are sent
back. Rows are received directly into the product's input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plancc.clock import Clock
from plancc.plan.grid import Grid
from plancc.plan.stages import Batches
from plancc_runtime.layouts.resources import CPU, Resources
from plancc_runtime.transport.base import Group, Pending
from plancc_runtime.workspace import empty

BatchCallback = Callable[[slice], None]


@dataclass(frozen=True)
class Slicing:
    """Shares of rows and columns that the ranks of a group have, and the devices that hold them.

    A group consists of the ranks that share one part of a feature plan.

    Attributes:
        batches: Division of the group's rows into batches.
        members: The ranks of the group, in the order of their process columns.
        crosses: Whether own rows are on a GPU, but the rank's columns of all rows are in host
            memory.
    """

    grid: Grid
    batches: Batches
    members: Group
    resources: Resources
    crosses: bool

    @property
    def column(self) -> int:
        """Index of this rank's process column."""
        return self.members.rank

    @property
    def clock(self) -> Clock:
        return self.resources.clock

    @property
    def device(self) -> torch.device:
        """Device on which own rows are."""
        return self.resources.device

    @property
    def place(self) -> torch.device:
        """Device that holds this rank's columns of all rows of its group of ranks (`Flow.held`)."""
        return CPU if self.crosses else self.device


@dataclass(frozen=True)
class _Moving:
    """An all-to-all in flight: it receives into the buffers `rows`, and sends `others`."""

    pending: Pending
    rows: Sequence[Tensor]
    others: Sequence[Tensor]


class Flow:
    """The messages of one product. Methods that send or receive are collective in a group of ranks.

    A rank must finish its messages in the order in which it started them.

    Parameters:
        source, out (Tensor[own rows, width]): Input and output of the product; contiguous.
        before: Function that fills a batch's rows of `source`. It is called with the range of these
            rows, before they are sent.

    Attributes:
        held (Tensor[rows of the group, own columns]): Input columns, valid after `receive_input`.
    """

    def __init__(
        self, slicing: Slicing, source: Tensor, out: Tensor, before: BatchCallback | None = None
    ) -> None:
        self._slicing, self._source, self._out, self._before = slicing, source, out, before
        grid, batches, width = slicing.grid, slicing.batches, source.shape[1]
        slices = (grid.slice_of_columns(width, k) for k in range(grid.columns))
        self._slices = [slice(first, last) for first, last in slices]
        self._local = batches.local(slicing.column)
        self._nothing = source.new_empty(0, device=slicing.place)
        own = self._slices[slicing.column]
        self.held = empty(batches.num_rows, own.stop - own.start, self._nothing)
        self._inputs: deque[_Moving] = deque()
        self._outputs: deque[_Moving] = deque()
        self._sent = self._received = 0
        # A device packs all batches asynchronously, so all are started here.
        ahead = batches.stages if slicing.device.type != "cpu" else 0
        self._packed = deque(self._pack(stage) for stage in range(ahead))

    def send_input(self, last: int) -> None:
        """Start to send the batches of input rows up to index `last` that are not yet sent."""
        slicing = self._slicing
        while self._sent <= last:
            stage, self._sent = self._sent, self._sent + 1
            pieces, ready = self._packed.popleft() if self._packed else self._pack(stage)
            with slicing.clock("wait"):
                if ready is not None:
                    ready.synchronize()
            rows = self._shares(stage, self.held, 0)
            with slicing.clock("pack"):
                rows[slicing.column].copy_(pieces[slicing.column])
            self._inputs.append(self._start(pieces, rows))

    def receive_input(self, last: int) -> None:
        """Wait until the input rows of the batches 0 to `last` are received."""
        while self._received <= last:
            self._received += 1
            with self._slicing.clock("wait"):
                self._inputs.popleft().pending.wait()

    def send_output(self, stage: int, found: Tensor) -> None:
        """Start to send a batch of the product, `found`, to the owners of its rows."""
        slicing = self._slicing
        rows = self._shares(stage, found, slicing.batches.bounds(stage)[0])
        own = rows[slicing.column]
        buffer = self._buffer(len(own))
        pieces = self._pieces(buffer, len(own))
        with slicing.clock("pack"):
            if slicing.crosses:
                pieces[slicing.column].copy_(own)
            else:
                pieces[slicing.column] = own
        self._outputs.append(self._start(rows, [*pieces, buffer]))

    def receive_output(self, stage: int) -> slice:
        """Wait for the own rows in a batch of the product; return their range in `out`.

        The rows are copied into `out`.
        """
        slicing, at = self._slicing, self._local[stage]
        arrived = self._outputs.popleft()
        with slicing.clock("wait"):
            arrived.pending.wait()
        *pieces, buffer = arrived.rows
        with slicing.clock("pack"):
            if slicing.crosses:
                there = buffer.to(slicing.device, non_blocking=True)
                pieces = self._pieces(there, at.stop - at.start)
            for columns, piece in zip(self._slices, pieces, strict=True):
                self._out[at, columns] = piece
        return at

    def _pack(self, stage: int) -> tuple[list[Tensor], Any]:
        """Return this rank's input rows of a batch, cut by columns into one piece per rank.

        Also return a CUDA event, after which the pieces are complete, or None.
        """
        slicing, at = self._slicing, self._local[stage]
        if self._before is not None:
            self._before(at)
        rows = self._source[at]
        with slicing.clock("pack"):
            flat = empty(rows.shape[0], rows.shape[1], rows).view(-1)
            pieces = self._pieces(flat, len(rows))
            for k, columns in enumerate(self._slices):
                if slicing.crosses or k != slicing.column:
                    pieces[k].copy_(rows[:, columns])
                else:
                    pieces[k] = rows[:, columns]
            if not slicing.crosses:
                return pieces, None
            host = self._buffer(len(rows))
            host.copy_(flat, non_blocking=True)
            ready = None
            if flat.is_cuda:
                ready = torch.cuda.Event()
                ready.record()
            return self._pieces(host, len(rows)), ready

    def _start(self, sends: list[Tensor], receives: list[Tensor]) -> _Moving:
        """Start the all-to-all that exchanges all tensors but those from this rank to itself.

        `sends` and `receives` have one tensor for every rank of the group.
        """
        slicing = self._slicing
        others = [
            [self._nothing if k == slicing.column else side[k] for k in range(slicing.grid.columns)]
            for side in (sends, receives)
        ]
        with slicing.clock("wait"):
            pending = slicing.members.start_alltoall(*others)
            if not slicing.resources.overlap:
                pending.wait()
        return _Moving(pending, receives, sends)

    def _shares(self, stage: int, rows: Tensor, first: int) -> list[Tensor]:
        """Return, for every rank of the group, a view of the rank's rows in batch `stage`.

        `rows` are rows of the part; the first of them is the part's row `first`.
        """
        batches = self._slicing.batches
        shares = (batches.share(stage, k) for k in range(batches.columns))
        return [rows[a - first : b - first] for a, b in shares]

    def _pieces(self, flat: Tensor, num_rows: int) -> list[Tensor]:
        """Return a flat buffer's views, one per process column: Tensor[num_rows, columns of H]."""
        return [
            flat[num_rows * c.start : num_rows * c.stop].view(num_rows, c.stop - c.start)
            for c in self._slices
        ]

    def _buffer(self, num_rows: int) -> Tensor:
        """Return a flat buffer for `num_rows` whole rows, on the device that holds `self.held`.

        A buffer in host memory is pinned if a device copies to or from it.
        """
        width, slicing = self._source.shape[1], self._slicing
        if slicing.crosses and slicing.device.type == "cuda":
            return torch.empty(num_rows * width, dtype=self._source.dtype, pin_memory=True)
        return empty(num_rows, width, self._nothing).view(-1)
