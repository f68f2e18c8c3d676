"""The search for owners of rows, and the steps of every effort.

========  ========================================================================================
fast      make one quick start, chosen by the kind of graph; run one round of sweeps on the finest
          level
balanced  make several quick starts, chosen by the kind of graph; run V-cycles from each; combine
          the results into one partition, and improve it by minimum cuts
best      evolve a diverse population from starts of all partitioners: see `plancc.search.memetic`
========  ========================================================================================

A *start* is a partition that a partitioner makes. Every effort first runs the steps of the lower
efforts, so its objective is never worse. The volume is minimised first, then the named objective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from operator import call
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.graph.graph import Graph
from plancc.graph.owners import Owner, Owners
from plancc.models.base import Model
from plancc.models.hypergraph import HypergraphModel, hypergraph_of
from plancc.models.limits import Limits
from plancc.models.stochastic import EXPECTED_VOLUME
from plancc.options import EFFORTS, SearchOptions
from plancc.partitioners.run import balance_notes, strongest
from plancc.passes.presets import CUTS, Cuts
from plancc.search.job import Job
from plancc.search.presets import (
    EXPECTED,
    FEW_PARTS,
    FOUR_PARTS,
    LAST_CUTS,
    MANY_PARTS,
    SINGLE_CUTS,
    TWO_PARTS,
    Combined,
    Evolution,
    Starts,
)
from plancc.search.record import Member, SearchResult, Trial
from plancc.search.rows import RowJob
from plancc.search.starts import Beginning

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation


def search(
    matrix: Graph,
    num_parts: int,
    options: SearchOptions | None = None,
    *,
    model: Model | None = None,
    limits: Limits | None = None,
    expectation: Expectation | None = None,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find owners of the rows of the normalised `matrix` that minimise the exact objective.

    Rows with a fixed owner keep it. Without a budget and with one thread, the same seed gives the
    same owners.

    Parameters:
        options: Options of the search; None: the defaults.
        model: The model that builds the problem for partitioners; None: `HypergraphModel`.
        limits: Limits of the parts; None: `epsilon` limits the nonzeros of a part's rows.
        expectation: The expected volume of mini-batches, which replaces the objective.
        report: Called with every `Trial` when it ends.

    Raises:
        InputError: If an option is invalid, or if the fixed rows alone break the balance.
    """
    options, model = options or SearchOptions(), model or HypergraphModel()
    if limits is None:
        limits = _nonzeros(matrix, num_parts, options)
    hopeless = expectation is not None and bool(model.unfit(matrix, num_parts))
    hypergraph = hypergraph_of(matrix, limits)
    known: Any = {"matrix": matrix, "hypergraph": hypergraph, "limits": limits, "options": options}
    known |= {"model": model, "expectation": expectation, "report": report}
    known["effort"] = "fast" if hopeless else ""
    known["objective"] = "" if expectation is None else EXPECTED_VOLUME
    if options.fixed is None:
        job = RowJob(**known)
    else:
        from plancc.search.given_nets import job_with_fixed

        job = job_with_fixed(known, options.fixed)
    if expectation is not None:
        expectation.deadline = job.whole
    make_steps(job, leave if hopeless else _refine)
    return job.result()


def make_steps(job: RowJob, refine: Callable[[RowJob, list[Owners]], None]) -> None:
    """Run the steps of all efforts up to the search's, so that a higher effort is never worse.

    ``refine(job, owners)`` refines each effort's owners for objectives other than the volume.
    """
    until = job.deadline
    for effort in EFFORTS[: EFFORTS.index(job.effort) + 1]:
        job.effort = job.record.effort = effort
        job.deadline = until
        owners = STEPS[effort](job)
        job.deadline = job.whole
        refine(job, owners)
        if job.whole.passed() or not owners:  # no owners: there is nothing to search
            break


def leave(job: RowJob, owners: list[Owners]) -> None:
    """Do nothing: a `refine` for `make_steps` that leaves owners unchanged."""


