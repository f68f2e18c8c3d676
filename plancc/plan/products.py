"""The product A H of a row or edge plan as a list of steps; the adjoint is the list reversed.

Spaces are rows of dense matrices on every rank: "x" and "y", the own inputs and outputs; "halo",
rows that other ranks own; "folded", partial rows for other ranks. Blocks of the local matrix have
the names of what they multiply, and of where it goes:

                "x"        "halo"
           +-----------+-------------+
    "y"    |   own     |    halo     |
           +-----------+-------------+
  "folded" |  folded   | folded_halo |
           +-----------+-------------+

Knows no rank and no size. Whoever executes the steps starts messages as soon as their source is
there, and waits for them where they are read: what stands between travels beside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Step(ABC):
    """One step of a product, on all ranks.

    Attributes
    ----------
    name : str
        Of the exchange, or of the block.
    source, target : str
        Spaces.
    """

    name: str
    source: str
    target: str

    @abstractmethod
    def adjoint(self) -> Step:
        """Return the step from gradients of the target to gradients of the source."""


@dataclass(frozen=True)
class Gather(Step):
    """Rows of the target come from where the exchange says that the source has them."""

    def adjoint(self) -> ScatterAdd:
        return ScatterAdd(self.name, self.target, self.source)


@dataclass(frozen=True)
class ScatterAdd(Step):
    """Rows of the source are added to where they come from in the `Gather`: the messages back."""

    def adjoint(self) -> Gather:
        return Gather(self.name, self.target, self.source)


@dataclass(frozen=True)
class Multiply(Step):
    """The product of a block of the matrix, or of its transpose, and the source.

    The first of them puts it into the target, others add it.

    Attributes
    ----------
    transposed : bool
    """

    transposed: bool = False

    def adjoint(self) -> Multiply:
        there = Multiply(self.name, self.target, self.source)
        return replace(there, transposed=not self.transposed)


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


def adjoint(program: Sequence[Step]) -> Program:
    """The program of A^T G, read off that of A H."""
    return tuple(step.adjoint() for step in reversed(program))


def without_messages(program: Sequence[Step]) -> Program:
    """The program where all rows are at hand: its products."""
    return tuple(step for step in program if isinstance(step, Multiply))
