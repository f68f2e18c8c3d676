"""Search for the groups of a checkerboard: from owners by rows, laid on the grid and refined.

========  ========================================================================================
fast      owners of effort fast, their parts placed on the grid, then one round of sweeps
balanced  owners of effort balanced, the same, then V-cycles
best      several such starts, and V-cycles from the best groups until the budget ends
========  ========================================================================================

Objectives that count messages end with rounds of sweeps at the finest level that charge fees on
them. Where hubs keep the cells from being even (`CheckerboardModel.unfit`), no search helps:
owners of effort fast are placed on the grid and overfull cells relieved, whatever the effort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.checkerboard import CheckerboardModel, Groups, assemble
from plancc.models.limits import Limits
from plancc.models.weights import LOOSE
from plancc.options import SearchOptions
from plancc.passes.fill import fill_empty_parts
from plancc.passes.grid import Grouping, Level, RefineGroups, fees
from plancc.search.effort import rows_inside
from plancc.search.job import Job
from plancc.search.presets import GRID_EFFORTS
from plancc.search.record import Member, SearchResult, Trial


def search_checkerboard(
    matrix: Graph,
    model: CheckerboardModel,
    num_parts: int,
    options: SearchOptions | None = None,
    *,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find row groups and column groups whose cells have about as many nonzeros each.

    Groups are made for little volume first; for "messages" and "time" rounds with fees on messages
    follow, which may cost `GridEffort.max_extra_volume`. The best of all by the objective are
    taken. A grid of a single row or column is a search by columns or by rows, whose owners are
    refined for the objective itself.

    Parameters:
        matrix: The normalised matrix.
        options, report: See `plancc.search.effort.search`; epsilon is that of the nonzeros, and the
            objective is "messages" if none is named.

    Returns:
        With owners of the nonzeros.

    Raises:
        InputError: A grid that does not fit `num_parts`, an unknown name, a number out of range.
    """
    options = options or SearchOptions()
    if options.objective is None:
        options = replace(options, objective=model.default_objective)
    # for the time a cell's rows, its dense work, count more
    epsilon = max(options.epsilon, LOOSE) if options.objective == "time" else options.epsilon
    limits = Limits.of_nonzeros(matrix.num_nonzeros, num_parts, epsilon, options.capacities)
    job = GridJob(matrix=matrix, model=model, limits=limits, options=options, report=report)
    job.deadline = job.whole
    if 1 in job.shape:
        job.by_lines()
    else:
        best, rng = job.starts(), np.random.default_rng([options.seed, 1])
        job.refine_messages(job.cycles(best, rng), rng)
    return job.result()


