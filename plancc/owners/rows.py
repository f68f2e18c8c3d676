"""Who owns which row: what the options of `plancc.compile` ask for, and owners that answer it.

Knows models, partitioners, passes and the search; no plan, no file, no terminal.

    searched     hp, gp, partitioner "auto"       plancc.search: partitioners and passes by effort
    partitioned  hp, gp, a named partitioner      exactly its answer; refined if it cannot minimise
                                                  the objective by itself, rebalanced if it misses
                                                  several balances
    assigned     rp, block, rcm, file             the model's own answer
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.cost.objectives import NEEDS_DIMS, OBJECTIVES
from plancc.cost.pairs import pair_volumes
from plancc.cost.rates import EpochRates
from plancc.cost.topology import Topology
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS
from plancc.models.problem import Assignment, Hypergraph, WeightedGraph
from plancc.models.stochastic import AUTO as EXACT_OR_ENOUGH
from plancc.models.stochastic import EXPECTED_VOLUME, StochasticModel
from plancc.models.weights import Balance, as_columns, check_num_parts, constraints
from plancc.owners.provenance import Steps, empty_parts, overload
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.run import (
    AUTO,
    TRIVIAL,
    balance_notes,
    check_options,
    checked_owner,
    partition,
)
from plancc.predict.machine import Machine, epoch_rates
from plancc.registry import check_choice
from plancc.search import EFFORTS, Trial, search
from plancc.search.record import Record, SearchResult
from plancc.version import __version__

if TYPE_CHECKING:
    from plancc.search.expectation import Expectation

STOCHASTIC = "stochastic-hp"
"""The model of mini-batches: its objective is an expectation."""
CHECKERBOARD = "checkerboard"
"""The model of process grids: few messages, unless told otherwise."""
EDGE_SEARCHED = ("medium-grain", "fine-grain", CHECKERBOARD, "hub-split")
SEARCHED = ("hp", "gp", STOCHASTIC, *EDGE_SEARCHED)
"""Models whose owners plancc searches for by itself."""
OF_GRAPHS = ("cut", "volume")
"""Objectives that model gp hands to a partitioner as they are."""
CLUSTER_EPSILON = 0.1
"""By how much a cluster may be larger than the average one."""
EFFORT = "balanced"
"""The effort of a search unless told otherwise."""
REFINED, REBALANCED = "the refined partition", "the rebalanced partition"
"""What warnings call them."""

Observer = Callable[[str], AbstractContextManager[Any]]
Report = Callable[[Trial], None]


@dataclass(frozen=True)
class Method:
    """How owners are found; every combination that makes no sense is an InputError.

    Attributes
    ----------
    model : str
        A name in `plancc.models.MODELS`.
    num_parts : int
    partitioner : str
        "auto" or a name in `plancc.partitioners.PARTITIONERS`.
    preset : str, optional
        Of the partitioner.
    objective : str, optional
        For the searched models one of `plancc.cost.objectives.OBJECTIVES`, for gp also "cut". The
        options of another model are its own.
    effort : str, optional
        "fast", "balanced" or "best": for the search.
    budget : float, optional
        Seconds for the search, or for the refinement after a partitioner.
    dims : tuple of int, optional
        Widths d_0..d_L of the layers, for objective "time".
    machine : Machine, optional
        For objective "time"; None: the default machine.
    topology : Topology or what it parses, optional
        With one rank for every part.
    epsilon, seed, threads, time_limit
        See `plancc.partitioners.run.partition`.
    """

    model: str
    num_parts: int
    partitioner: str = AUTO
    preset: str | None = None
    objective: str | None = None
    effort: str | None = None
    budget: float | None = None
    dims: tuple[int, ...] | None = None
    machine: Machine | None = None
    topology: Topology | str | None = None
    epsilon: float = 0.01
    seed: int = 1
    threads: int = 1
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_choice("model", self.model, MODELS)
        check_choice("partitioner", self.partitioner, [AUTO, *PARTITIONERS])
        check_options(self.epsilon, self.seed, self.threads, self.time_limit)
        check_budget(self.budget)
        if self.effort is not None:
            check_choice("effort", self.effort, EFFORTS)
        if self.model in SEARCHED:
            self._check_objective()
        self._check_partitioner()
        self._check_search()
        if layout_of(self.model) != "any":  # else the machine judges the candidates
            check_rates(self.goal, self.dims, self.machine)
        if self.nodes is not None:
            self.nodes.check(self.num_parts)

    def _check_objective(self) -> None:
        if self.model == STOCHASTIC:
            if self.objective is not None:
                raise InputError(
                    f"objective '{self.objective}': the objective of model '{STOCHASTIC}' is the "
                    "expected volume of its mini-batches; for another one take model hp"
                )
            return
        if self.objective == "cut" and self.model != "gp":
            raise InputError(
                f"objective 'cut' is model gp's: for model '{self.model}' choose from "
                f"{', '.join(OBJECTIVES)}"
            )
        if self.objective is not None:
            cut = ("cut",) if self.model == "gp" else ()
            check_choice("objective", self.objective, (*cut, *OBJECTIVES))

    def _check_partitioner(self) -> None:
        """Partitioner and preset are for the models that need one."""
        if getattr(MODELS[self.model], "partitioners", ()):
            return
        named = None if self.partitioner == AUTO else self.partitioner
        for option, value in (("--partitioner", named), ("--preset", self.preset)):
            if value is not None:
                raise InputError(f"{option} {value}: model '{self.model}' needs no partitioner")

    def _check_search(self) -> None:
        """Effort is for the search only; a budget also for a refinement after a partitioner."""
        given = [name for name in ("effort", "budget") if getattr(self, name) is not None]
        if self.goal is not None and not self.searches and "budget" in given:
            given.remove("budget")
        if not given:
            return
        option = f"--{given[0]}"
        if layout_of(self.model) == "any":
            return
        if self.model not in SEARCHED:
            raise InputError(
                f"{option} is for the models {', '.join(SEARCHED)}, not for '{self.model}'"
            )
        partitioner = None if self.partitioner == AUTO else self.partitioner
        for name, value in (("partitioner", partitioner), ("preset", self.preset)):
            if value is not None:
                which = "" if option == "--effort" else "is for --effort, which "
                raise InputError(
                    f"{option} {which}chooses partitioners itself: drop --{name} {value}"
                )
        if self.objective == "cut":
            raise InputError(
                f"{option} is for the objectives {', '.join(OBJECTIVES)}: drop --objective cut"
            )

    @property
    def searches(self) -> bool:
        """Whether plancc chooses partitioners and passes itself.

        Model gp without any wish is the paper's: few cut edges, by METIS alone.
        """
        if self.model not in SEARCHED or self.partitioner != AUTO or self.preset is not None:
            return False
        wished = self.effort is not None or self.budget is not None
        return wished or self.model != "gp" or self.objective not in (None, "cut")

    @property
    def goal(self) -> str | None:
        """The objective of a search or of a refinement after a partitioner, else None."""
        if self.model == STOCHASTIC:
            return EXPECTED_VOLUME
        if self.searches:
            return self.objective or ("messages" if self.model == CHECKERBOARD else "volume")
        if self.model in SEARCHED and self.objective is not None and not self._minimised:
            return self.objective
        return None

    @property
    def _minimised(self) -> bool:
        """Whether the partitioner minimises the objective by itself."""
        if self.model == "hp" or self.model in EDGE_SEARCHED:
            return self.objective == "volume"
        known = OF_GRAPHS if self.partitioner == AUTO else PARTITIONERS[self.partitioner].objectives
        return self.objective == "cut" or self.objective in known

    @property
    def model_options(self) -> dict[str, Any]:
        """The objective where it is an option of the model."""
        of_plancc = self.model in ("hp", AUTO, *EDGE_SEARCHED)
        if self.objective is None or self.goal is not None or of_plancc:
            return {}
        return {"objective": self.objective}

    @property
    def nodes(self) -> Topology | None:
        """The topology."""
        if self.topology is None or isinstance(self.topology, Topology):
            return self.topology
        return Topology.parse(str(self.topology))

    @property
    def rates(self) -> EpochRates | None:
        """What objective "time" adds up; None for the others."""
        return check_rates(self.goal, self.dims, self.machine)


def layout_of(model: str) -> str:
    """Of the plans that a model makes: "row", "edge", "grid", "feature", or "any"."""
    return getattr(MODELS[model], "layout", "row")


def make_model(name: str, options: Mapping[str, Any]) -> Any:
    """The model with its options; InputError for an option that it does not have."""
    model_class = MODELS[name]
    known = _options(model_class)
    for option in options:
        if option not in known:
            has = f": it has {', '.join(known)}" if known else ""
            if not known and option != "objective":  # which is not a model's alone
                others = [other for other in MODELS if option in _options(MODELS[other])]
                has = ", which is " * bool(others) + ", ".join(f"{other}'s" for other in others)
            raise InputError(f"model '{name}' has no option '{option}'{has}")
    return model_class(**options)


def _options(model_class: Any) -> list[str]:
    """Names of a model's options."""
    return [field.name for field in fields(model_class) if field.name != "vertex_data"]


