"""The methods that `benchmarks.quality` compares: each turns one case into owners and seconds.

``seconds`` is the wall time of the call that finds the owners, the child process of a native
library included, and ``cpu_seconds`` the processor time of all its threads and children. The matrix
is made before, and so is the model's graph or hypergraph, except by plancc's own search, which
builds what it needs on its own time.
"""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.partvector import read_part_vector
from plancc.models import MODELS
from plancc.models.hypergraph import HypergraphModel
from plancc.models.problem import Assignment, Hypergraph
from plancc.models.weights import Balance, check_num_parts, vertex_weights
from plancc.options import SearchOptions
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition

KAHYPAR_MAX_PARTS = 64
"""KaHyPar's time grows with the number of parts: beyond this it is left out."""


@dataclass(frozen=True)
class Options:
    """What the methods of one comparison have in common.

    Attributes:
        epsilon, seed, threads, balance, time_limit: As for `plancc.compile`.
        dims: Widths of the layers, for objective time and balance work.
        budget: Seconds for effort best; None: `BUDGET_FACTOR` times the processor time of
            `BUDGET_OF`, on one thread.
        objective_effort: Effort of the searches whose objective is not the volume.
    """

    epsilon: float = 0.01
    seed: int = 1
    threads: int = 2
    balance: str = "nnz"
    time_limit: float | None = None
    budget: float | None = None
    objective_effort: str = "balanced"
    dims: tuple[int, ...] = (128, 128, 64)

    @property
    def widths(self) -> str:
        return ",".join(map(str, self.dims))


@dataclass(frozen=True)
class Case:
    """What a method is to solve: a matrix, a number of parts, the options of the comparison.

    `budget` is for searches of effort best, None where nothing says how long they may take.
    """

    graph: str
    matrix: Graph
    num_parts: int
    options: Options
    budget: float | None = None

    @cached_property
    def balance(self) -> Balance:
        return Balance.parse(self.options.balance, self.options.dims)

    @cached_property
    def weights(self) -> npt.NDArray[np.int64]:
        """What the parts are to share evenly, int64[n] or int64[n, constraints]."""
        return vertex_weights(self.matrix, self.balance)

    @cached_property
    def hypergraph(self) -> Hypergraph:
        """The column-net model, whose connectivity - 1 is the volume."""
        return HypergraphModel().build(self.matrix, self.num_parts, balance=self.balance, seed=1)


@dataclass(frozen=True)
class Answer:
    """What a method found.

    Attributes:
        owner: int[n].
        seconds, cpu_seconds: None where nothing was computed.
        notes: Warnings of the method.
        tried: Trials of a search that found better owners: ``step``, ``seconds``, ``value``.
    """

    owner: npt.NDArray[np.integer]
    seconds: float | None = None
    cpu_seconds: float | None = None
    notes: list[str] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)


class Method(Protocol):
    """A way to find owners. `jit`: it runs numba code of ours, which a first call compiles."""

    @property
    def jit(self) -> bool: ...

    def run(self, case: Case) -> Answer: ...


@dataclass(frozen=True)
class FromModel:
    """A model and, unless it assigns the owners itself, a partitioner of its problem."""

    model: str
    partitioner: str = ""
    preset: str | None = None
    model_options: tuple[tuple[str, str], ...] = ()
    max_parts: int | None = None
    jit: bool = False

    def run(self, case: Case) -> Answer:
        options, num_parts = case.options, case.num_parts
        if self.max_parts is not None and num_parts > self.max_parts:
            raise InputError(f"skipped: only for p <= {self.max_parts}, it takes too long")
        model = MODELS[self.model](**dict(self.model_options))
        build = _timed(model.build, case.matrix, num_parts, balance=case.balance, seed=options.seed)
        if isinstance(build.result, Assignment):
            return Answer(build.result.rows, build.seconds, build.cpu_seconds)
        found = _timed(
            partition,
            build.result,
            num_parts,
            PartitionOptions(
                partitioner=self.partitioner,
                preset=self.preset,
                epsilon=options.epsilon,
                seed=options.seed,
                threads=options.threads,
                time_limit=options.time_limit,
            ),
        )
        return Answer(found.result.owner, found.seconds, found.cpu_seconds, found.result.warnings)


