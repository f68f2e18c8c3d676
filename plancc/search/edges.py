"""Search for owners of rows and of nonzeros, by the exact volume of expand and fold.

Knows models of edge plans, partitioners and passes; no plan, no file, no terminal.

========  ========================================================================================
fast      owners by rows, a split of the nonzeros and the best split for the owners it leads to,
          then single nonzeros climb
balanced  the same with more splits; nonzeros climb, and pass through overweight parts
best      a population from several starts, Mt-KaHyPar among them, whose members are combined on
          the fine-grain hypergraph until the budget ends
========  ========================================================================================

A split says of every nonzero whether it goes with its row or with its column; its hypergraph has a
vertex per row, so V-cycles are as quick as in a search by rows. `Resplit` finds the best split for
given owners, and so on. Nonzeros that go alone come last: they may be where neither their row nor
their column is owned.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plancc.cost.edge_owners import traffic_of_edge_owners
from plancc.cost.objectives import objective_value
from plancc.cost.rates import EpochRates
from plancc.errors import BackendError, BackendUnavailable
from plancc.graph.graph import Graph
from plancc.models.fine_grain import FineGrainModel
from plancc.models.hub_split import HubSplitModel
from plancc.models.limits import Limits
from plancc.models.medium_grain import MediumGrainModel, lighter_columns, split_problem
from plancc.models.problem import EdgeAssignment, EdgeProblem
from plancc.partitioners.process import OTHERWISE
from plancc.partitioners.run import AUTO, balance_notes, partition
from plancc.passes.deadline import Deadline
from plancc.passes.edges import RefineEdges
from plancc.passes.fill import FillEmptyParts
from plancc.passes.multilevel import Owner, anneal, settle, v_cycle
from plancc.passes.refine import RefineVolume
from plancc.passes.split import Resplit
from plancc.search.effort import check_request, search
from plancc.search.record import Record, SearchResult, Trial

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets

EdgeModel = MediumGrainModel | HubSplitModel | FineGrainModel

SPLITS = {"fast": 2, "balanced": 3, "best": 4}
"""Splits one after the other, the model's own included."""
ROUNDS = {"fast": 0, "balanced": 2, "best": 2}
"""Rounds of `RefineEdges` after its first climb, for the volume."""
STARTS = 3
"""Members of the population of effort best without a budget; with one up to ..."""
MAX_STARTS = 8
"""... this many, ..."""
GROWING_SHARE = 0.5
"""... as long as this share of the budget lasts."""
COMBINATIONS = 4
"""Per member of the population, unless a budget says when to end."""
ROWS_SHARE = 0.25
"""Of the time left, for a search by rows."""
PARTITIONER_SHARE = 0.4
"""Of the time left, for a partitioner of hypergraphs."""
SPLIT_SHARE = 0.5
"""Of the time left, for the V-cycles of splits."""
OBJECTIVE_SHARE = 0.4
"""Share of a budget kept for another objective than the volume."""
OBJECTIVE_STARTS = 2
"""Best members that are refined for another objective than the volume."""


