"""A rank's share of a route: what it sends and keeps in every hop; exchanges that take one.

stage of a rank    | own rows that cross | collected | crossed | spread |
                           '--------cross from-------'    |
                                                          '-- spread from
halo rows                                 '---------- come from ---------'
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plancc.plan.exchange import Exchange, Int32Array, Int64Array, IntArray, offsets
from plancc.plan.rank_parts import RankParts
from plancc.plan.values import Exchanges


@dataclass(frozen=True)
class PartRoute:
    """A rank's share of a route.

    Attributes:
        own (int32[k]): Local numbers of the own rows that this rank sends after the first hop: the
            first of the stage.
        hops: Collect, cross and spread. Sent rows are own rows in the first, rows of the stage
            later; what arrives is the hop's share of the stage.
        at (int32[needed rows]): Where in the stage every row stands that this rank needs, in the
            order of its halo, or of its folded rows.
    """

    own: IntArray
    hops: tuple[Exchange, ...]
    at: Int32Array

    def renumbered(self, new: IntArray) -> PartRoute:
        """With other local numbers of own rows; ``new[r]`` is that of row r."""
        collect, *others = self.hops
        return replace(self, own=new[self.own], hops=(collect.renumbered(new), *others))

    def stage_ptr(self) -> Int64Array:
        """First row of every share of the stage: int64[5]."""
        return offsets(np.array([len(self.own), *(hop.receive.volume for hop in self.hops)]))


@dataclass(frozen=True, eq=False)
class Routed(Exchange):
    """An exchange of a rank whose rows travel in hops; rows that `keep` leaves go straight.

    Attributes:
        from_owners: Whether it leads as the hops do, from the owners of rows; the fold leads back.
    """

    route: PartRoute
    from_owners: bool = True

    def reversed(self) -> Routed:
        """From the receivers to the senders, over the same hops."""
        return Routed(self.receive, self.send, self.route, not self.from_owners)

    def renumbered(self, sent: IntArray | None = None, received: IntArray | None = None) -> Routed:
        """As of `Exchange`; the owners' rows have these numbers in the hops too."""
        new, own = super().renumbered(sent, received), sent if self.from_owners else received
        route = self.route if own is None else self.route.renumbered(own)
        return Routed(new.send, new.receive, route, self.from_owners)


@dataclass(frozen=True)
class RankRows:
    """The rows of a rank.

    Attributes:
        held: The parts that have them.
        first_row: First of its rows in plan order.
        local (int32[rows]): Local number of every row, in plan order.
    """

    held: RankParts
    first_row: int
    local: Int32Array


def exchange_of_rank(
    step: str, exchange: Exchange, parts: Exchanges, needed: IntArray, rows: RankRows
) -> Exchange:
    """The exchange of a rank with its share in the hops of its parts.

    Itself where these have none, and where the rank has parts of several nodes.

    Parameters:
        parts: Of this rank's parts.
        needed (int[needed rows]): Places of the rows that the rank needs, in the order in which it
            numbers them.
    """
    held, route = rows.held, rows.held.header.route
    if route is None or not route.keeps_groups(held.ranks):
        return exchange
    collect, *later = (hop.merged(held.rank, held.ranks) for hop in parts.hops(step))
    last_row, sent = rows.first_row + len(rows.local), np.concatenate([h.send.row for h in later])
    own = np.unique(sent[(sent >= rows.first_row) & (sent < last_row)])
    stage = np.concatenate([own, *(hop.receive.row for hop in (collect, *later))])
    collect_row = rows.local[collect.send.row - rows.first_row]
    route = PartRoute(
        own=rows.local[own - rows.first_row],
        hops=(
            Exchange(collect.send.called(collect_row), collect.receive.in_order()),
            *(
                Exchange(hop.send.called(_find(stage, hop.send.row)), hop.receive.in_order())
                for hop in later
            ),
        ),
        at=_find(stage, needed),
    )
    return Routed(exchange.send, exchange.receive, route, from_owners=step == "expand")


def _find(there: Int64Array, wanted: npt.NDArray[np.integer]) -> Int32Array:
    """Where every wanted number stands; all of them are there."""
    order = np.argsort(there, kind="stable").astype(np.int32)
    return order[np.searchsorted(there, wanted, sorter=order)] if len(wanted) else order[:0]
