"""Who owns which row: what the options of `plancc.compile` ask for, and owners that answer it.

Knows models, partitioners, passes and the search; no plan, no file, no terminal.

    searched     hp, gp, partitioner "auto"       plancc.search: partitioners and passes by effort
    partitioned  hp, gp, a named partitioner      exactly its answer, refined if it cannot minimise
                                                  the objective by itself
    assigned     rp, block, rcm, file             the model's own answer
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.cost.machine import EpochRates, Machine, epoch_rates
from plancc.cost.objectives import OBJECTIVES
from plancc.cost.pairs import pair_volumes
from plancc.cost.topology import Topology
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models import MODELS
from plancc.models.problem import Assignment, Hypergraph, WeightedGraph
from plancc.models.weights import Balance, constraints, vertex_weights
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.run import (
    AUTO,
    TRIVIAL,
    balance_notes,
    check_options,
    checked_owner,
    partition,
)
from plancc.registry import check_choice
from plancc.search import EFFORTS, Trial, search
from plancc.version import __version__

if TYPE_CHECKING:
    from plancc.passes.refine import Refined

SEARCHED = ("hp", "gp")
"""Models whose owners plancc searches for by itself."""
OF_GRAPHS = ("cut", "volume")
"""Objectives that model gp hands to a partitioner as they are."""
EFFORT = "balanced"
"""The effort of a search unless told otherwise."""
REFINED = "the refined partition"
"""What warnings call it."""

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
        For hp and gp one of `plancc.cost.objectives.OBJECTIVES`, for gp also "cut". The options
        of another model are its own.
    effort : str, optional
        "fast", "balanced" or "best": for the search.
    budget : float, optional
        Seconds for the search.
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
        self._check_search()
        check_rates(self.goal, self.dims, self.machine)
        if self.nodes is not None:
            self.nodes.check(self.num_parts)

    def _check_objective(self) -> None:
        if self.objective == "cut" and self.model != "gp":
            raise InputError(
                f"objective 'cut' is model gp's: for model '{self.model}' choose from "
                f"{', '.join(OBJECTIVES)}"
            )
        if self.objective is not None:
            cut = ("cut",) if self.model == "gp" else ()
            check_choice("objective", self.objective, (*cut, *OBJECTIVES))

    def _check_search(self) -> None:
        """Effort and budget are for the search only."""
        given = [name for name in ("effort", "budget") if getattr(self, name) is not None]
        if not given:
            return
        option = f"--{given[0]}"
        if self.model not in SEARCHED:
            raise InputError(
                f"{option} is for the models {' and '.join(SEARCHED)}, not for '{self.model}'"
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
        if self.searches:
            return self.objective or "volume"
        if self.model in SEARCHED and self.objective not in (None, *OF_GRAPHS):
            return self.objective
        return None

    @property
    def model_options(self) -> dict[str, Any]:
        """The objective where it is an option of the model."""
        if self.objective is None or self.goal is not None or self.model == "hp":
            return {}
        return {"objective": self.objective}

    @property
    def nodes(self) -> Topology | None:
        """The topology."""
        return Topology.parse(self.topology) if isinstance(self.topology, str) else self.topology

    @property
    def rates(self) -> EpochRates | None:
        """What objective "time" adds up; None for the others."""
        return check_rates(self.goal, self.dims, self.machine)


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
        raise InputError("objective 'time' needs the widths of the layers (--dims)")
    return epoch_rates(dims, machine or Machine())


@dataclass(frozen=True)
class Found:
    """Owners and how they were found.

    Attributes
    ----------
    owner : int32[num_vertices]
    how : dict
        For the provenance of a plan.
    warnings : list of str
    """

    owner: npt.NDArray[np.int32]
    how: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


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
    with observer(f"model {method.model}"):
        names = tuple(constraints(matrix, balance))
        problem = None
        if not method.searches:
            problem = model.build(matrix, method.num_parts, balance=balance, seed=method.seed)
    with observer("partition"):
        if problem is None:
            found = _searched(matrix, method, balance, names, report)
        elif isinstance(problem, Assignment):
            owner = checked_owner(
                f"model '{method.model}'", problem.owner, matrix.num_vertices, method.num_parts
            )
            found = Found(owner, dict(problem.notes), empty_parts(owner, method.num_parts))
        else:
            found = _partitioned(problem, method, model, names)
    if problem is not None and method.goal and found.how["partitioner"] != TRIVIAL:
        with observer("refine"):
            found = _refined(found, matrix, method, balance, names, report)
    if method.nodes is not None:
        with observer("map to nodes"):
            found = _mapped(found, matrix, method.nodes)
    return found


def _searched(
    matrix: Graph,
    method: Method,
    balance: Balance,
    names: Sequence[str],
    report: Report | None,
) -> Found:
    """What `plancc.search` finds."""
    assert method.goal is not None
    effort = method.effort or EFFORT
    result = search(
        matrix,
        method.num_parts,
        effort=effort,
        objective=method.goal,
        weights=vertex_weights(matrix, balance),
        constraints=names,
        model=method.model,
        epsilon=method.epsilon,
        seed=method.seed,
        threads=method.threads,
        budget=method.budget,
        time_limit=method.time_limit,
        rates=method.rates,
        report=report,
    )
    how = {
        "partitioner": "plancc",
        "partitioner_version": __version__,
        "effort": effort,
        **_goal(method),
        **({} if method.budget is None else {"budget": float(method.budget)}),
        "epsilon": float(method.epsilon),
        "threads": method.threads,
        "partition_seconds": result.seconds,
        "tried": result.tried_json(),
    }
    return Found(result.owner, how, result.warnings)


def _partitioned(
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
        "epsilon": float(method.epsilon),
        "threads": method.threads,
        "partition_seconds": result.seconds,
        **({} if method.goal is None else _goal(method)),
    }
    return Found(result.owner, how, result.warnings)


def _refined(
    found: Found,
    matrix: Graph,
    method: Method,
    balance: Balance,
    names: Sequence[str],
    report: Report | None,
) -> Found:
    """A partitioner's answer, refined for an objective that it does not have."""
    from plancc.passes.refine import refiner

    assert method.goal is not None
    problem = MODELS["hp"]().build(matrix, method.num_parts, balance=balance, seed=method.seed)
    refinement = refiner(method.goal, epsilon=method.epsilon, seed=method.seed, rates=method.rates)
    better = refinement.run(problem, found.owner, method.num_parts, nonzeros=matrix.row_nonzeros())
    how = found.how
    step = " ".join(filter(None, (how["partitioner"], how["preset"])))
    tried = trials(
        step, how["partition_seconds"], f"refined for {method.goal}", found.owner, better
    )
    if report is not None:
        for trial in tried:
            report(trial)

    def notes(owner: npt.NDArray[np.int32], who: str) -> list[str]:
        weights = problem.vertex_weights
        return balance_notes(owner, weights, method.num_parts, method.epsilon, who, names)

    stale = notes(found.owner, how["partitioner"])
    kept = [note for note in found.warnings if note not in stale]
    how = how | {"tried": tried_json(tried)}
    return Found(better.owner, how, kept + notes(better.owner, REFINED))


