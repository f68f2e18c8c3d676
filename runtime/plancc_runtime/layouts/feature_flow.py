"""The messages of a feature-parallel product: own rows to slices of columns, and back.

An all-to-all sends each rank of the group its columns of this rank's rows, batch by batch. They are
received directly into the rows of the receiver's slice, so nothing needs to be unpacked.
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
    """How the ranks of a group share rows and columns, and on which devices these are.

    Attributes:
        grid: Process grid of the plan.
        batches: Batches of the rows of the group.
        members: The ranks of the group, by process column.
        resources: Resources of the rank; own rows are on their device.
        crosses: Whether slices are in host memory, even if own rows are on a device.
    """

    grid: Grid
    batches: Batches
    members: Group
    resources: Resources
    crosses: bool

    @property
    def column(self) -> int:
        """This rank's process column."""
        return self.members.rank

    @property
    def clock(self) -> Clock:
        return self.resources.clock

    @property
    def device(self) -> torch.device:
        """Device of own rows."""
        return self.resources.device

    @property
    def place(self) -> torch.device:
        """Device of slices."""
        return CPU if self.crosses else self.device


@dataclass(frozen=True)
class _Moving:
    """An all-to-all in flight, and the buffers that it writes (`rows`) and reads (`others`)."""

    pending: Pending
    rows: Sequence[Tensor]
    others: Sequence[Tensor]


class Flow:
    """The messages of one product. Methods that move rows are collective among the members.

    A rank must finish its messages in the order in which it started them.

    Parameters:
        source, out (Tensor[own rows, width]): Input and output; contiguous.
        before: Function that is called with the row range of each batch before the batch is sent;
            it fills these rows of `source`.

    Attributes:
        held (Tensor[rows of the group, own columns]): This rank's slice of the input. A row is
            valid once it was received.
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
        """Start to send the batches of the input up to batch `last` that have not been sent yet."""
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
        """Wait for the batches of the input up to batch `last`."""
        while self._received <= last:
            self._received += 1
            with self._slicing.clock("wait"):
                self._inputs.popleft().pending.wait()

    def send_output(self, stage: int, found: Tensor) -> None:
        """Start to send a batch of the product to the owners of its rows.

        Parameters:
            stage: Number of the batch.
            found (Tensor[rows of the batch, own columns]): The batch of the product.
        """
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
        """Wait for own rows of a batch of the product, and copy them into `out`.

        Returns the place of the rows in `out`.
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
        """Return this rank's rows of a batch of the input, cut into slices, and an event or None.

        If there is a CUDA event, the slices are in host memory only once the event is done.
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
        """Start the all-to-all of all slices except this rank's own slice."""
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
        """Return every rank's rows of a batch, as views of `rows`.

        Row 0 of `rows` is row `first` of the part.
        """
        batches = self._slicing.batches
        shares = (batches.share(stage, k) for k in range(batches.columns))
        return [rows[a - first : b - first] for a, b in shares]

    def _pieces(self, flat: Tensor, num_rows: int) -> list[Tensor]:
        """Return views of a flat buffer: the slices of `num_rows` whole rows, one after another."""
        return [
            flat[num_rows * c.start : num_rows * c.stop].view(num_rows, c.stop - c.start)
            for c in self._slices
        ]

    def _buffer(self, num_rows: int) -> Tensor:
        """Return a flat buffer for `num_rows` whole rows, on the device of slices.

        Host memory is pinned if a device copies to or from it.
        """
        width, slicing = self._source.shape[1], self._slicing
        if slicing.crosses and slicing.device.type == "cuda":
            return torch.empty(num_rows * width, dtype=self._source.dtype, pin_memory=True)
        return empty(num_rows, width, self._nothing).view(-1)