def default_balance(model: str, objective: str | None, dims: Sequence[int] | None) -> str:
    """What parts share evenly unless the user says so: what an epoch's time is made of, or nnz."""
    timed = objective == "time" and dims is not None and layout_of(model) == "row"
    return "work" if timed else "nnz"


def check_budget(budget: float | None) -> None:
    """Raise InputError unless a budget, if there is one, is a number of seconds above 0."""
    if budget is not None and not (math.isfinite(budget) and budget > 0):
        raise InputError(f"budget {budget:g} s: a number of seconds above 0 is needed")


def check_rates(
    objective: str | None, dims: Sequence[int] | None, machine: Machine | None
) -> EpochRates | None:
    """What an epoch costs, for objective "time" only.

    Raises
    ------
    InputError
        Objective "time" without widths of the layers; a machine for another objective.
    """
    if objective != "time":
        if machine is not None and objective is not None:
            raise InputError(f"a machine is for objective 'time', not for '{objective}'")
        if machine is not None:
            raise InputError("a machine is for objective 'time'")
        return None
    if dims is None:
        raise InputError(NEEDS_DIMS)
    return epoch_rates(dims, machine or Machine())


@dataclass(frozen=True)
class Found:
    """Owners and how they were found.

    Attributes
    ----------
    owner : int32[num_vertices]
    how : dict
        For the provenance of a plan.
    about_run, about_owners : list of str
        What the user should know of how the owners were found, and of the owners themselves.
    nonzero_owner : int32[num_nonzeros] or None
        For an edge plan; None: with the owner of the row.
    """

    owner: npt.NDArray[np.int32]
    how: dict[str, Any] = field(default_factory=dict)
    about_run: list[str] = field(default_factory=list)
    about_owners: list[str] = field(default_factory=list)
    nonzero_owner: npt.NDArray[np.int32] | None = None

    @property
    def warnings(self) -> list[str]:
        return [*self.about_run, *self.about_owners]