def _mapped(found: Found, matrix: Graph, topology: Topology) -> Found:
    """The same parts under numbers that keep what they exchange inside nodes."""
    from plancc.passes.topology import MapToTopology

    pairs = pair_volumes(matrix, found.owner, topology.num_ranks)
    owner = MapToTopology(topology).run(found.owner, pairs, topology.num_ranks)
    return replace(found, owner=owner, how=found.how | {"topology": str(topology)})


def _goal(method: Method) -> dict[str, Any]:
    """Objective and machine for the provenance."""
    return {"objective": method.goal} | machine_note(method.goal, method.machine)


def machine_note(objective: str | None, machine: Machine | None) -> dict[str, str]:
    """The machine for the provenance, where the objective is its time."""
    if objective != "time":
        return {}
    values = asdict(machine or Machine())
    return {"machine": ",".join(f"{name}={value:g}" for name, value in values.items())}


def trials(
    first: str, seconds: float, second: str, owner: npt.NDArray[np.int32], better: Refined
) -> list[Trial]:
    """A refinement of `owner` as two steps: what it was given and what it made of it."""
    return [
        Trial(first, seconds, better.value_before, better.volume_before, True),
        Trial(
            second,
            better.seconds,
            better.value,
            better.volume,
            not np.array_equal(better.owner, owner),
        ),
    ]


def tried_json(tried: Sequence[Trial]) -> str:
    """Trials for the provenance."""
    return json.dumps([asdict(trial) for trial in tried])


def empty_parts(owner: npt.NDArray[np.int32], num_parts: int) -> list[str]:
    """A warning if parts have no rows."""
    empty = num_parts - np.count_nonzero(np.bincount(owner, minlength=num_parts))
    return [f"{empty} of {num_parts} parts have no rows"] if empty else []
