"""Header of plans, and their messages by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plancc.graph.types import Types
from plancc.plan.exchange import Exchange, Side
from plancc.plan.grid import Grid
from plancc.plan.route import HOPS, Route
from plancc.plan.topology import Topology

STEPS = ("expand", "fold")
"""The steps of a product; row plans have no fold."""
LINKS = "links"
"""The exchange of the targets of links; rows are rows of the owners, as in the expand."""
OF_ROWS = (*STEPS, LINKS)
"""Exchanges whose rows are numbered as their owners do; hops have places in plan order."""


@dataclass(frozen=True)
class Header:
    """Sizes and kind of a plan, which a reader needs before it touches an array.

    Attributes:
        layout: "row": every nonzero lives with the owner of its row. "edge": it may live with any
            part. "grid", "feature": as "row", and several ranks may share a part, as `grid` says.
        normalization: "sym", "row" or "none" (`plancc.graph.normalize`).
        self_loops: Whether the identity was added before normalising.
        grid: Which ranks share a part, in layouts "grid" and "feature"; None: every part has one
            rank.
        route: Where rows travel in hops; None: they go straight from part to part.
        types: The types of the vertices, and their relations; None: vertices are of one type.
        links: Negatives of every validation and test link; 0: they share them; None: the plan has
            no links.
    """

    layout: str
    num_vertices: int
    num_nonzeros: int
    num_parts: int
    directed: bool
    normalization: str
    self_loops: bool
    grid: Grid | None = None
    route: Route | None = None
    types: Types | None = None
    links: int | None = None

    @property
    def topology(self) -> Topology | None:
        """Which parts share a node, of a plan with hops between nodes; None: there are none."""
        return None if self.route is None else self.route.topology

    @property
    def ranks_per_node(self) -> int | None:
        """Ranks of every node of the topology; None: they differ, or there is none."""
        return None if self.topology is None else self.topology.ranks_per_node

    @property
    def num_ranks(self) -> int:
        """Ranks that the plan is for."""
        return self.num_parts if self.grid is None else self.grid.num_ranks

    def problem(self) -> str:
        """Why grid, route, types or links do not fit the rest; "" if all do."""
        return (
            next((problem for _, problem in self.invariants() if problem), "")
            or self.types_problem()
            or self.links_problem()
        )

    def invariants(self) -> Iterator[tuple[str, str]]:
        """(invariant, what breaks it or "") of the grid and of the route."""
        yield "the grid fits layout, parts and vertices", self._grid_problem()
        problem = "" if self.route is None else self.route.problem(self.layout, self.num_parts)
        yield "the topology fits layout and parts", problem

    def _grid_problem(self) -> str:
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

    def types_problem(self) -> str:
        """Why the types do not fit the vertices; "" if they do, or if there are none."""
        types = self.types
        if types is None:
            return ""
        if self.self_loops:
            return "self loops in a plan with types"
        if types.num_vertices != self.num_vertices:
            return f"{types.num_vertices} vertices by type in a plan of {self.num_vertices}"
        return ""

    def links_problem(self) -> str:
        """Why links do not fit the layout; "" if they do, or if there are none."""
        if self.links is None:
            return ""
        if self.grid is not None or self.types is not None:
            return f"links in a plan with {'a grid' if self.types is None else 'types'}"
        return f"{self.links} negatives of a link" if self.links < 0 else ""

    def lacks(self, step: str) -> str:
        """Why a plan has no messages of a step that is not in `steps`, after "in a plan"."""
        if step == LINKS:
            return "without the attribute 'links'"
        if step in STEPS or self.route is not None:
            return f"of layout '{self.layout}'"
        return "without the attribute 'topology'"

    def steps(self) -> tuple[str, ...]:
        """The steps whose messages a plan has, and its links, by their names in the file."""
        steps = STEPS if self.layout == "edge" else STEPS[:1]
        hops = () if self.route is None else HOPS
        links = () if self.links is None else (LINKS,)
        return (*steps, *(f"{step}_{hop}" for step in steps for hop in hops), *links)


class Exchanges(dict[str, Exchange]):
    """The messages of all steps and hops of a plan, by their names in the file (`Header.steps`).

    The *hops* of a step bring its rows from their owners to the parts that need them. Their rows
    are places in plan order, strictly ascending; a part sends rows that it owns or that came in an
    earlier hop. Hops between nodes bring each row once to a node:

        owner --collect--> sender of its node --cross--> receiver of a node --spread--> part
              --collect--> part of the same node

    The way back has the hops reversed; the sender of a row adds what is returned for it. Partial
    rows of an edge plan's fold go back along its hops, from the parts that have them to the owners.
    One message at most crosses from a node to another. With *relays* any part may pass rows on in
    any hop.
    """

    @property
    def expand(self) -> Exchange:
        """Rows of H, from their owners to the parts that need them."""
        return self["expand"]

    @property
    def fold(self) -> Exchange | None:
        """Partial rows of an edge plan's product, from the parts to the owners; None: a row plan.

        The rows that a part sends, one message after the other, are its folded rows.
        """
        return self.get("fold")

    def hops(self, step: str) -> tuple[Exchange, ...]:
        """Collect, cross and spread of a step; () where it has no hops."""
        return tuple(self[name] for hop in HOPS if (name := f"{step}_{hop}") in self)

    def needed(self, step: str) -> Side:
        """The end of a step at the parts that need the owners' rows, or have partial ones."""
        return self[step].receive if step == "expand" else self[step].send

    def of_parts(self, first: int, last: int) -> Exchanges:
        """The messages of parts ``first..last-1``; part `first` has number 0 there."""
        return Exchanges({name: each.of_parts(first, last) for name, each in self.items()})