def find_owners(
    matrix: Graph,
    method: Method,
    model: Any,
    balance: Balance,
    observer: Observer,
    report: Report | None = None,
) -> Found:
    """Owners of the rows of `matrix`.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    method : Method
    model : a model of `plancc.models`
        With its options.
    balance : Balance
    observer, report
        See `plancc.compile`.

    Raises
    ------
    InputError, BackendUnavailable, BackendError
    """
    loads = constraints(matrix, balance)
    expectation = None
    if isinstance(model, StochasticModel):
        given = model.batches != EXACT_OR_ENOUGH and not method.searches
        if given and method.budget is not None:
            raise InputError(
                f"--budget is for a refinement, but the nets of {model.batches} batches are "
                "partitioned and no more: drop one of the two"
            )
        from plancc.search.expectation import expectation_of

        with observer("mini-batches"):
            expectation = expectation_of(
                model, matrix, as_columns(loads), method.num_parts, method.seed, method.threads
            )
    problem = None
    if not method.searches:
        with observer(f"model {method.model}"):
            problem = model.build(matrix, method.num_parts, balance=balance, seed=method.seed)
    with observer("partition"):
        if problem is None:
            found = _searched(matrix, method, loads, expectation, report)
        elif isinstance(problem, Assignment):
            owner = checked_owner(
                f"model '{method.model}'", problem.owner, matrix.num_vertices, method.num_parts
            )
            found = Found(
                owner, dict(problem.notes), about_owners=empty_parts(owner, method.num_parts)
            )
        else:
            found = partitioned(problem, method, model, tuple(loads))
    if isinstance(problem, Hypergraph | WeightedGraph) and method.model in SEARCHED:
        what = _left_to_do(found, method, model, loads)
        if what:
            with observer(what):
                found = _improved(found, problem, matrix, method, loads, expectation, report)
    if expectation is not None:
        how, notes = expectation.about(found.owner, method.num_parts)
        found = replace(found, how=found.how | how, about_owners=[*found.about_owners, *notes])
    if method.nodes is not None:
        with observer("map to nodes"):
            owner = mapped(found.owner, matrix, method.nodes)
            found = replace(found, owner=owner, how=found.how | {"topology": str(method.nodes)})
    return found