def _refine(job: RowJob, owners: list[Owners]) -> None:
    """Refine owners for an objective other than the volume.

    Effort "best" refines until its time is up.
    """
    if job.expectation is not None:
        _refine_expected(job, owners, job.expectation)
        return
    if job.objective == "time" and owners:
        owners = _best_first(job, owners)
    job.refine_until_end(owners, 1 if job.effort == "fast" else None)


def _best_first(job: RowJob, owners: list[Owners]) -> list[Owners]:
    """Return the best owners that the search has found so far, then the other `owners`."""
    best = job.record.found().owners
    return [best, *(each for each in owners if each.rows is not best.rows)]


def _refine_expected(job: RowJob, owners: list[Owners], expectation: Expectation) -> None:
    """Refine owners for the expected volume; enlarge the sample of mini-batches if too small."""
    seed, deadline, effort = job.options.seed, job.deadline, job.effort
    cuts = effort != "fast" and job.starts_by_kind and not job.decided
    if cuts and owners and not deadline.passed():
        # For small batches, the rows sent are about as many as the cut edges, and the strongest
        # partitioner usually cuts the fewest edges. If few rows are sent at all, as in meshes, this
        # partitioner is also quick and good on hypergraphs.
        share = EXPECTED.cut_share
        job.start(job.graph, seeds=[seed], share=share, needed=False)
        if not job.cut_made:
            _start_from_cut(job, expectation)
        if job.record.least_volume < EXPECTED.few_rows * job.matrix.num_vertices:
            strong = strongest(job.hypergraph)
            job.start(job.hypergraph, strong, seeds=[seed], share=share, needed=False)
    if owners:
        owners = _best_first(job, owners)
    if effort != "best" and not expectation.exact:
        owners = owners[:1]  # other starts are no better outside the sample
    cycles = 1 if effort == "fast" else EXPECTED.cycles
    found = job.refine_objective(owners, cycles)
    if effort == "fast":
        return
    if len(found) > 1 and not deadline.passed():
        one, two = sorted(found, key=_value_key)[:2]
        found.append(job.refine_for(one.owners, seed, EXPECTED.cycles, two.owner))
    while found and not deadline.passed():
        latest = min(found, key=_value_key)
        if not expectation.grow(latest.owner, job.num_parts, job.record.found().value):
            break
        best = job.record.found().owners
        found = job.refine_objective([best], cycles if effort == "best" else 1)


def _value_key(member: Member) -> tuple[float, float]:
    return member.overload, member.value


def rows_inside(job: Job, effort: str, seed: int, budget: float | None) -> Owner:
    """Run an inner search for owners of rows within the search `job`; return owners, int32[n].

    Warnings about balance are dropped, since `job` itself warns if its result misses the balance.
    """
    options = replace(job.options, objective="volume", effort=effort, seed=seed, budget=budget)
    found = search(job.matrix, job.num_parts, options)
    rows, who = found.owners.rows, f"effort {options.effort}"
    told = balance_notes(rows, _nonzeros(job.matrix, job.num_parts, options), who)
    job.warnings += [warning for warning in found.warnings if warning not in told]
    return rows


def _nonzeros(matrix: Graph, num_parts: int, options: SearchOptions) -> Limits:
    """Return limits of the number of nonzeros in a part's rows, given by the option `epsilon`."""
    nonzeros = matrix.row_nonzeros().astype(np.int64, copy=False)
    return Limits(nonzeros, num_parts, options.epsilon, options.capacities, ("nnz",))


def _fast(job: RowJob) -> list[Owners]:
    seed, ahead = job.options.seed, job.few and job.options.effort != "fast"
    owner = job.first("fast", _seeds_of_first(job, "fast") if ahead else 0)
    if owner is None:
        return []
    start = job.record.trials[-1].volume
    member = job.chain(owner, seed, 0, quick=True)
    if job.kind_numbers.cuts and member.volume > Starts.dear * start and not job.deadline.passed():
        for other in job.beginnings("fast"):
            if not job.has_begun(other, seed):
                owner = job.begin(other, seed)
                if owner is not None:
                    member = min(member, job.chain(owner, seed, 0, quick=True))
                break
    return [member.owners]


