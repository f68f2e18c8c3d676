"""`search`: how much work goes into a partition, and what it consists of.

========  ========================================================================================
fast      a quick partition, by the kind of graph, then one round of sweeps on the finest level
balanced  quick starts, by the kind of graph, V-cycles from each, all combined, minimum cuts
best      a population from all partitioners that stays diverse: see `plancc.search.memetic`
========  ========================================================================================

Every effort minimises the volume first and refines for another objective from there; for the
expected volume of mini-batches balanced and best also start from the strongest partitioner's cut.
Where a model says that it is not made for a graph (`StochasticModel.unfit`), fast is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.hypergraph import HypergraphModel
from plancc.models.loads import Loads
from plancc.models.stochastic import EXPECTED_VOLUME
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.run import balance_notes, strongest
from plancc.passes.deadline import Deadline
from plancc.passes.flows import REACH
from plancc.passes.multilevel import WIDE_REACH, Owner
from plancc.search.job import EVEN, Job, Member
from plancc.search.memetic import evolve
from plancc.search.record import Record, SearchResult, Trial
from plancc.search.starts import Beginning

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

OTHERS = {"hubs": 1, "wide": 0, "even": 3, "thin": 1, "dense": 3}
"""Starts of effort balanced besides the first, by kind of graph: those of other partitioners and
presets, then all of them with another seed. On meshes a start is quick, and decides much."""
SCOUTS, SCOUTED = {"hubs": 4, "wide": 4, "even": 3, "thin": 3, "dense": 3}, 1_200_000
"""Most starts besides the first into at most `FEW` parts, where they differ most (by up to half of
the volume after the first sweeps), and nonzeros that they have together, about: a start on a small
graph costs little. There are two at least: of the `VARIETY` best ones, then with other seeds."""
VARIETY = 3
KEPT, SCOUT_CYCLES = 2, {"hubs": 1, "wide": 1, "even": 1, "thin": 0, "dense": 1}
"""Starts into few parts that V-cycles follow, and most V-cycles after each. They have no minimum
cuts: these take five times as long there, and save as little as another V-cycle."""
COMBINED, FEW_COMBINED = 3, 2
"""Most members that the best one is combined with, and of few parts."""
TIGHTENED = 2
"""Most V-cycles within the limit that end a search for few parts."""
ENOUGH = 0.997
"""Volume over the one before above which the next such step would save too little."""
MANY_ROWS = 100
"""Rows of an average part below which one other start is enough: refinement decides."""
CYCLES = {"hubs": (1, 2), "wide": (3, 0), "even": (1, 1), "thin": (0, 0), "dense": (1, 1)}
"""Most V-cycles after the first and after the other starts; the one that combines both is the only
one on thin graphs."""
OTHERS_SHARE = 0.5
"""Share of the time left for each of the other starts."""
CUT_SHARE = 0.5
"""Share of the time left that the strong partitioner gets, for an expected volume."""
DECISIVE = 0.87
"""Expected volume of that partitioner's cut over that of the first owners refined for the volume,
below which these have no part in the best owners: no other start is made."""
DEAR = 1.2
"""Volume within the limits over that of a start above them, beyond which effort fast makes another
start: METIS misses the balance of graphs in many pieces by much."""
FEW_ROWS = 0.05
"""Share of the rows below which a volume is small."""
EXPECTED_CYCLES = 3
"""V-cycles for an expected volume from each start, and from the best two combined."""
OBJECTIVE_STARTS = 4
"""Number of the best members that are refined for another objective than the volume."""
OBJECTIVE_SHARE = 0.4
"""Share of a budget kept for another objective than the volume."""
VAIN = 50
"""Refinements for another objective in vain that end effort best before its budget does."""


def search(
    matrix: Graph,
    num_parts: int,
    options: SearchOptions | None = None,
    *,
    model: Model | None = None,
    loads: Loads | None = None,
    expectation: Expectation | None = None,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find owners of the rows of `matrix`, by the exact objective.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    num_parts : int
    options : SearchOptions, optional
        A budget ends what is new; effort best uses all of it for the volume, and what its passes
        need for another objective. Without a budget and with one thread the same seed gives the
        same owners.
    model : Model, optional
        Says which kind of problem partitioners are given beside the graph; one that does not start
        from the cut gives the problem of the first start. None: `HypergraphModel`. The objective is
        exact all the same.
    loads : Loads, optional
        What the parts share evenly; None: nonzeros of the rows, within the epsilon of the options.
    expectation : Expectation, optional
        The expected volume of mini-batches, in place of the objective.
    report : callable, optional
        Called with every `Trial` as it ends.

    Raises
    ------
    InputError
        An unknown name, a number out of range.
    """
    options, model = options or SearchOptions(), model or HypergraphModel()
    effort, objective = options.for_search()
    seed, budget = options.seed, options.budget
    if loads is None:
        loads = _nonzeros(matrix, options)
    check_num_parts(matrix.num_vertices, num_parts)
    if expectation is not None:
        objective = EXPECTED_VOLUME
    hopeless = expectation is not None and bool(model.unfit(matrix, num_parts))
    if hopeless:
        effort = "fast"

    record, deadline = Record(report), Deadline.after(budget, options.stop)
    if expectation is not None:
        expectation.deadline = deadline
    kept = 0.0 if objective == "volume" or budget is None else OBJECTIVE_SHARE * budget
    hypergraph = HypergraphModel().build(matrix, num_parts, balance="nnz", seed=seed)
    hypergraph = replace(hypergraph, vertex_weights=loads.weights)
    job = Job(
        matrix=matrix,
        hypergraph=hypergraph,
        loads=loads,
        num_parts=num_parts,
        options=options,
        objective=objective,
        time=options.time(matrix, num_parts),
        model=model,
        expectation=expectation,
        record=record,
        deadline=deadline.earlier(kept),
    )
    owners = _EFFORTS[effort](job)
    if hopeless:  # no refinement of the expectation
        owners = []
    job.deadline = deadline
    cuts = effort != "fast" and not (job.decided or options.lean)  # those are of all rows
    if expectation is not None and cuts and owners and not job.deadline.passed():
        # Small batches move about what a cut weighs, which the strongest partitioner is mostly best
        # at; where few rows move at all, as in meshes, it is quick and good with hypergraphs too.
        job.start(job.graph, seeds=[seed], share=CUT_SHARE, needed=False)
        if not job.cut_made:
            _start_from_cut(job, expectation)
        if record.least_volume < FEW_ROWS * matrix.num_vertices:
            strong = strongest(job.hypergraph)
            job.start(job.hypergraph, strong, seeds=[seed], share=CUT_SHARE, needed=False)
    if objective in ("time", EXPECTED_VOLUME) and owners and record.owners is not None:
        # Less volume is not always less time: start from the best owners by the objective too.
        best = record.owners.rows
        owners = [best, *(owner for owner in owners if owner is not best)]
    if expectation is not None and effort != "best" and not expectation.exact:
        owners = owners[:1]  # other starts are as good on the sample, and no better beyond it
    cycles = 1 if effort == "fast" else None if expectation is None else EXPECTED_CYCLES
    found = job.refine_objective(owners, cycles)
    if found and effort == "best" and budget is not None and expectation is None:
        _refine_until_end(job, len(owners))
    several = expectation is not None and effort != "fast" and len(found) > 1
    if several and not deadline.passed():
        one, two = sorted(found, key=lambda member: (member.overload, member.value))[:2]
        found.append(job.combine_for(one.owner, two.owner, EXPECTED_CYCLES))
    while expectation is not None and found and effort != "fast" and not deadline.passed():
        latest = min(found, key=lambda member: (member.overload, member.value))
        if not expectation.grow(latest.owner, num_parts, record.best[1]):
            break
        assert record.owners is not None
        found = job.refine_objective([record.owners.rows], cycles if effort == "best" else 1)
    result = job.record.result(job.warnings)
    notes = balance_notes(result.owners.rows, loads, num_parts, f"effort {effort}")
    return replace(result, warnings=[*dict.fromkeys(result.warnings), *notes])


