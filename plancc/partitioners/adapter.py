"""What a partitioner's adapter is, and helpers that several adapters share."""

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
"""Parts up to which several starts are made, since they differ much."""
LARGE = 1_000_000
"""Nonzeros of a graph with hubs from which quick starts work on its clusters."""


@dataclass(frozen=True)
class Start:
    """How a partitioner begins a search, on graphs of some kinds.

    Attributes:
        rank: Its place among the starts on graphs of a kind (`plancc.search.starts.KINDS`): the
            installed one of the largest rank comes first. Left out: none on such graphs.
        objective: "cut" or "volume" of the graph; "" for the column-net hypergraph.
        efforts: The efforts that use it; "best" uses the others' too, but those for "fast" alone.
        slowness: Seconds that it takes for one second of METIS, roughly: effort best makes it if
            there is time.
        most_rows: Rows of an average part above which it is not made.
        most_parts: Number of parts above which it is not made.
        least_nonzeros, most_nonzeros: Nonzeros of the matrix below and above which it is not made.
        clustered: Whether it partitions the graph between clusters (`plancc.passes.clusters`).
        mild: Whether it is only for graphs whose degrees differ little for graphs with hubs, as
            graphs of authors (`plancc.search.starts.is_mild`).
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
    """A back end.

    Attributes:
        name: Its name in the registry.
        run: ``run(problem, num_parts, *, epsilon, seed, preset, threads) -> int[n]``, a function of
            a module (the child process imports it by name). Its current folder is a temporary one.
            It is called only with 2 <= num_parts < n and at least one net or edge. `epsilon` is a
            float; where the problem has several weights per vertex, float64[num_constraints].
        accepts: Kinds of problem: Hypergraph, WeightedGraph.
        presets: The first is the default.
        objectives: Objectives of a WeightedGraph that it minimises.
        library: Import name of the native library; empty for one that runs in this process.
        distribution: What to ask for a version.
        install: The command that installs it.
        threaded: Whether its answer may change from run to run with several threads (except preset
            "deterministic").
        constraints: Whether it balances several weights per vertex; others get one that stands for
            all of them (`plancc.models.weights.combined`).
        capacities: Whether `run` takes ``capacities``, float64[num_parts] with sum 1, or None where
            all parts are alike: the shares of the parts. Others make parts of one size, and
            `partition` moves vertices afterwards.
        max_total: Largest sum of weights or costs that its integers hold; larger ones are scaled
            down.
        auto_rank: Place in the choice of "auto" and of the start of a search, by kind of
            problem: the installed one of the largest number is taken. Left out: only by its name.
            The built-in ones have 0 (builtin), 20 and 30.
        strong_rank: The same for a start that effort best and expected volumes add: slow, but good.
        highest: The preset of its best partitions, with which it is a start of effort best on every
            graph; "": none.
        slowness: Seconds that it takes for one second of METIS, roughly: a strong start is made if
            there is time.
        several: Whether `run` takes ``seeds``, a list of them, in place of ``seed``, and returns
            int[len(seeds), n]: the problem is read once, in one process.
        starts: How it begins searches. One without any begins a search, with its first preset,
            where it is the first of its kind of problem by `auto_rank`.
        prepare: ``prepare(problem, num_parts, options, folder) -> dict``, called in plancc's own
            process: the arguments by name that `run` is called with in its place, where `options`
            are the others, and `folder` will be its current one. Only for an adapter with a
            `library`, which runs in a child process. A `run` that needs no NumPy, in a module that
            imports little, begins a tenth of a second earlier.
        improver: The same library where it improves a partition: it is given ``owner`` too,
            int32[n].
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
        """The model that it solves: hp of hypergraphs, gp of graphs."""
        return "hp" if Hypergraph in self.accepts else "gp"

    def available(self) -> bool:
        """Whether its library is installed (which does not load it)."""
        return not self.library or util.find_spec(self.library) is not None

    def version(self) -> str:
        """Version of its distribution, "" if that is not known."""
        try:
            return metadata.version(self.distribution) if self.distribution else ""
        except metadata.PackageNotFoundError:
            return ""

    def takes(self, problem: Hypergraph | WeightedGraph) -> bool:
        """Whether it can minimise what `problem` asks for."""
        objective = "" if isinstance(problem, Hypergraph) else problem.objective
        return self.takes_kind(type(problem), objective)

    def takes_kind(self, kind: type, objective: str = "") -> bool:
        """Whether every problem of a kind is taken; `objective` is of a `WeightedGraph`."""
        if not issubclass(kind, self.accepts):
            return False
        return issubclass(kind, Hypergraph) or objective in self.objectives


def scaled(values: npt.NDArray[np.int64], max_total: int) -> npt.NDArray[np.int64]:
    """`values`, or where their sum is above `max_total` the same in coarser units.

    Columns of a matrix are scaled one by one. Positive values stay positive. Balance is measured
    with the true weights afterwards.
    """
    total = values.sum(axis=0)
    if (total <= max_total).all():
        return values
    share = np.where(total <= max_total, 1.0, max_total / (total + len(values)))
    return np.where(values > 0, np.maximum((values * share).astype(np.int64), 1), 0)


def most_weights(
    weights: npt.NDArray[np.int64], epsilon: float, capacities: npt.NDArray[np.float64]
) -> list[int]:
    """What every part may weigh, for libraries that take that.

    Parameters:
        weights: int64[n].
        capacities: float64[num_parts], with sum 1.
    """
    limits = Limits(weights, len(capacities), epsilon, tuple(capacities))
    most: list[int] = limits.allowed[:, 0].astype(np.int64).tolist()
    return most


def write_lines(file: BinaryIO, values: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Write non-negative integers as text, one line for every run of `values`.

    Numbers are padded with zeros to one width, which makes this a handful of vectorised digit
    extractions; the hypergraph and graph parsers read "007" as 7.

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
    """Put ``first[k]`` before run k of `values`; returns (values, ends of the runs)."""
    return (
        np.insert(values.astype(np.int64), ptr[:-1], first),
        ptr[1:] + np.arange(1, len(ptr), dtype=np.int64),
    )