def _searched(
    matrix: Graph,
    method: Method,
    loads: Mapping[str, npt.NDArray[np.int64]],
    expectation: Expectation | None,
    report: Report | None,
) -> Found:
    """What `plancc.search` finds."""
    assert method.goal is not None
    result = search(
        matrix,
        method.num_parts,
        effort=method.effort or EFFORT,
        objective="volume" if expectation is not None else method.goal,
        weights=as_columns(loads),
        constraints=tuple(loads),
        model="hp" if expectation is not None else method.model,
        epsilon=method.epsilon,
        seed=method.seed,
        threads=method.threads,
        budget=method.budget,
        time_limit=method.time_limit,
        rates=method.rates,
        expectation=expectation,
        report=report,
    )
    return found_by_search(result, method)


def found_by_search(result: SearchResult, method: Method) -> Found:
    """What a search found, with how it did."""
    how = {
        "partitioner": "plancc",
        "partitioner_version": __version__,
        "partitioner_versions": _versions(result.tried),
        "effort": method.effort or EFFORT,
        **_wishes(method),
        "threads": method.threads,
        "partition_seconds": result.seconds,
        "tried": result.tried_json(),
    }
    return Found(result.owner, how, result.warnings, nonzero_owner=result.nonzero_owner)


def _versions(tried: Sequence[Trial]) -> str:
    """The partitioners that a search used, with their versions; their steps begin with the name."""
    names = dict.fromkeys(trial.step.split()[0] for trial in tried)
    used = [name for name in names if name in PARTITIONERS]
    return ", ".join(f"{name} {PARTITIONERS[name].version()}".strip() for name in used)


def partitioned(
    problem: Hypergraph | WeightedGraph,
    method: Method,
    model: Any,
    names: Sequence[str],
) -> Found:
    """What one partitioner answers."""
    result = partition(
        problem,
        method.num_parts,
        method.partitioner,
        epsilon=method.epsilon,
        seed=method.seed,
        preset=method.preset,
        threads=method.threads,
        time_limit=method.time_limit,
        order=model.partitioners,
        constraints=names,
    )
    how = {
        "partitioner": result.partitioner,
        "partitioner_version": result.version,
        "preset": result.preset,
        "threads": method.threads,
        "partition_seconds": result.seconds,
        **_wishes(method),
    }
    return Found(result.owner, how, result.about_run, result.about_owners)


def _left_to_do(
    found: Found, method: Method, model: Any, loads: Mapping[str, npt.NDArray[np.int64]]
) -> str:
    """What a partitioner's answer still needs, in a word; "" for nothing.

    The nets of a given number of batches are the paper's model, and so is their partition; those
    that come close to exact probabilities only start the refinement.
    """
    if found.how["partitioner"] == TRIVIAL:
        return ""
    if method.goal is not None and getattr(model, "batches", EXACT_OR_ENOUGH) == EXACT_OR_ENOUGH:
        return "refine"
    if len(loads) == 1:
        return ""
    over = overload(found.owner, as_columns(loads), method.num_parts, method.epsilon)
    return "rebalance" if over > 0 else ""


