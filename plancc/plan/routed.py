"""`PartRoute`, a rank's share of the hops of an exchange, and `Routed`, an exchange with hops.

The hops are named collect, cross and spread. Each rank has a buffer of rows, its *stage*: own rows
that it sends after the first hop, then the rows that arrive in each hop:

stage of a rank    | own rows that cross | collected | crossed | spread |
                           '-------cross sends-------'    |
                                                          '-- spread sends
halo rows                                 '------ are taken from --------'
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
    """A rank's share of the hops of an exchange; the module defines the *stage*.

    Attributes:
        own (int32[k]): Local numbers of the own rows at the beginning of the stage.
        hops: Exchanges: collect sends own rows, cross and spread send rows of the stage.
        at (int32[m]): Index in the stage of each of the m halo rows (or folded rows).
    """

    own: IntArray
    hops: tuple[Exchange, ...]
    at: Int32Array

    def renumbered(self, new: IntArray) -> PartRoute:
        """Renumber own rows: local row r becomes ``new[r]``."""
        collect, *others = self.hops
        return replace(self, own=new[self.own], hops=(collect.renumbered(new), *others))

    def stage_ptr(self) -> Int64Array:
        """Return the offsets of own, collected, crossed and spread rows in the stage: int64[5].

        The stage is a rank's buffer of rows; the hops are called collect, cross and spread.
        """
        return offsets(np.array([len(self.own), *(hop.receive.volume for hop in self.hops)]))


@dataclass(frozen=True, eq=False)
class Routed(Exchange):
    """A rank's exchange that sends rows in hops; its method `keep` returns one without hops.

    Attributes:
        from_owners: Whether owners send the rows. If not, they receive partial sums (a fold), and
            the hops run in reverse order.
    """

    route: PartRoute
    from_owners: bool = True

    def reversed(self) -> Routed:
        """Return the exchange in the other direction, with the same rows and over the same hops."""
        return Routed(self.receive, self.send, self.route, not self.from_owners)

    def renumbered(self, sent: IntArray | None = None, received: IntArray | None = None) -> Routed:
        """Renumber rows as `Exchange.renumbered` does, and also the own rows in `route`."""
        new, own = super().renumbered(sent, received), sent if self.from_owners else received
        route = self.route if own is None else self.route.renumbered(own)
        return Routed(new.send, new.receive, route, self.from_owners)


@dataclass(frozen=True)
class RankRows:
    """The rows of a rank.

    Attributes:
        first_row: Place of the rank's first row in plan order.
        local (int32[rows]): For every row, in plan order, its index among the rank's own rows.
    """

    held: RankParts
    first_row: int
    local: Int32Array


def exchange_of_rank(
    step: str, exchange: Exchange, parts: Exchanges, needed: IntArray, rows: RankRows
) -> Exchange:
    """Return the rank's exchange, with those messages of the hops that the rank sends or receives.

    `exchange`, without hops, is returned unchanged if the plan has no hops, or if a rank has parts
    of several nodes. `needed` has the numbers, in plan order, of the rank's halo rows (or folded
    rows).
    """
    held, header = rows.held, rows.held.header
    if header.route is None or not header.route.keeps_groups(held.ranks):
        return exchange
    collect, *later = (hop.merged(held.rank, held.ranks) for hop in parts.hops(step))
    last_row, sent = rows.first_row + len(rows.local), np.concatenate([h.send.row for h in later])
    own = np.unique(sent[(sent >= rows.first_row) & (sent < last_row)])
    stage = np.concatenate([own, *(hop.receive.row for hop in (collect, *later))])
    collect_row = rows.local[collect.send.row - rows.first_row]
    route = PartRoute(
        own=rows.local[own - rows.first_row],
        hops=(
            Exchange(collect.send.called(collect_row), collect.receive.consecutive()),
            *(
                Exchange(hop.send.called(_find(stage, hop.send.row)), hop.receive.consecutive())
                for hop in later
            ),
        ),
        at=_find(stage, needed),
    )
    return Routed(exchange.send, exchange.receive, route, from_owners=step == "expand")


def _find(there: Int64Array, wanted: npt.NDArray[np.integer]) -> Int32Array:
    """Return the index in `there` of every wanted number, int32. All wanted numbers must occur."""
    order = np.argsort(there, kind="stable").astype(np.int32)
    return order[np.searchsorted(there, wanted, sorter=order)] if len(wanted) else order[:0]
