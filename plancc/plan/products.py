"""Programs: for every layout, the product A H as a list of steps.

A step reads and writes *spaces*, which are dense matrices on every rank: "x" (inputs of own rows),
"y" (outputs of own rows), "halo" (rows that other ranks own), "folded" (partial sums for other
ranks). Blocks of the local matrix have these names:

                "x"        "halo"
           +-----------+-------------+
    "y"    |   own     |    halo     |
           +-----------+-------------+
  "folded" |  folded   | folded_halo |
           +-----------+-------------+

When the runtime executes a program, a step's name says which messages, group of ranks or matrix the
step uses. When words are counted, it says which traffic the step causes
(`plancc.plan.words.transfers`).

Between two collective steps, the runtime starts all messages, waits for a message before a step
reads the message's rows, and adds received partial sums (`ScatterAdd`) last. A program that needs
another order raises an error.
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
        name: Name of the messages, the group of ranks, or the matrix block.
        source, target: Names of the spaces (dense matrices) that the step reads and writes.
        moves: Whether the step sends something: rows of H, or pieces of a shared block.
        reverse: Whether the receivers of the messages `name` send, and the senders receive.
        late: Whether rows arrive some epochs later; they are constants in the backward pass.
    """

    name: str
    source: str
    target: str
    late: bool = field(default=False, kw_only=True)
    moves: ClassVar[bool] = True
    reverse: ClassVar[bool] = False

    def adjoint(self) -> Step:
        """Return the step that turns gradients of the target into gradients of the source."""
        return ADJOINTS[type(self)](self.name, self.target, self.source)


@dataclass(frozen=True)
class Gather(Step):
    """Send rows of the space `source` to ranks that need them; `target` gets the received rows."""


@dataclass(frozen=True)
class ScatterAdd(Step):
    """Send partial sums of rows to the owners of the rows, which add them to the target."""

    reverse = True


@dataclass(frozen=True)
class Multiply(Step):
    """Multiply a block of the matrix, or its transpose, by the dense matrix (*space*) `source`.

    A program's first product overwrites the space `target`; later products add to it. If ranks
    share the block, each piece of the block is broadcast before the product with this piece.
    """

    transposed: bool = False

    def adjoint(self) -> Multiply:
        return Multiply(self.name, self.target, self.source, not self.transposed)


@dataclass(frozen=True)
class Broadcast(Step):
    """Broadcast the pieces of the space `source` (see the module) one after another.

    Each piece is sent by the rank that has it.
    """


@dataclass(frozen=True)
class Reduce(Step):
    """Sum the pieces of the space `source` over a group of ranks, one piece after another.

    A space is a matrix on every rank (see the module). The sum of each piece arrives at the rank
    that has this piece in the space `target`.
    """

    reverse = True


@dataclass(frozen=True)
class AllGather(Step):
    """Send the rows of each rank of a group to all other ranks of the group."""


@dataclass(frozen=True)
class ReduceScatter(Step):
    """Sum matrices over the ranks of a group; every rank keeps the sums of its own rows."""

    reverse = True


@dataclass(frozen=True)
class AllToAll(Step):
    """Turn own rows, with all columns, into some columns of the rows of all ranks of a group.

    Attributes:
        to_rows: Whether the step does the reverse.
    """

    to_rows: bool = False

    @property
    def reverse(self) -> bool:  # type: ignore[override]
        return self.to_rows

    def adjoint(self) -> AllToAll:
        return AllToAll(self.name, self.target, self.source, not self.to_rows)


@dataclass(frozen=True)
class AllReduce(Step):
    """Sum matrices over the ranks of a group. Every rank gets the sum.

    The adjoint sends nothing, because every rank already has the gradient.
    """


@dataclass(frozen=True)
class Replicate(Step):
    """Send the rows of one rank of a group to all other ranks of the group."""

    def adjoint(self) -> UseCopy:
        return UseCopy(self.name, self.target, self.source, of_one=True)


@dataclass(frozen=True)
class UseCopy(Step):
    """Use the copy of rows that the rank already has, so that no message is needed.

    Attributes:
        of_one: Whether only one of the ranks with a copy of the same rows uses its copy.
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
"""For each class of steps without further attributes, the class of the adjoint."""
Program = tuple[Step, ...]

ROW: Program = (
    Gather("expand", "x", "halo"),
    Multiply("own", "x", "y"),
    Multiply("halo", "halo", "y"),
)
"""Row plans (Demirci et al. 2022, Algorithm 1, lines 3 to 9)."""


def edge_program(expand_is_longer: bool) -> Program:
    """Return the program of edge plans: expand, multiply, fold (Md et al. 2021, vertex cuts).

    Own rows are multiplied during the expand if `expand_is_longer`, otherwise during the fold.
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
"""1D, 2D and Split-3D (Tripathy et al. 2020, Algorithms 1 and 3). "pieces" are broadcast in the
process column, and pieces of the matrix in the process row. "sums" has the rows of the process row.
In "3d" these are more rows than the rank owns. """


def replicated(needed_only: bool) -> Program:
    """Return the program of 1.5D (Tripathy et al. 2020, Algorithm 2).

    The ranks of a process row have copies of a part. One of these ranks (Equation 3) sends the
    part's rows: in broadcasts or, if `needed_only`, in messages of a row plan.
    """
    middle: Program = Broadcast("pieces", "held", "piece"), Multiply("matrix", "piece", "sums")
    if needed_only:
        middle = (
            Gather("expand", "held", "halo"),
            Multiply("own", "held", "sums"),
            Multiply("halo", "halo", "sums"),
        )
    return (UseCopy("holder", "x", "held", of_one=True), *middle, AllReduce("copies", "sums", "y"))


FEATURE: Program = (
    AllToAll("slices", "x", "columns"),
    Gather("expand", "columns", "halo"),
    Multiply("own", "columns", "sums"),
    Multiply("halo", "halo", "sums"),
    AllToAll("slices", "sums", "y", to_rows=True),
)
"""Layout "feature", within and between groups (Wan et al. 2025, Algorithm 2, Section 5.2.1). If the
pipeline is on, every step handles one batch of rows after another. """


def clone_program(late: bool, returns: bool = True) -> Program:
    """Return the program for edge plans whose partial sums are folded late, or not at all.

    Md et al. 2021 call these methods "cd-r" and "0c". The result, "y", has own rows, then
    "leaves": rows of vertices that other ranks own.

    Parameters:
        late: Whether there is a fold, whose rows arrive some epochs later.
        returns: Whether owners send the sums back to the ranks that have the leaves.
    """
    own = Multiply("partial", "x", "y"), Multiply("itself", "x", "y")
    if not late:
        return own
    product, itself = own
    back = (Gather("trees", "y", "leaves", late=True),) if returns else ()
    return product, ScatterAdd("trees", "leaves", "y", late=True), itself, *back


def grid_program(grid: Grid) -> Program:
    """Return the program of plans that have this grid."""
    if grid.scheme == "feature":
        return FEATURE
    if grid.scheme == "1.5d":
        return replicated(grid.sparse)
    return ROW if grid.exchanges_rows else GRID


def adjoint(program: Sequence[Step]) -> Program:
    """Return the program of A^T G, given that of A H; steps with `Step.late` have no adjoint."""
    return tuple(step.adjoint() for step in reversed(program) if not step.late)


def without_messages(program: Sequence[Step]) -> Program:
    """Return only the products of a program, for ranks that already have the halo rows."""
    return tuple(step for step in program if isinstance(step, Multiply))
