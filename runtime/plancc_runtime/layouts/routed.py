"""The node-aware halo exchange: a row is sent to each node once, and then to the ranks of the node.

Each of three *hops* is a direct exchange (`Halo`) that writes to the *stage*: a buffer of rows that
this rank receives in a hop, or sends in a later hop (`plancc.plan.routed`).

    forward     own rows --collect--> stage --cross--> stage --spread--> stage, with all halo rows
    backward    halo rows --> stage; then spread, cross and collect run in reverse and add rows

Runs on the same number of ranks give the same bits; the direct exchange adds gradients in another
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plancc.plan.exchange import BoolArray, Exchange, places
from plancc.plan.routed import PartRoute, Routed
from plancc_runtime.kernels.rows import add_rows, pack
from plancc_runtime.layouts.halo import Buffers, Halo, HaloExchange, MessageBuffers, P, at_rows
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers


@dataclass(frozen=True, kw_only=True)
class RouteBuffers(Buffers):
    """Message buffers of a node-aware exchange (`RoutedHalo`).

    Attributes:
        stage (Tensor[rows of the stage, width]): Rows received in a hop, or sent in a later hop.
        hops: Buffers of the three hops, each with its own range of the rows of `stage`.
    """

    stage: Tensor
    hops: tuple[MessageBuffers, ...]


class RoutedHalo(HaloExchange[RouteBuffers]):
    """The node-aware exchange of one block's halo rows.

    Parameters:
        route: This rank's hops.
        num_inputs: Number of own rows.
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
        self.send_all_back(buffers)  # the first hop of a round back sends all halo rows

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


def halo_exchange(exchange: Exchange, num_inputs: int, resources: Resources) -> HaloExchange[Any]:
    """Return the direct or node-aware halo exchange that moves the rows of `exchange`."""
    if isinstance(exchange, Routed):
        return RoutedHalo(exchange.route, num_inputs, resources)
    return Halo(exchange, num_inputs, resources)


def live_exchange(
    exchange: Exchange, sent: BoolArray, live: BoolArray, transport: Transport
) -> Exchange:
    """Return the exchange of the live rows (`layouts.live`), renumbered from 0.

    `live` is a mask of the own rows, then the halo rows; `sent` is a mask of the sent rows. If all
    rows are live, return `exchange` itself. Collective if the exchange is node-aware.
    """
    needed, own = live[len(live) - exchange.receive.volume :], places(live)
    kept = exchange.keep(sent, needed).renumbered(own, places(needed))
    whole = bool(sent.all() and live.all())
    if not isinstance(exchange, Routed):
        return exchange if whole else kept
    route, ptr = exchange.route, exchange.route.stage_ptr()
    stage = np.zeros(ptr[-1], np.bool_)
    stage[route.at[needed]] = True
    sent_by_hop = []
    for k, hop in reversed(list(enumerate(route.hops, 1))):
        sent_by_hop.append(send_numbers(hop.reversed(), stage[ptr[k] : ptr[k + 1]], transport))
        if k > 1:
            stage[hop.send.row[sent_by_hop[-1]]] = True
    if whole and stage.all() and all(each.all() for each in sent_by_hop):
        return exchange
    hops, staged = [], places(stage)
    for k, (hop, still) in enumerate(zip(route.hops, reversed(sent_by_hop), strict=True), 1):
        arriving = stage[ptr[k] : ptr[k + 1]]
        number = own if k == 1 else staged
        hops.append(hop.keep(still, arriving).renumbered(number, places(arriving)))
    rows = own[route.own[stage[: ptr[1]]]]
    left = PartRoute(rows, tuple(hops), staged[route.at[needed]])
    return Routed(kept.send, kept.receive, left)