def _improved(
    found: Found,
    problem: Hypergraph | WeightedGraph,
    matrix: Graph,
    method: Method,
    loads: Mapping[str, npt.NDArray[np.int64]],
    expectation: Expectation | None,
    report: Report | None,
) -> Found:
    """A partitioner's answer, refined for an objective that it does not have, or rebalanced."""
    from plancc.passes.rebalance import Rebalance
    from plancc.passes.refine import refiner

    num_parts, epsilon, seed, goal = method.num_parts, method.epsilon, method.seed, method.goal
    weights = as_columns(loads)
    rates = method.rates
    steps = Steps(
        matrix, weights, num_parts, epsilon, goal or "volume", rates, expectation, Record(report)
    )
    partitioner = found.how["partitioner"]
    kind = problem.objective if isinstance(problem, WeightedGraph) else ""
    words = partitioner, kind, method.preset, f"seed {seed}"
    steps.note(" ".join(filter(None, words)), found.how["partition_seconds"], found.owner)

    start = time.perf_counter()
    hypergraph: Hypergraph = (
        problem
        if isinstance(problem, Hypergraph)
        else MODELS["hp"]().build(matrix, num_parts, balance="nnz", seed=seed)
    )
    hypergraph = replace(hypergraph, vertex_weights=weights)
    about_run = list(found.about_run)
    if goal is None:
        step, who = f"rebalanced, seed {seed}", REBALANCED
        owner = Rebalance(epsilon, seed).run(hypergraph, found.owner, num_parts)
        if owner is not found.owner:
            about_run.append(
                f"{partitioner} is above epsilon {epsilon:g} with the balances "
                f"{', '.join(loads)}: plancc moved rows between its parts"
            )
    else:
        step, who = f"refined for {goal}, seed {seed}", REFINED
        options: dict[str, Any] = {"epsilon": epsilon, "seed": seed, "budget": method.budget}
        if expectation is None:
            refinement = refiner(goal, rates=rates, **options)
        else:
            hypergraph, refinement = expectation.problem, expectation.refiner(**options)
        owner = refinement.run(
            hypergraph, found.owner, num_parts, nonzeros=matrix.row_nonzeros()
        ).owner
    steps.note(step, time.perf_counter() - start, owner)

    result = steps.record.result(about_run)
    notes = balance_notes(result.owner, weights, num_parts, epsilon, who, tuple(loads))
    return Found(result.owner, found.how | {"tried": result.tried_json()}, about_run, notes)


def mapped(
    owner: npt.NDArray[np.int32], matrix: Graph, topology: Topology
) -> npt.NDArray[np.int32]:
    """The same parts under numbers that keep what they exchange inside nodes."""
    from plancc.passes.topology import MapToTopology

    pairs = pair_volumes(matrix, owner, topology.num_ranks)
    return MapToTopology(topology).run(owner, pairs, topology.num_ranks)


def with_clusters(
    data: VertexData, matrix: Graph, clusters: int, seed: int, time_limit: float | None
) -> VertexData:
    """Vertex data with clusters of about as many rows each and few edges between them.

    Raises
    ------
    InputError
        There are clusters already; `clusters` is not in 1..num_vertices.
    """
    if data.clusters is not None:
        raise InputError(f"{clusters} clusters: the vertex data has clusters of its own")
    check_num_parts(matrix.num_vertices, clusters, "cluster")
    model = MODELS["gp"]()
    problem = model.build(matrix, clusters, balance="rows", seed=seed)
    found = partition(
        problem,
        clusters,
        AUTO,
        epsilon=CLUSTER_EPSILON,
        seed=seed,
        time_limit=time_limit,
        order=model.partitioners,
    )
    return replace(data, clusters=found.owner)


def _wishes(method: Method) -> dict[str, Any]:
    """Objective, machine and budget for the provenance."""
    objective = method.goal or (method.objective if method.model in SEARCHED else None)
    return {
        **({} if objective is None else {"objective": objective}),
        **({"machine": str(method.machine or Machine())} if objective == "time" else {}),
        **({} if method.budget is None else {"budget": float(method.budget)}),
    }
