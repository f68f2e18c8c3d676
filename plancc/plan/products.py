"""The product A H of every layout as a list of steps; the adjoint is the list reversed.

Spaces are rows of dense matrices on every rank: "x" and "y", the own inputs and outputs; others
are named by the programs below. Blocks of the local matrix have names too, of row and edge plans
factors of what they multiply, and of where it goes ("halo", rows that other ranks own; "folded",
partial rows for other ranks):

                "x"        "halo"
           +-----------+-------------+
    "y"    |   own     |    halo     |
           +-----------+-------------+
  "folded" |  folded   | folded_halo |
           +-----------+-------------+

A program knows no rank and no size. A reader binds the names of its steps: to messages,
groups of ranks and matrices to execute it, to what these move (`plancc.plan.words.transfers`) to
count it. Its execution starts the messages of the steps between two steps of whole groups
first, waits for them where they are read, and adds what they return last; a product of rows that
arrive in pieces takes piece by piece. Steps that need another order are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from plancc.plan.grid import Grid


@dataclass(frozen=True)
class Step:
    """One step of a product, on all ranks.

    Attributes:
        name: Of what it moves, or of the block.
        source, target: Spaces.
        moves: Whether rows of H travel, or pieces of the matrix where several ranks share it.
        reverse: Whether the rows travel the other way than the name is bound to.
        late: Whether they arrive epochs later: constants for the backward pass.
    """

    name: str
    source: str
    target: str
    late: bool = field(default=False, kw_only=True)
    moves: ClassVar[bool] = True
    reverse: ClassVar[bool] = False

    def adjoint(self) -> Step:
        """Return the step from gradients of the target to gradients of the source."""
        return ADJOINTS[type(self)](self.name, self.target, self.source)


@dataclass(frozen=True)
class Gather(Step):
    """Rows of the target come from where the exchange says that the source has them."""


@dataclass(frozen=True)
class ScatterAdd(Step):
    """Rows of the source are added to where they come from in the `Gather`: the messages back."""

    reverse = True


@dataclass(frozen=True)
class Multiply(Step):
    """The product of a block of the matrix, or of its transpose, and the source.

    The first of them puts it into the target, others add it. Where ranks share the block, its
    pieces are broadcast among them, one before each product, in both directions alike.
    """

    transposed: bool = False

    def adjoint(self) -> Multiply:
        return Multiply(self.name, self.target, self.source, not self.transposed)


@dataclass(frozen=True)
class Broadcast(Step):
    """Every piece of the source goes in turn from the rank that has it to all of its group."""


@dataclass(frozen=True)
class Reduce(Step):
    """Every piece of the source is summed in turn over a group, at the rank that has it."""

    reverse = True


@dataclass(frozen=True)
class AllGather(Step):
    """The rows of all ranks of a group go to each of them."""


@dataclass(frozen=True)
class ReduceScatter(Step):
    """The rows of a whole group are summed over it; every rank keeps its own."""

    reverse = True


@dataclass(frozen=True)
class AllToAll(Step):
    """Own rows become a slice of the columns of the rows of a whole group.

    Attributes:
        to_rows: Whether such a slice becomes own rows.
    """

    to_rows: bool = False

    @property
    def reverse(self) -> bool:  # type: ignore[override]
        return self.to_rows

    def adjoint(self) -> AllToAll:
        return AllToAll(self.name, self.target, self.source, not self.to_rows)


@dataclass(frozen=True)
class AllReduce(Step):
    """The rows are summed over a group, whose ranks have copies of the sum.

    Back, every rank uses its copy of the gradient.
    """


@dataclass(frozen=True)
class Replicate(Step):
    """The rows of one rank go to all of its group, which have copies of them."""

    def adjoint(self) -> UseCopy:
        return UseCopy(self.name, self.target, self.source, of_one=True)


@dataclass(frozen=True)
class UseCopy(Step):
    """Copies of rows are used where they are; nothing travels.

    Attributes:
        of_one: Whether one rank of a group uses its copy, and the others none.
    """

    of_one: bool = False
    moves = False

    def adjoint(self) -> AllReduce | Replicate:
        there = Replicate if self.of_one else AllReduce
        return there(self.name, self.target, self.source)


ADJOINTS: dict[type[Step], type[Step]] = {
    **{Gather: ScatterAdd, ScatterAdd: Gather},
    **{Broadcast: Reduce, Reduce: Broadcast},
    **{AllGather: ReduceScatter, ReduceScatter: AllGather, AllReduce: UseCopy},
}
"""Kinds of the adjoints of steps that have no more than names and spaces."""
Program = tuple[Step, ...]

ROW: Program = (
    Gather("expand", "x", "halo"),
    Multiply("own", "x", "y"),
    Multiply("halo", "halo", "y"),
)
"""Row plans (Demirci et al. 2022, Algorithm 1, lines 3 to 9)."""


def edge_program(expand_is_longer: bool) -> Program:
    """Edge plans: expand, multiply, fold (as the vertex cuts of Md et al. 2021).

    `expand_is_longer`: whether own rows are better multiplied while the expand travels than while
    the fold does.
    """
    own = (Multiply("own", "x", "y"),)
    early, late = (own, ()) if expand_is_longer else ((), own)
    return (
        Gather("expand", "x", "halo"),
        Multiply("folded", "x", "folded"),
        *early,
        Multiply("folded_halo", "halo", "folded"),
        ScatterAdd("fold", "folded", "y"),
        *late,
        Multiply("halo", "halo", "y"),
    )


GRID: Program = (
    Broadcast("pieces", "x", "piece"),
    Multiply("matrix", "piece", "sums"),
    ReduceScatter("layers", "sums", "y"),
)
"""1D, 2D and Split-3D (Tripathy et al. 2020, Algorithms 1 and 3).

