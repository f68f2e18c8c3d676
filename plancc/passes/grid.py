"""Better groups for a checkerboard: less volume, and cells with about as many nonzeros each.

The volume is that of two hypergraphs: nets of the columns under the row groups, and nets of the
rows under the column groups. Only the balance of the cells joins the two, so sweeps over the row
groups and over the column groups take turns. Early ones are warm (a heat bath) and let cells grow;
the temperature falls and the price of overweight rises from sweep to sweep. V-cycles do the same
with clusters of vertices first. Counts take ``4 * n * (rows + columns)`` bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.graph.graph import Graph
from plancc.models.checkerboard import Groups
from plancc.models.limits import Bounds, Limits
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.grid import (
    CellRules,
    CellSide,
    Messages,
    cells,
    flows,
    pins_by_group,
    sweep,
)
from plancc.passes.kernels.nets import Nets, transpose
from plancc.passes.multilevel import coarsen as clusters
from plancc.passes.presets import GRID_SWEEPS, PART_SWEEPS, Annealing, Fees, GridSweeps

Grouping = tuple[Groups, Groups]
"""Row groups and column groups of the vertices, int32[n] each."""
NO_FEES = np.empty(0)


@dataclass(frozen=True, eq=False)
class Level:
    """The matrix over vertices or clusters of them, and its two hypergraphs.

    Attributes:
        weight (csr_array int64[n, n]): Nonzeros of the blocks of the matrix.
        expand, fold (csr_array[n, num_nets]): Which vertex is a pin of which column's net, and of
            which row's.
        rows (int64[n]): Rows of the matrix that every vertex stands for.
    """

    weight: sp.csr_array
    expand: sp.csr_array
    fold: sp.csr_array
    rows: npt.NDArray[np.int64]

    @classmethod
    def of(cls, matrix: Graph) -> Level:
        """The finest level; a net of one column has its own vertex too."""
        n = matrix.num_vertices
        ones = np.ones(matrix.num_nonzeros, dtype=np.int64)
        weight = sp.csr_array((ones, matrix.indices, matrix.indptr), shape=(n, n))
        pins = _pattern(weight + sp.eye_array(n, dtype=np.int64, format="csr"))
        return cls(weight, pins, pins.T.tocsr(), np.ones(n, dtype=np.int64))

    @property
    def num_vertices(self) -> int:
        return int(self.weight.shape[0])

    @cached_property
    def sides(self) -> tuple[CellSide, CellSide]:
        """The vertices as rows and as columns."""
        fold = _side(self.fold, self.weight.T.tocsr(), self.rows)
        return _side(self.expand, self.weight, self.rows), fold

    def coarser(self, label: npt.NDArray[np.int32]) -> Level:
        """The level of clusters ``label[v]`` in 0..m-1; nets within one cluster are left out."""
        n, m = self.num_vertices, int(label.max()) + 1
        members = sp.csr_array((np.ones(n, dtype=np.int64), (label, np.arange(n))), shape=(m, n))

        def pins(of_vertices: sp.csr_array) -> sp.csr_array:
            found = _pattern(members @ of_vertices)
            several = np.bincount(found.indices, minlength=found.shape[1]) > 1
            return found[:, np.flatnonzero(several)]

        weight = (members @ self.weight @ members.T).tocsr()
        rows = np.bincount(label, weights=self.rows, minlength=m).astype(np.int64)
        return Level(weight, pins(self.expand), pins(self.fold), rows)

    def nets(self) -> Nets:
        """Both hypergraphs as one, whose vertices weigh the nonzeros of row and column."""
        both = sp.hstack([self.expand, self.fold], format="csr")
        ptr, nets = both.indptr.astype(np.int64), both.indices.astype(np.int32)
        none = np.empty(0, dtype=np.int32)
        net_ptr, pins, _ = transpose(ptr, nets, none, both.shape[1])
        weight = self.weight.sum(axis=0) + self.weight.sum(axis=1)
        cost = np.ones(both.shape[1], dtype=np.int64)
        return Nets(net_ptr, pins, cost, none, ptr, nets, weight.reshape(-1, 1), none, none)


def _pattern(matrix: sp.csr_array) -> sp.csr_array:
    """1 wherever something is stored."""
    matrix.data[:] = 1
    return matrix


def _side(pins: sp.csr_array, weight: sp.csr_array, rows: npt.NDArray[np.int64]) -> CellSide:
    index = [
        (each.indptr.astype(np.int64), each.indices.astype(np.int32)) for each in (pins, weight)
    ]
    return CellSide(*index[0], *index[1], weight.data, pins.shape[1], rows)


@dataclass(eq=False)
class Board:
    """Groups of the vertices of a level, with what changes at every move.

    Attributes:
        groups (two int32[n]): Row groups and column groups; copied.
        shape: Rows and columns of the grid.
        limits: Of the nonzeros of cells, and of their rows where these count.
        least_size: No move leaves a cell fewer rows.
        fee (float64[k]): Fees of messages (`plancc.passes.kernels.grid.Messages`), on the finest
            level only.
        counts (two int32[num_nets, num_groups]): Pins of the expand nets by row group, and of the
            fold nets by column group.
        load, size (int64[shape]): Nonzeros and rows of the cells.
    """

    level: Level
    groups: Grouping
    shape: tuple[int, int]
    limits: Sequence[Limits]
    rng: np.random.Generator
    least_size: int = 1
    fee: npt.NDArray[np.float64] = field(default_factory=lambda: NO_FEES)
    numbers: GridSweeps = GRID_SWEEPS
    counts: tuple[Any, Any] = field(init=False)
    load: npt.NDArray[np.int64] = field(init=False)
    size: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        rows, columns = (group.astype(np.int32) for group in self.groups)
        self.groups = rows, columns
        each = zip(self.level.sides, self.groups, self.shape, strict=True)
        expand, fold = (pins_by_group(side, group, num) for side, group, num in each)
        self.counts = expand, fold
        self.load, self.size = cells(self.level.sides[0], rows, columns, *self.shape)

    @property
    def volume(self) -> int:
        """Rows moved by expand and fold."""
        return sum(int(np.count_nonzero(count)) - len(count) for count in self.counts)

    @property
    def overload(self) -> float:
        """Weight of all cells above the limits."""
        pairs = zip(self.limits, (self.load, self.size), strict=False)
        return sum(limits.overload(load) for limits, load in pairs)

    @property
    def price_unit(self) -> npt.NDArray[np.float64]:
        """Volume per nonzero, for an overweight of `Annealing.overweight` of a cell: by cell."""
        per_nonzero = self.volume / max(int(self.load.sum()), 1)
        unit = per_nonzero / np.maximum(Annealing.overweight * self.limits[0].even, 1)
        return np.asarray(unit)

    def _bounds(self, of: int, price: npt.NDArray[np.float64], way: str) -> Bounds:
        """Bounds of nonzeros (0) or rows (1) for a sweep; `price` and `way` as there."""
        nonzeros, limits = self.limits[0], self.limits[min(of, len(self.limits) - 1)]
        if limits is not nonzeros:  # the same share costs the same
            price = price * (nonzeros.even / np.maximum(limits.even, 1)) ** 2
        limit = limits.limit
        if of == len(self.limits):  # rows cost nothing
            found = limits.bounds(0 * price, target=np.full(limit.shape, np.inf))
        else:
            cap, target = (limit if way == each else None for each in ("within", "steep"))
            found = limits.bounds(price, cap, target)
        return Bounds(*(each.reshape(self.shape) for each in found))

    def sweep(
        self, price: npt.NDArray[np.float64], *, way: str = "beyond", temperature: float = 0.0
    ) -> None:
        """Every vertex in a random order, by row groups and then by column groups.

        Parameters:
            price (float64[num_cells, 1]): Price of overweight, in rows moved per square of a
                nonzero.
            way: "beyond": cells may grow, at the price of what is above the target. "steep": at the
                price of what is above the limit. "within": no cell grows above the limit.
            temperature: See `plancc.passes.kernels.grid.CellRules`.
        """
        nonzeros, owned = (self._bounds(of, price, way) for of in range(2))
        flow = [np.zeros((1, 1, 1), dtype=np.int64)] * 2
        if len(self.fee) > 0:
            flow = [
                flows(self.groups[k], self.groups[1 - k], self.counts[k], self.shape[1 - k])
                for k in range(2)
            ]
        for k in range(2):
            # Copies where they are transposed: one layout in memory is one compiled kernel.
            load = np.ascontiguousarray(self.load.T if k else self.load)
            size = np.ascontiguousarray(self.size.T if k else self.size)
            of_load, of_size = (_turned(each) if k else each for each in (nonzeros, owned))
            rules = CellRules(of_load, of_size, temperature, self.least_size)
            sweep(
                self.rng.permutation(self.level.num_vertices),
                self.level.sides[k],
                self.groups[k],
                self.groups[1 - k],
                self.counts[k],
                load,
                size,
                rules,
                self.rng,
                Messages(flow[k], flow[1 - k], self.counts[1 - k], self.fee),
            )
            self.load, self.size = (load.T, size.T) if k else (load, size)

    def anneal(self, deadline: Deadline) -> None:
        """Sweep with a falling temperature and rising prices; none starts after the deadline."""
        unit, how = self.price_unit, self.numbers
        warmths = np.linspace(how.temperature, 0, how.sweeps)
        for price, warmth in zip(np.geomspace(*how.prices, how.sweeps), warmths, strict=True):
            if deadline.passed():
                return
            self.sweep(price * unit, temperature=warmth)

    def settle(self, deadline: Deadline) -> None:
        """Bring cells below the limit, once also after the deadline, and sweep within it."""
        unit, how = self.price_unit, self.numbers
        prices = [(price, "beyond") for price in how.restoring]
        prices += [(price, "steep") for price in how.steep]
        for attempt in range(how.attempts):
            if attempt > 0 and deadline.passed():
                break
            for k, (price, way) in enumerate(prices):
                if self.overload == 0:
                    break
                warmth = how.temperature if attempt > 0 and k == 0 else 0.0
                self.sweep(price * unit, temperature=warmth, way=way)
        for _ in range(how.climbs):
            if deadline.passed():
                return
            self.sweep(0 * unit, way="within")


def _turned(bounds: Bounds) -> Bounds:
    """The bounds of the transposed cells."""
    return Bounds(*(np.ascontiguousarray(each.T) for each in bounds))


def fees(volume: int, shape: tuple[int, int], strength: float) -> npt.NDArray[np.float64]:
    """Fees of the rows of a message: together ``strength`` times an average message's rows.

    Row x pays in proportion to ``exp(-x / s)``, with `Fees.small` times the average for s: what a
    message has at least is dear, and more is free.

    Returns:
        float64[k]: See `plancc.passes.kernels.grid.Messages`.
    """
    average = volume / max(shape[0] * shape[1] * (sum(shape) - 2), 1)
    small = float(np.clip(Fees.small * average, 1, Fees.max_size))
    rows = np.arange(int(8 * small) + 2)
    return strength * average * -np.diff(np.exp(-rows / small))


@dataclass(frozen=True, eq=False)
class RefineGroups:
    """Better groups for the cells of a grid.

    Attributes:
        shape: Rows and columns of the grid.
        limits: See `Board`.
    """

    finest: Level
    shape: tuple[int, int]
    limits: Sequence[Limits]

    def place(self, owner: Groups, rng: np.random.Generator, deadline: Deadline) -> Grouping:
        """Assign vertices to groups so that rows of one part share a group.

        Starts from the parts dealt to the cells in their order; cells may end up with several parts
        or none.

        Parameters:
            owner (int32[n]): In 0..rows*columns-1, no part empty.
        """
        part = np.arange(self.shape[0] * self.shape[1], dtype=np.int32)
        dealt = np.divmod(part, np.int32(self.shape[1]))
        level = self.finest.coarser(owner)
        board = self._board(level, dealt, rng, least_size=0, numbers=PART_SWEEPS)
        board.anneal(deadline)
        rows, columns = board.groups
        return rows[owner], columns[owner]

    def settle(self, groups: Grouping, rng: np.random.Generator, deadline: Deadline) -> Grouping:
        """Groups nearer to the limits: one attempt without any warm sweep; see `refine`."""
        board = self._board(self.finest, groups, rng, numbers=replace(GRID_SWEEPS, attempts=1))
        board.settle(deadline)
        return board.groups

    def refine(
        self,
        groups: Grouping,
        rng: np.random.Generator,
        deadline: Deadline,
        coarsen: bool = False,
        fee: npt.NDArray[np.float64] = NO_FEES,
    ) -> Grouping:
        """Sweeps from these groups on, over clusters of vertices first if `coarsen` (a V-cycle).

        The end may be worse than the start.

        Parameters:
            groups: Not changed.
            deadline: No sweep starts after it but those that balance.
            fee (float64[k], optional): Fees of messages (`fees`), without coarsening only.
        """
        steps: list[tuple[Level, npt.NDArray[np.int32] | None]] = [(self.finest, None)]
        if coarsen:
            rows, columns = self.shape
            start = groups[0] * np.int32(columns) + groups[1]
            together, nets = start.astype(np.int64), self.finest.nets()
            for _, cell, label in clusters(nets, start, together, rows * columns, rng):
                steps.append((steps[-1][0].coarser(label), label))
                groups = cell // columns, cell % columns
                if deadline.passed():
                    break
        while True:
            level, members = steps.pop()
            board = self._board(level, groups, rng, fee=fee)
            board.anneal(deadline)
            if members is None:
                break
            groups = board.groups[0][members], board.groups[1][members]
        board.settle(deadline)
        if len(self.limits) > 1 and self.limits[0].overload(board.load) > 0:
            board.limits = self.limits[:1]  # nonzeros come first, as they are asked for
            board.settle(deadline)
        return board.groups

    def _board(self, level: Level, groups: Grouping, rng: np.random.Generator, **how: Any) -> Board:
        return Board(level, groups, self.shape, self.limits, rng, **how)
