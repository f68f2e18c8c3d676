"""`search`: how much work goes into a partition, and what it consists of.

========  ========================================================================================
fast      a quick partition, by the kind of graph, then one round of sweeps on the finest level
balanced  a quick and a good start, V-cycles from each, both combined, minimum cuts
best      a population from several partitioners, refined and combined until the budget ends
========  ========================================================================================

Every effort minimises the volume first and refines for another objective from there; for the
expected volume of mini-batches balanced and best also start from the strongest partitioner's cut.
Where a model says that it is not made for a graph (`StochasticModel.unfit`), fast is all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from plancc.clock import wall_seconds
from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.hypergraph import HypergraphModel
from plancc.models.loads import Loads
from plancc.models.problem import Hypergraph
from plancc.models.stochastic import EXPECTED_VOLUME
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.run import balance_notes, quickest, strongest
from plancc.passes.deadline import Deadline
from plancc.passes.multilevel import Owner
from plancc.search.job import Job, Member
from plancc.search.record import Record, SearchResult, Trial

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

CYCLES: dict[str, tuple[int, int | None]] = {
    "hubs": (1, 2),
    "even": (1, 2),
    "thin": (0, None),
    "wide": (3, None),
}
"""Most V-cycles after the first and the second start of effort balanced, by kind of graph; None: no
second start."""
SECOND_SHARE = 0.5
"""Share of the time left for the second start."""
SHORT = ("even", "thin")
"""Kinds of graphs whose boundaries are short enough for minimum cuts."""
MEMBER_CYCLES = 3
"""V-cycles that a member of the population of effort best starts with."""
ROUNDS = 12
"""Combinations per member of the population, unless a budget says when to end."""
GROWING_SHARE = 0.4
"""Share of a budget in which members are added to the population."""
MAX_MEMBERS = 12
"""Largest population; without a budget its members are those of different partitioners only."""
CUT_SHARE = 0.5
"""Share of the time left that the strong partitioner gets, for an expected volume."""
FEW_ROWS = 0.05
"""Share of the rows below which a volume is small."""
OBJECTIVE_STARTS = 4
"""Number of the best members that are refined for another objective than the volume."""
OBJECTIVE_SHARE = 0.4
"""Share of a budget kept for another objective than the volume."""


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

    record, deadline = Record(report), Deadline.after(budget)
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
        deadline=Deadline(deadline.at - kept),
    )
    owners = _EFFORTS[effort](job)
    if hopeless:  # no refinement of the expectation
        owners = []
    job.deadline = deadline
    if expectation is not None and owners and effort != "fast" and not job.deadline.passed():
        # The limit of small batches is the edge cut, which this partitioner is best at; where few
        # rows move at all, as in meshes, it is quick and good with hypergraphs too.
        job.start(job.graph, strongest(job.graph), seed=seed, share=CUT_SHARE, needed=False)
        if record.least_volume < FEW_ROWS * matrix.num_vertices:
            strong = strongest(job.hypergraph)
            job.start(job.hypergraph, strong, seed=seed, share=CUT_SHARE, needed=False)
    if objective in ("time", EXPECTED_VOLUME) and owners and record.owners is not None:
        # Less volume is not always less time: start from the best owners by the objective too.
        best = record.owners.rows
        owners = [best, *(owner for owner in owners if owner is not best)]
    cycles = 1 if effort == "fast" else None
    found = job.refine_objective(owners, cycles)
    while expectation is not None and found and effort != "fast" and not deadline.passed():
        latest = min(found, key=lambda member: (member.overload, member.value))
        if not expectation.grow(latest.owner, num_parts, record.best[1]):
            break
        assert record.owners is not None
        found = job.refine_objective([record.owners.rows], cycles)
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
    owner = job.first("fast")
    return [] if owner is None else [job.chain(owner, job.options.seed, 0).owner]


def _balanced(job: Job) -> list[Owner]:
    seed, first = job.options.seed, job.first("balanced")
    if first is None:
        return []
    others = [each for each in job.beginnings("balanced") if not job.has_begun(each, seed)]
    one, two = CYCLES[job.kind]

    def second() -> Member | None:
        if not others or two is None:
            return None
        owner = job.begin(others[0], seed, SECOND_SHARE)
        return None if owner is None else job.chain(owner, seed + 1, two)

    found = job.side_by_side(
        lambda task: task(), [(partial(job.chain, first, seed, one),), (second,)]
    )
    best, *rest = sorted(member for member in found if member is not None)
    if rest and not job.deadline.passed():
        rng = np.random.default_rng([seed, 0])
        best = min(best, job.cycle(best.owner, rng, "combined", rest[0].owner))
    if job.kind in SHORT and not job.deadline.passed():
        best = min(best, job.minimum_cuts(best.owner))
    return [best.owner]


def _best(job: Job) -> list[Owner]:
    first = job.first("balanced")
    if first is None:
        return []
    population = _population(job, first)
    rng = np.random.default_rng(job.options.seed)
    timed = job.deadline.at < np.inf
    made = 0
    while not job.deadline.passed() and (timed or made < ROUNDS * len(population)):
        pairs = [_two_of(population, rng) for _ in range(job.options.threads)]
        children = job.side_by_side(
            _child, [(job, *pair, made + k) for k, pair in enumerate(pairs)]
        )
        made += len(children)
        for child, (_, worse) in zip(children, pairs, strict=True):
            replaced = worse if worse in population else max(population)
            if child < replaced and all(child.volume != m.volume for m in population):
                population[population.index(replaced)] = child
    return [member.owner for member in sorted(population)[:OBJECTIVE_STARTS]]


def _population(job: Job, first: Owner) -> list[Member]:
    """Members from several partitioners and seeds, each with a chain of V-cycles of its own."""
    begin, seed = wall_seconds(), job.options.seed
    growing = GROWING_SHARE * job.deadline.seconds_left()
    by_volume = replace(job.graph, objective="volume")
    first_seconds = job.record.trials[0].seconds
    starts: list[Callable[[], Owner | None]] = [
        lambda: first,
        lambda: job.start(by_volume, quickest(by_volume), seed=seed, share=0.3),
        lambda: job.start(job.base, seed=seed + 1, share=0.3),
    ]
    strong = strongest(job.hypergraph)
    if job.model.problem is Hypergraph and strong is not None:
        seconds = strong.slowness * first_seconds
        if seconds < 0.5 * job.deadline.seconds_left():
            preset = strong.presets[0]
            starts.append(
                lambda: job.start(job.hypergraph, strong, preset=preset, seed=seed, share=0.5)
            )

    def grow(start: Callable[[], Owner | None], seed: int) -> Member | None:
        owner = start()
        return None if owner is None else job.chain(owner, seed, MEMBER_CYCLES)

    grown = job.side_by_side(grow, [(start, seed + k) for k, start in enumerate(starts)])
    while len(grown) < MAX_MEMBERS and wall_seconds() - begin < growing < np.inf:
        seeds = range(seed + len(grown), seed + len(grown) + job.options.threads)
        grown += job.side_by_side(
            grow, [(partial(job.start, job.base, seed=each, share=0.3), each) for each in seeds]
        )
    return [member for member in grown if member is not None]


def _two_of(population: list[Member], rng: np.random.Generator) -> tuple[Member, Member]:
    """Two members at random, the better one first; one twice if there is only one."""
    if len(population) == 1:
        return population[0], population[0]
    one, two = (population[k] for k in rng.choice(len(population), 2, replace=False))
    return (one, two) if one < two else (two, one)


def _child(job: Job, better: Member, worse: Member, number: int) -> Member:
    """Combine two members, then a V-cycle of its own."""
    rng = np.random.default_rng([job.options.seed, 1, number])
    child = job.cycle(better.owner, rng, f"combined {number + 1}", worse.owner)
    if job.deadline.passed():
        return child
    return min(child, job.cycle(child.owner, rng, f"combined {number + 1}, V-cycle"))


_EFFORTS: dict[str, Callable[[Job], list[Owner]]] = {
    "fast": _fast,
    "balanced": _balanced,
    "best": _best,
}
