"""Header, messages and fold of plans. Knows no plan as a whole and no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from plancc.plan.grid import Grid
from plancc.plan.topology import Topology

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


HOPS = ("collect", "cross", "spread")
"""The hops of a `Route`, in their order."""


@dataclass(frozen=True)
class Header:
    """Sizes and kind of a plan, which a reader needs before it touches an array.

    Attributes
    ----------
    layout : str
        "row": every nonzero lives with the owner of its row. "edge": it may live with any part.
        "grid", "feature": as "row", and several ranks may share a part, as `grid` says.
    normalization : str
        "sym", "row" or "none" (`plancc.graph.normalize`).
    self_loops : bool
        Whether the identity was added before normalising.
    grid : Grid or None
        Which ranks share a part, in layouts "grid" and "feature"; None: every part has one rank.
    topology : Topology or None
        Which parts share a node, of a plan that has routes; None: it has none.
    """

    layout: str
    num_vertices: int
    num_nonzeros: int
    num_parts: int
    directed: bool
    normalization: str
    self_loops: bool
    grid: Grid | None = None
    topology: Topology | None = None

    @property
    def num_ranks(self) -> int:
        """Ranks that the plan is for."""
        return self.num_parts if self.grid is None else self.grid.num_ranks

    def grid_problem(self) -> str:
        """Why the grid does not fit layout, parts and vertices; "" if it does."""
        grid = self.grid
        if grid is None:
            missing = self.layout in ("grid", "feature")
            return f"layout '{self.layout}' without the attribute 'grid'" if missing else ""
        if grid.layout != self.layout:
            return f"grid '{grid}' in a plan of layout '{self.layout}'"
        if grid.num_parts != self.num_parts:
            return (
                f"grid '{grid}', of {grid.num_parts} blocks of rows, in a plan of "
                f"{self.num_parts} parts"
            )
        if grid.num_ranks > self.num_vertices:
            return f"grid '{grid}' has {grid.num_ranks} ranks for {self.num_vertices} vertices"
        return ""

    def topology_problem(self) -> str:
        """Why the topology does not fit layout and parts; "" if it does, or if there is none."""
        topology = self.topology
        if topology is None:
            return ""
        if self.layout not in ("row", "edge"):
            return f"topology '{topology}' in a plan of layout '{self.layout}'"
        if topology.num_ranks != self.num_parts:
            return (
                f"topology '{topology}', of {topology.num_ranks} ranks, in a plan of "
                f"{self.num_parts} parts"
            )
        return ""

    def steps(self) -> tuple[str, ...]:
        """The steps whose messages a plan has, by their names in the file."""
        steps = ("expand", "fold") if self.layout == "edge" else ("expand",)
        if self.topology is None:
            return steps
        return (*steps, *(f"{step}_{hop}" for step in steps for hop in HOPS))


@dataclass(frozen=True)
class Exchange:
    """Messages in one direction of all parts, or of some neighbours; by part, peers ascending.

    Attributes
    ----------
    ptr : int64[num_parts + 1]
        Messages of part m are ``ptr[m]:ptr[m + 1]``.
    peer : int32[num_messages]
        The other part; ascending and unique within a part, never the part itself.
    row_ptr : int64[num_messages + 1]
        Rows of message k are ``row[row_ptr[k]:row_ptr[k + 1]]``; no message is empty.
    row : int32[volume]
        Local row numbers *at the part that owns the rows*, strictly ascending in every message. In
        a send table of the expand this is the send mask X_mn (Demirci et al. 2022, Eq. 8); in a
        receive table the receive set, in arrival order, which is the order of the local columns.
    """

    ptr: Int64Array
    peer: Int32Array
    row_ptr: Int64Array
    row: Int32Array

    @property
    def num_messages(self) -> int:
        return len(self.peer)

    @property
    def volume(self) -> int:
        return len(self.row)

    def messages_per_part(self) -> Int64Array:
        return np.diff(self.ptr)

    def rows_per_part(self) -> Int64Array:
        return np.diff(self.row_ptr[self.ptr])

    def peer_of_row(self) -> Int32Array:
        """The peer of every row in the table, int32[volume]."""
        return np.repeat(self.peer, np.diff(self.row_ptr))

    def part_of_row(self) -> Int64Array:
        """The part of every row in the table, int64[volume]."""
        return np.repeat(np.arange(len(self.ptr) - 1), self.rows_per_part())

    def of_parts(self, first: int, last: int) -> Exchange:
        """The messages of parts ``first..last-1``; part `first` has number 0 there."""
        ptr = self.ptr[first : last + 1]
        row_ptr = self.row_ptr[ptr[0] : ptr[-1] + 1]
        return Exchange(
            ptr - ptr[0],
            self.peer[ptr[0] : ptr[-1]],
            row_ptr - row_ptr[0],
            self.row[row_ptr[0] : row_ptr[-1]],
        )


@dataclass(frozen=True)
class Step:
    """All messages of a step, by sender and by receiver.

    Attributes
    ----------
    send, receive : Exchange
        Each is the mirror of the other.
    """

    send: Exchange
    receive: Exchange

    def of_parts(self, first: int, last: int) -> Self:
        """The messages of parts ``first..last-1``; part `first` has number 0 there."""
        return type(self)(self.send.of_parts(first, last), self.receive.of_parts(first, last))


@dataclass(frozen=True)
class Fold(Step):
    """The fold step of an edge plan: partial rows of the product go to their owners.

    Attributes
    ----------
    send : Exchange
        From every part to the owners (the peers). The rows of all messages of a part, one after
        the other, are its folded rows.
    receive : Exchange
        To every owner from the parts (the peers); the mirror of `send`.
    """


@dataclass(frozen=True)
class Route:
    """How the rows of owners come to the parts that need them, each once to a node.

    Rows of its messages are places in plan order, strictly ascending. The hops follow each other;
    a part sends rows that it owns or that came in an earlier hop:

        owner --collect--> sender of its node --cross--> receiver of a node --spread--> part
              --collect--> part of the same node

    The way back has the hops reversed; whoever sent a row adds what comes back for it. Partial rows
    of an edge plan's fold go back along a route, from the parts that have them to the owners.

    Attributes
    ----------
    collect, cross, spread : Step
        Inside nodes, between them, inside them. One message at most crosses from a node to another.
    """

    collect: Step
    cross: Step
    spread: Step

    @property
    def hops(self) -> tuple[Step, Step, Step]:
        return self.collect, self.cross, self.spread

    def of_parts(self, first: int, last: int) -> Route:
        """The hops of parts ``first..last-1``; part `first` has number 0 there."""
        return Route(*(hop.of_parts(first, last) for hop in self.hops))


def steps_of(
    expand: Step, fold: Fold | None, route: Route | None, fold_route: Route | None
) -> dict[str, Step]:
    """The messages of all steps and hops that are there, by the names of `Header.steps`."""
    found: dict[str, Step] = {"expand": expand}
    if fold is not None:
        found["fold"] = fold
    for step, of in (("expand", route), ("fold", fold_route)):
        if of is not None:
            found |= {f"{step}_{hop}": tables for hop, tables in zip(HOPS, of.hops, strict=True)}
    return found
