"""`search`: how much work goes into a partition, and what it consists of.

========  ========================================================================================
fast      a quick partition (METIS' cut), then one round of sweeps on the finest level
balanced  the same start, then V-cycles; with several threads two chains of them, combined
best      a population from several partitioners, refined and combined until the budget ends
========  ========================================================================================

Every effort minimises the volume first and refines for another objective from there; for the
expected volume of mini-batches balanced and best also start from the strongest partitioner's cut.
Where a model says that it is not made for a graph (`StochasticModel.unfit`), fast is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.clock import wall_seconds
from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.cost.rates import EpochTime
from plancc.errors import BackendError, BackendUnavailable
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.base import Model
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.models.loads import Loads
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.stochastic import EXPECTED_VOLUME
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.adapter import Adapter
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.partitioners.process import OTHERWISE
from plancc.partitioners.run import TRIVIAL, balance_notes, partition, quickest, strongest
from plancc.passes.deadline import Deadline
from plancc.passes.multilevel import Owner, Sweeps
from plancc.passes.refine import refiner
from plancc.search.record import Record, SearchResult, Trial

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets
    from plancc.passes.kernels.state import State
    from plancc.search.expectation import Expectation

BALANCED_CYCLES = 2
"""V-cycles one after the other in effort balanced, the combining one included."""
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
    job = _Job(
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


@dataclass
class _Job:
    """One search: what it works on, and what it has found."""

    matrix: Graph
    hypergraph: Hypergraph
    loads: Loads
    num_parts: int
    options: SearchOptions
    objective: str
    time: EpochTime | None
    model: Model
    expectation: Expectation | None
    record: Record
    deadline: Deadline
    warnings: list[str] = field(default_factory=list)
    starter: str = AUTO
    graph: WeightedGraph = field(init=False)
    base: Hypergraph | WeightedGraph = field(init=False)
    nets: Nets = field(init=False)
    limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        from plancc.passes.kernels.nets import nets_of

        self.graph = self._problem_of(GraphModel())
        self.base = self.graph if self.model.starts_from_cut else self._problem_of(self.model)
        self.nets = nets_of(self.hypergraph)
        loads = self.loads
        self.limits = Limits.of(self.nets.weight, self.num_parts, loads.epsilon, loads.capacities)

    def _problem_of(self, model: Model) -> Any:
        problem = model.build(self.matrix, self.num_parts, balance="nnz", seed=self.options.seed)
        if not isinstance(problem, Hypergraph | WeightedGraph):
            raise BackendUnavailable(
                f"{type(model).__name__} is searched, but builds {type(problem).__name__}, not a "
                "Hypergraph or a WeightedGraph"
            )
        return replace(problem, vertex_weights=self.hypergraph.vertex_weights)

    def start(
        self,
        problem: Hypergraph | WeightedGraph,
        adapter: Adapter | None = None,
        *,
        seed: int,
        preset: str | None = None,
        share: float | None = None,
        needed: bool = True,
    ) -> Owner | None:
        """Owners of one partitioner, noted; None if it failed and something else was found.

        Parameters
        ----------
        problem : Hypergraph or WeightedGraph
        adapter : Adapter, optional
            None: the best one that is installed; for `base` from then on the same.
        seed : int
        preset : str, optional
        share : float, optional
            Of the time left, for the partitioner; None: whatever the budget says.
        needed : bool
            Whether its failure is a warning.
        """
        time_limit = self.options.time_limit
        limit = np.inf if time_limit is None else time_limit
        starts = adapter is None and problem is self.base
        name = adapter.name if adapter is not None else self.starter if starts else AUTO
        if share is not None:
            limit = min(limit, share * self.deadline.seconds_left())
            if limit <= 0:
                return None
        begin = wall_seconds()
        try:
            result = partition(
                problem,
                self.num_parts,
                PartitionOptions(
                    partitioner=name,
                    preset=preset,
                    epsilon=self.options.epsilon,
                    seed=seed,
                    threads=self.options.threads,
                    time_limit=None if limit == np.inf else limit,
                    capacities=self.loads.capacities,
                ),
                loads=self.loads,
                stop=lambda: self.deadline.at == -np.inf,
            )
        except (BackendError, BackendUnavailable) as error:
            if self.record.owners is None:
                raise
            if needed:
                self.warnings.append(f"left out: {str(error).removesuffix(f'; {OTHERWISE}')}")
            return None
        if starts and result.partitioner != TRIVIAL:
            self.starter = result.partitioner
        self.warnings += result.about_run
        kind = f" {problem.objective}" if isinstance(problem, WeightedGraph) else ""
        words = [result.partitioner + kind, result.preset if preset else "", f"seed {seed}"]
        self.note(" ".join(filter(None, words)), begin, result.owner)
        return None if result.partitioner == TRIVIAL else result.owner

    def note(self, step: str, begin: float, owner: Owner) -> _Member:
        """Measure owners exactly and put them into the record."""
        seconds = wall_seconds() - begin
        state = self.state(owner)
        return self.note_state(step, seconds, state)

    def state(self, owner: Owner) -> State:
        from plancc.passes.kernels.state import state_of

        return state_of(self.nets, owner, self.num_parts)

    def note_state(self, step: str, seconds: float, state: State) -> _Member:
        from plancc.passes.kernels.state import volume

        rows = int(volume(self.nets, state))
        value: float = rows
        if self.expectation is not None:
            value = self.expectation.value(state.owner, self.num_parts)
        elif self.objective != "volume":
            owners = Owners(state.owner)
            parts = traffic(self.matrix, owners, self.num_parts)
            value = objective_value(self.objective, parts, owners, self.time)
        overload = self.limits.overload(state.sums)
        self.record.add(step, seconds, Owners(state.owner), overload, value, rows)
        return _Member(overload, rows, value, state.owner)

    def sweeps(self, owner: Owner, rng: np.random.Generator) -> _Member:
        """One round of sweeps on the finest level."""
        begin = wall_seconds()
        state = self.state(owner)
        sweeps = Sweeps(self.limits, rng, self.deadline)
        sweeps.anneal(self.nets, state)
        sweeps.settle(self.nets, state)
        return self.note_state("sweeps", wall_seconds() - begin, state)

    def cycle(
        self, owner: Owner, rng: np.random.Generator, step: str, other: Owner | None = None
    ) -> _Member:
        """One V-cycle, from one partition or from two."""
        begin = wall_seconds()
        sweeps = Sweeps(self.limits, rng, self.deadline)
        state, _ = sweeps.v_cycle(self.nets, owner, other=other)
        sweeps.settle(self.nets, state)
        return self.note_state(step, wall_seconds() - begin, state)

    def chain(self, owner: Owner, seed: int, cycles: int) -> _Member:
        """Sweeps and V-cycles one after the other, from where the last one ended."""
        rng = np.random.default_rng(seed)
        last = best = self.sweeps(owner, rng)
        for k in range(1, cycles + 1):
            if self.deadline.passed():
                break
            last = self.cycle(last.owner, rng, f"V-cycle {k}, seed {seed}")
            best = min(best, last)
        return best

    def side_by_side(self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        """``task(*each)`` on as many threads as there are; the results in order.

        An exception, Ctrl-C included, ends the search: what waits is dropped, and what runs stops
        before its next sweep, native partitioners at once.
        """
        if self.options.threads == 1 or len(arguments) == 1:
            return [task(*each) for each in arguments]
        with ThreadPoolExecutor(min(self.options.threads, len(arguments))) as pool:
            futures = [pool.submit(task, *each) for each in arguments]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.deadline.at = -np.inf
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def refine_objective(self, owners: Sequence[Owner], cycles: int | None = None) -> list[_Member]:
        """From these owners on, what the objective itself asks for."""
        if self.objective == "volume":
            return []
        problem = self.hypergraph if self.expectation is None else self.expectation.problem
        found: list[_Member] = self.side_by_side(
            self._refine_for,
            [(problem, owner, self.options.seed + k, cycles) for k, owner in enumerate(owners)],
        )
        return found

    def _refine_for(
        self, problem: Hypergraph, owner: Owner, seed: int, cycles: int | None
    ) -> _Member:
        begin = wall_seconds()
        loads = self.loads
        options = {
            "epsilon": loads.epsilon,
            "capacities": loads.capacities,
            "cycles": cycles,
            "seed": seed,
        }
        if self.expectation is None:
            pass_ = refiner(self.objective, time=self.time, **options)
        else:
            pass_ = self.expectation.refiner(**options)
        better = pass_.run(
            problem,
            owner,
            self.num_parts,
            deadline=self.deadline,
        )
        return self.note(f"refined for {self.objective}, seed {seed}", begin, better.owner)


@dataclass(frozen=True, eq=False)
class _Member:
    """A partition, ordered by overload and volume."""

    overload: float
    volume: int
    value: float
    owner: Owner

    def __lt__(self, other: _Member) -> bool:
        return (self.overload, self.volume) < (other.overload, other.volume)


def _fast(job: _Job) -> list[Owner]:
    owner = job.start(job.base, seed=job.options.seed)
    if owner is None:
        return []
    return [job.sweeps(owner, np.random.default_rng(job.options.seed)).owner]


def _balanced(job: _Job) -> list[Owner]:
    owner = job.start(job.base, seed=job.options.seed)
    if owner is None:
        return []
    if job.options.threads == 1:
        return [job.chain(owner, job.options.seed, BALANCED_CYCLES).owner]
    # Two chains, and the last cycle of each combines it with the other.
    found = job.side_by_side(
        job.chain, [(owner, job.options.seed + k, BALANCED_CYCLES - 1) for k in range(2)]
    )
    if not job.deadline.passed():
        one, two = found[0].owner, found[1].owner
        rngs = [np.random.default_rng([job.options.seed, k]) for k in range(2)]
        found += job.side_by_side(
            job.cycle, [(one, rngs[0], "combined", two), (two, rngs[1], "combined", one)]
        )
    return [min(found).owner]


def _best(job: _Job) -> list[Owner]:
    first = job.start(job.base, seed=job.options.seed)
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


def _population(job: _Job, first: Owner) -> list[_Member]:
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

    def grow(start: Callable[[], Owner | None], seed: int) -> _Member | None:
        owner = start()
        return None if owner is None else job.chain(owner, seed, MEMBER_CYCLES)

    grown = job.side_by_side(grow, [(start, seed + k) for k, start in enumerate(starts)])
    while len(grown) < MAX_MEMBERS and wall_seconds() - begin < growing < np.inf:
        seeds = range(seed + len(grown), seed + len(grown) + job.options.threads)
        grown += job.side_by_side(
            grow, [(partial(job.start, job.base, seed=each, share=0.3), each) for each in seeds]
        )
    return [member for member in grown if member is not None]


def _two_of(population: list[_Member], rng: np.random.Generator) -> tuple[_Member, _Member]:
    """Two members at random, the better one first; one twice if there is only one."""
    if len(population) == 1:
        return population[0], population[0]
    one, two = (population[k] for k in rng.choice(len(population), 2, replace=False))
    return (one, two) if one < two else (two, one)


def _child(job: _Job, better: _Member, worse: _Member, number: int) -> _Member:
    """Combine two members, then a V-cycle of its own."""
    rng = np.random.default_rng([job.options.seed, 1, number])
    child = job.cycle(better.owner, rng, f"combined {number + 1}", worse.owner)
    if job.deadline.passed():
        return child
    return min(child, job.cycle(child.owner, rng, f"combined {number + 1}, V-cycle"))


_EFFORTS: dict[str, Callable[[_Job], list[Owner]]] = {
    "fast": _fast,
    "balanced": _balanced,
    "best": _best,
}