"pieces" go round in the process column, pieces of the matrix in the process row; "sums" are of the
rows of the process row, in a layer of "3d" more than own ones.
"""


def replicated(needed_only: bool) -> Program:
    """1.5D (Tripathy et al. 2020, Algorithm 2): the ranks of a process row have copies of a part.

    "held" are the rows of a part at the one of them that sends them, as Equation 3 says.
    `needed_only`: whether messages of a row plan take the place of the broadcasts.
    """
    middle: Program = Broadcast("pieces", "held", "piece"), Multiply("matrix", "piece", "sums")
    if needed_only:
        middle = (
            Gather("expand", "held", "halo"),
            Multiply("own", "held", "sums"),
            Multiply("halo", "halo", "sums"),
        )
    return (
        UseCopy("holder", "x", "held", of_one=True),
        *middle,
        AllReduce("copies", "sums", "y"),
    )


FEATURE: Program = (
    AllToAll("slices", "x", "columns"),
    Gather("expand", "columns", "halo"),
    Multiply("own", "columns", "sums"),
    Multiply("halo", "halo", "sums"),
    AllToAll("slices", "sums", "y", to_rows=True),
)
"""Feature slices, alone and between groups (Wan et al. 2025, Algorithm 2, Section 5.2.1).

With a pipeline all this is done by batches of the rows.
"""


def clone_program(late: bool, returns: bool = True) -> Program:
    """Edge plans without a fold, or with a `late` one (Md et al. 2021, 0c and cd-r).

    "y" has own rows and "leaves", rows of other ranks' vertices. `returns`: whether sums go back
    to the leaves.
    """
    own = Multiply("partial", "x", "y"), Multiply("itself", "x", "y")
    if not late:
        return own
    product, itself = own
    back = (Gather("trees", "y", "leaves", late=True),) if returns else ()
    return product, ScatterAdd("trees", "leaves", "y", late=True), itself, *back


def grid_program(grid: Grid) -> Program:
    """The program of a plan on this grid."""
    if grid.scheme == "feature":
        return FEATURE
    if grid.scheme == "1.5d":
        return replicated(grid.sparse)
    return ROW if grid.exchanges_rows else GRID


def adjoint(program: Sequence[Step]) -> Program:
    """The program of A^T G, read off that of A H; constants have no gradient."""
    return tuple(step.adjoint() for step in reversed(program) if not step.late)


def without_messages(program: Sequence[Step]) -> Program:
    """The program where all rows are known: its products."""
    return tuple(step for step in program if isinstance(step, Multiply))