@dataclass(frozen=True)
class FromSearch:
    """plancc's own search; without `effort`, the effort that the options name."""

    objective: str = "volume"
    effort: str | None = None
    jit: bool = True

    def run(self, case: Case) -> Answer:
        from plancc.search.effort import search

        options = case.options
        check_num_parts(case.matrix.num_vertices, case.num_parts)
        effort = self.effort or options.objective_effort
        budget = case.budget if effort == "best" else None
        if effort == "best" and budget is None:
            raise InputError(f"effort best needs --budget SECONDS, or the time of {BUDGET_OF}")
        found = _timed(
            search,
            case.matrix,
            case.num_parts,
            SearchOptions(
                effort=effort,
                objective=self.objective,
                epsilon=options.epsilon,
                seed=options.seed,
                threads=1 if budget is not None and options.budget is None else options.threads,
                budget=budget,
                time_limit=options.time_limit,
                dims=options.dims,
            ),
            limits=case.balance.limits(case.matrix, case.num_parts, options.epsilon),
        )
        notes = [] if budget is None else [f"budget {budget:.1f} s"]
        notes += found.result.warnings
        tried = [_trial(each) for each in found.result.tried if each.best]
        rows = found.result.owners.rows
        return Answer(rows, found.seconds, found.cpu_seconds, notes, tried)


@dataclass(frozen=True)
class FromFile:
    """A part vector that somebody else made.

    ``{graph}`` and ``{parts}`` in `path` stand for the name of the graph and the number of parts.
    A name that ends in ``.part.K`` is for K parts only.
    """

    path: str
    jit: bool = False

    def run(self, case: Case) -> Answer:
        path = self.path.replace("{graph}", case.graph).replace("{parts}", str(case.num_parts))
        suffix = re.search(r"\.part\.(\d+)(\.gz)?$", path)
        if suffix and int(suffix[1]) != case.num_parts:
            raise InputError(f"skipped: {Path(path).name} is for {suffix[1]} parts")
        return Answer(read_part_vector(path, case.matrix.num_vertices))


@dataclass(frozen=True)
class _Timed:
    result: Any
    seconds: float
    cpu_seconds: float


def _timed(work: Callable[..., Any], *args: Any, **options: Any) -> _Timed:
    start, used = time.perf_counter(), _cpu_seconds()
    result = work(*args, **options)
    return _Timed(result, time.perf_counter() - start, _cpu_seconds() - used)


def _cpu_seconds() -> float:
    """Processor time of this process, all threads, and of the children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _trial(trial: Any) -> dict[str, Any]:
    """One trial of a search as plain values for JSON."""
    return {"step": trial.step, "seconds": float(trial.seconds), "value": float(trial.value)}


REFERENCE = "mtkahypar-default"
"""The default of ``--reference``."""

BUDGET_OF, BUDGET_FACTOR = "mtkahypar-quality", 3.0
"""Whose processor time sets the budget of effort best, and how many times that."""

SINGLES: dict[str, Method] = {
    "rp": FromModel("rp"),
    "block": FromModel("block"),
    "rcm": FromModel("rcm"),
    "metis-cut": FromModel("gp", "metis"),
    "metis-volume": FromModel("gp", "metis", model_options=(("objective", "volume"),)),
    "kaminpar": FromModel("gp", "kaminpar"),
    "kaminpar-strong": FromModel("gp", "kaminpar", "strong"),
    "mtkahypar-large-k": FromModel("hp", "mtkahypar", "large-k"),
    "mtkahypar-default": FromModel("hp", "mtkahypar", "default"),
    "mtkahypar-quality": FromModel("hp", "mtkahypar", "quality"),
    "mtkahypar-highest": FromModel("hp", "mtkahypar", "highest-quality"),
    "kahypar": FromModel("hp", "kahypar", max_parts=KAHYPAR_MAX_PARTS),
}
OURS: dict[str, Method] = {
    "plancc-fast": FromSearch(effort="fast"),
    "plancc-balanced": FromSearch(effort="balanced"),
    "plancc-best": FromSearch(effort="best"),
    "plancc-max-volume": FromSearch("max-volume"),
    "plancc-messages": FromSearch("messages"),
    "plancc-time": FromSearch("time"),
}
METHODS = SINGLES | OURS
"""All methods in the order in which they run; `BUDGET_OF` before what takes its budget from it."""