def by_rows(
    options: SearchOptions, effort: str, seed: int, budget: float | None, objective: str = "volume"
) -> SearchOptions:
    """Options of a search by rows inside a search by `options`."""
    return replace(options, objective=objective, effort=effort, seed=seed, budget=budget)


def rows_of_search(
    matrix: Graph, num_parts: int, options: SearchOptions
) -> tuple[Owner, list[str]]:
    """Owners of rows that a search finds, and its warnings but those of balance.

    Whoever searches on says which balance is missed in the end.
    """
    found = search(matrix, num_parts, options)
    rows = found.owners.rows
    who = f"effort {options.effort}"
    told = balance_notes(rows, _nonzeros(matrix, options), num_parts, who)
    return rows, [warning for warning in found.warnings if warning not in told]


def _nonzeros(matrix: Graph, options: SearchOptions) -> Loads:
    """Nonzeros of the rows, within the epsilon of the options."""
    nonzeros = matrix.row_nonzeros().astype(np.int64, copy=False)
    return Loads({"nnz": nonzeros}, options.epsilon, options.capacities)


def _fast(job: Job) -> list[Owner]:
    seed, owner = job.options.seed, job.first("fast")
    if owner is None:
        return []
    start = job.record.trials[-1].volume
    member = job.chain(owner, seed, 0, quick=True)
    if job.kind in EVEN and member.volume > DEAR * start and not job.deadline.passed():
        for other in job.beginnings("fast"):
            if not job.has_begun(other, seed):
                owner = job.begin(other, seed)
                if owner is not None:
                    member = min(member, job.chain(owner, seed, 0, quick=True))
                break
    return [member.owner]


