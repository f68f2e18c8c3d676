"""Models ``cagnet-1d``, ``cagnet-1.5d``, ``cagnet-2d``, ``cagnet-3d`` and ``mop``.

The first four are the process grids of Tripathy et al. 2020 (CAGNET). ``mop`` is the
feature-parallel model of Wan et al. 2025 (MixGCN). *Layers* here are layers of a 3D grid, not of a
network.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import option, unknown_option
from plancc.files import StrPath
from plancc.graph.graph import MAX_VERTICES, Graph
from plancc.models import DEFAULT_MODEL, MODELS, build_problem
from plancc.models.base import Model
from plancc.models.problem import Problem
from plancc.models.weights import Balance, check_num_parts, is_count

MOST_SHAPES = 6
"""Largest number of grids that an error lists."""


class Shape(NamedTuple):
    """The number of process rows, process columns and layers of a grid."""

    rows: int
    columns: int = 1
    layers: int = 1

    @property
    def num_blocks(self) -> int:
        """Number of blocks into which the rows of the matrix are divided."""
        return self.rows * self.layers


def row_models() -> list[str]:
    """Return the names of the models that can assign rows to the blocks of a grid."""
    return [name for name, model in MODELS.loaded().items() if model.assigns_blocks]


@dataclass(frozen=True, eq=False)
class ProcessGridModel(Model):
    """Base class of the models for process grids. Another model assigns rows to blocks.

    A process grid may have several layers, and each layer has process rows. Every process row of
    every grid layer has one block of rows. The ranks of the process row own the rows of the block.

    Attributes:
        blocks: Name of the row model that assigns rows to blocks. "rp" is the random permutation of
            the vertices that Tripathy et al. 2020 use.
        part (path or int[num_vertices], optional): For `blocks` "file": the block of every vertex,
            counted from 0. Block ``i * layers + k`` belongs to process row i in grid layer k.
    """

    scheme: ClassVar[str]
    """Scheme of the `plancc.plan.grid.Grid`."""
    layout: ClassVar[str] = "grid"
    assigns_blocks: ClassVar[bool] = False

    blocks: str = option(
        "rp",
        "row model that assigns rows to blocks; options of the search apply to this model",
        metavar="MODEL",
    )
    part: StrPath | npt.ArrayLike | None = option(
        None, "with blocks 'file': a part vector, one number per line", metavar="FILE"
    )

    def __post_init__(self) -> None:
        if self.blocks not in (names := row_models()):
            raise InputError(
                f"blocks '{self.blocks}': cannot assign rows to a grid; choose {_or(names)}"
            )
        if unknown_option(self.block_options, MODELS[self.blocks]):
            takers = _or(name for name in names if not unknown_option(["part"], MODELS[name]))
            told = f"a part vector is only for blocks '{takers}', not for '{self.blocks}'"
            raise InputError(f"{told}; choose another `blocks`, or drop `part`")
        for name in ("replication", "groups"):
            value = getattr(self, name, 1)
            if not is_count(value):
                raise InputError(f"{name} {value!r}: a whole number of at least 1 is needed")
        if not isinstance(self.sends_needed_rows, bool):
            raise InputError(f"sparse '{self.sends_needed_rows}': takes no value; drop the value")
        grid = getattr(self, "grid", None)
        if grid is not None:
            _sizes(grid, 3 if self.scheme == "3d" else 2)

    @abstractmethod
    def shape(self, num_ranks: int) -> Shape:
        """Return the grid that `num_ranks` ranks form; if there is none, raise InputError."""

    @property
    def sends_needed_rows(self) -> bool:
        """Whether ranks send only needed rows in messages, instead of broadcasting all rows."""
        return getattr(self, "sparse", False)

    @property
    def block_options(self) -> dict[str, Any]:
        """Options for the row model that `blocks` names: only the option `part`, if given."""
        return {} if self.part is None else {"part": self.part}

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """Build the problem of the row model ``self.blocks``, whose parts are the grid's blocks."""
        check_num_parts(matrix.num_vertices, num_parts)
        model = MODELS[self.blocks](**self.block_options)
        blocks = self.shape(num_parts).num_blocks
        problem: Problem = build_problem(model, matrix, blocks, balance=balance, seed=seed)
        return problem


