"""Search for owners of rows and of nonzeros that minimise the exact volume of expand and fold.

========  ========================================================================================
fast      find owners of rows, split the nonzeros, refine, and split again for the new owners; then
          move single nonzeros if the volume falls
balanced  do the same with more splits; single nonzeros may also move to parts that then exceed
          their limits for a while
best      make a population of partitions from several starts, one of them by the best partitioner
          of hypergraphs; combine its members on the fine-grain hypergraph until the budget ends
========  ========================================================================================

A *split* assigns every nonzero to its row or to its column. The hypergraph of a split has one
vertex per row, so V-cycles are as fast as in a search for owners of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.errors import BackendError, BackendUnavailable
from plancc.graph.graph import Graph
from plancc.graph.owners import Owner, Owners
from plancc.models import build_problem
from plancc.models.base import EdgeModel
from plancc.models.fine_grain import FineGrainModel
from plancc.models.libra import LibraModel
from plancc.models.limits import Limits
from plancc.models.medium_grain import MediumGrainModel, lighter_columns, split_problem
from plancc.models.problem import EdgeProblem
from plancc.options import EFFORTS, SearchOptions
from plancc.partitioners.adapter import Adapter
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.partitioners.run import partition
from plancc.passes.bound import reaches
from plancc.passes.context import Context
from plancc.passes.edges import RefineEdges
from plancc.passes.fill import fill_empty_parts
from plancc.passes.fixed import refine_around
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.multilevel import Sweeps
from plancc.passes.refine import RefineVolume
from plancc.passes.split import resplit
from plancc.passes.vector_owners import VectorOwners
from plancc.search.effort import rows_inside
from plancc.search.job import RefiningJob
from plancc.search.presets import EDGE_EFFORTS, NONZERO_REFINEMENT, EdgeEffort, ForObjective
from plancc.search.record import Member, SearchResult, Trial
from plancc.search.starts import highest


def search_edges(
    matrix: Graph,
    model: EdgeModel,
    num_parts: int,
    options: SearchOptions | None = None,
    *,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find owners of rows and nonzeros, never worse than the row partitions at the search's start.

    The search minimises the volume first, then the objective in `options`, whose `epsilon` limits
    the nonzeros of a part.
    """
    options = options or SearchOptions()
    limits = Limits.of_nonzeros(matrix.num_nonzeros, num_parts, options.epsilon, options.capacities)
    job = EdgeJob(matrix=matrix, model=model, limits=limits, options=options, report=report)
    job.record.effort = EFFORTS[0]  # the first steps belong to the lowest effort
    members = sorted(job.members())
    job.deadline = job.whole
    for effort, member in job.below.items():
        job.record.effort = effort
        job.refine_objective([member.owners])
    job.record.effort = job.effort
    if num_parts > 1 and not job.hopeless:
        job.refine_until_end([member.owners for member in members[: job.numbers.starts]])
    return job.result()


