"""The halo exchange in hops: a row crosses from node to node once, and is spread there.

Every hop is a `Halo` over the *stage*, the rows that this rank has for others
(`plancc.plan.part_routes`):

    forward     own rows --collect--> stage --cross--> stage --spread--> stage, which has the halo
    back        halo to the stage; spread, cross and collect back, adding up; to own rows

Own products are made while rows cross. The bits of the result are the same in every run on as many
ranks; sums back are made in another order than without hops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plancc.plan.exchange import Exchange
from plancc.plan.part_routes import PartRoute
from plancc_runtime.kernels.rows import add_rows, pack
from plancc_runtime.layouts.halo import Buffers, Halo, HaloExchange, MessageBuffers, P, at_rows
from plancc_runtime.layouts.resources import Resources


@dataclass(frozen=True, kw_only=True)
class RouteBuffers(Buffers):
    """Those of a `RoutedHalo`.

    Attributes:
        stage: Tensor[rows of the stage, width].
        hops: Of collect, cross and spread; what they receive is a slice of the stage.
    """

    stage: Tensor
    hops: tuple[MessageBuffers, ...]


class RoutedHalo(HaloExchange[RouteBuffers]):
    """The exchange of one block's halo rows in hops.

    Parameters:
        num_inputs: Own rows.
    """

    def __init__(self, route: PartRoute, num_inputs: int, resources: Resources) -> None:
        super().__init__(num_inputs, len(route.at), resources)
        self._ptr = route.stage_ptr()
        self._hops = [
            Halo(hop, num_inputs if number == 0 else int(self._ptr[-1]), resources)
            for number, hop in enumerate(route.hops)
        ]
        self.idle = all(hop.idle for hop in self._hops)
        self.steps = tuple(hop.steps[0] for hop in self._hops)
        self._own, self._at = (
            torch.from_numpy(rows.astype(np.int64)).to(resources.device)
            for rows in (route.own, route.at)
        )

    def buffers(self, width: int) -> RouteBuffers:
        dtype, device = self.resources.dtype, self.resources.device
        stage, halo = (
            torch.empty(num, width, dtype=dtype, device=device)
            for num in (int(self._ptr[-1]), self.num_halo)
        )
        hops = tuple(
            hop.buffers(width, stage[self._ptr[k] : self._ptr[k + 1]])
            for k, hop in enumerate(self._hops, 1)
        )
        return RouteBuffers(halo=halo, stage=stage, hops=hops)

    def send_rows(self, h: Tensor, buffers: RouteBuffers) -> None:
        collect, cross, _ = self._hops
        if len(self._own):
            with self._clock("pack"):
                pack(h, self._own, buffers.stage[: len(self._own)])
        if not collect.idle:
            collect.expand(h, buffers.hops[0])
        cross.send_rows(buffers.stage, buffers.hops[1])

    def arriving(self, pieces: Sequence[P], buffers: RouteBuffers) -> Iterator[tuple[P, Tensor]]:
        halo = self.take(buffers)
        yield from ((piece, halo[piece.source]) for piece in pieces)

    def take(self, buffers: RouteBuffers) -> Tensor:
        _, cross, spread = self._hops
        cross.take(buffers.hops[1])
        if not spread.idle:
            spread.expand(buffers.stage, buffers.hops[2])
        with self._clock("pack"):
            pack(buffers.stage, self._at, buffers.halo)
        return buffers.halo

    def leaving(
        self, pieces: Sequence[P], out: Tensor, buffers: RouteBuffers
    ) -> Iterator[tuple[P, Tensor]]:
        yield from ((piece, at_rows(buffers.halo, piece.target)) for piece in pieces)
        self.send_all_back(buffers)  # the first hop needs all of the halo rows

    def send_all_back(self, buffers: RouteBuffers) -> None:
        _, cross, spread = self._hops
        with self._clock("pack"):
            buffers.stage.zero_()
            buffers.stage.index_copy_(0, self._at, buffers.halo)
        if not spread.idle:
            spread.reduce(buffers.stage, buffers.hops[2])
        cross.send_all_back(buffers.hops[1])

    def add_arrived(self, out: Tensor, buffers: RouteBuffers) -> None:
        collect, cross, _ = self._hops
        cross.add_arrived(buffers.stage, buffers.hops[1])
        if not collect.idle:
            collect.reduce(out, buffers.hops[0])
        if len(self._own):
            with self._clock("pack"):
                add_rows(out, self._own, buffers.stage[: len(self._own)])


def halo_exchange(
    exchange: Exchange, num_inputs: int, route: PartRoute | None, resources: Resources
) -> HaloExchange[Any]:
    """What moves the rows of an exchange of this rank, in hops if there is a route."""
    if route is None:
        return Halo(exchange, num_inputs, resources)
    return RoutedHalo(route, num_inputs, resources)
