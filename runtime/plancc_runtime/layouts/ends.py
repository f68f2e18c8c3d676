"""Pairs of vertices: the rank that owns the source of a pair receives the row of the target.

For pairs that are not in the plan, ranks first look up the owner and the local row of each vertex
in a *directory*; rank k stores the directory's entries of the k-th range of vertices.
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
    """Pairs of vertices whose sources this rank owns.

    Parameters:
        source (int64[m]): Local row of the source of every pair.
        target (int64[m]): Local row of the target; received rows are numbered after own rows.
        exchange: Exchange by which this rank receives the targets that other ranks own.
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
        """Return the rows of the pairs' sources and targets: Tensor[m, width] each. Collective.

        The backward pass sends the gradients of received rows to the owners.
        """
        columns = x
        if not self._alone:
            columns = torch.cat([x, halo_rows(x, self._halo).to(x.dtype)])
        return x.index_select(0, self._source), columns.index_select(0, self._target)


class Directory:
    """Directory of the rank and local row of every vertex.

    Each rank stores the entries of a range of vertices. The constructor is collective. Its argument
    `vertices` has the vertex of every own row.
    """

    def __init__(
        self, vertices: npt.NDArray[np.integer], num_vertices: int, transport: Transport
    ) -> None:
        self._transport, self.num_vertices = transport, num_vertices
        self._range = -(-num_vertices // transport.size)
        order = np.argsort(vertices)
        told = np.stack([vertices[order], order], axis=1).astype(np.int32)
        arrived = swapped(self._split_by_home(told, told[:, 0]), transport)
        self._place = np.empty((self._range, 2), np.int32)
        for rank, each in enumerate(arrived):
            at = each[:, 0] - transport.rank * self._range
            self._place[at, 0], self._place[at, 1] = rank, each[:, 1]

    def _split_by_home(
        self, values: npt.NDArray[Any], vertices: npt.NDArray[np.integer]
    ) -> list[npt.NDArray[Any]]:
        """Split `values` by the rank that stores each value's vertex.

        `vertices` has the vertex of every value, ascending.
        """
        bounds = np.arange(1, self._transport.size) * self._range
        return np.split(values, np.searchsorted(vertices, bounds))

    def places(self, vertices: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the rank and the local row of every vertex, int64[m] each. Collective.

        Parameters:
            vertices (int64[m]): Vertices, ascending.
        """
        asked = self._split_by_home(vertices.astype(np.int32), vertices)
        first = self._transport.rank * self._range
        answers = [self._place[each - first] for each in swapped(asked, self._transport)]
        found = np.concatenate(swapped(answers, self._transport)).astype(np.int64)
        return found[:, 0], found[:, 1]

    def words(self, vertices: Int64Array) -> int:
        """Return the words that `places` sends: 3 per vertex that another rank stores."""
        away = np.count_nonzero(vertices // self._range != self._transport.rank)
        return 3 * int(away)

    def ends(
        self, source: Int64Array, target: Int64Array, num_rows: int, resources: Resources
    ) -> Ends:
        """Return pairs of vertices, and the exchange by which this rank gets the targets' rows.

        `source` has local rows of this rank, and `target` vertices that any rank may own: int64[m]
        each. Collective.
        """
        vertices, number = np.unique(target, return_inverse=True)
        column, exchange = columns_of_rows(*self.places(vertices), num_rows, self._transport)
        return Ends(source, column[number], exchange, num_rows, resources)


def columns_of_rows(
    rank: Int64Array, row: Int64Array, num_rows: int, transport: Transport
) -> tuple[Int64Array, Exchange]:
    """Return a column number for each row, int64[m], and the exchange of other ranks' rows.

    Collective. `rank` is each row's owner, `row` its local number on the owner; rows may repeat.
    For own rows, the column number is `row`; others are numbered from `num_rows` on.
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