def search_edges(
    matrix: Graph,
    model: EdgeModel,
    num_parts: int,
    *,
    effort: str = "balanced",
    objective: str = "volume",
    epsilon: float = 0.01,
    seed: int = 1,
    threads: int = 1,
    budget: float | None = None,
    time_limit: float | None = None,
    rates: EpochRates | None = None,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find owners of the rows and of the nonzeros of `matrix`.

    The volume is minimised first; another objective is refined for from there.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    model : MediumGrainModel, HubSplitModel or FineGrainModel
        Where the search starts, and for `HubSplitModel` what it may end with: only nonzeros of
        hubs that the model allows are elsewhere than their rows.
    num_parts : int
    effort : {"fast", "balanced", "best"}
    objective : {"volume", "max-volume", "messages", "time"}
        See `plancc.cost.objectives`.
    epsilon : float
        Allowed imbalance of the nonzeros.
    seed : int
    threads : int
        Of the search by rows and of native partitioners. Without a budget and with one thread the
        same seed gives the same owners.
    budget : float, optional
        Seconds after which nothing new is started; effort best uses all of them.
    time_limit : float, optional
        Seconds that one native partitioner may take.
    rates : EpochRates
        For objective "time".
    report : callable, optional
        Called with every `Trial` as it ends.

    Returns
    -------
    SearchResult
        With owners of the nonzeros; never worse than the search by rows that it starts from.

    Raises
    ------
    InputError
        An unknown name, a number out of range, objective "time" without rates.
    """
    check_request(
        matrix,
        num_parts,
        effort=effort,
        objective=objective,
        epsilon=epsilon,
        seed=seed,
        threads=threads,
        budget=budget,
        time_limit=time_limit,
        rates=rates,
    )
    whole = Deadline.after(budget)
    kept = 0.0 if objective == "volume" or budget is None else OBJECTIVE_SHARE * budget
    job = _Job(
        matrix=matrix,
        model=model,
        num_parts=num_parts,
        effort=effort,
        objective=objective,
        epsilon=epsilon,
        seed=seed,
        threads=threads,
        time_limit=time_limit,
        rates=rates,
        record=Record(report),
        deadline=Deadline(whole.at - kept),
    )
    members = job.members()
    job.deadline = whole
    if objective != "volume" and num_parts > 1:
        for k, member in enumerate(sorted(members)[:OBJECTIVE_STARTS]):
            job.refine(member.owners, objective, seed + k)
    result = job.record.result([*dict.fromkeys(job.warnings)])
    assert result.nonzero_owner is not None
    even, who = np.ones(matrix.num_nonzeros, dtype=np.int64), f"effort {effort}"
    result.warnings.extend(balance_notes(result.nonzero_owner, even, num_parts, epsilon, who, ()))
    return result


@dataclass(frozen=True, eq=False)
class _Member:
    """Owners, ordered by overload and volume."""

    overload: float
    volume: int
    owners: EdgeAssignment

    def __lt__(self, other: _Member) -> bool:
        return (self.overload, self.volume) < (other.overload, other.volume)


@dataclass
class _Job:
    """One search: what it works on, and what it has found."""

    matrix: Graph
    model: EdgeModel
    num_parts: int
    effort: str
    objective: str
    epsilon: float
    seed: int
    threads: int
    time_limit: float | None
    rates: EpochRates | None
    record: Record
    deadline: Deadline
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def allowed(self) -> npt.NDArray[np.bool_] | None:
        """Nonzeros that may be elsewhere than their rows; None: all."""
        if isinstance(self.model, HubSplitModel):
            return self.model.allowed(self.matrix, self.num_parts)
        return None

    @cached_property
    def fine(self) -> EdgeProblem:
        """The hypergraph on which owners are combined: every edge plan is a partition of it."""
        return FineGrainModel().build(self.matrix, self.num_parts, balance="nnz", seed=self.seed)

    @cached_property
    def fine_nets(self) -> Nets:
        from plancc.passes.kernels.nets import nets_of

        return nets_of(self.fine.hypergraph)

    def members(self) -> list[_Member]:
        """What the effort finds for the volume; at least one."""
        if self.num_parts == 1:
            return [self.from_rows(self.seed)]
        fine = isinstance(self.model, FineGrainModel)
        starts = self._partitioned_first() if fine else self._rows_first()
        if self.effort != "best":
            return [next(starts)]
        begin, growing = time.perf_counter(), GROWING_SHARE * self.deadline.seconds_left()
        timed = self.deadline.at < np.inf
        found: list[_Member] = []
        for made, member in enumerate(starts, 1):
            found.append(member)
            if self.allowed is not None:  # nothing is combined: the best are all that is needed
                found = sorted(found)[:OBJECTIVE_STARTS]
            late = self.allowed is None and time.perf_counter() - begin > growing
            if late or self.deadline.passed() or (not timed and made == STARTS):
                break
            if timed and self.allowed is None and made == MAX_STARTS:
                break
        if self.allowed is None:
            self._combine_until_end(found, timed)
        return found

    def _rows_first(self) -> Iterator[_Member]:
        """Members from searches by rows, and one from Mt-KaHyPar."""
        yield self.split(self.from_rows(self.seed), self.seed)
        fine = isinstance(self.model, FineGrainModel)
        model = MediumGrainModel() if fine else self.model
        start = self.partitioned(model, self.seed, "mtkahypar")
        if start is not None:
            yield self.split(start, self.seed)
        for seed in itertools.count(self.seed + 1):
            yield self.split(self.from_rows(seed), seed)

    def _partitioned_first(self) -> Iterator[_Member]:
        """A member from a partition of the fine-grain hypergraph, then the others."""
        start = self.partitioned(self.model, self.seed, AUTO)
        assert start is not None
        yield self.refine(start.owners, "volume", self.seed)
        yield from self._rows_first()

    def note(self, step: str, begin: float, owners: EdgeAssignment) -> _Member:
        """Measure owners exactly and put them into the record."""
        seconds = time.perf_counter() - begin
        owner, nonzero_owner = owners.owner, owners.nonzero_owner
        parts = traffic_of_edge_owners(self.matrix, owner, nonzero_owner, self.num_parts)
        volume = int(parts.sent.sum())
        value = objective_value(self.objective, parts, self.rates)
        limits = Limits.of_nonzeros(self.matrix.num_nonzeros, self.num_parts, self.epsilon)
        overload = limits.overload(parts.nonzeros)
        self.record.add(step, seconds, owner, overload, value, volume, nonzero_owner)
        return _Member(overload, volume, owners)

    def from_rows(self, seed: int) -> _Member:
        """What a search by rows finds."""
        begin = time.perf_counter()
        left = self.deadline.seconds_left()
        found = search(
            self.matrix,
            self.num_parts,
            effort="fast",
            epsilon=self.epsilon,
            seed=seed,
            threads=self.threads,
            budget=None if left == np.inf else max(ROWS_SHARE * left, 1e-3),
            time_limit=self.time_limit,
        )
        weights = self.matrix.row_nonzeros()  # the balance that counts is told at the end
        told = balance_notes(found.owner, weights, self.num_parts, self.epsilon, "effort fast", ())
        self.warnings += [warning for warning in found.warnings if warning not in told]
        nonzero_owner = np.repeat(found.owner, weights)
        owners = EdgeAssignment(found.owner, nonzero_owner)
        return self.note(f"by rows, seed {seed}", begin, owners)

    def partitioned(self, model: EdgeModel, seed: int, partitioner: str) -> _Member | None:
        """What a partitioner makes of the model; None if it failed and others found something."""
        begin, limit = time.perf_counter(), PARTITIONER_SHARE * self.deadline.seconds_left()
        if self.time_limit is not None:
            limit = min(limit, self.time_limit)
        problem = model.build(self.matrix, self.num_parts, balance="nnz", seed=seed)
        try:
            result = partition(
                problem.hypergraph,
                self.num_parts,
                partitioner,
                epsilon=self.epsilon,
                seed=seed,
                threads=self.threads,
                time_limit=None if limit == np.inf else max(limit, 1e-3),
            )
        except (BackendError, BackendUnavailable) as error:
            if self.record.owner is None:
                raise
            self.warnings.append(f"left out: {str(error).removesuffix(f'; {OTHERWISE}')}")
            return None
        self.warnings += result.about_run
        step = f"{result.partitioner}, seed {seed}"
        return self.note(step, begin, self.filled(problem.owners(result.owner)))

    def filled(self, owners: EdgeAssignment) -> EdgeAssignment:
        """The same, but every part owns a row."""
        matrix, owner = self.matrix, owners.owner
        better = FillEmptyParts().run(owner, np.ones(len(owner), dtype=np.int64), self.num_parts)
        if better is owner:
            return owners
        row = np.repeat(np.arange(len(owner), dtype=np.int32), matrix.row_nonzeros())
        diagonal = row == matrix.indices
        nonzero_owner = np.where(diagonal, better[row], owners.nonzero_owner)
        return EdgeAssignment(better, nonzero_owner)

    def split(self, start: _Member, seed: int) -> _Member:
        """From owners of rows on: splits and V-cycles in turn, then single nonzeros."""
        matrix, num_parts = self.matrix, self.num_parts
        deadline = Deadline(time.perf_counter() + SPLIT_SHARE * self.deadline.seconds_left())
        resplit = Resplit(self.epsilon)
        pass_ = RefineVolume(epsilon=self.epsilon, cycles=1, seed=seed)
        owner, best = start.owners.owner, start
        for k in range(SPLITS[self.effort]):
            begin = time.perf_counter()
            if k > 0:
                with_column = resplit.run(matrix, owner, num_parts, self.allowed)
            else:
                with_column = lighter_columns(matrix) if self.allowed is None else self.allowed
            problem = split_problem(matrix, with_column)
            owner = pass_.run(problem.hypergraph, owner, num_parts, deadline=deadline).owner
            best = min(best, self.note(f"split {k + 1}, seed {seed}", begin, problem.owners(owner)))
            if deadline.passed():
                break
        return self.refine(best.owners, "volume", seed)

    def refine(
        self, owners: EdgeAssignment, objective: str, seed: int, rounds: int | None = None
    ) -> _Member:
        """Move single nonzeros and owners of rows."""
        begin = time.perf_counter()
        if rounds is None and objective == "volume":
            rounds = ROUNDS[self.effort]
        pass_ = RefineEdges(objective=objective, epsilon=self.epsilon, seed=seed, rates=self.rates)
        if rounds is not None:
            pass_ = replace(pass_, rounds=rounds)
        found = pass_.run(
            self.matrix,
            owners.owner,
            owners.nonzero_owner,
            self.num_parts,
            deadline=self.deadline,
            movable=self.allowed,
        )
        better = EdgeAssignment(found.owner, found.nonzero_owner)
        what = "nonzeros" if objective == "volume" else f"nonzeros for {objective}"
        return self.note(f"{what}, seed {seed}", begin, better)

    def _combine_until_end(self, population: list[_Member], timed: bool) -> None:
        """Replace members by better ones that two of them are combined to."""
        rng = np.random.default_rng(self.seed)
        made = 0
        while not self.deadline.passed() and (timed or made < COMBINATIONS * len(population)):
            one, two = sorted(rng.choice(len(population), 2, replace=len(population) == 1))
            made += 1
            child = self.combined(population[one], population[two], made)
            worse = max(population[one], population[two])
            if child < worse and all(child.volume != each.volume for each in population):
                population[population.index(worse)] = child

    def combined(self, one: _Member, two: _Member, number: int) -> _Member:
        """A V-cycle on the fine-grain hypergraph that keeps what two members agree on."""
        begin = time.perf_counter()
        nets, rng = self.fine_nets, np.random.default_rng([self.seed, number])
        limits = Limits.of(nets.weight, self.num_parts, self.epsilon)
        state, _ = v_cycle(
            nets,
            self._partition_of(min(one, two)),
            self.num_parts,
            rng,
            lambda level, state, _: anneal(level, state, limits, rng, deadline=self.deadline),
            other=self._partition_of(max(one, two)),
            deadline=self.deadline,
        )
        settle(nets, state, limits, rng, self.deadline)
        found = self.note(f"combined {number}", begin, self.filled(self.fine.owners(state.owner)))
        if self.deadline.passed():
            return found
        return self.refine(found.owners, "volume", self.seed + number, rounds=1)

    def _partition_of(self, member: _Member) -> Owner:
        """The partition of the fine-grain hypergraph that owners are."""
        part = np.empty(self.fine.hypergraph.num_vertices, dtype=np.int32)
        part[self.fine.row_vertex] = member.owners.owner
        part[self.fine.nonzero_vertex] = member.owners.nonzero_owner
        return part