def _balanced(job: Job) -> list[Owner]:
    return [member.owner for member in _balanced_members(job, decide=True)[:1]]


def _start_from_cut(job: Job, expectation: Expectation) -> Owner | None:
    """Start from the strongest partitioner's cut of edges that weigh about what batches move."""
    cut, job.cut_made = expectation.cut(job.graph, job.num_parts), True
    return job.start(cut, strongest(cut), seeds=[job.options.seed], share=CUT_SHARE, needed=False)


def _call(task: Callable[..., Any], *arguments: Any) -> Any:
    return task(*arguments)


def _balanced_members(job: Job, decide: bool = False) -> list[Member]:
    """What effort balanced finds, and after it what that was combined from.

    With `decide` a cut that is far better for an expected volume is all.
    """
    seed, few = job.options.seed, job.few
    first = job.first("balanced", _seeds_of_first(job) if few else 0)
    if first is None:
        return []
    turns, most = _turns(job)
    others = [each for each in turns if not job.has_begun(*each)][:most]
    one, two = (0, 0) if few else CYCLES[job.kind]
    mesh = job.kind in ("even", "dense")  # there cuts are worth their time at the end
    cuts = not (mesh or few)
    together: dict[Any, list[tuple[Beginning, int, int]]] = {}  # with all seeds in one process
    for k, (each, turn) in enumerate(others, 1):
        together.setdefault(each.name if few else k, []).append((each, turn, seed + k))

    def chain() -> list[Member]:
        return [job.chain(first, seed, one, not mesh)]

    def start(*turns: tuple[Beginning, int, int]) -> list[Member]:
        members = []
        for k, (each, turn, number) in enumerate(turns, 1):
            owner = job.begin(each, turn, OTHERS_SHARE, len(turns) - k)
            if owner is not None:
                members.append(job.chain(owner, number, two, not mesh))
        return members

    def worthwhile(member: Member) -> bool:
        return not (job.deadline.passed() or job.is_least(member))

    starts = [(start, *turns) for turns in together.values()]
    decides = decide and not job.options.lean and job.deadline.at == np.inf
    if job.expectation is None or not decides:
        found = _joined(job.side_by_side(_call, [(chain,), *starts]))
    else:
        found, cut = job.side_by_side(_call, [(chain,), (_start_from_cut, job, job.expectation)])
        assert job.record.owners is not None
        job.decided = cut is not None and job.record.best[1] < DECISIVE * found[0].value
        if job.decided:
            return [replace(found[0], owner=job.record.owners.rows)]
        found += _joined(job.side_by_side(_call, starts))
    if few:
        found = _onward(job, found)
    best, *rest = sorted(found)
    for k, other in enumerate(rest[: FEW_COMBINED if few else COMBINED]):
        before, rng = best, np.random.default_rng([seed, 2 * k])
        if worthwhile(best):
            best = min(best, job.cycle(best.owner, rng, "combined", other.owner, cuts))
        if few and best.volume > ENOUGH * before.volume:
            break
    last = np.random.default_rng([seed, 1])
    for _ in range(TIGHTENED if few else mesh):
        before = best
        if worthwhile(best):
            best = min(best, job.tighten(best.owner, last))
        if best.volume > ENOUGH * before.volume:
            break
    if (mesh or few) and worthwhile(best):
        wide = mesh if few else job.kind == "even"
        best = min(best, job.minimum_cuts(best.owner, WIDE_REACH if wide else REACH))
    if job.kind == "thin" and not rest and worthwhile(best):
        best = min(best, job.cycle(best.owner, last, "V-cycle"))
    return [best, *rest]


