"""`Adapter`, the interface of a partitioner, and helpers that several adapters share."""

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
"""Up to this number of parts, a search has more starts, since different starts then give very
different results."""
LARGE = 1_000_000
"""If a graph has hubs and at least this many nonzeros, starts for effort "fast" partition the graph
of clusters."""


@dataclass(frozen=True)
class Start:
    """A way to begin a search: one run of a partitioner, whose owners the search then refines.

    Attributes:
        rank: Priority for each kind of graph (`plancc.search.starts.KINDS`): starts with higher
            numbers come first. The start is not used for kinds that are missing here.
        objective: "cut" or "volume" to partition the graph; "" to partition the column-net
            hypergraph.
        efforts: Efforts that use the start. "best" also uses starts of other efforts, except starts
            that are only for "fast".
        slowness: Run time, roughly, divided by the run time of METIS.
        most_rows: Largest mean number of rows per part for which the start is used.
        most_parts: Largest number of parts for which the start is used.
        least_nonzeros, most_nonzeros: Range of numbers of nonzeros for which the start is used.
        clustered: Whether to partition the graph of clusters (`plancc.passes.clusters`).
        mild: Whether the start is only for graphs with mild hubs (`plancc.search.starts.is_mild`).
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
    """The interface of a partitioner.

    Attributes:
        name: Name in the registry.
        run: Function ``run(problem, num_parts, *, epsilon, seed, preset, threads) -> int[n]``. The
            child process imports it by its name, so it must be defined in a module. It runs in a
            temporary folder. It is called only if 2 <= num_parts < n and if there is a net or an
            edge. `epsilon` is a float, or float64[num_constraints] if vertices have several
            weights.
        accepts: Types of problem that the partitioner accepts: Hypergraph, WeightedGraph.
        presets: Names of the presets; the first is the default.
        objectives: Objectives that the partitioner can minimise for a WeightedGraph.
        library: Import name of the native library; "" if the partitioner runs in this process.
        distribution: Name of the installed distribution whose version is reported.
        install: The command that installs the library.
        threaded: Whether the answer may differ from run to run if there are several threads.
            Presets "deterministic..." are exceptions.
        constraints: Whether the partitioner balances several weights per vertex. If not, it gets
            one weight per vertex that combines them (`plancc.models.weights.combined`).
        capacities: Whether `run` accepts ``capacities``: the shares of the parts,
            float64[num_parts] with sum 1, or None for equal shares. If not, the partitioner makes
            parts of equal size, and `partition` then moves vertices.
        max_total: Largest sum of weights or costs that the library's integers can hold. Larger
            weights are scaled down.
        auto_rank: Type of problem -> priority. For `partitioner` "auto", and for the first start of
            a search, the installed partitioner with the highest priority is chosen. If a type of
            problem is missing here, the partitioner is used for such problems only if the user
            names it. The partitioners of plancc have the priorities 0 (builtin), 20 and 30.
        strong_rank: Type of problem -> priority among the strong partitioners, which are slow.
            Effort "best", and searches for the expected volume of mini-batches, have one more
            start, with the strong partitioner of the highest priority.
        highest: Preset that gives the best partitions; effort "best" has a start with this preset
            for every graph. "" if there is no such preset.
        slowness: Run time, roughly, divided by the run time of METIS. A start with a strong
            partitioner is made only if there is time for it.
        several: Whether `run` accepts ``seeds``, a list, in place of ``seed``, and returns
            int[len(seeds), n]. One process then reads the problem only once.
        starts: Ways in which a search can begin with this partitioner. A partitioner without such
            ways can still begin a search, with its first preset, if it has the highest priority in
            `auto_rank`.
        prepare: Function ``prepare(problem, num_parts, options, folder) -> dict``, which runs in
            plancc's own process before `run`. It returns the keyword arguments of `run`, which then
            replace problem, num_parts and options. `run` starts in `folder`. Only adapters with a
            `library` may have this function. If an adapter has one, its `run` can do without NumPy
            and other slow imports, and then begins a tenth of a second earlier.
        improver: Adapter of the same library that improves a given partition; None if there is
            none. Its `run` has one more option ``owner``, int32[n].
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
        """Name of a model whose problem the partitioner accepts.

        It is "hp" if the partitioner accepts hypergraphs, else "gp".
        """
        return "hp" if Hypergraph in self.accepts else "gp"

    def available(self) -> bool:
        """Whether the library is installed; the library is not loaded for this."""
        return not self.library or util.find_spec(self.library) is not None

    def version(self) -> str:
        """Return the version of the installed distribution; "" if it is unknown."""
        try:
            return metadata.version(self.distribution) if self.distribution else ""
        except metadata.PackageNotFoundError:
            return ""

    def takes(self, problem: Hypergraph | WeightedGraph) -> bool:
        """Whether the partitioner accepts `problem` and can minimise its objective."""
        objective = "" if isinstance(problem, Hypergraph) else problem.objective
        return self.takes_kind(type(problem), objective)

    def takes_kind(self, kind: type, objective: str = "") -> bool:
        """Whether the partitioner accepts problems of the type `kind`.

        For graphs, it must also be able to minimise `objective`.
        """
        if not issubclass(kind, self.accepts):
            return False
        return issubclass(kind, Hypergraph) or objective in self.objectives


def scaled(values: npt.NDArray[np.int64], max_total: int) -> npt.NDArray[np.int64]:
    """Scale down the columns whose sums exceed `max_total`; positive values stay positive."""
    total = values.sum(axis=0)
    if (total <= max_total).all():
        return values
    share = np.where(total <= max_total, 1.0, max_total / (total + len(values)))
    return np.where(values > 0, np.maximum((values * share).astype(np.int64), 1), 0)


def most_weights(
    weights: npt.NDArray[np.int64], epsilon: float, capacities: npt.NDArray[np.float64]
) -> list[int]:
    """Return the largest allowed weight of every part; `capacities` have sum 1."""
    limits = Limits(weights, len(capacities), epsilon, tuple(capacities))
    most: list[int] = limits.allowed[:, 0].astype(np.int64).tolist()
    return most


def write_lines(file: BinaryIO, values: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Write non-negative integers as lines of text; line k ends with ``values[ends[k] - 1]``.

    Every line needs a number. Zeros pad all numbers to one width; libraries read "007" as 7.
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
    """Insert ``first[k]`` before each group ``values[ptr[k]:ptr[k + 1]]``.

    Returns the new values, and for every group the index after its last value.
    """
    return (
        np.insert(values.astype(np.int64), ptr[:-1], first),
        ptr[1:] + np.arange(1, len(ptr), dtype=np.int64),
    )
