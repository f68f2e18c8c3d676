"""The type of a partitioner's adapter, and helpers that several adapters share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata, util
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph

FEW = 16
"""Up to this number of parts, a search makes several starts, since their results differ much."""
LARGE = 1_000_000
"""In a graph with hubs and at least this many nonzeros, quick starts partition the graph of
clusters."""


@dataclass(frozen=True)
class Start:
    """A start of a search: a partitioner with a preset, for some kinds of graph.

    Attributes:
        rank: Rank among the starts, by kind of graph (`plancc.search.starts.KINDS`). The installed
            start of the largest rank comes first. The start is not made on kinds without a rank.
        preset: Preset of the partitioner.
        objective: "cut" or "volume" of the graph; "" for the column-net hypergraph.
        efforts: Efforts that make the start. Effort "best" makes all starts except the starts that
            are only for "fast".
        slowness: Run time relative to METIS, roughly; effort "best" makes the start only if there
            is time for it.
        most_rows: Rows of an average part above which the start is not made.
        most_parts: Number of parts above which the start is not made.
        least_nonzeros, most_nonzeros: Least and largest number of nonzeros of the matrix for which
            the start is made.
        clustered: Whether to partition the graph of clusters (`plancc.passes.clusters`).
        mild: Whether the start is only for graphs with mild hubs, such as graphs of authors
            (`plancc.search.starts.is_mild`).
    """

    rank: Mapping[str, int]
    preset: str
    objective: str = "cut"
    efforts: tuple[str, ...] = ("best",)
    slowness: float = 1.0
    most_rows: float = math.inf
    most_parts: float = math.inf
    least_nonzeros: float = 0
    most_nonzeros: float = math.inf
    clustered: bool = False
    mild: bool = False


@dataclass(frozen=True)
class Adapter:
    """A partitioner.

    Attributes:
        name: Name in the registry.
        run: ``run(problem, num_parts, *, epsilon, seed, preset, threads) -> int[n]``, a function of
            a module, which the child process imports by name. Its current folder is temporary. It
            is called only with 2 <= num_parts < n and at least one net or edge. `epsilon` is a
            float, or float64[num_constraints] if vertices have several weights.
        accepts: Accepted kinds of problem: Hypergraph, WeightedGraph.
        presets: Names of the presets; the first is the default.
        objectives: Objectives of a WeightedGraph that the partitioner minimises.
        library: Import name of the native library; empty for a partitioner of this process.
        distribution: Name of the installed distribution that has the version.
        install: The command that installs the library.
        threaded: Whether several threads may change the answer from run to run (except for preset
            "deterministic").
        constraints: Whether the partitioner balances several weights per vertex. Other partitioners
            get one weight per vertex that combines all (`plancc.models.weights.combined`).
        capacities: Whether `run` accepts ``capacities``: the shares of the parts,
            float64[num_parts] with sum 1, or None for equal shares. Other partitioners make parts
            of equal size, and `partition` moves vertices afterwards.
        max_total: Largest sum of weights or costs that the library's integers hold; larger weights
            are scaled down.
        auto_rank: Rank in the choice of "auto" and of the first start of a search, by kind of
            problem: the installed partitioner of the largest rank is taken. A partitioner without
            a rank is used by its name only. The partitioners that plancc ships have the ranks 0
            (builtin), 20 and 30.
        strong_rank: Rank among the slow, strong partitioners, by kind of problem. Effort "best",
            and searches for the expected volume of mini-batches, add one start by such a
            partitioner.
        highest: Preset that gives the best partitions; effort "best" makes a start with this preset
            on every graph. "" if there is no such preset.
        slowness: Run time relative to METIS, roughly; a strong start is made only if there is time
            for it.
        several: Whether `run` accepts ``seeds``, a list, in place of ``seed``, and returns
            int[len(seeds), n]. Then one process reads the problem once.
        starts: Starts of searches. A partitioner without starts begins a search with its first
            preset, if it is the first of its kind of problem by `auto_rank`.
        prepare: ``prepare(problem, num_parts, options, folder) -> dict``, called in plancc's own
            process. It returns the arguments of `run` by name, in place of problem, num_parts and
            options. `folder` will be the current folder of `run`. Only for an adapter with a
            `library`. A `run` without NumPy, in a module with few imports, begins a tenth of a
            second earlier.
        improver: Adapter of the same library that improves a partition: its `run` also gets
            ``owner``, int32[n].
    """

    name: str
    run: Callable[..., npt.ArrayLike]
    accepts: tuple[type, ...]
    presets: tuple[str, ...]
    objectives: tuple[str, ...] = ()
    library: str = ""
    distribution: str = ""
    install: str = ""
    threaded: bool = False
    constraints: bool = False
    capacities: bool = False
    max_total: int = 2**30
    auto_rank: Mapping[type, int] = field(default_factory=dict)
    strong_rank: Mapping[type, int] = field(default_factory=dict)
    highest: str = ""
    slowness: float = 1.0
    several: bool = False
    starts: tuple[Start, ...] = ()
    prepare: Callable[..., dict[str, Any]] | None = None
    improver: Adapter | None = None

    @property
    def model(self) -> str:
        """Name of the model that the partitioner can solve: hp for hypergraphs, gp for graphs."""
        return "hp" if Hypergraph in self.accepts else "gp"

    def available(self) -> bool:
        """Whether the library is installed; the check does not load the library."""
        return not self.library or util.find_spec(self.library) is not None

    def version(self) -> str:
        """Return the version of the distribution; "" if unknown."""
        try:
            return metadata.version(self.distribution) if self.distribution else ""
        except metadata.PackageNotFoundError:
            return ""

    def takes(self, problem: Hypergraph | WeightedGraph) -> bool:
        """Whether the partitioner can minimise the objective of `problem`."""
        objective = "" if isinstance(problem, Hypergraph) else problem.objective
        return self.takes_kind(type(problem), objective)

    def takes_kind(self, kind: type, objective: str = "") -> bool:
        """Whether the partitioner accepts a kind of problem, for graphs with this `objective`."""
        if not issubclass(kind, self.accepts):
            return False
        return issubclass(kind, Hypergraph) or objective in self.objectives


def scaled(values: npt.NDArray[np.int64], max_total: int) -> npt.NDArray[np.int64]:
    """Return `values`, divided by a factor if their sum is above `max_total`.

    Every column of a matrix is scaled separately. Positive values stay positive. Balance is
    measured with the true weights afterwards.
    """
    total = values.sum(axis=0)
    if (total <= max_total).all():
        return values
    share = np.where(total <= max_total, 1.0, max_total / (total + len(values)))
    return np.where(values > 0, np.maximum((values * share).astype(np.int64), 1), 0)


def most_weights(
    weights: npt.NDArray[np.int64], epsilon: float, capacities: npt.NDArray[np.float64]
) -> list[int]:
    """Return the largest weight of every part, for libraries that accept these limits.

    Parameters:
        weights: int64[n].
        capacities: float64[num_parts], with sum 1.
    """
    limits = Limits(weights, len(capacities), epsilon, tuple(capacities))
    most: list[int] = limits.allowed[:, 0].astype(np.int64).tolist()
    return most


def write_lines(file: BinaryIO, values: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Write non-negative integers as text, one line for every run of `values`.

    Numbers are padded with zeros to one width, so that digits are extracted by a few array
    operations. The parsers of hypergraphs and graphs read "007" as 7.

    Parameters:
        values: int64[m].
        ends (int64[num_lines]): Line k ends after ``values[ends[k] - 1]``; every line holds a
            number.
    """
    if len(values) == 0:
        return
    width = len(str(int(values.max())))
    separator = np.full(len(values), ord(" "), dtype=np.uint8)
    separator[ends - 1] = ord("\n")
    step = 1 << 22
    for start in range(0, len(values), step):
        rest = values[start : start + step]
        text = np.empty((len(rest), width + 1), dtype=np.uint8)
        for column in range(width - 1, -1, -1):
            rest, digit = np.divmod(rest, 10)
            text[:, column] = digit + ord("0")
        text[:, width] = separator[start : start + step]
        file.write(text.data)


def interleave_first(
    ptr: npt.NDArray[np.int64], values: npt.NDArray[Any], first: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Put ``first[k]`` before run k of `values`; return the new values, and the ends of the
    runs."""
    return (
        np.insert(values.astype(np.int64), ptr[:-1], first),
        ptr[1:] + np.arange(1, len(ptr), dtype=np.int64),
    )