@dataclass(kw_only=True)
class EdgeJob(RefiningJob):
    """A search for owners of rows and of nonzeros.

    Attributes:
        below: For every effort below the search's effort, the owners of least volume that a search
            with the lower effort would find.
    """

    below: dict[str, Member] = field(default_factory=dict)
    numbers: ClassVar[ForObjective] = NONZERO_REFINEMENT
    model: EdgeModel

    @property
    def how(self) -> EdgeEffort:
        return EDGE_EFFORTS[self.effort]

    def context(self, seed: int = 1) -> Context:
        return replace(super().context(seed), held=self.held)

    @property
    def held(self) -> npt.NDArray[np.bool_] | None:
        """Whether each row is fixed to its part, bool[rows]; None if no row is fixed."""
        return None if self.options.fixed is None else self.options.fixed >= 0

    @property
    def combines(self) -> bool:
        """Whether the search combines two partitions to make a new one; false if rows are fixed."""
        return self.held is None

    @cached_property
    def hopeless(self) -> bool:
        """Whether the model does not suit the matrix, so that no search is made."""
        return bool(self.model.unfit(self.matrix, self.num_parts))

    @cached_property
    def fine(self) -> EdgeProblem:
        """The hypergraph of model fine-grain, on which the search combines two partitions."""
        return FineGrainModel().build(
            self.matrix, self.num_parts, balance="nnz", seed=self.options.seed
        )

    @cached_property
    def fine_nets(self) -> Nets:
        return nets_of(self.fine.hypergraph)

    def members(self) -> list[Member]:
        """Minimise the volume with the search's effort; return the owners found, at least one."""
        if self.num_parts == 1:
            return [self.from_rows(self.options.seed)]
        if self.hopeless:
            return [self.assigned()]
        first = self.model.partitioned_first and self.held is None
        starts = self._partitioned_first() if first else self._rows_first()
        if self.effort != "best":
            return [next(starts)]
        begin, growing = wall_seconds(), self.how.growing_share * self.deadline.seconds_left()
        timed = self.deadline.at < np.inf
        found: list[Member] = []
        for made, member in enumerate(starts, 1):
            found.append(member)
            if not self.combines:  # without combination, only the best members matter
                found = sorted(found)[: self.numbers.starts]
            late = self.combines and wall_seconds() - begin > growing
            if late or self.deadline.passed() or (not timed and made == self.how.starts):
                break
            if timed and self.combines and made == self.how.max_starts:
                break
        if self.combines:
            self._combine_until_end(found, timed)
        return found

    def _rows_first(self) -> Iterator[Member]:
        """Make first partitions, without end; after each, yield its refined owners.

        The second partition is made by a partitioner of hypergraphs, if there is one. In all other
        partitions, every nonzero has the owner of its row before the refinement.
        """
        yield self.split(self.from_rows(self.options.seed), self.options.seed, first=True)
        model = MediumGrainModel() if self.model.partitioned_first else self.model
        ways = highest(hypergraphs=True, graphs=False) if self.held is None else []
        made = [self.partitioned(model, self.options.seed, each.adapter) for each in ways]
        found = [each for each in made if each is not None]
        if found:
            yield self.split(min(found), self.options.seed)
        for seed in itertools.count(self.options.seed + 1):
            yield self.split(self.from_rows(seed), seed)

    def _partitioned_first(self) -> Iterator[Member]:
        """Yield a refined partition of the fine-grain hypergraph, then owners of `_rows_first`."""
        start = self.partitioned(self.model, self.options.seed)
        assert start is not None
        for effort in self.efforts_below:
            self._end_of(effort, start)
        yield self.refine(start.owners, "volume", self.options.seed)
        yield from self._rows_first()

    def assigned(self) -> Member:
        """Return owners by model "libra" or `from_rows`, for a matrix unsuited to the model."""
        if not self.combines or self.options.capacities is not None:
            return self.from_rows(self.options.seed)
        begin, matrix, options = wall_seconds(), self.matrix, self.options
        made = LibraModel().build(matrix, self.num_parts, balance="nnz", seed=options.seed)
        owners = Owners(made.rows, made.of_nonzeros(matrix))
        owners = VectorOwners().refine(owners, matrix, self.context(options.seed))
        return self.note("libra", begin, self.filled(owners))

    def from_rows(self, seed: int) -> Member:
        """Search for owners of rows; every nonzero then gets the owner of its row."""
        begin = wall_seconds()
        left = self.deadline.seconds_left()
        budget = None if left == np.inf else max(self.how.rows_share * left, 1e-3)
        rows = rows_inside(self, "fast", seed, budget)
        owners = Owners(rows, Owners(rows).of_nonzeros(self.matrix))
        return self.note(f"by rows, seed {seed}", begin, owners)

    def partitioned(
        self, model: EdgeModel, seed: int, adapter: Adapter | None = None
    ) -> Member | None:
        """Let a partitioner partition the model's problem, and return the owners.

        If the partitioner fails, return None if an earlier step found owners; else raise the error.
        `adapter` runs with its best preset. If it is None, the first installed partitioner runs
        with its default preset.
        """
        begin, limit = wall_seconds(), self.how.partitioner_share * self.deadline.seconds_left()
        if self.options.time_limit is not None:
            limit = min(limit, self.options.time_limit)
        problem = build_problem(
            model, self.matrix, self.num_parts, balance="nnz", seed=seed, takes=(EdgeProblem,)
        )
        try:
            result = partition(
                problem.hypergraph,
                self.num_parts,
                PartitionOptions(
                    partitioner=AUTO if adapter is None else adapter.name,
                    preset=None if adapter is None else adapter.highest,
                    epsilon=self.options.epsilon,
                    seed=seed,
                    threads=self.options.threads,
                    time_limit=None if limit == np.inf else max(limit, 1e-3),
                    capacities=self.options.capacities,
                ),
            )
        except (BackendError, BackendUnavailable) as error:
            if self.record.best is None:
                raise
            self.left_out(error)
            return None
        self.warnings += result.about_run
        step = f"{result.partitioner}, seed {seed}"
        return self.note(step, begin, self.filled(problem.owners(result.owner)))

    def filled(self, owners: Owners) -> Owners:
        """Return the owners, changed so that every part owns at least one row."""
        matrix, owner = self.matrix, owners.rows
        better = fill_empty_parts(owner, np.ones(len(owner), dtype=np.int64), self.num_parts)
        if better is owner:
            return owners
        row = np.repeat(np.arange(len(owner), dtype=np.int32), matrix.row_nonzeros())
        diagonal = row == matrix.indices
        return Owners(better, np.where(diagonal, better[row], owners.of_nonzeros(matrix)))

    @property
    def efforts_below(self) -> Sequence[str]:
        """Lower efforts, whose steps run too, so that more effort is never worse."""
        return EFFORTS[: EFFORTS.index(self.effort)]

    def _end_of(self, effort: str, best: Member) -> None:
        """Improve `best` by moves of single nonzeros, and store the result in ``below[effort]``.

        `effort` is lower than the search's effort. If ``below[effort]`` exists, nothing is done.
        """
        if effort not in self.below:
            rounds, self.record.effort = EDGE_EFFORTS[effort].rounds, effort
            self.below[effort] = self.refine(best.owners, "volume", self.options.seed, rounds)
            self.record.effort = self.effort

    def split(self, start: Member, seed: int, first: bool = False) -> Member:
        """Alternate splits and V-cycles, starting from owners of rows; then move single nonzeros.

        A split sends each nonzero to the owner of its row or of its column (`split_problem`). If
        `first`, the method also sets the attribute `below`: after as many splits as a lower effort
        makes, the best owners so far are improved as that effort would improve them.
        """
        matrix = self.matrix
        deadline = self.deadline.earlier((1 - self.how.split_share) * self.deadline.seconds_left())
        context = replace(self.context(seed), deadline=deadline)
        owner, best = start.owner, start
        for k in range(self.how.splits):
            begin = wall_seconds()
            split = resplit(owner, matrix, context) if k > 0 else lighter_columns(matrix)
            problem = split_problem(matrix, split)
            refinement, least = RefineVolume(cycles=1), 0
            if self.held is None:
                refined = refinement.refine(owner, problem.hypergraph, context)
                owner, least = refined.owner, refined.least
            else:
                owner = refine_around(self.held, refinement, owner, problem.hypergraph, context)
            best = min(best, self.note(f"split {k + 1}, seed {seed}", begin, problem.owners(owner)))
            if reaches(best.volume, best.overload, least):
                return best
            for effort in self.efforts_below if first else ():
                if EDGE_EFFORTS[effort].splits == k + 1:
                    self._end_of(effort, best)
            if deadline.passed():
                break
        return self.refine(best.owners, "volume", seed)

    def refine(
        self, owners: Owners, objective: str, seed: int, rounds: int | None = None
    ) -> Member:
        """Move single nonzeros and rows to other parts to lower the objective."""
        begin = wall_seconds()
        if rounds is None:
            rounds = self.how.rounds if objective == "volume" else RefineEdges.rounds
        better = RefineEdges(objective, rounds).refine(owners, self.matrix, self.context(seed))
        what = "nonzeros" if objective == "volume" else f"nonzeros for {objective}"
        return self.note(f"{what}, seed {seed}", begin, better.owners)

    def refine_for(self, owners: Owners, seed: int, cycles: int | None) -> Member:
        return self.refine(owners, self.objective, seed)

    def _combine_until_end(self, population: list[Member], timed: bool) -> None:
        """Combine random pairs of partitions; a child that is better replaces the worse parent.

        The method stops at the deadline if `timed`, otherwise after a fixed number of combinations.
        """
        rng = np.random.default_rng(self.options.seed)
        made = 0
        while not self.deadline.passed() and (
            timed or made < self.how.combinations * len(population)
        ):
            one, two = sorted(rng.choice(len(population), 2, replace=len(population) == 1))
            made += 1
            child = self.combined(population[one], population[two], made)
            worse = max(population[one], population[two])
            if child < worse and all(child.volume != each.volume for each in population):
                population[population.index(worse)] = child

    def combined(self, one: Member, two: Member, number: int) -> Member:
        """Combine two owners by a V-cycle on the fine-grain hypergraph; `number` varies seeds."""
        begin = wall_seconds()
        nets, rng = self.fine_nets, np.random.default_rng([self.options.seed, number])
        sweeps = Sweeps(replace(self.limits, weights=nets.weight), rng, self.deadline)
        owner, other = self._partition_of(min(one, two)), self._partition_of(max(one, two))
        state = sweeps.v_cycle(nets, owner, other=other)
        sweeps.settle(nets, state)
        found = self.note(f"combined {number}", begin, self.filled(self.fine.owners(state.owner)))
        if self.deadline.passed():
            return found
        return self.refine(found.owners, "volume", self.options.seed + number, rounds=1)

    def _partition_of(self, member: Member) -> Owner:
        """Turn a member's owners into a partition of the fine-grain hypergraph, int32[vertices]."""
        part = np.empty(self.fine.hypergraph.num_vertices, dtype=np.int32)
        part[self.fine.row_vertex] = member.owners.rows
        part[self.fine.nonzero_vertex] = member.owners.of_nonzeros(self.matrix)
        return part
