"""What every search has: what it works on, its options, its deadlines, and what it has found."""

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
from plancc.search.presets import OF_ROWS, ForObjective
from plancc.search.record import Judge, Member, Record, SearchResult, Trial

Report = Callable[[Trial], None]


@dataclass(kw_only=True)
class Job:
    """One search; how owners are improved is up to the classes that derive from it.

    Attributes:
        matrix: The normalised matrix.
        limits: Of the rows of parts, or of the nonzeros that they own.
        report: Called with every `Trial` as it ends.
        time: EpochTime, for objective "time" only.
        whole, deadline: Of the search, and of its steps: earlier by what is kept for another
            objective.
        alone: Whether steps run one after the other.

    Raises:
        InputError: An unknown name, a number out of range.
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

    numbers: ClassVar[ForObjective] = OF_ROWS

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
        """What passes keep to."""
        return Context(self.limits, seed, self.free_threads, self.deadline, self.time)

    def measure(self, owners: Owners) -> Member:
        """What owners are worth, exactly."""
        return Judge(self.matrix, self.objective, self.time, self.limits).of(owners)

    def note(self, step: str, begin: float, owners: Owners) -> Member:
        """Judge owners and put them into the record."""
        return self.record.add(step, wall_seconds() - begin, self.measure(owners))

    def left_out(self, error: Exception) -> None:
        """Warn that a partitioner failed."""
        self.warnings.append(f"left out: {str(error).removesuffix(f'; {OTHERWISE}')}")

    @property
    def free_threads(self) -> int:
        """Threads that one step may have: all of them, unless several steps run side by side."""
        return self.options.threads if self.alone else 1

    def side_by_side(self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        """``task(*each)`` on as many threads as there are; the results in order.

        An exception, Ctrl-C included, ends the search: what waits is dropped, and what runs stops
        before its next sweep, native partitioners at once.
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
        """The best owners, with all warnings."""
        found = self.record.result([])
        return replace(found, warnings=self.all_warnings(found.owners))

    @property
    def shared(self) -> Limits:
        """Limits of what owners are found for."""
        return self.limits

    def all_warnings(self, owners: Owners) -> list[str]:
        """Warnings of the steps, each once, and of the balance of owners."""
        notes = balance_notes(owners.sharers, self.shared, f"effort {self.effort}")
        return [*dict.fromkeys(self.warnings), *notes]


class RefiningJob(Job, ABC):
    """A search whose best owners are refined for another objective than the volume."""

    @abstractmethod
    def refine_for(self, owners: Owners, seed: int, cycles: int | None) -> Member:
        """What the objective asks for, from these owners on; noted."""

    def refine_objective(
        self, owners: Sequence[Owners], cycles: int | None = None, first: int = 0
    ) -> list[Member]:
        """From these owners on, what the objective itself asks for; `first`: of their seeds."""
        if self.objective == "volume":
            return []
        seeds = range(self.options.seed + first, self.options.seed + first + len(owners))
        tasks = [(each, seed, cycles) for each, seed in zip(owners, seeds, strict=True)]
        found: list[Member] = self.side_by_side(self.refine_for, tasks)
        return found

    def refine_until_end(self, owners: Sequence[Owners], cycles: int | None = None) -> None:
        """Refine owners for the objective; with effort best then the best ones with other seeds.

        That goes on until the budget ends, or nothing better is found for long.
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
