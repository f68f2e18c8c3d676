"""Base classes of searches. They hold the problem, options, deadlines, threads and trials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from plancc.clock import wall_seconds
from plancc.cost.rates import EpochTime
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.base import Model
from plancc.models.limits import Limits
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners import OTHERWISE
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.deadline import Deadline
from plancc.search.presets import ROW_REFINEMENT, ForObjective
from plancc.search.record import Judge, Member, Record, SearchResult, Trial

Report = Callable[[Trial], None]


@dataclass(kw_only=True)
class Job:
    """One search; derived classes define how owners are improved.

    Attributes:
        limits: Largest weights of the parts' rows, or of their nonzeros if nonzeros have owners.
        report: Called with every `Trial` (step of the search) when it ends.
        effort, objective: Names of effort and objective; if "", the names in `options`.
        time: Computes the time of an epoch, for the objective "time".
        whole: Deadline of the search.
        deadline: Deadline of the current steps, before `whole` if later steps need time.
        alone: Whether steps run one at a time, so that each may use all threads.
    """

    matrix: Graph
    options: SearchOptions
    model: Model
    limits: Limits
    report: Report | None = None
    effort: str = ""
    objective: str = ""
    time: EpochTime | None = field(init=False)
    record: Record = field(init=False)
    whole: Deadline = field(init=False)
    deadline: Deadline = field(init=False)
    warnings: list[str] = field(default_factory=list)
    alone: bool = True

    numbers: ClassVar[ForObjective] = ROW_REFINEMENT

    def __post_init__(self) -> None:
        effort, objective = self.options.for_search()
        self.effort, self.objective = self.effort or effort, self.objective or objective
        check_num_parts(self.matrix.num_vertices, self.num_parts)
        self.time = self.options.time(self.matrix, self.num_parts)
        self.record = Record(self.report)
        self.whole = Deadline.after(self.options.budget, self.options.stop)
        kept = 0.0 if self.objective == "volume" else self.numbers.share
        self.deadline = self.whole.earlier(kept * (self.options.budget or 0.0))

    @property
    def num_parts(self) -> int:
        return self.limits.num_parts

    def context(self, seed: int = 1) -> Context:
        """Return what a pass gets besides the owners: limits, seed, threads and deadline."""
        return Context(self.limits, seed, self.free_threads, self.deadline, self.time)

    def measure(self, owners: Owners) -> Member:
        """Compute the exact objective, volume and overload of owners; return all as a `Member`."""
        return Judge(self.matrix, self.objective, self.time, self.limits).of(owners)

    def note(self, step: str, begin: float, owners: Owners) -> Member:
        """Measure the owners of a step that began at `begin`, and add the step to the record."""
        return self.record.add(step, wall_seconds() - begin, self.measure(owners))

    def left_out(self, error: Exception) -> None:
        """Add a warning that the search goes on without a partitioner, which raised `error`."""
        self.warnings.append(f"left out: {str(error).removesuffix(f'; {OTHERWISE}')}")

    @property
    def free_threads(self) -> int:
        """Number of threads that a step may use: all, or 1 while several steps run side by side."""
        return self.options.threads if self.alone else 1

    def side_by_side(self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        """Call ``task(*each)`` for all arguments on all threads; return the results in order.

        An exception (or Ctrl-C) ends the search: running passes stop before their next sweep,
        native partitioners at once.
        """
        if self.options.threads == 1 or len(arguments) < 2:
            return [task(*each) for each in arguments]
        self.alone = False
        with ThreadPoolExecutor(min(self.options.threads, len(arguments))) as pool:
            try:
                futures = [pool.submit(task, *each) for each in arguments]
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.deadline.at = -np.inf
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            self.alone = True
            return [future.result() for future in futures]

    def result(self) -> SearchResult:
        """Return the best owners, and all warnings."""
        found = self.record.result([])
        return replace(found, warnings=self.all_warnings(found.owners))

    @property
    def shared(self) -> Limits:
        """Limits of the weight of a part: of all its rows or nonzeros, including its fixed rows."""
        return self.limits

    def all_warnings(self, owners: Owners) -> list[str]:
        """Return every warning of the steps once, then notes on the balance of `owners`."""
        notes = balance_notes(owners.sharers, self.shared, f"effort {self.effort}")
        return [*dict.fromkeys(self.warnings), *notes]


class RefiningJob(Job, ABC):
    """A search that refines its best owners for an objective other than the volume."""

    @abstractmethod
    def refine_for(self, owners: Owners, seed: int, cycles: int | None) -> Member:
        """Refine owners for the objective, by `cycles` V-cycles if given; record the result."""

    def refine_objective(
        self, owners: Sequence[Owners], cycles: int | None = None, first: int = 0
    ) -> list[Member]:
        """Refine each of these owners for the objective; [] if the objective is the volume.

        The k-th owners, counted from 0, are refined with the search's seed + `first` + k.
        """
        if self.objective == "volume":
            return []
        seeds = range(self.options.seed + first, self.options.seed + first + len(owners))
        tasks = [(each, seed, cycles) for each, seed in zip(owners, seeds, strict=True)]
        found: list[Member] = self.side_by_side(self.refine_for, tasks)
        return found

    def refine_until_end(self, owners: Sequence[Owners], cycles: int | None = None) -> None:
        """Refine owners for the objective, and add each result to the search's record of steps.

        Effort "best" with a budget refines the best owners again, until the budget ends or
        `ForObjective.vain` rounds in succession find nothing better. `cycles` applies only to the
        first round.
        """
        found, made, vain = self.refine_objective(owners, cycles), len(owners), 0
        if not (found and self.effort == "best" and self.options.budget is not None):
            return
        while vain < self.numbers.vain and not self.deadline.passed():
            before = self.record.found()
            if before.value <= 0:
                break
            turns = [before.owners] * self.options.threads
            self.refine_objective(turns, first=made)
            made += len(turns)
            vain = vain + 1 if self.record.found().merit == before.merit else 0
