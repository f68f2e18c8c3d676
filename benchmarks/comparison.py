"""Runs methods on graphs, judges every answer by one definition, keeps the rows in a JSON file.

A row holds the counts of one partition and those of the random baseline, the one of a plan's
metrics (`random_traffic`). All ratios are made from these when they are shown.
"""

from __future__ import annotations

import contextlib
import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import plancc
from benchmarks.means import geometric_mean, mean_over_kinds
from benchmarks.methods import BUDGET_FACTOR, BUDGET_OF, METHODS, OURS, Case, Method, Options
from plancc.cost.owners import random_traffic, traffic
from plancc.errors import PlanccError
from plancc.files import atomic_write
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.graph.partvector import write_part_vector
from plancc.models.limits import part_weights
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.run import checked_owner
from plancc.plan.metrics import Traffic, imbalance, summarize
from plancc.threads import usable_cores

COUNTS = {
    "volume": "volume",
    "max_sent": "max send",
    "max_received": "max recv",
    "busiest": "busiest",
    "max_exchanged": "send+recv",
    "messages": "messages",
    "max_messages": "max msgs",
}
"""What is counted, and the heads of the columns."""

TIMES = {"seconds": "seconds", "cpu_seconds": "CPU s"}
"""Wall-clock and processor time, and the heads of the columns."""

SAME_BALANCE = 0.003
"""Largest difference of imbalances above the limit at which two partitions are compared."""

LEGEND = (
    "volume: rows moved; max send, max recv: rows at the part that sends, receives most; "
    "busiest: the larger of the two; send+recv: rows sent plus received at the part with most; "
    "messages: ordered pairs of parts that talk; max msgs: messages of the part that sends most"
)


@dataclass(frozen=True)
class Row:
    """One method on one graph with one number of parts.

    Attributes:
        seconds, cpu_seconds, imbalance: Wall-clock and processor time, and the imbalance of the
            balanced weights; None where nothing was computed.
        counts, random: `COUNTS` of this partition and of the random baseline; empty if the method
            failed.
        failed: Why there is no partition, "" if there is one.
    """

    graph: str
    num_parts: int
    method: str
    seconds: float | None = None
    cpu_seconds: float | None = None
    imbalance: float | None = None
    counts: dict[str, int] = field(default_factory=dict)
    random: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)
    failed: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        return self.graph, self.num_parts, self.method

    @property
    def over_random(self) -> dict[str, float]:
        return {name: ratio(self.counts[name], self.random[name]) for name in self.counts}

    def over(self, other: Row) -> dict[str, float]:
        """Counts and, where both have them, both times over those of another row."""
        found = {name: ratio(self.counts[name], other.counts[name]) for name in self.counts}
        for name in TIMES:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours is not None and theirs is not None:
                found[name] = ratio(ours, theirs)
        return found


@dataclass
class Comparison:
    """All rows of a comparison, and what they have in common: options, machine, versions."""

    options: Options
    rows: list[Row] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=lambda: environment())

    def put(self, row: Row) -> None:
        """Add a row in the place of an earlier one of the same key."""
        self.rows = [each for each in self.rows if each.key != row.key] + [row]

    def get(self, graph: str, num_parts: int, method: str) -> Row | None:
        """The row, if it is there and holds a partition."""
        return self.has(graph, num_parts, method, failed=False)

    def has(self, graph: str, num_parts: int, method: str, failed: bool) -> Row | None:
        """The row, if it is there; `failed`: also one without a partition."""
        key = graph, num_parts, method
        row = next((row for row in self.rows if row.key == key), None)
        return row if row is None or failed or not row.failed else None

    def select(self, num_parts: int, method: str) -> list[Row]:
        """Rows of one method with a partition, one per graph."""
        return [
            row
            for row in self.rows
            if (row.num_parts, row.method) == (num_parts, method) and not row.failed
        ]

    def graphs(self) -> list[str]:
        return list(dict.fromkeys(row.graph for row in self.rows))

    def parts(self) -> list[int]:
        return sorted({row.num_parts for row in self.rows})

    def methods(self) -> list[str]:
        """In the order of `METHODS`, then part vectors."""
        found = list(dict.fromkeys(row.method for row in self.rows))
        order = list(METHODS)
        return sorted(found, key=lambda name: order.index(name) if name in order else len(order))

    def write(self, path: Path) -> None:
        head = {"options": asdict(self.options), "environment": self.environment}
        rows = [{**asdict(row), "over_random": _for_json(row.over_random)} for row in self.rows]
        lines = ",\n".join(map(json.dumps, rows))
        with atomic_write(path) as temporary:
            temporary.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n')

    @classmethod
    def read(cls, path: Path) -> Comparison:
        content = json.loads(path.read_text())
        names = [each.name for each in fields(Row)]
        rows = [Row(**{name: row[name] for name in names}) for row in content["rows"]]
        options = Options(**content["options"])
        options = replace(options, dims=tuple(options.dims))
        return cls(options, rows, content["environment"])