def _balanced(job: RowJob) -> list[Owners]:
    best = job.options.effort == "best"
    if best and job.options.budget is not None:  # run slow partitioners before time is up
        job.strong = _strong(job)
    job.founders = _balanced_members(job, decide=not best)
    return [member.owners for member in job.founders[:1]]


def _start_from_cut(job: RowJob, expectation: Expectation) -> Owner | None:
    """Let the strongest partitioner cut the graph, and return the owners; None if it failed."""
    cut, job.cut_made = expectation.cut(job.graph, job.num_parts), True
    share, seeds = EXPECTED.cut_share, [job.options.seed]
    return job.start(cut, strongest(cut), seeds=seeds, share=share, needed=False)


def _balanced_members(job: RowJob, decide: bool = False) -> list[Member]:
    """Run effort "balanced"; return its result, then the partitions combined into the result.

    If `decide` is true, and the owners that `_start_from_cut` finds are far better than those of
    the first start, only the better owners are returned.
    """
    ahead = _seeds_of_first(job, "balanced") if job.few else 0
    first = job.first("balanced", ahead)
    if first is None:
        return []
    found = _chains(job, first, decide)
    if job.decided:
        return found
    best, *rest = sorted(_onward(job, found) if job.few else found)
    return [_merged(job, best, rest), *rest]


def _cuts(job: RowJob) -> Cuts | None:
    """Return the presets of the minimum cuts in V-cycles; None for few parts and for meshes."""
    return None if _is_mesh(job) or job.few else CUTS


def _is_mesh(job: RowJob) -> bool:
    """Whether the graph resembles a mesh: minimum cuts at the end of the search then pay off."""
    return job.kind in ("even", "dense")


def _chains(job: RowJob, first: Owner, decide: bool) -> list[Member]:
    """Run V-cycles from `first` and from other starts; return the resulting owners of each start.

    With `decide`, if the owners from `_start_from_cut` are far better than the result of `first`,
    set `job.decided` and return only the better owners.
    """
    seed, few, cuts = job.options.seed, job.few, _cuts(job)
    turns, most = _turns(job)
    others = [each for each in turns if not job.has_begun(*each)][:most]
    one, two = (0, 0) if few else job.kind_numbers.cycles
    together: dict[
        Any, list[tuple[Beginning, int, int]]
    ] = {}  # the starts that one process makes, for all their seeds
    for k, (each, turn) in enumerate(others, 1):
        together.setdefault(each.name if few else k, []).append((each, turn, seed + k))

    def begin() -> list[Member]:
        return [job.chain(first, seed, one, cuts)]

    def start(*turns: tuple[Beginning, int, int]) -> list[Member]:
        members = []
        for k, (each, turn, number) in enumerate(turns, 1):
            owner = job.begin(each, turn, Starts.others_share, len(turns) - k)
            if owner is not None:
                members.append(job.chain(owner, number, two, cuts))
        return members

    starts = [(start, *turns) for turns in together.values()]
    decides = decide and job.deadline.at == np.inf
    if job.expectation is None or not (decides and job.starts_by_kind):
        return [*chain.from_iterable(job.side_by_side(call, [(begin,), *starts]))]
    found, cut = job.side_by_side(call, [(begin,), (_start_from_cut, job, job.expectation)])
    best = job.record.found()
    job.decided = cut is not None and best.value < EXPECTED.decisive * found[0].value
    if job.decided:
        return [replace(found[0], owners=best.owners)]
    return [*found, *chain.from_iterable(job.side_by_side(call, starts))]


