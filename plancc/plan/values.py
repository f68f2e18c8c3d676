"""`Header` holds the sizes and the kind of a plan. `Exchanges` holds the messages of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plancc.graph.types import Types
from plancc.plan.exchange import Exchange, Side
from plancc.plan.grid import Grid
from plancc.plan.topology import HOPS, Route, Topology

STEPS = ("expand", "fold")
"""The steps of a product; row plans have no fold."""
LINKS = "links"
"""Name of the exchange that sends the targets of links; rows are numbered as in the expand."""
OF_ROWS = (*STEPS, LINKS)
"""Exchanges that number rows as their owners do; hops use places in plan order instead."""


@dataclass(frozen=True)
class Header:
    """Sizes and kind of a plan. A reader needs them before it reads an array.

    Attributes:
        layout: "row": the owner of a row holds all nonzeros of the row. "edge": any part may hold a
            nonzero. "grid" and "feature": as in "row", but several ranks may share a part, as
            `grid` says.
        normalization: "sym", "row" or "none" (`plancc.graph.normalize`).
        self_loops: Whether the identity was added to the matrix before it was normalised.
        grid: Which ranks share a part, in layouts "grid" and "feature". None: each part has a rank
            of its own.
        route: How rows are sent in hops. None: parts send rows directly to the parts that need
            them.
        types: The vertex types and relations; None: all vertices have one type.
        links: Number of negatives of every validation and test link. 0: all links share the same
            negatives. None: the plan has no links for link prediction.
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
        """The topology of a plan with hops between nodes; None for other plans."""
        return None if self.route is None else self.route.topology

    @property
    def ranks_per_node(self) -> int | None:
        """Number of ranks on each node; None if nodes differ, or if there is no topology."""
        return None if self.topology is None else self.topology.ranks_per_node

    @property
    def num_ranks(self) -> int:
        """Number of ranks for which the plan is made."""
        return self.num_parts if self.grid is None else self.grid.num_ranks

    def problem(self) -> str:
        """Return why grid, route, types or links do not fit the other fields; "" if all fit."""
        return (
            next((problem for _, problem in self.invariants() if problem), "")
            or self.types_problem()
            or self.links_problem()
        )

    def invariants(self) -> Iterator[tuple[str, str]]:
        """Check the grid and the route.

        Yields a pair (invariant, violation) for each check. The violation is "" if the invariant
        holds.
        """
        yield "the grid fits layout, parts and vertices", self._grid_problem()
        problem = "" if self.route is None else self.route.problem(self.layout, self.num_parts)
        yield "the topology fits layout and parts", problem

    def _grid_problem(self) -> str:
        """Return why the grid does not fit layout, parts and vertices; "" if it fits."""
        grid = self.grid
        if grid is None:
            missing = self.layout in ("grid", "feature")
            return f"layout '{self.layout}' lacks the attribute 'grid'" if missing else ""
        if grid.layout != self.layout:
            return f"grid '{grid}' does not fit layout '{self.layout}'"
        if grid.num_parts != self.num_parts:
            return (
                f"grid '{grid}' has {grid.num_parts} blocks of rows, but the plan has "
                f"{self.num_parts} parts"
            )
        if grid.num_ranks > self.num_vertices:
            return f"grid '{grid}' has {grid.num_ranks} ranks for {self.num_vertices} vertices"
        return ""

    def types_problem(self) -> str:
        """Return why the types do not fit the vertices; "" if they fit or there are none."""
        types = self.types
        if types is None:
            return ""
        if self.self_loops:
            return "a plan with types has self loops"
        if types.num_vertices != self.num_vertices:
            return f"types have {types.num_vertices} vertices, but the plan has {self.num_vertices}"
        return ""

    def links_problem(self) -> str:
        """Return why links do not fit the layout; "" if they fit or there are none."""
        if self.links is None:
            return ""
        if self.grid is not None or self.types is not None:
            return f"a plan with {'a grid' if self.types is None else 'types'} has links"
        return f"a link has {self.links} negatives" if self.links < 0 else ""

    def lacks(self, step: str) -> str:
        """Return why the plan cannot have messages of the exchange `step`.

        The result ends a phrase that begins "in a plan ...".
        """
        if step == LINKS:
            return "without the attribute 'links'"
        if step in STEPS or self.route is not None:
            return f"of layout '{self.layout}'"
        return "without the attribute 'topology'"

    def steps(self) -> tuple[str, ...]:
        """Return the names of the plan's exchanges in the file.

        They are the steps of a product ("expand", "fold"), the hops of these steps, and "links".
        """
        steps = STEPS if self.layout == "edge" else STEPS[:1]
        hops = () if self.route is None else HOPS
        links = () if self.links is None else (LINKS,)
        return (*steps, *(f"{step}_{hop}" for step in steps for hop in hops), *links)


class Exchanges(dict[str, Exchange]):
    """The messages of all steps and hops of a plan, by their names in the file (`Header.steps`).

    *Hops* send rows from owners to the parts that need them. A hop names its rows by their places
    in plan order, ascending. In node-aware exchange, a *sender* and a *receiver* are parts of a
    node that carry its rows, so each row is sent to a node only once:

        owner --collect--> sender of its node --cross--> receiver of a node --spread--> part
              --collect--> part of the same node

    Gradients, and partial sums of a fold, take the hops in reverse; a part that sent a row in a hop
    receives and adds up what belongs to the row. A node sends at most one message to another node.
    If hops lead over *relays*, any part may pass rows on, in any hop.
    """

    @property
    def expand(self) -> Exchange:
        """The exchange that sends rows of H from their owners to the parts that need them."""
        return self["expand"]

    @property
    def fold(self) -> Exchange | None:
        """The exchange that sends partial sums to the owners of rows; None in a row plan.

        The rows that a part sends, in the order of its messages, are its folded rows.
        """
        return self.get("fold")

    def hops(self, step: str) -> tuple[Exchange, ...]:
        """Return the hops collect, cross and spread of a step; () if the step has no hops."""
        return tuple(self[name] for hop in HOPS if (name := f"{step}_{hop}") in self)

    def needed(self, step: str) -> Side:
        """Return a step's messages, grouped by the receivers (expand) or by the senders (fold)."""
        return self[step].receive if step == "expand" else self[step].send

    def of_parts(self, first: int, last: int) -> Exchanges:
        """Return the messages of parts ``first..last-1``. Part `first` becomes part 0."""
        return Exchanges({name: each.of_parts(first, last) for name, each in self.items()})