def ratio(value: float, base: float) -> float:
    """value / base; 1 where both are 0, infinite where only `base` is."""
    if base == 0:
        return 1.0 if value == 0 else math.inf
    return value / base


def mean_over_random(rows: Sequence[Row]) -> dict[str, float]:
    """Geometric means of the counts over random, and of the times of rows that have them."""
    found = {name: geometric_mean([row.over_random[name] for row in rows]) for name in COUNTS}
    for name in TIMES:
        times = [getattr(row, name) for row in rows]
        found[name] = geometric_mean([each for each in times if each is not None])
    return found


def comparable(row: Row, other: Row, epsilon: float) -> bool:
    """Whether neither partition is less balanced than the limit and than the other.

    A row heavier than a part's limit makes all partitions equally imbalanced.
    """
    if row.imbalance is None or other.imbalance is None:
        return True
    return abs(max(row.imbalance, epsilon) - max(other.imbalance, epsilon)) <= SAME_BALANCE


def ratios_to(
    table: Comparison, rows: Iterable[Row], reference: str
) -> dict[str, dict[str, float]]:
    """`Row.over` of the row of `reference` by graph, where both are there and `comparable`."""
    found = {}
    for row in rows:
        other = table.get(row.graph, row.num_parts, reference)
        if other is not None and comparable(row, other, table.options.epsilon):
            found[row.graph] = row.over(other)
    return found


