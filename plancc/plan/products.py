"""Programs: for every layout, the product A H as a list of steps.

The adjoint of a program is the list of the steps' adjoints in reversed order.

A step reads and writes *spaces*, which are dense matrices on every rank. "x" holds the inputs of
own rows, "y" the outputs of own rows. The programs below name further spaces. Blocks of the local
matrix have names too. In row and edge plans, "halo" holds rows that other ranks own, and "folded"
holds partial sums for other ranks. The blocks are:

                "x"        "halo"
           +-----------+-------------+
    "y"    |   own     |    halo     |
           +-----------+-------------+
  "folded" |  folded   | folded_halo |
           +-----------+-------------+

A program does not depend on ranks or sizes. The code that uses a program gives a meaning to the
names in its steps. The runtime binds them to messages, groups of ranks and matrices, and executes
the program. To count words, `plancc.plan.words.transfers` binds them to the traffic of messages and
groups.

Between two collective steps, the runtime works in this order. It starts all messages. Before a step
reads the rows of a message, it waits for the message. It adds scattered rows last. If rows arrive
in pieces, the product multiplies one piece after another. A program that needs another order raises
an error.
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
        name: Name of the messages, of the group of ranks, or of the matrix block that the step
            uses.
        source, target: Names of the space (see the module) that the step reads, and of the space
            that the step writes.
        moves: Whether the step sends rows of H, or pieces of a matrix block that ranks share.
        reverse: Whether the step uses its messages in reverse, so that receivers send to senders.
        late: Whether the rows arrive some epochs later. Such rows are constants in the backward
            pass.
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
    """Send rows of the source to the ranks that need them. The target holds the received rows."""


@dataclass(frozen=True)
class ScatterAdd(Step):
    """Send rows of the source to their owners, which add them to rows of the target.

    The messages have the opposite direction of the messages of a `Gather`.
    """

    reverse = True


@dataclass(frozen=True)
class Multiply(Step):
    """Multiply a block of the matrix, or its transpose, by the source.

    The first product of a program overwrites the target; later products add to the target. If
    several ranks share the block, its pieces are broadcast, each before its product. This happens
    in the forward and the backward pass.
    """

    transposed: bool = False

    def adjoint(self) -> Multiply:
        return Multiply(self.name, self.target, self.source, not self.transposed)


@dataclass(frozen=True)
class Broadcast(Step):
    """Broadcast the pieces of the source one after another.

    Each piece is sent by the rank that has it.
    """


@dataclass(frozen=True)
class Reduce(Step):
    """Sum the pieces of the source over a group, one piece after another.

    The sum of each piece arrives at the rank that has this piece in the target.
    """

    reverse = True


@dataclass(frozen=True)
class AllGather(Step):
    """Send the rows of each rank of a group to all other ranks of the group."""


@dataclass(frozen=True)
class ReduceScatter(Step):
    """Sum matrices with the same rows over the ranks of a group.

    Every rank keeps only the sums of its own rows.
    """

    reverse = True


@dataclass(frozen=True)
class AllToAll(Step):
    """Exchange rows for columns in a group of ranks.

    Before the step, a rank has its own rows with all columns. After the step, it has the rows of
    all ranks of the group, but only some columns.

    Attributes:
        to_rows: Whether the step does the reverse: exchanges columns for rows.
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
    """Use a copy of rows that the rank already has. Nothing is sent.

    Attributes:
        of_one: Whether only one rank of a group uses its copy.
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

    Parameters:
        expand_is_longer: Whether the expand takes longer than the fold. If so, own rows are
            multiplied during the expand, otherwise during the fold.
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

    The ranks of a process row have copies of the same part. For each part, one of these ranks sends
    the rows of the part to other ranks (Equation 3). On the sending rank, space "held" has these
    rows.

    Parameters:
        needed_only: Whether ranks send only needed rows, in the messages of a row plan, instead of
            broadcasts.
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

    In Md et al. 2021, the method without a fold is "0c", and the method with a late fold is "cd-r".
    The matrix (space) "y" has own rows, then "leaves", which are rows of vertices that other ranks
    own.

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
    """Return the program of A^T G, given the program of A H.

    Late steps are left out, since their rows are constants, which have no gradient.
    """
    return tuple(step.adjoint() for step in reversed(program) if not step.late)


def without_messages(program: Sequence[Step]) -> Program:
    """Return only the products of a program, for ranks that already have the rows of other
    ranks.
    """
    return tuple(step for step in program if isinstance(step, Multiply))
