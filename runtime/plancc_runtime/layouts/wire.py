"""How halo rows travel: as they are, or in fewer bits.

A wire *packs* rows into a tensor that is sent, and *unpacks* what arrived. All wires but "fp32" are
lossy, forward and back. With r the row that was packed and r' what the receiver reads:

    fp32   nothing is changed, nothing is copied: float64 rows travel as float64
    bf16   |r' - r| <= 2^-8 |r|, number by number; the range of float32
    fp16   |r' - r| <= 2^-11 |r| where 2^-14 <= |r| <= 65504; below, at most 2^-25; above, infinite
    int8   |r' - r| <= max|r| / 254 in every number, if max|r| is 0 or 2^-126 <= max|r| < 2^128;
           that maximum travels too, as one float32

(The bounds are those of rounding to nearest, which is deterministic; rows of float32 or float64 may
add a relative 2^-20 of the bound by the arithmetic in between.) A number that is not finite stays
not finite; in int8 its whole row becomes NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from plancc_runtime.transport.base import Channel
from plancc_runtime.transport.messages import Traffic

SCALE_BYTES = 4
ROWS_AT_ONCE = 1 << 16
"""Rows that `arriving` packs together."""


class Wire(ABC):
    """How rows travel.

    Attributes:
        overhead (int): Elements of a packed row that are no numbers of the row.
    """

    overhead = 0

    @abstractmethod
    def empty(self, num_rows: int, width: int, device: torch.device) -> Tensor:
        """Room for packed rows, one per row of the tensor."""

    @abstractmethod
    def pack(self, rows: Tensor, packed: Tensor) -> None:
        """Fill `packed` from `rows`, Tensor[m, width]."""

    @abstractmethod
    def unpack(self, packed: Tensor, rows: Tensor) -> None:
        """Fill `rows`, Tensor[m, width], from `packed`."""


class Rounded(Wire):
    """Every number rounded to a narrower type."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def empty(self, num_rows: int, width: int, device: torch.device) -> Tensor:
        return torch.empty(num_rows, width, dtype=self._dtype, device=device)

    def pack(self, rows: Tensor, packed: Tensor) -> None:
        packed.copy_(rows)

    def unpack(self, packed: Tensor, rows: Tensor) -> None:
        rows.copy_(packed)


class Scaled(Wire):
    """Integers from -127 to 127, in units of the row's largest absolute value over 127.

    packed row, bytes:   | scale (float32) | width integers |

    Rows without columns, of a slice that has none, are packed as nothing.
    """

    overhead = SCALE_BYTES

    def empty(self, num_rows: int, width: int, device: torch.device) -> Tensor:
        size = SCALE_BYTES + width if width else 0
        return torch.empty(num_rows, size, dtype=torch.uint8, device=device)

    def pack(self, rows: Tensor, packed: Tensor) -> None:
        if not rows.shape[1]:
            return
        scale = rows.abs().amax(dim=1, keepdim=True).to(torch.float32)
        units = rows / torch.where(scale == 0, 1, scale)
        whole = units.mul_(127).round_().clamp_(-127, 127).nan_to_num_(0)
        packed[:, :SCALE_BYTES] = scale.view(torch.uint8)
        packed[:, SCALE_BYTES:] = whole.to(torch.int8).view(torch.uint8)

    def unpack(self, packed: Tensor, rows: Tensor) -> None:
        if not rows.shape[1]:
            return
        scale = (
            packed[:, :SCALE_BYTES].clone(memory_format=torch.contiguous_format).view(torch.float32)
        )
        scale = torch.where(scale.isfinite(), scale, torch.nan)
        rows.copy_(packed[:, SCALE_BYTES:].view(torch.int8))
        rows.div_(127).mul_(scale)


WIRES: dict[str, Wire | None] = {
    "fp32": None,
    "bf16": Rounded(torch.bfloat16),
    "fp16": Rounded(torch.float16),
    "int8": Scaled(),
}


def arriving(wire: Wire, rows: Tensor) -> Tensor:
    """Which columns have a number that is not 0, before and after their way: bool[2, columns]."""
    found = torch.zeros(2, rows.shape[1], dtype=torch.bool)
    for some in rows.split(ROWS_AT_ONCE):
        packed, arrived = wire.empty(len(some), some.shape[1], some.device), torch.empty_like(some)
        wire.pack(some, packed)
        wire.unpack(packed, arrived)
        found |= torch.stack([(each != 0).any(dim=0) for each in (some, arrived)]).cpu()
    return found


class CountsNumbers(Channel):
    """An exchange of packed rows in whose traffic a word is a number of a row, not of its packing.

    Parameters:
        traffic: That `exchange` counts in.
        sent, received: Words of a round that are no numbers of rows.
    """

    def __init__(self, exchange: Channel, traffic: Traffic, sent: int, received: int) -> None:
        self._exchange, self._traffic = exchange, traffic
        self._sent, self._received = sent, received

    def start(self) -> None:
        self._exchange.start()
        self._traffic.words_sent -= self._sent
        self._traffic.words_received -= self._received

    def send(self, k: int) -> None:
        self._exchange.send(k)

    def arrivals(self) -> Iterator[int]:
        return self._exchange.arrivals()

    def finish(self) -> None:
        self._exchange.finish()
