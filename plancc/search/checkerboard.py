"""Search for the groups of a checkerboard: from owners by rows, laid on the grid and refined.

Knows matrices, the search by rows and the pass over groups; no plan, no file.

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

import numpy as np
import scipy.sparse as sp

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.owners import traffic
from plancc.graph.graph import Graph
from plancc.models.checkerboard import CheckerboardModel, Groups, assemble
from plancc.models.limits import Limits
from plancc.models.loads import Loads
from plancc.models.weights import LOOSE, check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.run import balance_notes
from plancc.passes.deadline import Deadline
from plancc.passes.fill import FillEmptyParts
from plancc.passes.grid import CellLimits, Level, fees, place_parts, refine, settle
from plancc.search.effort import by_rows, rows_of_search
from plancc.search.record import Record, SearchResult, Trial

STARTS = {"fast": 1, "balanced": 1, "best": 3}
"""Number of searches by rows, each with a seed of its own."""
CYCLES = {"fast": 0, "balanced": 2, "best": 10}
"""Number of V-cycles in all; with a budget effort best makes as many as it allows."""
START_SHARE = 0.4
"""Share of a budget for the searches by rows."""
ROUNDS = {"fast": 2, "balanced": 6, "best": 12}
"""Refinements with fees on messages, for the objectives that count messages."""
ROUNDS_SHARE = 0.3
"""Share of a budget kept for these refinements."""
STRENGTH = 1.0
"""Strength of the fees in the first round."""
WEAKER = 0.5
"""Factor of the strength after a round that found nothing better."""
STRONGER = 1.5
"""Factor of the strength after a better round."""
MAX_FRUITLESS = 2
"""Number of rounds in a row without a better result that ends them."""
MAX_EXTRA_VOLUME = 0.1
"""Share by which these rounds may raise the volume."""


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
    follow, which may cost `MAX_EXTRA_VOLUME`. The best of all by the objective are taken. A grid of
    a single row or column is a search by columns or by rows, whose owners are refined for the
    objective itself.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    model : CheckerboardModel
    num_parts : int
    options, report
        See `plancc.search.effort.search`; epsilon is that of the nonzeros, and the objective is
        "messages" if none is named.

    Returns
    -------
    SearchResult
        With owners of the nonzeros.

    Raises
    ------
    InputError
        A grid that does not fit `num_parts`, an unknown name, a number out of range.
    """
    options = options or SearchOptions()
    if options.objective is None:
        options = replace(options, objective=model.default_objective)
    effort, objective = options.for_search()
    epoch = options.time(matrix, num_parts)
    check_num_parts(matrix.num_vertices, num_parts)
    seed, budget, epsilon = options.seed, options.budget, options.epsilon
    shape = model.shape(num_parts)
    hopeless = bool(model.unfit(matrix, num_parts))
    start_effort = "fast" if effort == "fast" or hopeless else "balanced"
    deadline, record, warnings = Deadline.after(budget, options.stop), Record(report), list[str]()
    rows_each, capacities = None, options.capacities
    if objective == "time":  # a cell's rows are its dense work, and count more than its nonzeros
        even = np.ones(matrix.num_vertices, dtype=np.int64)
        rows_each = Limits.of(even, num_parts, epsilon, capacities)
        epsilon = max(epsilon, LOOSE)
    nonzeros = Limits.of_nonzeros(matrix.num_nonzeros, num_parts, epsilon, capacities)
    limits = CellLimits(nonzeros, rows_each)

    def parts_by_rows(of: Graph, goal: str, seed: int, share: float) -> Groups:
        """Owners of the rows; `share` of the budget is theirs."""
        own = None if budget is None else share * budget
        rows, notes = rows_of_search(of, num_parts, by_rows(options, start_effort, seed, own, goal))
        warnings.extend(notes)
        return rows

    def note(
        step: str, begin: float, groups: tuple[Groups, Groups], most: float = np.inf
    ) -> _Candidate:
        """Measure groups exactly and put them into the record, if they move at most that much."""
        seconds = wall_seconds() - begin
        made = assemble(matrix, *groups, shape[1])
        parts = traffic(matrix, made, num_parts)
        over, rows = limits.nonzeros.overload(parts.nonzeros), int(parts.sent.sum())
        value = objective_value(objective, parts, made, epoch)
        if rows <= most:
            record.add(step, seconds, made, over, value, rows)
        return _Candidate(over, rows, value, groups)

    begin = wall_seconds()
    if 1 in shape:
        none = np.zeros(matrix.num_vertices, dtype=np.int32)
        if shape[1] == 1:
            groups = parts_by_rows(matrix, objective, seed, 1.0), none
        else:
            # the time is that of these owners, not of a row plan of the transpose
            of_columns = "volume" if objective == "time" else objective
            groups = none, parts_by_rows(_transposed(matrix), of_columns, seed, 1.0)
        note(f"parts by {'rows' if shape[1] == 1 else 'columns'}, seed {seed}", begin, groups)
        if model.grid is None and num_parts > 1:
            warnings.append(f"{num_parts} is prime: grid {num_parts}x1 is a plan by rows")
    else:
        finest = Level.of(matrix)
        found: list[_Candidate] = []
        for k in range(1 if hopeless else STARTS[effort]):
            if k > 0 and deadline.passed():
                break
            begin, rng = wall_seconds(), np.random.default_rng(seed + k)
            owner = parts_by_rows(matrix, "volume", seed + k, START_SHARE / STARTS[effort])
            if hopeless and model.is_sparse(matrix, num_parts):  # no cell has two parts
                dealt = owner // np.int32(shape[1]), owner % np.int32(shape[1])
                note(f"parts by rows dealt to the grid, seed {seed + k}", begin, dealt)
            groups = place_parts(finest, owner, shape, limits, rng, deadline)
            groups = _filled(matrix, groups, shape)
            note(f"parts by rows on the grid, seed {seed + k}", begin, groups)
            begin = wall_seconds()
            improve = settle if hopeless else refine
            groups = improve(finest, groups, shape, limits, rng, deadline)
            found.append(note(f"sweeps, seed {seed + k}", begin, groups))
        best, cycle, rng = min(found, key=_rank), 0, np.random.default_rng([seed, 1])
        timed, rounds = effort == "best" and budget is not None, 0
        if OBJECTIVES[objective].counts_messages and not hopeless:
            rounds = ROUNDS[effort]
        cycles_end = deadline
        if budget is not None and rounds > 0:
            cycles_end = deadline.earlier(ROUNDS_SHARE * budget)
        cycles = 0.0 if hopeless else np.inf if timed else CYCLES[effort]
        while cycle < cycles and not cycles_end.passed():
            cycle, begin = cycle + 1, wall_seconds()
            groups = refine(finest, best.groups, shape, limits, rng, cycles_end, coarsen=True)
            best = min(best, note(f"V-cycle {cycle}", begin, groups), key=_rank)
        most, strength, fruitless = (1 + MAX_EXTRA_VOLUME) * best.volume, STRENGTH, 0
        for k in range(1, rounds + 1):
            if deadline.passed() or fruitless == MAX_FRUITLESS:
                break
            begin, fee = wall_seconds(), fees(best.volume, shape, strength)
            groups = refine(finest, best.groups, shape, limits, rng, deadline, fee=fee)
            reached = note(f"fees on messages, round {k}", begin, groups, most)
            better = reached.volume <= most and reached.merit < best.merit
            best, fruitless = (reached, 0) if better else (best, fruitless + 1)
            strength *= STRONGER if better else WEAKER

    assert record.owners is not None
    cells = record.owners.of_nonzeros(matrix)
    loads = Loads.of_nonzeros(matrix.num_nonzeros, epsilon, capacities)
    warnings += balance_notes(cells, loads, num_parts, f"effort {effort}")
    return record.result([*dict.fromkeys(warnings)])


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Groups and what they are worth."""

    overload: float
    volume: int
    value: float
    groups: tuple[Groups, Groups]

    @property
    def merit(self) -> tuple[float, float, int]:
        """By the objective; smaller is better."""
        return self.overload, self.value, self.volume


def _rank(candidate: _Candidate) -> tuple[float, int]:
    """By volume; smaller is better."""
    return candidate.overload, candidate.volume


def _filled(
    matrix: Graph, groups: tuple[Groups, Groups], shape: tuple[int, int]
) -> tuple[Groups, Groups]:
    """The same with a vertex in every cell."""
    owner = groups[0] * np.int32(shape[1]) + groups[1]
    owner = FillEmptyParts().run(owner, matrix.row_nonzeros(), shape[0] * shape[1])
    return owner // np.int32(shape[1]), owner % np.int32(shape[1])


def _transposed(matrix: Graph) -> Graph:
    """The pattern of the transpose."""
    n = matrix.num_vertices
    ones = np.ones(matrix.num_nonzeros, dtype=np.int8)
    turned = sp.csr_array((ones, matrix.indices, matrix.indptr), shape=(n, n)).T.tocsr()
    turned.sort_indices()
    return Graph(turned.indptr.astype(np.int64), turned.indices.astype(np.int32))