def _merged(job: RowJob, best: Member, rest: Sequence[Member]) -> Member:
    """Combine `best` with the first partitions in `rest`, one by one, and improve the result."""
    seed, few, mesh, how = job.options.seed, job.few, _is_mesh(job), _combined(job)

    def worthwhile(member: Member) -> bool:
        return not (job.deadline.passed() or job.is_least(member))

    for k, other in enumerate(rest[: how.members]):
        before, rng = best, np.random.default_rng([seed, 2 * k])
        if worthwhile(best):
            best = min(best, job.cycle(best.owner, rng, "combined", other.owner, _cuts(job)))
        if few and best.volume > how.enough * before.volume:
            break
    if how.improved and worthwhile(best):
        best = job.improve(best, seed)
    last = np.random.default_rng([seed, 1])
    for _ in range((mesh or how.tightened) + (few and job.kind == "thin")):
        before = best
        if worthwhile(best):
            best = min(best, job.tighten(best.owner, last))
        if best.volume > how.enough * before.volume:
            break
    if (mesh or few) and worthwhile(best):
        wide = mesh if few else job.kind == "even"
        best = min(best, job.minimum_cuts(best.owner, LAST_CUTS if wide else SINGLE_CUTS))
    if job.kind == "thin" and not rest and worthwhile(best):
        best = min(best, job.cycle(best.owner, last, "V-cycle"))
    return best


def _combined(job: RowJob) -> Combined:
    """Return tuned parameters for combining partitions, by number of parts and kind of graph."""
    if not job.few:
        return MANY_PARTS
    two = job.num_parts == 2 and not job.kind_numbers.cuts and job.improvable
    return TWO_PARTS if two else FOUR_PARTS if job.num_parts <= 4 else FEW_PARTS


def _turns(job: RowJob) -> tuple[list[tuple[Beginning, int]], int]:
    """Return (start, seed) pairs for effort "balanced", and how many to try besides the first."""
    every, how = job.beginnings("balanced"), job.kind_numbers
    most = how.others
    if job.few:
        scouts = round(Starts.scouted / max(job.size, 1))
        every, most = (
            every[: Starts.variety + (job.num_parts == 2)],
            int(np.clip(scouts, 2, min(how.scouts, _combined(job).scouts))),
        )
    if job.matrix.num_vertices < Starts.many_rows * job.num_parts:
        most = min(most, 1)
    seeds = [(job.options.seed + turn) % 2**31 for turn in range(1 + most)]
    return [(each, seed) for seed in seeds for each in every], most


def _seeds_of_first(job: RowJob, effort: str) -> int:
    """Return how often effort "balanced" repeats the first start of `effort`, with other seeds."""
    turns, most = _turns(job)
    names = [each.name for each, _ in turns[: 1 + most]]
    first = [each.name for each in job.beginnings(effort)[:1]]
    return names.count(names[0]) - 1 if names and names[:1] == first else 0


def _onward(job: RowJob, found: Sequence[Member]) -> list[Member]:
    """Improve the best of `found` by V-cycles; return improved partitions first, then the rest."""
    members = sorted(found)
    seed, cycles, kept = job.options.seed, job.kind_numbers.scout_cycles, _combined(job).kept
    chains = [(member, seed + k, cycles) for k, member in enumerate(members[:kept])]
    return [*job.side_by_side(job.cycles, chains), *members[kept:]]


def _strong(job: RowJob) -> list[Member]:
    """Run all partitioners' best presets, then V-cycles; skip presets that fail or have run."""
    seed = job.options.seed

    def make(how: Beginning) -> Member | None:
        owner = None
        if not (job.has_begun(how, seed) or job.deadline.passed()):
            owner = job.begin(how, seed, Evolution.highest_share)
        return None if owner is None else job.chain(owner, seed, job.kind_numbers.member_cycles)

    ways = [(how,) for how in job.highest()]
    return [*filter(None, job.side_by_side(make, ways))]


def _best(job: RowJob) -> list[Owners]:
    """Evolve the partitions that `_balanced` and `_strong` found; return owners, the best first."""
    if not job.founders:
        return []
    seed, founders = job.options.seed, [*job.founders, *(job.strong or _strong(job))]
    job.begun.update((*how.name, seed) for how in job.highest())
    if job.few and job.improvable and not job.deadline.passed():
        founders.append(job.improve(founders[0], seed))
    from plancc.search.memetic import evolve

    members = evolve(job, founders)
    return [member.owners for member in members[: job.numbers.starts]]


STEPS: dict[str, Callable[[RowJob], list[Owners]]] = {
    "fast": _fast,
    "balanced": _balanced,
    "best": _best,
}
"""For every effort, the function that minimises the volume; it returns owners, the best first."""