@dataclass(frozen=True, eq=False)
class Cagnet1DModel(ProcessGridModel):
    """Every rank owns a block of rows of A and H, and broadcasts its rows of H to all ranks.

    This is Algorithm 1 of Tripathy et al. 2020.

    Attributes:
        sparse: Whether ranks send only needed rows in messages, instead of broadcasting all rows.
    """

    scheme: ClassVar[str] = "1d"

    sparse: bool = option(False, "send needed rows only, in messages")

    def shape(self, num_ranks: int) -> Shape:
        _check_ranks(num_ranks)
        return Shape(num_ranks)


@dataclass(frozen=True, eq=False)
class Cagnet15DModel(ProcessGridModel):
    """Every block of rows of A is on c ranks. Each of the c ranks multiplies the block with 1 / c
    of the rows of H, and the c ranks add up their products (Tripathy et al. 2020, Algorithm 2).

    Attributes:
        replication: The number c, which must divide the number of ranks. If c squared does not
            divide the number of ranks, some of the c ranks multiply with one more block of H than
            the rest of the c ranks.
        sparse: Whether ranks send only needed rows in messages, instead of broadcasting all rows.
    """

    scheme: ClassVar[str] = "1.5d"

    replication: int = option(2, "number of ranks that share a block of rows", metavar="C")
    sparse: bool = option(False, "send needed rows only, in messages")

    @classmethod
    def forms(cls, num_ranks: int) -> list[dict[str, Any]]:
        """Return two sets of options for every replication above 1: random and searched blocks.

        With searched blocks, ranks send only needed rows. If all ranks share one block, there is no
        search.
        """
        searched = {"sparse": True, "blocks": DEFAULT_MODEL}
        several = [{"replication": c} for c in _divisors(num_ranks)[1:]]
        return several + [each | searched for each in several[:-1]]

    def shape(self, num_ranks: int) -> Shape:
        _check_ranks(num_ranks)
        c = self.replication
        if num_ranks % c:
            below = num_ranks // c * c
            way = f"{_or(_divisors(num_ranks))}, or use {_near(num_ranks, below, below + c)} ranks"
            told = f"cannot divide {num_ranks} ranks by replication {c}"
            raise InputError(f"{told}; choose replication {way}")
        return Shape(num_ranks // c, c)


@dataclass(frozen=True, eq=False)
class Cagnet2DModel(ProcessGridModel):
    """Every rank has one block of A and one of H, and multiplies by SUMMA (Tripathy et al. 2020,
    Algorithm 3).

    Attributes:
        grid: Number of process rows and columns, such as "4x8". None: the square grid.
    """

    scheme: ClassVar[str] = "2d"

    grid: str | tuple[int, int] | None = option(
        None, "rows x columns of the process grid", metavar="RxC", otherwise="square"
    )

    @classmethod
    def forms(cls, num_ranks: int) -> list[dict[str, Any]]:
        """Return only the options of the grid whose numbers of rows and columns differ least."""
        return [{"grid": _shapes(num_ranks, 2)[0]}]

    def shape(self, num_ranks: int) -> Shape:
        _check_ranks(num_ranks)
        if self.grid is not None:
            return Shape(*_given(self.grid, 2, num_ranks))
        side = math.isqrt(num_ranks)
        if side * side != num_ranks:
            way = f"{_near(num_ranks, side**2, (side + 1) ** 2)} ranks, or a `grid`"
            shapes = _or(_shapes(num_ranks, 2))
            raise InputError(f"{num_ranks} ranks are not a perfect square; use {way}: {shapes}")
        return Shape(side, side)


@dataclass(frozen=True, eq=False)
class Cagnet3DModel(ProcessGridModel):
    """Several 2D grids, called layers, whose products are added up.

    This is Split-3D-SpMM of Tripathy et al. 2020, section IV-D.

    Attributes:
        grid: Number of process rows, columns and layers, such as "4x4x2". None: three equal sizes.
    """

    scheme: ClassVar[str] = "3d"

    grid: str | tuple[int, int, int] | None = option(
        None, "rows x columns x layers of the process grid", metavar="RxCxL", otherwise="cube"
    )

    @classmethod
    def forms(cls, num_ranks: int) -> list[dict[str, Any]]:
        """Return sets of options, one set for each grid to choose from.

        These are the grid whose three sizes are most similar, and all grids with one process
        column and several layers.
        """
        layers = _divisors(num_ranks)[1:]
        shapes = [_shapes(num_ranks, 3)[0], *(f"{num_ranks // k}x1x{k}" for k in layers)]
        return [{"grid": shape} for shape in dict.fromkeys(shapes)]

    def shape(self, num_ranks: int) -> Shape:
        _check_ranks(num_ranks)
        if self.grid is not None:
            return Shape(*_given(self.grid, 3, num_ranks))
        side = round(num_ranks ** (1 / 3))
        if side**3 != num_ranks:
            side -= side**3 > num_ranks
            way = f"{_near(num_ranks, side**3, (side + 1) ** 3)} ranks, or a `grid`"
            shapes = _or(_shapes(num_ranks, 3))
            raise InputError(f"{num_ranks} ranks are not a perfect cube; use {way}: {shapes}")
        return Shape(side, side, side)


@dataclass(frozen=True, eq=False)
class MopModel(ProcessGridModel):
    """Every rank of a group multiplies the group's rows of A with some columns of the features
    (Wan et al. 2025, Algorithm 2).

    With several groups, each group owns some rows of the matrix. Groups send each other needed
    rows, as the ranks of a row plan do (section 5.2).

    Attributes:
        groups: Number of groups, a divisor of the number of ranks. If there is one group, every
            rank holds the whole matrix.
    """

    scheme: ClassVar[str] = "feature"
    layout: ClassVar[str] = "feature"

    groups: int = option(1, "number of groups of ranks; each has some rows", metavar="NUMBER")

    @classmethod
    def forms(cls, num_ranks: int) -> list[dict[str, Any]]:
        """Return the model's options for one group of ranks, then for each larger number of groups.

        A group has two ranks or more. If there are several groups, plancc searches for the group
        that owns each row.
        """
        searched = {"blocks": DEFAULT_MODEL}
        return [{}, *(searched | {"groups": each} for each in _divisors(num_ranks)[1:-1])]

    def shape(self, num_ranks: int) -> Shape:
        _check_ranks(num_ranks)
        if num_ranks % self.groups:
            told = f"cannot divide {num_ranks} ranks into {self.groups} equal groups"
            raise InputError(f"{told}; choose {_or(_divisors(num_ranks))}")
        return Shape(self.groups, num_ranks // self.groups)


def _check_ranks(num_ranks: int) -> None:
    if is_count(num_ranks) and num_ranks > MAX_VERTICES:
        raise InputError(f"{num_ranks} ranks: a grid has at most {MAX_VERTICES} ranks")
    check_num_parts(MAX_VERTICES, num_ranks, "rank")


def _given(grid: str | tuple[int, ...], dimensions: int, num_ranks: int) -> tuple[int, ...]:
    """Return the `dimensions` sizes of a grid such as "4x8"; their product must be `num_ranks`."""
    sizes = _sizes(grid, dimensions)
    if math.prod(sizes) != num_ranks:
        grids = f"for {num_ranks} ranks choose {_or(_shapes(num_ranks, dimensions))}"
        raise InputError(f"grid '{'x'.join(map(str, sizes))}': {grids}")
    return sizes


def _sizes(grid: str | tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    """Return the sizes of a given grid; InputError if their number is not `dimensions`."""
    text = "x".join(map(str, grid)) if isinstance(grid, tuple | list) else str(grid)
    found = re.fullmatch("x".join([r"([1-9]\d{0,9})"] * dimensions), text, re.ASCII)
    if not found:
        example = "x".join(["4", "4", "2"][:dimensions])
        raise InputError(f"grid '{text}': give {dimensions} numbers of ranks, such as {example}")
    return tuple(map(int, found.groups()))


def _shapes(num_ranks: int, dimensions: int) -> list[str]:
    """Return names, such as "2x3", of grids with `num_ranks` ranks; the most even come first.

    The list has at most `MOST_SHAPES` grids; if there are more, it ends with "...".
    """
    divisors = _divisors(num_ranks)
    sizes = [(a, num_ranks // a) for a in divisors]
    if dimensions == 3:
        sizes = [(a, b, c // b) for a, c in sizes for b in divisors if c % b == 0]  # type: ignore[misc]
    sizes.sort(key=lambda shape: (sum(shape), [-size for size in shape]))
    more = ["..."] if len(sizes) > MOST_SHAPES else []
    return ["x".join(map(str, shape)) for shape in sizes[:MOST_SHAPES]] + more


def _divisors(number: int) -> list[int]:
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def _near(num_ranks: int, below: int, above: int) -> str:
    return _or(sorted({number for number in (below, above) if number >= 1 and number != num_ranks}))


def _or(choices: Iterable[object]) -> str:
    """Join choices to "1, 2 or 4"; or to "1, 2, ..." if the last choice is "..."."""
    words = [str(choice) for choice in choices]
    if len(words) < 2 or words[-1] == "...":
        return ", ".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
