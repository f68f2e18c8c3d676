"""`search`: how much work goes into a partition, and what it consists of.

========  ========================================================================================
fast      METIS (cut), then one round of sweeps on the finest level
balanced  METIS (cut), then V-cycles; with several threads two chains of them that are combined
best      a population from several partitioners, refined and combined until the budget ends
========  ========================================================================================

Every effort minimises the volume first and refines for another objective from there; for the
expected volume of mini-batches balanced and best also start from Mt-KaHyPar's edge cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.cost.objectives import NEEDS_DIMS, OBJECTIVES, objective_value
from plancc.cost.owners import traffic_of_owners
from plancc.cost.rates import EpochRates
from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.graph.graph import Graph
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.stochastic import EXPECTED_VOLUME
from plancc.models.weights import check_num_parts
from plancc.partitioners.process import OTHERWISE
from plancc.partitioners.run import AUTO, TRIVIAL, balance_notes, check_options, partition
from plancc.passes.deadline import Deadline
from plancc.passes.multilevel import Owner, anneal, settle, v_cycle
from plancc.passes.refine import refiner
from plancc.registry import check_choice
from plancc.search.record import Record, SearchResult, Trial

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets
    from plancc.passes.kernels.state import State
    from plancc.search.expectation import Expectation

EFFORTS = ("fast", "balanced", "best")
SEARCHED_MODELS = ("hp", "gp")

BALANCED_CYCLES = 2
"""V-cycles one after the other in effort balanced, the combining one included."""
MEMBER_CYCLES = 3
"""V-cycles that a member of the population of effort best starts with."""
ROUNDS = 12
"""Combinations per member of the population, unless a budget says when to end."""
HYPERGRAPH_SECONDS = 15.0
"""Seconds that Mt-KaHyPar takes for one second of METIS, roughly: it starts if there is time."""
GROWING_SHARE = 0.4
"""Share of a budget in which members are added, ..."""
MAX_MEMBERS = 12
"""... up to this many; without a budget there are those of different partitioners only."""
CUT_SHARE = 0.5
"""Of the time left when Mt-KaHyPar starts on the edge cut, for an expected volume."""
FEW_ROWS = 0.05
"""Volumes below this share of the rows are small."""
OBJECTIVE_STARTS = 4
"""Best members that are refined for another objective than the volume."""
OBJECTIVE_SHARE = 0.4
"""Share of a budget kept for another objective than the volume."""


def search(
    matrix: Graph,
    num_parts: int,
    *,
    effort: str = "balanced",
    objective: str = "volume",
    model: str = "hp",
    weights: npt.NDArray[np.int64] | None = None,
    constraints: Sequence[str] = (),
    epsilon: float = 0.01,
    seed: int = 1,
    threads: int = 1,
    budget: float | None = None,
    time_limit: float | None = None,
    rates: EpochRates | None = None,
    expectation: Expectation | None = None,
    report: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Find owners of the rows of `matrix`, by the exact objective.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    num_parts : int
    effort : {"fast", "balanced", "best"}
    objective : {"volume", "max-volume", "messages", "time"}
        See `plancc.cost.objectives`; with an expectation it is that.
    model : {"hp", "gp"}
        "gp": partitioners of graphs only; the objective is exact all the same.
    weights : int64[n] or int64[n, c], optional
        What the parts share evenly; None: the nonzeros of the rows.
    constraints : sequence of str
        Names of the columns of `weights`, for the warnings.
    epsilon : float
        Allowed imbalance of every constraint.
    seed : int
    threads : int
        Chains of refinement that run side by side, and threads of native partitioners. Without a
        budget and with one thread the same seed gives the same owners.
    budget : float, optional
        Seconds after which nothing new is started; effort best uses all of them for the volume,
        and what its passes need for another objective.
    time_limit : float, optional
        Seconds that one native partitioner may take.
    rates : EpochRates
        For objective "time".
    expectation : Expectation, optional
        The expected volume of mini-batches, in place of the objective.
    report : callable, optional
        Called with every `Trial` as it ends.

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
    if expectation is not None:
        objective = EXPECTED_VOLUME
    check_choice("model to search with", model, SEARCHED_MODELS)

    record, deadline = Record(report), Deadline.after(budget)
    if expectation is not None:
        expectation.deadline = deadline
    kept = 0.0 if objective == "volume" or budget is None else OBJECTIVE_SHARE * budget
    hypergraph = HypergraphModel().build(matrix, num_parts, balance="nnz", seed=seed)
    if weights is not None:
        hypergraph = replace(hypergraph, vertex_weights=weights)
    job = _Job(
        matrix=matrix,
        hypergraph=hypergraph,
        num_parts=num_parts,
        objective=objective,
        model=model,
        epsilon=epsilon,
        seed=seed,
        threads=threads,
        time_limit=time_limit,
        rates=rates,
        expectation=expectation,
        record=record,
        warnings=[],
        deadline=Deadline(deadline.at - kept),
    )
    owners = _EFFORTS[effort](job)
    job.deadline = deadline
    if expectation is not None and owners and effort != "fast" and not job.deadline.passed():
        # The limit of small batches is the edge cut, which this partitioner is best at; where few
        # rows move at all, as in meshes, it is quick and good with hypergraphs too.
        job.start(job.graph, "mtkahypar", seed=seed, share=CUT_SHARE, needed=False)
        if record.least_volume < FEW_ROWS * matrix.num_vertices:
            job.start(job.hypergraph, "mtkahypar", seed=seed, share=CUT_SHARE, needed=False)
    if objective in ("time", EXPECTED_VOLUME) and owners and record.owner is not None:
        # Less volume is not always less time: start from the best owners by the objective too.
        owners = [record.owner, *(owner for owner in owners if owner is not record.owner)]
    cycles = 1 if effort == "fast" else None
    found = job.refine_objective(owners, cycles)
    while expectation is not None and found and effort != "fast" and not deadline.passed():
        latest = min(found, key=lambda member: (member.overload, member.value))
        if not expectation.grow(latest.owner, num_parts, record.best[1]):
            break
        assert record.owner is not None
        found = job.refine_objective([record.owner], cycles)
    result = job.record.result(job.warnings)
    notes = balance_notes(
        result.owner, hypergraph.vertex_weights, num_parts, epsilon, f"effort {effort}", constraints
    )
    return replace(result, warnings=[*dict.fromkeys(result.warnings), *notes])


def check_request(
    matrix: Graph,
    num_parts: int,
    *,
    effort: str,
    objective: str,
    epsilon: float,
    seed: int,
    threads: int,
    budget: float | None,
    time_limit: float | None,
    rates: EpochRates | None,
) -> None:
    """What every search asks of its options; the parameters are those of `search`.

    Raises
    ------
    InputError
        An unknown name, a number out of range, objective "time" without rates.
    """
    check_choice("effort", effort, EFFORTS)
    check_choice("objective", objective, OBJECTIVES)
    check_options(epsilon, seed, threads, time_limit)
    check_num_parts(matrix.num_vertices, num_parts)
    if budget is not None and not budget > 0:
        raise InputError(f"budget {budget} s: must be above 0")
    if objective == "time" and rates is None:
        raise InputError(NEEDS_DIMS)


@dataclass
class _Job:
    """One search: what it works on, and what it has found."""

    matrix: Graph
    hypergraph: Hypergraph
    num_parts: int
    objective: str
    model: str
    epsilon: float
    seed: int
    threads: int
    time_limit: float | None
    rates: EpochRates | None
    expectation: Expectation | None
    record: Record
    warnings: list[str]
    deadline: Deadline
    starter: str = AUTO
    graph: WeightedGraph = field(init=False)
    nets: Nets = field(init=False)
    limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        from plancc.passes.kernels.nets import nets_of

        graph = GraphModel().build(self.matrix, self.num_parts, balance="nnz", seed=self.seed)
        self.graph = replace(graph, vertex_weights=self.hypergraph.vertex_weights)
        self.nets = nets_of(self.hypergraph)
        self.limits = Limits.of(self.nets.weight, self.num_parts, self.epsilon)

    def start(
        self,
        problem: Hypergraph | WeightedGraph,
        partitioner: str | None = None,
        *,
        seed: int,
        preset: str | None = None,
        share: float | None = None,
        needed: bool = True,
    ) -> Owner | None:
        """Owners of one partitioner, noted; None if it failed and something else was found.

        One that is `needed` is missed in a warning.

        `partitioner` None: the first one that is installed, from then on the same. `share` of
        the time left is for the partitioner; None: whatever the budget says.
        """
        limit = np.inf if self.time_limit is None else self.time_limit
        if share is not None:
            limit = min(limit, share * self.deadline.seconds_left())
            if limit <= 0:
                return None
        begin = time.perf_counter()
        try:
            result = partition(
                problem,
                self.num_parts,
                partitioner or self.starter,
                epsilon=self.epsilon,
                seed=seed,
                preset=preset,
                threads=self.threads,
                time_limit=None if limit == np.inf else limit,
                order=("metis", "kaminpar", "builtin"),
                stop=lambda: self.deadline.at == -np.inf,
            )
        except (BackendError, BackendUnavailable) as error:
            if self.record.owner is None:
                raise
            if needed:
                self.warnings.append(f"left out: {str(error).removesuffix(f'; {OTHERWISE}')}")
            return None
        if partitioner is None and result.partitioner != TRIVIAL:
            self.starter = result.partitioner
        self.warnings += result.about_run
        kind = f" {problem.objective}" if isinstance(problem, WeightedGraph) else ""
        words = [result.partitioner + kind, result.preset if preset else "", f"seed {seed}"]
        self.note(" ".join(filter(None, words)), begin, result.owner)
        return None if result.partitioner == TRIVIAL else result.owner

    def note(self, step: str, begin: float, owner: Owner) -> _Member:
        """Measure owners exactly and put them into the record."""
        seconds = time.perf_counter() - begin
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
            parts = traffic_of_owners(self.matrix, state.owner, self.num_parts)
            value = objective_value(self.objective, parts, self.rates)
        overload = self.limits.overload(state.sums)
        self.record.add(step, seconds, state.owner, overload, value, rows)
        return _Member(overload, rows, value, state.owner)

    def sweeps(self, owner: Owner, rng: np.random.Generator) -> _Member:
        """One round of sweeps on the finest level."""
        begin = time.perf_counter()
        state = self.state(owner)
        anneal(self.nets, state, self.limits, rng, deadline=self.deadline)
        settle(self.nets, state, self.limits, rng, self.deadline)
        return self.note_state("sweeps", time.perf_counter() - begin, state)

    def cycle(
        self, owner: Owner, rng: np.random.Generator, step: str, other: Owner | None = None
    ) -> _Member:
        """One V-cycle, from one partition or from two."""
        begin = time.perf_counter()
        state, _ = v_cycle(
            self.nets,
            owner,
            self.num_parts,
            rng,
            lambda level, state, _: anneal(level, state, self.limits, rng, deadline=self.deadline),
            other=other,
            deadline=self.deadline,
        )
        settle(self.nets, state, self.limits, rng, self.deadline)
        return self.note_state(step, time.perf_counter() - begin, state)

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
        if self.threads == 1 or len(arguments) == 1:
            return [task(*each) for each in arguments]
        with ThreadPoolExecutor(min(self.threads, len(arguments))) as pool:
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
            [(problem, owner, self.seed + k, cycles) for k, owner in enumerate(owners)],
        )
        return found

    def _refine_for(
        self, problem: Hypergraph, owner: Owner, seed: int, cycles: int | None
    ) -> _Member:
        begin = time.perf_counter()
        options = {"epsilon": self.epsilon, "cycles": cycles, "seed": seed}
        if self.expectation is None:
            pass_ = refiner(self.objective, rates=self.rates, **options)
        else:
            pass_ = self.expectation.refiner(**options)
        better = pass_.run(
            problem,
            owner,
            self.num_parts,
            nonzeros=self.matrix.row_nonzeros(),
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
    owner = job.start(job.graph, seed=job.seed)
    if owner is None:
        return []
    return [job.sweeps(owner, np.random.default_rng(job.seed)).owner]


def _balanced(job: _Job) -> list[Owner]:
    owner = job.start(job.graph, seed=job.seed)
    if owner is None:
        return []
    if job.threads == 1:
        return [job.chain(owner, job.seed, BALANCED_CYCLES).owner]
    # Two chains, and the last cycle of each combines it with the other.
    found = job.side_by_side(
        job.chain, [(owner, job.seed + k, BALANCED_CYCLES - 1) for k in range(2)]
    )
    if not job.deadline.passed():
        one, two = found[0].owner, found[1].owner
        rngs = [np.random.default_rng([job.seed, k]) for k in range(2)]
        found += job.side_by_side(
            job.cycle, [(one, rngs[0], "combined", two), (two, rngs[1], "combined", one)]
        )
    return [min(found).owner]


def _best(job: _Job) -> list[Owner]:
    first = job.start(job.graph, seed=job.seed)
    if first is None:
        return []
    population = _population(job, first)
    rng = np.random.default_rng(job.seed)
    timed = job.deadline.at < np.inf
    made = 0
    while not job.deadline.passed() and (timed or made < ROUNDS * len(population)):
        pairs = [_two_of(population, rng) for _ in range(job.threads)]
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
    begin, seed = time.perf_counter(), job.seed
    growing = GROWING_SHARE * job.deadline.seconds_left()
    by_volume = replace(job.graph, objective="volume")
    first_seconds = job.record.trials[0].seconds
    starts: list[Callable[[], Owner | None]] = [
        lambda: first,
        lambda: job.start(by_volume, "metis", seed=seed, share=0.3),
        lambda: job.start(job.graph, seed=seed + 1, share=0.3),
    ]
    affordable = HYPERGRAPH_SECONDS * first_seconds < 0.5 * job.deadline.seconds_left()
    if job.model == "hp" and affordable:
        starts.append(
            lambda: job.start(job.hypergraph, "mtkahypar", preset="default", seed=seed, share=0.5)
        )

    def grow(start: Callable[[], Owner | None], seed: int) -> _Member | None:
        owner = start()
        return None if owner is None else job.chain(owner, seed, MEMBER_CYCLES)

    grown = job.side_by_side(grow, [(start, seed + k) for k, start in enumerate(starts)])
    while len(grown) < MAX_MEMBERS and time.perf_counter() - begin < growing < np.inf:
        seeds = range(seed + len(grown), seed + len(grown) + job.threads)
        grown += job.side_by_side(
            grow, [(partial(job.start, job.graph, seed=each, share=0.3), each) for each in seeds]
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
    rng = np.random.default_rng([job.seed, 1, number])
    child = job.cycle(better.owner, rng, f"combined {number + 1}", worse.owner)
    if job.deadline.passed():
        return child
    return min(child, job.cycle(child.owner, rng, f"combined {number + 1}, V-cycle"))


_EFFORTS: dict[str, Callable[[_Job], list[Owner]]] = {
    "fast": _fast,
    "balanced": _balanced,
    "best": _best,
}
