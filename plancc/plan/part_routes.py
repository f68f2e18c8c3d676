"""A rank's share of a route: what it sends and keeps in every hop. Knows no file and no MPI.

stage of a rank    | own rows that cross | collected | crossed | spread |
                           '--------cross from-------'    |
                                                          '-- spread from
halo rows                                 '---------- come from ---------'
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plancc.plan.topology import Topology
from plancc.plan.united import united
from plancc.plan.values import Int32Array, Int64Array, Route, Step


@dataclass(frozen=True)
class PartHop:
    """Messages of one hop; `send_row` counts own rows in the first hop, rows of the stage later.

    Attributes
    ----------
    send_peer : int32[s], send_ptr : int64[s + 1], send_row : int32[sent rows]
        To peer ``send_peer[k]`` go the rows ``send_row[send_ptr[k]:send_ptr[k + 1]]``.
    recv_peer : int32[r], recv_ptr : int64[r + 1]
        From peer ``recv_peer[k]`` come the rows ``recv_ptr[k]:recv_ptr[k + 1]`` of the hop's share
        of the stage.
    """

    send_peer: Int32Array
    send_ptr: Int64Array
    send_row: Int32Array
    recv_peer: Int32Array
    recv_ptr: Int64Array

    @property
    def num_received(self) -> int:
        return int(self.recv_ptr[-1])


@dataclass(frozen=True)
class PartRoute:
    """A rank's share of a route.

    Attributes
    ----------
    own : int32[k]
        Local numbers of the own rows that this rank sends to other nodes: the first of the stage.
    collect, cross, spread : PartHop
    at : int32[needed rows]
        Where in the stage every row stands that this rank needs, in the order of its halo, or of
        its folded rows.
    """

    own: Int32Array
    collect: PartHop
    cross: PartHop
    spread: PartHop
    at: Int32Array

    @property
    def hops(self) -> tuple[PartHop, PartHop, PartHop]:
        return self.collect, self.cross, self.spread

    def renumbered(self, new: Int32Array) -> PartRoute:
        """With other local numbers of own rows; ``new[r]`` is that of row r."""
        collect = replace(self.collect, send_row=new[self.collect.send_row])
        return replace(self, own=new[self.own], collect=collect)

    def stage_ptr(self) -> Int64Array:
        """First row of every share of the stage: int64[5]."""
        sizes = [len(self.own), *(hop.num_received for hop in self.hops)]
        return np.concatenate([[0], np.cumsum(sizes)])


@dataclass(frozen=True)
class RankRows:
    """The rows of a rank.

    Attributes
    ----------
    rank : int
    ranks : int64[num_ranks + 1]
        First part of every rank.
    first_row : int
        First of its rows in plan order.
    local : int32[rows]
        Local number of every row, in plan order.
    """

    rank: int
    ranks: Int64Array
    first_row: int
    local: Int32Array


def keeps_nodes(topology: Topology, ranks: Int64Array) -> bool:
    """Whether no rank has parts of several nodes; `ranks` is as of `RankRows`."""
    first = np.concatenate([[0], np.cumsum(topology.ranks())])
    return bool(np.isin(first, ranks).all())


def part_route(route: Route, needed: npt.NDArray[np.integer], rows: RankRows) -> PartRoute:
    """The share of a rank in the hops of its parts.

    Parameters
    ----------
    route : Route
        The messages of this rank's parts.
    needed : int[needed rows]
        Places of the rows that the rank needs, in the order in which it numbers them.
    rows : RankRows
    """
    (collect_to, collect_from), (cross_to, cross_from), (spread_to, spread_from) = (
        _messages(hop, rows) for hop in route.hops
    )
    last_row = rows.first_row + len(rows.local)
    is_own = (cross_to[2] >= rows.first_row) & (cross_to[2] < last_row)
    own = np.unique(cross_to[2][is_own])
    collected, crossed = len(own), len(own) + len(collect_from[2])
    cross_row = np.empty(len(is_own), np.int64)
    cross_row[is_own] = np.searchsorted(own, cross_to[2][is_own])
    cross_row[~is_own] = collected + _find(collect_from[2], cross_to[2][~is_own])
    came = np.concatenate([collect_from[2], cross_from[2], spread_from[2]])
    return PartRoute(
        own=rows.local[own - rows.first_row],
        collect=_hop(collect_to, rows.local[collect_to[2] - rows.first_row], collect_from),
        cross=_hop(cross_to, cross_row, cross_from),
        spread=_hop(spread_to, crossed + _find(cross_from[2], spread_to[2]), spread_from),
        at=(collected + _find(came, needed)).astype(np.int32),
    )


_Messages = tuple[Int32Array, Int64Array, Int64Array]
"""Peers, offsets, and places of the rows."""


def _messages(hop: Step, rows: RankRows) -> tuple[_Messages, _Messages]:
    """What a rank sends in a hop, and what it receives."""
    sent, received = (
        united(table.peer_of_row(), table.row, rows.rank, rows.ranks)
        for table in (hop.send, hop.receive)
    )
    return sent, received


def _hop(sent: _Messages, row: npt.NDArray[np.integer], received: _Messages) -> PartHop:
    return PartHop(sent[0], sent[1], row.astype(np.int32), received[0], received[1])


def _find(there: Int64Array, wanted: npt.NDArray[np.integer]) -> Int64Array:
    """Where every wanted number stands; all of them are there."""
    order = np.argsort(there, kind="stable")
    return order[np.searchsorted(there[order], wanted)] if len(wanted) else np.zeros(0, np.int64)
