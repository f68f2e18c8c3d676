"""Programs: the product A H of every layout as a list of steps. The adjoint is the reversed list.

A step reads and writes *spaces*, which are dense matrices on every rank. "x" has the inputs of own
rows, "y" the outputs of own rows; the programs below name further spaces. Blocks of the local
matrix have names too. In row and edge plans, "halo" are rows that other ranks own, "folded" are
partial rows for other ranks, and the blocks are:

                "x"        "halo"
           +-----------+-------------+
    "y"    |   own     |    halo     |
           +-----------+-------------+
  "folded" |  folded   | folded_halo |
           +-----------+-------------+

A program does not depend on a rank or a size. Its readers bind the names of its steps: the runtime
binds messages, groups of ranks and matrices, and executes the program. To count words,
`plancc.plan.words.transfers` binds the traffic of messages and groups.

Between two collective steps, the runtime works in this order: it starts messages first, waits for a
message before a step reads its rows, and adds scattered rows last. If rows arrive in pieces, their
product processes one piece after another. A program that needs another order raises an error.
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
        name: Name of the messages, of the group of ranks, or of the matrix block.
        source, target: Space that the step reads, and space that the step writes.
        moves: Whether rows of H are sent, or pieces of a matrix block that several ranks share.
        reverse: Whether rows are sent from the receivers to the senders of the bound messages.
        late: Whether the rows arrive some epochs later; they are constants in the backward pass.
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
    """Send rows of the source in an exchange; the target is the received rows."""


@dataclass(frozen=True)
class ScatterAdd(Step):
    """Send rows back in the reversed exchange of a `Gather`, and add the rows to the target."""

    reverse = True


@dataclass(frozen=True)
class Multiply(Step):
    """Multiply a block of the matrix, or its transpose, with the source.

    The first product of a program overwrites the target; later products add to the target. If ranks
    share the block, its pieces are broadcast, one before each product, forward and backward.
    """

    transposed: bool = False

    def adjoint(self) -> Multiply:
        return Multiply(self.name, self.target, self.source, not self.transposed)


@dataclass(frozen=True)
class Broadcast(Step):
    """Broadcast the pieces of the source one after another, each from the rank that has the
    piece.
    """


@dataclass(frozen=True)
class Reduce(Step):
    """Sum the pieces of the source one after another over a group, each on the rank that has the
    piece.
    """

    reverse = True


@dataclass(frozen=True)
class AllGather(Step):
    """Send the rows of every rank of a group to all ranks of the group."""


@dataclass(frozen=True)
class ReduceScatter(Step):
    """Sum the rows of a group over its ranks; every rank keeps the sums of its own rows."""

    reverse = True


@dataclass(frozen=True)
class AllToAll(Step):
    """Exchange data in a group: from all columns of own rows to some columns of the group's rows.

    Attributes:
        to_rows: Whether the step does the inverse: from some columns of the group's rows to own
            rows.
    """

    to_rows: bool = False

    @property
    def reverse(self) -> bool:  # type: ignore[override]
        return self.to_rows

    def adjoint(self) -> AllToAll:
        return AllToAll(self.name, self.target, self.source, not self.to_rows)


@dataclass(frozen=True)
class AllReduce(Step):
    """Sum the rows over a group; every rank of the group gets the sum.

    In the adjoint, every rank already has the gradient and uses it.
    """


@dataclass(frozen=True)
class Replicate(Step):
    """Send the rows of one rank to all ranks of its group."""

    def adjoint(self) -> UseCopy:
        return UseCopy(self.name, self.target, self.source, of_one=True)


@dataclass(frozen=True)
class UseCopy(Step):
    """Use the copies of rows that ranks already have; nothing is sent.

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
"""The class of the adjoint, for steps without further attributes."""
Program = tuple[Step, ...]

ROW: Program = (
    Gather("expand", "x", "halo"),
    Multiply("own", "x", "y"),
    Multiply("halo", "halo", "y"),
)
"""Row plans (Demirci et al. 2022, Algorithm 1, lines 3 to 9)."""


def edge_program(expand_is_longer: bool) -> Program:
    """The program of edge plans: expand, multiply, fold (the vertex cuts of Md et al. 2021).

    `expand_is_longer`: whether own rows are multiplied during the expand; otherwise during the
    fold.
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
    """1.5D (Tripathy et al. 2020, Algorithm 2): the ranks of a process row have copies of a part.

    "held" has the rows of a part on the rank that sends these rows (Equation 3).
    `needed_only`: whether the messages of a row plan replace the broadcasts.
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
    """The program of edge plans without a fold, or with a `late` fold (Md et al. 2021, 0c and
    cd-r). "y" has own rows, then "leaves": rows of vertices that other ranks own.

    `returns`: whether owners send sums back to the ranks that have the leaves.
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
    """Return the program of A^T G, given the program of A H.

    The result has no late steps, since the rows of late steps are constants without a gradient.
    """
    return tuple(step.adjoint() for step in reversed(program) if not step.late)


def without_messages(program: Sequence[Step]) -> Program:
    """Return only the products of a program, for ranks that already have the rows of other
    ranks.
    """
    return tuple(step for step in program if isinstance(step, Multiply))
