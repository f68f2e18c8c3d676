"""`RowJob`: the steps of a search for owners of rows, which `plancc.search.effort` combines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.clock import wall_seconds
from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.errors import BackendError, BackendUnavailable
from plancc.graph.owners import Owner, Owners
from plancc.models import build_problem
from plancc.models.base import Model
from plancc.models.graph import GraphModel
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.random import random_owner
from plancc.partitioners.adapter import FEW, Adapter, Start
from plancc.partitioners.builtin import ADAPTER
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.partitioners.process import STOPPED
from plancc.partitioners.run import (
    TRIVIAL,
    PartitionResult,
    by_rank_of_kind,
    improve,
    improver,
    partitions,
)
from plancc.passes.bound import least_volume, reaches
from plancc.passes.clusters import Clusters, degrees_of, find_clusters, links_of
from plancc.passes.kernels.nets import Nets, nets_of
from plancc.passes.kernels.state import State, boundary, state_of, volume
from plancc.passes.multilevel import Sweeps
from plancc.passes.presets import CUTS, QUICK, V_CYCLES, Cuts, VCycles
from plancc.passes.refine import refiner
from plancc.search.job import RefiningJob
from plancc.search.presets import IMPROVED, KIND_NUMBERS, QUICK_CUTS, SINGLE_CUTS, Starts
from plancc.search.record import Member
from plancc.search.starts import Beginning, beginnings, highest, is_mild, kind_of, tightest

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation
    from plancc.search.presets import KindNumbers

Refiner = Callable[[Sweeps, "Nets", "State"], Any]
"""A function that improves a state in place."""


@dataclass(kw_only=True)
class RowJob(RefiningJob):
    """A search for owners of rows.

    Attributes:
        hypergraph: The nets, with the vertex weights that parts should share evenly.
        starter: Name of the partitioner that partitions `base`; "auto" before its first run.
        kind: Kind of the graph (`plancc.search.starts`); "" before the first start.
        cut_made: Whether `effort._start_from_cut` has run; it only runs for expected volumes.
        decided: Whether that function's owners were so good that no other start is made.
        begun: A tuple for every start that was made: the words of its name, then its seed.
        ready: Unused results of partitioners, by partitioner, preset, objective and seed.
        first_seconds: Seconds that the first start took.
        founders: The owners that effort "balanced" found, with their figures.
        strong: Owners from presets of best quality, if these ran before effort "balanced".
    """

    hypergraph: Hypergraph
    expectation: Expectation | None
    starter: str = AUTO
    kind: str = ""
    cut_made: bool = False
    decided: bool = False
    begun: set[tuple[str | int, ...]] = field(default_factory=set)
    ready: dict[tuple[str | int | None, ...], PartitionResult] = field(default_factory=dict)
    first_seconds: float = 0.0
    founders: list[Member] = field(default_factory=list)
    strong: list[Member] = field(default_factory=list)
    nets: Nets = field(init=False)

    def __post_init__(self) -> None:
        self.nets = nets_of(self.hypergraph)
        super().__post_init__()

    def _problem_of(self, model: Model) -> Any:
        how: Any = {"seed": self.options.seed, "takes": (Hypergraph, WeightedGraph)}
        problem = build_problem(model, self.matrix, self.num_parts, balance="nnz", **how)
        return replace(problem, vertex_weights=self.hypergraph.vertex_weights)

    @cached_property
    def graph(self) -> WeightedGraph:
        """The undirected graph, built at first use.

        If the matrix's pattern is not symmetric, the graph takes up to 8 bytes per nonzero.
        """
        graph: WeightedGraph = self._problem_of(GraphModel())
        return graph

    @cached_property
    def base(self) -> Hypergraph | WeightedGraph:
        """The problem that a partitioner gets if no `Start` for the kind of graph is chosen.

        The undirected graph if the model's `starts_from_cut` is true, else the model's problem.
        """
        problem: Hypergraph | WeightedGraph
        problem = self.graph if self.starts_by_kind else self._problem_of(self.model)
        return problem

    @cached_property
    def clusters(self) -> Clusters | None:
        """Clusters of vertices, and the graph between the clusters.

        None if this graph would have nearly as many edges as the graph of the vertices.
        """
        links, weight = links_of(self.matrix, self.nets), self.nets.weight
        rng = np.random.default_rng(self.options.seed)
        return find_clusters(links, weight, self.limits, rng, self.deadline.passed)

    @cached_property
    def degrees(self) -> Any:
        """Number of neighbours of every vertex in the undirected graph: int64[n]."""
        return degrees_of(self.matrix, self.nets)

    @property
    def size(self) -> int:
        """Number of nonzeros, which determines how many starts (initial partitions) are made."""
        return self.matrix.num_nonzeros

    @property
    def kind_now(self) -> str:
        """Kind of the graph, a key of `KIND_NUMBERS`.

        It depends on the degrees and the first partition; before there is one, on the degrees only.
        """
        return self.kind or kind_of(self.degrees)

    @property
    def kind_numbers(self) -> KindNumbers:
        """Tuned parameters of the efforts for the kind of the job's graph (`kind_now`)."""
        return KIND_NUMBERS[self.kind_now]

    @property
    def few(self) -> bool:
        """Whether there are so few parts that different starts give very different results.

        If so, more starts are made.
        """
        return self.num_parts <= FEW and self.expectation is None

    @property
    def starts_by_kind(self) -> bool:
        """Whether the kind of graph decides from which owners the search starts.

        If it is False, the model decides.
        """
        return self.model.starts_from_cut

    def _given(self, how: Start) -> Hypergraph | WeightedGraph:
        """Return the hypergraph or undirected graph that the partitioner of a start gets."""
        if not how.objective:
            return self.hypergraph
        return replace(self.graph, objective=how.objective)

    def first(self, effort: str, more: int = 0) -> Owner | None:
        """Make the first partition of an effort by the best way that does not fail.

        Its boundary rows and the degrees determine `kind`, the kind of the graph. Return None if
        there is nothing to search (one part, or no nets). For `more`, see `begin`.
        """
        owner = None
        self.kind, self.starter = ("", AUTO)  # the choice must not depend on a lower effort
        self.begun.clear()
        for way in self._first_ways(effort, more):
            try:
                owner = way()
                break
            except (BackendError, BackendUnavailable) as error:
                if self.deadline.stopped():
                    raise
                self.left_out(error)
        else:
            owner = self.start(self.base, seeds=[self.options.seed])
        if owner is not None:
            self.kind = self._measured(owner)
            self.first_seconds = max(self.first_seconds, self.record.trials[-1].seconds)
        return owner

    def _first_by(self, how: Beginning, more: int) -> Owner | None:
        owner = self._start_by_tightest(how, self.options.seed)
        return self.begin(how, self.options.seed, more=more) if owner is None else owner

    def _first_ways(self, effort: str, more: int) -> Iterator[Callable[[], Owner | None]]:
        """Yield functions that make the search's first partition, the best way for the graph first.

        All other partitioners of graphs follow, but not the built-in one: `first` runs it if all of
        them fail. For `more`, see `begin`.
        """
        beginnings, seed = self.beginnings(effort), self.options.seed
        for each in beginnings:
            yield partial(self._first_by, each, more)
        if beginnings:
            tried = {each.adapter.name for each in beginnings}
            ranked = by_rank_of_kind(WeightedGraph, "cut", lambda each: each.auto_rank)
            for adapter in ranked:
                self.starter = adapter.name
                if adapter is ADAPTER:
                    return
                able = adapter.takes_kind(type(self.graph), "cut") and adapter.available()
                if able and adapter.name not in tried:
                    yield partial(self.start, self.graph, adapter, seeds=[seed])

    def _measured(self, owner: Owner) -> str:
        """Return the kind of the graph, which depends on degrees and number of boundary rows."""
        rows = len(boundary(self.nets, self.state(owner)))
        return kind_of(self.degrees, rows / len(owner))

    def _start_by_tightest(self, how: Beginning, seed: int) -> Owner | None:
        """Return a start that balances only the constraint with the smallest allowed imbalance.

        Return None if such a start is of no use (see `tightest`), or if V-cycles cannot correct its
        overload.
        """
        one = tightest(self.degrees, self.limits)
        if how.how.clustered or one is None or self.num_parts == 1 or len(self.nets.pins) == 0:
            return None
        problem = replace(self._given(how.how), vertex_weights=one.vertex_weights)
        owner = self.start(problem, how.adapter, seeds=[seed], preset=how.how.preset, limits=one)
        if owner is None:
            return None
        near = Starts.nearly * self.num_parts if self._measured(owner) == "thin" else 0.0
        if self.member(owner).overload > near:
            return None
        self.begun.add((*how.name, seed))
        return owner

    def beginnings(self, effort: str) -> list[Beginning]:
        """Return ways to find first owners for a graph of this kind, the best way first.

        The list is empty if the model sets the first owners.
        """
        if not self.starts_by_kind:
            return []
        of_matrix = self.hypergraph.vertex_weights, self.size, self.num_parts
        rules = self.expectation is None, is_mild(self.degrees)
        found = beginnings(self.kind_now, effort, *of_matrix, *rules)
        return [each for each in found if each.how.objective or self.model.problem is Hypergraph]

    def highest(self) -> list[Beginning]:
        """Return starts of every installed partitioner with its preset of best quality."""
        return highest(self.model.problem is Hypergraph, self.starts_by_kind)

    def has_begun(self, how: Beginning, seed: int) -> bool:
        """Whether the search has made a start in the way `how` with this seed."""
        return (*how.name, seed) in self.begun

    def begin(
        self, how: Beginning, seed: int, share: float | None = None, more: int = 0
    ) -> Owner | None:
        """Return a start, a partition that the search then improves; None if none was found.

        `share`: share of the remaining time that the partitioner may use; None: all. `more`: number
        of later starts that differ only in the seed. The partitioner may compute them together with
        this start, in one process.
        """
        self.begun.add((*how.name, seed))
        if not how.how.clustered:
            problem = self._given(how.how)
            at_once = more if how.adapter.several and self.deadline.at == np.inf else 0
            seeds = [(seed + k) % 2**31 for k in range(1 + at_once)]
            return self.start(problem, how.adapter, seeds=seeds, preset=how.how.preset, share=share)
        if self.clusters is None:
            if self.matrix.types is None:
                return self.scattered(seed)
            # in graphs with types, limits stop clusters early, and sweeps from random owners end
            # far from the best
            return self.start(self.graph, seeds=[seed], share=share)
        problem = replace(self.clusters.graph, objective=how.how.objective)
        given: Any = {"preset": how.how.preset, "share": share, "label": self.clusters.label}
        return self.start(problem, how.adapter, seeds=[seed], **given)

    def scattered(self, seed: int) -> Owner:
        """Draw random owners, from which sweeps start in graphs without clusters.

        They are added to the record of the search's trials.
        """
        begin = wall_seconds()
        owner = random_owner(len(self.nets.weight), self.num_parts, seed, self.limits.capacities)
        self.note(f"random seed {seed}", begin, Owners(owner))
        return owner

    def start(
        self,
        problem: Hypergraph | WeightedGraph,
        adapter: Adapter | None = None,
        *,
        seeds: Sequence[int],
        preset: str | None = None,
        share: float | None = None,
        needed: bool = True,
        limits: Limits | None = None,
        label: Owner | None = None,
    ) -> Owner | None:
        """Run a partitioner, add its owners to the record of the search's trials, and return them.

        Return None if there is nothing to partition, or if the partitioner fails. But a failure
        raises an error as long as the search has no owners.
        Partitioners run with one thread, so that the same seed gives the same owners.

        Parameters:
            adapter: The partitioner; None: the best installed one. All later calls with None for
                the problem ``self.base`` use the same one.
            seeds: Seeds of the runs. The first result is returned; ``self.ready`` keeps the others.
            share: Share of the remaining time that the partitioner may use; None: all.
            needed: Whether a failure causes a warning.
            limits: Limits of the parts in this problem; None: the search's limits.
            label (int32[n], optional): Cluster of every vertex, if clusters are partitioned.
        """
        time_limit = limit = self.options.time_limit or np.inf
        starts = adapter is None and problem is self.base
        name = adapter.name if adapter is not None else self.starter if starts else AUTO
        if share is not None:
            limit = min(limit, share * self.deadline.seconds_left())
            if limit <= 0:
                return None
        begin = wall_seconds()
        options = PartitionOptions(
            partitioner=name,
            preset=preset,
            epsilon=self.options.epsilon,
            time_limit=None if limit == np.inf else limit,
            capacities=self.limits.capacities,
        )
        try:
            plain = limits is None and label is None
            result = self._result(problem, seeds, options, limits or self.shared, plain)
        except (BackendError, BackendUnavailable) as error:
            if self.record.best is None or not self.kind:  # `first` tries the next start
                raise
            # a partitioner that was stopped at the end of its share of the time has not failed
            in_time = limit == time_limit or STOPPED not in str(error)
            if needed and in_time and not self.deadline.stopped():
                self.left_out(error)
            return None
        if starts and result.partitioner != TRIVIAL:
            self.starter = result.partitioner
        self.warnings += [note for note in result.about_run if note not in self.warnings]
        words = [result.partitioner, getattr(problem, "objective", "")]
        words += [result.preset if preset else "", "of clusters" * (label is not None)]
        words += [f"seed {seeds[0]}"]
        words += [] if limits is None else [f"by {','.join(limits.names)}"]
        owner = result.owner if label is None else result.owner[label]
        self.note(" ".join(filter(None, words)), begin, Owners(owner))
        return None if result.partitioner == TRIVIAL and label is None else owner

    def _result(
        self,
        problem: Hypergraph | WeightedGraph,
        seeds: Sequence[int],
        options: PartitionOptions,
        limits: Limits,
        plain: bool,
    ) -> PartitionResult:
        """Return a partitioner's result for the first seed.

        `plain` says whether the problem has the same vertices and limits as the search. If so, the
        results for the other seeds are kept in the attribute `ready`, for later calls.
        """
        objective = getattr(problem, "objective", "")
        keys = [(options.partitioner, options.preset, objective, each) for each in seeds]
        if plain and (ready := self.ready.pop(keys[0], None)) is not None:
            return ready
        stop = self.deadline.stopped
        found = partitions(problem, self.num_parts, seeds, options, limits=limits, stop=stop)
        if plain:
            first = 0 if self.effort == "fast" else 1
            self.ready.update([*zip(keys, found, strict=False)][first:])
        return found[0]

    def measure(self, owners: Owners) -> Member:
        return self.member_of(self.state(owners.rows))

    def state(self, owner: Owner) -> State:
        return state_of(self.nets, owner, self.num_parts)

    def note_state(self, step: str, begin: float, state: State) -> Member:
        """Add a step that began at `begin`, with the owners of `state`, to the record of trials."""
        seconds = wall_seconds() - begin
        return self.record.add(step, seconds, self.member_of(state))

    def member_of(self, state: State, by_volume: bool = False) -> Member:
        """Return a state's owners with figures; if `by_volume`, `Member.value` is the volume."""
        rows, owners = volume(self.nets, state), Owners(state.owner)
        value: float = rows
        if self.expectation is not None and not by_volume:
            value = self.expectation.value(self.row_owner(state.owner), self.num_parts)
        elif self.objective != "volume" and not by_volume:
            whole = Owners(self.row_owner(state.owner))
            parts = traffic(self.matrix, whole, self.num_parts)
            value = objective_value(self.objective, parts, whole, self.time)
        return Member(self.limits.overload(state.sums), value, rows, owners, state.spread)

    def row_owner(self, owner: Owner) -> Owner:
        """Return the owners of rows, given owners of vertices, some of which are merged rows."""
        return owner

    def member(self, owner: Owner) -> Member:
        """Return owners with their figures, without adding a step to the search's record.

        `Member.value` is the volume.
        """
        return replace(self.member_of(self.state(owner), by_volume=True), owners=Owners(owner))

    def sweeps(self, rng: np.random.Generator, numbers: VCycles = V_CYCLES) -> Sweeps:
        threads = self.free_threads
        return Sweeps(self.limits, rng, self.deadline, threads=threads, numbers=numbers)

    def refined(self, step: str, owner: Owner, sweeps: Sweeps, *refiners: Refiner) -> Member:
        """Improve owners by `refiners`, one after another; record the result as step `step`."""
        begin, state = wall_seconds(), self.state(owner)
        for refine in refiners:
            refine(sweeps, self.nets, state)
        return self.note_state(step, begin, state)

    def minimum_cuts(self, owner: Owner, cuts: Cuts) -> Member:
        """Improve owners by minimum cuts between pairs of parts; volume and overload never rise."""
        sweeps = self.sweeps(np.random.default_rng(0))  # minimum cuts use no random numbers
        return self.refined("minimum cuts", owner, sweeps, partial(Sweeps.cut, cuts=(cuts,)))

    def polish(self, owner: Owner, rng: np.random.Generator) -> Member:
        """Improve owners by minimum cuts and local searches, if parts have few neighbours."""
        return self.refined("polished", owner, self.sweeps(rng), Sweeps.polish)

    def cycle(
        self,
        owner: Owner,
        rng: np.random.Generator,
        step: str,
        other: Owner | None = None,
        cuts: Cuts | None = CUTS,
        prices: tuple[float, ...] | None = None,
    ) -> Member:
        """Run one V-cycle from one or two partitions; return and record its result.

        Only vertices that share a part in `owner` and `other` are merged.

        Parameters:
            cuts: Presets of the minimum cuts on every level; None: no cuts.
            prices: For each sweep, the price of overweight; None: the default prices.
        """
        begin, sweeps = wall_seconds(), self.sweeps(rng)
        anneal = partial(sweeps.anneal_and_cut, cuts=cuts) if cuts else sweeps.anneal
        state = sweeps.v_cycle(self.nets, owner, partial(anneal, prices=prices), other=other)
        sweeps.settle(self.nets, state)
        if cuts:
            sweeps.cut(self.nets, state, (cuts,))
        return self.note_state(step, begin, state)

    @cached_property
    def improvable(self) -> bool:
        """Whether `improve` supports this problem, and is worth the time to start its process."""
        least, most = IMPROVED
        one = self.nets.weight.shape[1] == 1 and least <= self.size <= most
        able = self.model.problem is Hypergraph and improver(self.hypergraph) is not None
        return one and able

    def improve(self, member: Member, seed: int) -> Member:
        """Improve `member` by a library's V-cycle (see `improver`); return the better member."""
        limit = min(self.options.time_limit or np.inf, self.deadline.seconds_left())
        begin, stop, problem = wall_seconds(), self.deadline.stopped, self.hypergraph
        try:
            owner = improve(problem, member.owner, seed, self.limits, limit, stop)
        except BackendError as error:
            if STOPPED not in str(error) and not stop():
                self.left_out(error)
            return member
        return min(member, self.note(f"V-cycle of a library, seed {seed}", begin, Owners(owner)))

    def tighten(self, owner: Owner, rng: np.random.Generator) -> Member:
        """Run one V-cycle in which no part may exceed its limit; return and record the result.

        If all parts are within their limits at the start, the result is never worse than `owner`.
        """
        begin, sweeps = wall_seconds(), self.sweeps(rng)
        state = sweeps.v_cycle(self.nets, owner, sweeps.improve)
        return self.note_state("V-cycle within the limit", begin, state)

    def chain(
        self, owner: Owner, seed: int, cycles: int, cuts: Cuts | None = CUTS, quick: bool = False
    ) -> Member:
        """Improve a start's owners by sweeps, then by up to `cycles` V-cycles; return the best.

        Some sweeps let parts exceed their limits for a while. Thin graphs, such as road networks,
        do not get these sweeps, which worsen their starts.

        If a start of a thin graph with several constraints exceeds a limit, a V-cycle comes first:
        it moves clusters to neighbouring parts, where sweeps move single vertices to distant parts.

        `quick`: whether to use the presets of effort "fast". Graphs of kind "even", which have no
        hubs, are then treated as thin.
        """
        rng, best = np.random.default_rng(seed), self.member(owner)
        thin, even = self.kind == "thin", quick and self.kind == "even"
        above = self.nets.weight.shape[1] > 1 and best.overload > 0
        carried = above and (thin or even) and not self.deadline.passed()
        if carried:
            step = f"balancing V-cycle, seed {seed}"
            best = min(best, self.cycle(owner, rng, step, cuts=QUICK_CUTS if quick else None))
        start, sweeps = best, self.sweeps(rng, QUICK if quick else V_CYCLES)
        climbs = thin or (even and not start.overload)
        if not climbs:
            swept = self.refined("sweeps", start.owner, sweeps, Sweeps.anneal, Sweeps.settle)
            best = min(best, swept)
            climbs = start.overload == 0 and swept.volume > Starts.worse * start.volume
        if climbs:
            best = min(best, self.refined("climb", start.owner, sweeps, Sweeps.settle))
        if (thin or carried) and not self.deadline.passed():
            near = quick or self.few
            best = min(best, self.minimum_cuts(best.owner, QUICK_CUTS if near else SINGLE_CUTS))
        return self.cycles(best, seed, cycles, cuts, rng)

    def cycles(
        self,
        best: Member,
        seed: int,
        cycles: int,
        cuts: Cuts | None = None,
        rng: np.random.Generator | None = None,
    ) -> Member:
        """Run up to `cycles` V-cycles, first from `best`, until no better owners are found."""
        rng = rng or np.random.default_rng([seed, 3])
        for k in range(1, cycles + 1):
            if self.deadline.passed() or self.is_least(best):
                break
            last = self.cycle(best.owner, rng, f"V-cycle {k}, seed {seed}", cuts=cuts)
            if not last < best:
                break
            best = last
        return best

    @cached_property
    def least(self) -> int:
        """Lower bound for the volume of every partition that is within the limits."""
        return least_volume(self.nets, self.limits)

    def is_least(self, member: Member) -> bool:
        """Whether the volume of a partition, `member`, is close to the lower bound `least`."""
        return reaches(member.volume, member.overload, self.least)

    @property
    def refinable(self) -> Hypergraph:
        """The hypergraph on which owners are refined for the objective."""
        return self.hypergraph if self.expectation is None else self.expectation.problem

    def refine_for(
        self, owners: Owners, seed: int, cycles: int | None, other: Owner | None = None
    ) -> Member:
        """Refine owners for the objective, or combine them with the owners `other`.

        `other` is allowed only if the objective is the expected volume. `cycles` is the number of
        V-cycles; None means the preset's number.
        """
        begin = wall_seconds()
        if self.expectation is None:
            pass_ = refiner(self.objective, cycles)
        else:  # polish in effort best only: the last percent of a sample hardly matters
            pass_ = self.expectation.refiner(cycles, self.options.effort == "best")
        better = pass_.refine(owners.rows, self.refinable, self.context(seed), other)
        how = "refined" if other is None else "combined"
        return self.note(f"{how} for {self.objective}, seed {seed}", begin, better.owners)