def _turns(job: Job) -> tuple[list[tuple[Beginning, int]], int]:
    """Starts and their seeds, in the order in which they are made, and most besides the first."""
    every, kind = job.beginnings("balanced"), job.kind_now
    most = OTHERS[kind]
    if job.few:
        scouts = round(SCOUTED / max(job.matrix.num_nonzeros, 1))
        every, most = every[:VARIETY], int(np.clip(scouts, 2, SCOUTS[kind]))
    if job.matrix.num_vertices < MANY_ROWS * job.num_parts:
        most = min(most, 1)
    seeds = [(job.options.seed + turn) % 2**31 for turn in range(1 + most)]
    return [(each, seed) for seed in seeds for each in every], most


def _seeds_of_first(job: Job) -> int:
    """Seeds that the partitioner of the first start will be asked for besides, by what is known."""
    turns, most = _turns(job)
    return sum(each.name == turns[0][0].name for each, _ in turns[1 : 1 + most])


def _joined(found: Sequence[list[Member]]) -> list[Member]:
    return [member for members in found for member in members]


def _onward(job: Job, found: Sequence[Member]) -> list[Member]:
    """V-cycles from the best of several starts into few parts."""
    members = sorted(found)
    seed, cycles = job.options.seed, SCOUT_CYCLES[job.kind]
    chains = [(member, seed + k, cycles) for k, member in enumerate(members[:KEPT])]
    return [*job.side_by_side(job.cycles, chains), *members[KEPT:]]


def _best(job: Job) -> list[Owner]:
    """The steps of effort balanced first: with as much time as that takes, it is never worse."""
    return [member.owner for member in evolve(job, _balanced_members(job))[:OBJECTIVE_STARTS]]


def _refine_until_end(job: Job, made: int) -> None:
    """Refine the best owners for the objective with other seeds, until the budget ends."""
    vain = 0
    while not job.deadline.passed() and vain < VAIN and job.record.best[1] > 0:
        before = job.record.best
        assert job.record.owners is not None
        turns = [job.record.owners.rows] * job.options.threads
        job.refine_objective(turns, first=made)
        made += len(turns)
        vain = vain + 1 if job.record.best == before else 0


_EFFORTS: dict[str, Callable[[Job], list[Owner]]] = {
    "fast": _fast,
    "balanced": _balanced,
    "best": _best,
}
