"""Both ends of pairs of vertices on the rank of the source, which receives the rows of targets.

The pairs of a plan have a compiled exchange. For others a *directory* says where vertices are: rank
k knows it of the k-th range of vertices, and no rank of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plancc.plan.exchange import Exchange, Int64Array, Side, offsets, runs
from plancc_runtime.layouts.halo import Halo
from plancc_runtime.layouts.local import halo_rows
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import swapped


class Ends:
    """Pairs whose sources are rows of this rank.

    Parameters:
        source: int64[m], local rows.
        target: int64[m], local rows, or behind them received ones.
        exchange: Of this rank; it brings the received rows.
        num_rows: Rows of this rank.

    Attributes:
        num_received: Rows that this rank receives.
    """

    def __init__(
        self,
        source: npt.NDArray[np.integer],
        target: npt.NDArray[np.integer],
        exchange: Exchange,
        num_rows: int,
        resources: Resources,
    ) -> None:
        self._halo = Halo(exchange, num_rows, resources)
        self.num_received = exchange.receive.volume
        self._alone = resources.transport.size == 1
        self._source, self._target = (
            torch.from_numpy(each.astype(np.int64)).to(resources.device)
            for each in (source, target)
        )

    def rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of both ends, Tensor[m, width] each; gradients go to their owners. Collective.

        x: Tensor[num_rows, width].
        """
        columns = x
        if not self._alone:
            columns = torch.cat([x, halo_rows(x, self._halo).to(x.dtype)])
        return x.index_select(0, self._source), columns.index_select(0, self._target)


class Directory:
    """The rank and the local row of every vertex. Collective to make.

    Parameters:
        vertices: Those of this rank's rows, int[num_rows].
        num_vertices: Of all ranks.
    """

    def __init__(
        self, vertices: npt.NDArray[np.integer], num_vertices: int, transport: Transport
    ) -> None:
        self._transport, self.num_vertices = transport, num_vertices
        self._range = -(-num_vertices // transport.size)
        order = np.argsort(vertices)
        told = np.stack([vertices[order], order], axis=1).astype(np.int32)
        arrived = swapped(self._by_home(told, told[:, 0]), transport)
        self._place = np.empty((self._range, 2), np.int32)
        for rank, each in enumerate(arrived):
            at = each[:, 0] - transport.rank * self._range
            self._place[at, 0], self._place[at, 1] = rank, each[:, 1]

    def _by_home(
        self, values: npt.NDArray[Any], vertices: npt.NDArray[np.integer]
    ) -> list[npt.NDArray[Any]]:
        """The values of ascending vertices, by the rank that knows of these."""
        bounds = np.arange(1, self._transport.size) * self._range
        return np.split(values, np.searchsorted(vertices, bounds))

    def places(self, vertices: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Rank and local row of ascending vertices, int64[m] each. Collective."""
        asked = self._by_home(vertices.astype(np.int32), vertices)
        first = self._transport.rank * self._range
        answers = [self._place[each - first] for each in swapped(asked, self._transport)]
        found = np.concatenate(swapped(answers, self._transport)).astype(np.int64)
        return found[:, 0], found[:, 1]

    def words(self, vertices: Int64Array) -> int:
        """Words of all ranks for the `places` of distinct vertices that this rank asks for."""
        away = np.count_nonzero(vertices // self._range != self._transport.rank)
        return 3 * int(away)  # the vertex; its rank and its row

    def ends(
        self, source: Int64Array, target: Int64Array, num_rows: int, resources: Resources
    ) -> Ends:
        """Pairs of a local row and a vertex, int64[m] each. Collective."""
        vertices, number = np.unique(target, return_inverse=True)
        column, exchange = columns_of_rows(*self.places(vertices), num_rows, self._transport)
        return Ends(source, column[number], exchange, num_rows, resources)


def columns_of_rows(
    rank: Int64Array, row: Int64Array, num_rows: int, transport: Transport
) -> tuple[Int64Array, Exchange]:
    """Columns of rows of any rank, int64[m], and the exchange that brings them. Collective.

    Parameters:
        rank, row: int64[m]; pairs may repeat.
        num_rows: Rows of this rank; columns of received ones are behind them.
    """
    away = np.flatnonzero(rank != transport.rank)
    keys, number = np.unique(rank[away] << 32 | row[away], return_inverse=True)
    column = row.copy()
    column[away] = num_rows + number
    owner, wanted = keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)
    peer, row_ptr = runs(owner)
    arrived = swapped(
        np.split(wanted, np.searchsorted(owner, np.arange(1, transport.size))), transport
    )
    sizes = np.array([len(each) for each in arrived])
    peers = np.flatnonzero(sizes).astype(np.int32)
    send = Side.of_rank(peers, offsets(sizes[peers]), np.concatenate(arrived))
    return column, Exchange(send, Side.of_rank(peer, row_ptr))