@dataclass(kw_only=True)
class GridJob(Job):
    """A search for the groups of a checkerboard."""

    model: CheckerboardModel

    def __post_init__(self) -> None:
        super().__post_init__()
        self.how, self.of_cells = GRID_EFFORTS[self.effort], [self.limits]
        if self.objective == "time":
            ones = np.ones(self.matrix.num_vertices, dtype=np.int64)
            self.of_cells += [replace(self.limits, weights=ones, epsilon=self.options.epsilon)]
        self.shape = self.model.shape(self.num_parts)
        self.hopeless = bool(self.model.unfit(self.matrix, self.num_parts))
        messages = OBJECTIVES[self.objective].counts_messages and not self.hopeless
        self.rounds = self.how.rounds if messages else 0

    @cached_property
    def refiner(self) -> RefineGroups:
        return RefineGroups(Level.of(self.matrix), self.shape, self.of_cells)

    def placed(self, groups: Grouping) -> Owners:
        """Owners that groups lead to."""
        return assemble(self.matrix, *groups, self.shape[1])

    def note_groups(self, step: str, begin: float, groups: Grouping) -> Placed:
        return Placed(groups, self.note(step, begin, self.placed(groups)))

    def by_rows(self, of: Graph, goal: str, seed: int, share: float) -> Groups:
        """Owners of the rows; `share` of the budget is theirs."""
        own = None if self.options.budget is None else share * self.options.budget
        effort = "fast" if self.effort == "fast" or self.hopeless else "balanced"
        return rows_inside(self, of, effort, seed, own, goal)

    def by_lines(self) -> None:
        """Groups of a grid of one row or one column."""
        begin, seed, matrix = wall_seconds(), self.options.seed, self.matrix
        none = np.zeros(matrix.num_vertices, dtype=np.int32)
        if self.shape[1] == 1:
            lines, groups = "rows", (self.by_rows(matrix, self.objective, seed, 1.0), none)
        else:
            # the time is that of these owners, not of a row plan of the transpose
            goal = "volume" if self.objective == "time" else self.objective
            lines, groups = "columns", (none, self.by_rows(_transposed(matrix), goal, seed, 1.0))
        self.note_groups(f"parts by {lines}, seed {seed}", begin, groups)
        if self.model.grid is None and self.num_parts > 1:
            self.warnings.append(
                f"{self.num_parts} is prime: grid {self.num_parts}x1 is a plan by rows"
            )

    def starts(self) -> Placed:
        """The best of several searches by rows, laid on the grid and refined."""
        found, how, shape = [], self.how, self.shape
        for k in range(1 if self.hopeless else how.starts):
            if k > 0 and self.deadline.passed():
                break
            seed = self.options.seed + k
            begin, rng = wall_seconds(), np.random.default_rng(seed)
            owner = self.by_rows(self.matrix, "volume", seed, how.start_share / how.starts)
            if self.hopeless and self.model.is_sparse(self.matrix, self.num_parts):
                dealt = np.divmod(owner, np.int32(shape[1]))  # no cell has two parts
                self.note_groups(f"parts by rows dealt to the grid, seed {seed}", begin, dealt)
            groups = self.refiner.place(owner, rng, self.deadline)
            groups = _filled(self.matrix, groups, shape)
            self.note_groups(f"parts by rows on the grid, seed {seed}", begin, groups)
            begin = wall_seconds()
            improve = self.refiner.settle if self.hopeless else self.refiner.refine
            groups = improve(groups, rng, self.deadline)
            found.append(self.note_groups(f"sweeps, seed {seed}", begin, groups))
        return min(found, key=_by_volume)

    def cycles(self, best: Placed, rng: np.random.Generator) -> Placed:
        """V-cycles from the best groups."""
        budget, end, cycle = self.options.budget, self.deadline, 0
        if budget is not None and self.rounds > 0:
            end = end.earlier(self.how.rounds_share * budget)
        timed = self.effort == "best" and budget is not None
        cycles = 0.0 if self.hopeless else np.inf if timed else self.how.cycles
        while cycle < cycles and not end.passed():
            cycle, begin = cycle + 1, wall_seconds()
            groups = self.refiner.refine(best.groups, rng, end, coarsen=True)
            best = min(best, self.note_groups(f"V-cycle {cycle}", begin, groups), key=_by_volume)
        return best

    def refine_messages(self, best: Placed, rng: np.random.Generator) -> None:
        """Rounds with fees on messages, which may cost some volume."""
        how, strength, fruitless = self.how, self.how.strength, 0
        most = (1 + how.max_extra_volume) * best.member.volume
        for k in range(1, self.rounds + 1):
            if self.deadline.passed() or fruitless == how.patience:
                break
            begin, fee = wall_seconds(), fees(best.member.volume, self.shape, strength)
            groups = self.refiner.refine(best.groups, rng, self.deadline, fee=fee)
            owners, seconds = self.placed(groups), wall_seconds() - begin
            reached = self.measure(owners)
            better = False
            if reached.volume <= most:
                self.judged(f"fees on messages, round {k}", seconds, reached)
                better = reached.merit < best.member.merit
            best, fruitless = (Placed(groups, reached), 0) if better else (best, fruitless + 1)
            strength *= how.stronger if better else how.weaker


class Placed(NamedTuple):
    """Groups and what they are worth."""

    groups: Grouping
    member: Member


def _by_volume(placed: Placed) -> tuple[float, int]:
    return placed.member.overload, placed.member.volume


def _filled(matrix: Graph, groups: Grouping, shape: tuple[int, int]) -> Grouping:
    """The same with a vertex in every cell."""
    owner = groups[0] * np.int32(shape[1]) + groups[1]
    owner = fill_empty_parts(owner, matrix.row_nonzeros(), shape[0] * shape[1])
    return np.divmod(owner, np.int32(shape[1]))


def _transposed(matrix: Graph) -> Graph:
    """The pattern of the transpose."""
    n = matrix.num_vertices
    ones = np.ones(matrix.num_nonzeros, dtype=np.int8)
    turned = sp.csr_array((ones, matrix.indices, matrix.indptr), shape=(n, n)).T.tocsr()
    turned.sort_indices()
    return Graph(turned.indptr.astype(np.int64), turned.indices.astype(np.int32))
