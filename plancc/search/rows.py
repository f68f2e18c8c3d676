"""The steps of a search by rows; which ones are made is up to the efforts."""

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
from plancc.search.presets import IMPROVED, OF_KIND, QUICK_CUTS, SINGLE_CUTS, OfKind, Starts
from plancc.search.record import Member
from plancc.search.starts import Beginning, beginnings, highest, is_mild, kind_of, tightest

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

Refiner = Callable[[Sweeps, "Nets", "State"], Any]
"""Improves a state."""


@dataclass(kw_only=True)
class RowJob(RefiningJob):
    """A search for owners of rows.

    Attributes:
        hypergraph: Whose vertices weigh what the parts share.
        cut_made: Whether it started from the strongest partitioner's cut, for an expected volume.
        decided: Whether that cut was so good that no other start is made.
        ready: Starts that were made with others in one process, or for an effort below, by what was
            called and by seed.
        first_seconds: Of the first start.
        founders: What effort balanced found, and what that was combined from.
        strong: What partitioners found at their best, where they came before that.
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
        """The undirected graph: 8 bytes per nonzero of a directed matrix, made at first use."""
        graph: WeightedGraph = self._problem_of(GraphModel())
        return graph

    @cached_property
    def base(self) -> Hypergraph | WeightedGraph:
        """What partitioners are given unless a start says otherwise."""
        problem: Hypergraph | WeightedGraph
        problem = self.graph if self.by_kind else self._problem_of(self.model)
        return problem

    @cached_property
    def clusters(self) -> Clusters | None:
        """Clusters, and the graph between them; None where there are none or too many."""
        links, weight = links_of(self.matrix, self.nets), self.nets.weight
        rng = np.random.default_rng(self.options.seed)
        return find_clusters(links, weight, self.limits, rng, self.deadline.passed)

    @cached_property
    def degrees(self) -> Any:
        """Neighbours of every vertex in the undirected graph: int64[n]."""
        return degrees_of(self.matrix, self.nets)

    @property
    def size(self) -> int:
        """Nonzeros, by which the number of starts is chosen."""
        return self.matrix.num_nonzeros

    @property
    def kind_now(self) -> str:
        """Kind of the graph, before the first start by its degrees alone."""
        return self.kind or kind_of(self.degrees)

    @property
    def of_kind(self) -> OfKind:
        """What efforts do on this kind of graph."""
        return OF_KIND[self.kind_now]

    @property
    def few(self) -> bool:
        """Whether there are so few parts that several starts are made, since they differ much."""
        return self.num_parts <= FEW and self.expectation is None

    @property
    def by_kind(self) -> bool:
        """Whether starts are chosen by the kind of graph: the model leaves that to the search."""
        return self.model.starts_from_cut

    def _given(self, how: Start) -> Hypergraph | WeightedGraph:
        """What a start is given that works on all vertices."""
        if not how.objective:
            return self.hypergraph
        return replace(self.graph, objective=how.objective)

    def first(self, effort: str, more: int = 0) -> Owner | None:
        """Owners of the best start that does not fail, noted; None if there is nothing to search.

        `more` is that of `begin`. From then on `kind` is what is measured of the graph and of these
        owners.
        """
        owner = None
        self.kind, self.starter = "", AUTO  # an effort below has no part in what is chosen
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
        owner = self._by_tightest(how, self.options.seed)
        return self.begin(how, self.options.seed, more=more) if owner is None else owner

    def _first_ways(self, effort: str, more: int) -> Iterator[Callable[[], Owner | None]]:
        """Starts for the kind of graph, then the partitioners of graphs that are not among them.

        If all of them fail, the built-in one begins.
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
        """Kind of the graph, by the boundary of these owners."""
        rows = len(boundary(self.nets, self.state(owner)))
        return kind_of(self.degrees, rows / len(owner))

    def _by_tightest(self, how: Beginning, seed: int) -> Owner | None:
        """Owners of a start that balances the tightest constraint alone, noted.

        None where the others are missed by more than V-cycles restore well, or where such a start
        is not tried (`plancc.search.starts.tightest`).
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
        """Starts for the kind of graph, the best first; none where the model has its own."""
        if not self.by_kind:
            return []
        of_matrix = self.hypergraph.vertex_weights, self.size, self.num_parts
        rules = self.expectation is None, is_mild(self.degrees)
        found = beginnings(self.kind_now, effort, *of_matrix, *rules)
        return [each for each in found if each.how.objective or self.model.problem is Hypergraph]

    def highest(self) -> list[Beginning]:
        """Every installed partitioner with its highest preset."""
        return highest(self.model.problem is Hypergraph, self.by_kind)

    def has_begun(self, how: Beginning, seed: int) -> bool:
        """Whether that start was made with this seed."""
        return (*how.name, seed) in self.begun

    def begin(
        self, how: Beginning, seed: int, share: float | None = None, more: int = 0
    ) -> Owner | None:
        """Owners of a start, noted; see `start`.

        `more`: seeds after this one that will follow. Where that saves time, the partitioner works
        with them too, in the same process; starts with these seeds then take what it found.
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
            # Limits of every type end clusters early, where sweeps of random rows end far away.
            return self.start(self.graph, seeds=[seed], share=share)
        problem = replace(self.clusters.graph, objective=how.how.objective)
        given: Any = {"preset": how.how.preset, "share": share, "label": self.clusters.label}
        return self.start(problem, how.adapter, seeds=[seed], **given)

    def scattered(self, seed: int) -> Owner:
        """Random owners, noted: where there are no communities, sweeps need no better start."""
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
        """Owners of one partitioner, noted; None if it failed and something else was found.

        It has one thread, so that the same seed gives the same owners: several starts run side by
        side.

        Parameters:
            adapter: None: the best one that is installed; for `base` from then on the same.
            seeds: The first is the seed of the owners; owners of the others are kept until they are
                asked for.
            share: Of the time left, for the partitioner; None: whatever the budget says.
            needed: Whether its failure is a warning.
            limits: What it balances, if not all that the search does: the weights of the problem.
            label (int32[n], optional): The problem's vertex that stands for every vertex; None:
                they are the same.
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
            if self.record.best is None or not self.kind:  # `first` goes on to the next
                raise
            in_time = limit == time_limit or STOPPED not in str(error)  # a share ends as it should
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
        """What a partitioner finds with the first seed; what it finds with all seeds is kept.

        `plain`: It has all vertices and limits of the search; other results are not kept.
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
        """Judge the owners of a state and put them into the record."""
        seconds = wall_seconds() - begin
        return self.record.add(step, seconds, self.member_of(state))

    def member_of(self, state: State, by_volume: bool = False) -> Member:
        """What the owners of a state are worth; with `by_volume` their value is the volume."""
        rows, owners = volume(self.nets, state), Owners(state.owner)
        value: float = rows
        if self.expectation is not None and not by_volume:
            value = self.expectation.value(self.of_rows(state.owner), self.num_parts)
        elif self.objective != "volume" and not by_volume:
            whole = Owners(self.of_rows(state.owner))
            parts = traffic(self.matrix, whole, self.num_parts)
            value = objective_value(self.objective, parts, whole, self.time)
        return Member(self.limits.overload(state.sums), value, rows, owners, state.spread)

    def of_rows(self, owner: Owner) -> Owner:
        """Owners of the rows of the matrix, from a member's owners."""
        return owner

    def member(self, owner: Owner) -> Member:
        """Owners as a member that is not noted."""
        return replace(self.member_of(self.state(owner), by_volume=True), owners=Owners(owner))

    def sweeps(self, rng: np.random.Generator, numbers: VCycles = V_CYCLES) -> Sweeps:
        threads = self.free_threads
        return Sweeps(self.limits, rng, self.deadline, threads=threads, numbers=numbers)

    def refined(self, step: str, owner: Owner, sweeps: Sweeps, *refiners: Refiner) -> Member:
        """What refiners make of owners on the finest level, one after the other; noted."""
        begin, state = wall_seconds(), self.state(owner)
        for refine in refiners:
            refine(sweeps, self.nets, state)
        return self.note_state(step, begin, state)

    def minimum_cuts(self, owner: Owner, cuts: Cuts) -> Member:
        """Minimum cuts: the owners get no worse, if they are within the limit."""
        sweeps = self.sweeps(np.random.default_rng(0))  # which draws nothing
        return self.refined("minimum cuts", owner, sweeps, partial(Sweeps.cut, cuts=(cuts,)))

    def polish(self, owner: Owner, rng: np.random.Generator) -> Member:
        """Wide minimum cuts and localised searches, where parts have few neighbours."""
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
        """One V-cycle, from one partition or from two.

        `cuts`: minimum cuts on every level; `prices`: of overweight, from sweep to sweep.
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
        """Whether `improve` can do anything, and is worth its process."""
        least, most = IMPROVED
        one = self.nets.weight.shape[1] == 1 and least <= self.size <= most
        able = self.model.problem is Hypergraph and improver(self.hypergraph) is not None
        return one and able

    def improve(self, member: Member, seed: int) -> Member:
        """A V-cycle of a library from a member, or the member if that is no better, or fails."""
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
        """One V-cycle within the limit: no worse, if the owners are within it."""
        begin, sweeps = wall_seconds(), self.sweeps(rng)
        state = sweeps.v_cycle(self.nets, owner, sweeps.improve)
        return self.note_state("V-cycle within the limit", begin, state)

    def chain(
        self, owner: Owner, seed: int, cycles: int, cuts: Cuts | None = CUTS, quick: bool = False
    ) -> Member:
        """Sweeps and V-cycles one after the other, from where the last one ended.

        `quick`, as for effort fast: sweeps are quick ones, all within the limit on even graphs, and
        minimum cuts look less far.

        Sweeps beyond the limit are not made on thin graphs, where they spoil the start; where they
        do so elsewhere, with a start within the limit, sweeps within it are tried too. No V-cycle
        follows one that found nothing better. Parts of thin graphs, in quick chains of even ones
        too, that are above one of several limits come below it in a V-cycle: clusters carry weight
        through chains of neighbouring parts, where single vertices would go to parts far away.
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
        """V-cycles one after the other, until one finds nothing better."""
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
        """The volume that no partition within the limits is below."""
        return least_volume(self.nets, self.limits)

    def is_least(self, member: Member) -> bool:
        """Whether there is hardly less volume than a member has."""
        return reaches(member.volume, member.overload, self.least)

    @property
    def refinable(self) -> Hypergraph:
        """What refinement for the objective works on."""
        return self.hypergraph if self.expectation is None else self.expectation.problem

    def refine_for(
        self, owners: Owners, seed: int, cycles: int | None, other: Owner | None = None
    ) -> Member:
        """What the objective asks for, from one partition, or from two for an expected volume."""
        begin = wall_seconds()
        if self.expectation is None:
            pass_ = refiner(self.objective, cycles)
        else:  # the last percent of a sample says little of other batches
            pass_ = self.expectation.refiner(cycles, self.options.effort == "best")
        better = pass_.refine(owners.rows, self.refinable, self.context(seed), other)
        how = "refined" if other is None else "combined"
        return self.note(f"{how} for {self.objective}, seed {seed}", begin, better.owners)