def figure(ratios: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    """One figure of `ratios_to` by graph, where it is known."""
    return {graph: each[name] for graph, each in ratios.items() if name in each}


def over_best(table: Comparison, num_parts: int, method: str) -> dict[str, float]:
    """Volumes of a method over the least of all methods of others, by graph.

    Others that are `comparable` count; plancc's own methods do not.
    """
    found = {}
    for row in table.select(num_parts, method):
        others = [table.get(row.graph, num_parts, name) for name in table.methods()]
        volumes = [
            other.counts["volume"]
            for other in others
            if other is not None
            and other.method not in OURS
            and comparable(row, other, table.options.epsilon)
        ]
        if volumes:
            found[row.graph] = ratio(row.counts["volume"], min(volumes))
    return found


def mean_over_method(table: Comparison, rows: Iterable[Row], reference: str) -> dict[str, float]:
    """Geometric means of `ratios_to`, over kinds of graphs of equal weight.

    Returns the means of `COUNTS` and `TIMES`, and as ``graphs`` how many graphs there were.
    """
    ratios = ratios_to(table, rows, reference)
    found = {name: mean_over_kinds(figure(ratios, name)) for name in (*COUNTS, *TIMES)}
    return {**found, "graphs": len(ratios)}


def counts_of(parts: Traffic) -> dict[str, int]:
    """`COUNTS` from the traffic of every part."""
    found = summarize(parts)
    return {
        "volume": found.volume,
        "max_sent": found.max_sent,
        "max_received": found.max_received,
        "busiest": found.max_volume,
        "max_exchanged": found.max_exchanged,
        "messages": found.messages,
        "max_messages": found.max_messages_sent,
    }


def _worst_imbalance(loads: npt.NDArray[np.int64]) -> float:
    """The largest of any constraint; `loads`: int64[num_parts] or [num_parts, num_constraints]."""
    return max(imbalance(load) for load in loads.reshape(len(loads), -1).T)


def measure(name: str, method: Method, case: Case, save: Path | None = None) -> Row:
    """Run one method; whatever goes wrong is the row's `failed`.

    `save` is the folder that gets the owners as ``GRAPH.METHOD.part.K``.
    """
    row = partial(Row, case.graph, case.num_parts, name)
    try:
        answer = method.run(case)
        matrix, num_parts = case.matrix, case.num_parts
        owner = checked_owner(name, answer.owner, matrix.num_vertices, num_parts)
        if save is not None:
            write_part_vector(owner, save / f"{case.graph}.{name}.part.{num_parts}")
        moved = traffic(matrix, Owners(owner), num_parts)
        empty = int((moved.rows == 0).sum())
        return row(
            seconds=answer.seconds,
            cpu_seconds=answer.cpu_seconds,
            imbalance=_worst_imbalance(part_weights(owner, case.weights, num_parts)),
            counts=counts_of(moved),
            random=counts_of(random_traffic(matrix, num_parts)),
            notes=answer.notes + ([f"{empty} parts are empty"] if empty else []),
            tried=answer.tried,
        )
    except PlanccError as error:
        return row(failed=str(error))
    except Exception as error:  # a broken method must not end a comparison of hours
        return row(failed=f"{type(error).__name__}: {error}")


def compare(
    table: Comparison,
    graphs: Mapping[str, Path],
    parts: Sequence[int],
    methods: Mapping[str, Method],
    *,
    save: Path | None = None,
    again: bool = False,
    on_row: Callable[[Row], None] = lambda row: None,
    observer: Callable[[str], AbstractContextManager[Any]] = nullcontext,
) -> None:
    """Fill `table` with the rows that it does not hold yet.

    Parameters:
        graphs: Read and normalised as `plancc.compile` does by default.
        methods: In the order in which they run.
        save: Folder for the part vectors.
        again: Whether failed rows are tried again.
        on_row: Called with every row, new or kept, in the order of the loops.
        observer: Called with a text before every step; returns a context manager around it.
    """
    warm: set[str] = set()
    for graph, path in graphs.items():
        matrix: Graph | None = None
        for num_parts in parts:
            for name, method in methods.items():
                row = table.has(graph, num_parts, name, failed=not again)
                if row is None:
                    if matrix is None:
                        with observer(f"reading {graph}"):
                            matrix = normalize(plancc.read_graph(path))
                    if method.jit and name not in warm:
                        with observer(f"{name}: warm-up"):
                            _warm_up(method, table.options)
                        warm.add(name)
                    budget = _budget(table, graph, num_parts)
                    case = Case(graph, matrix, num_parts, table.options, budget)
                    with observer(f"{graph}, p = {num_parts}: {name}"):
                        row = measure(name, method, case, save)
                    table.put(row)
                on_row(row)


def _budget(table: Comparison, graph: str, num_parts: int) -> float | None:
    """Seconds of effort best: of the options, or `BUDGET_FACTOR` times another's CPU time."""
    if table.options.budget is not None:
        return table.options.budget
    other = table.get(graph, num_parts, BUDGET_OF)
    if other is None or other.cpu_seconds is None:
        return None
    return BUDGET_FACTOR * other.cpu_seconds


def _warm_up(method: Method, options: Options) -> None:
    """Call a method once on small graphs, so that numba compiles its kernels untimed.

    The search does other things on a mesh than on a graph with hubs.
    """
    from plancc_datasets import load_dataset

    rmat = load_dataset("rmat", scale=11, edge_factor=8, seed=1).graph
    grid = load_dataset("grid", rows=60, cols=60).graph
    for graph in (rmat, grid):
        with contextlib.suppress(Exception):  # the timed call says what is wrong
            method.run(Case("warm-up", normalize(graph), 8, options, budget=1.0))


def environment() -> dict[str, Any]:
    """Machine and versions, for whoever reads the figures later."""
    versions = {name: PARTITIONERS[name].version() for name in PARTITIONERS}
    return {
        "processor": _processor(),
        "cores": len(usable_cores()),
        "python": platform.python_version(),
        "versions": {"plancc": plancc.__version__} | {k: v for k, v in versions.items() if v},
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _for_json(values: dict[str, float]) -> dict[str, float | None]:
    """JSON has no infinity."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
