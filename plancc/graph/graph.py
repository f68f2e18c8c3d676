"""The class Graph: a square sparse matrix in CSR."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.arrays import Array, Int64Array, IntArray, Mask
from plancc.graph.bounds import check_vertices
from plancc.graph.columns import WithColumns
from plancc.graph.types import Types

MAX_VERTICES = 2**31 - 1
NORMALIZATIONS = ("sym", "row", "none")


@dataclass(frozen=True)
class Source:
    """The origin of a graph, for the provenance of a plan.

    Attributes:
        name: File name without its folder, or a short description of an in-memory object.
        sha256: Hash of the file's bytes, or of a folder's files; empty for in-memory graphs.
        format: Name of the format in ``plancc.graph.formats``, or of the Python type.
        reading: Reading options that were on, such as "symmetrize num_vertices=1000".
        weights: Name of the edge weights, such as "column 'weight'"; empty without weights.
        weight_range: Range of the weights in the source, "LEAST to LARGEST" or "all VALUE", and
            the number of repeated entries, whose weights are then summed; empty if unknown.
        columns: Joined names of an edge list's columns u and v, or empty.
        counts: Numbers of entries that were merged, added or left out; or empty.
    """

    name: str = "memory"
    sha256: str = ""
    format: str = ""
    reading: str = ""
    weights: str = ""
    weight_range: str = ""
    columns: str = ""
    counts: str = ""

    def counting(self, what: str, count: int, whole: str = "") -> Source:
        """Return the source with one more count in `counts`; the same source if `count` is 0.

        `what` names the counted entries; `whole` follows the number, such as " of 1,000".
        """
        if not count:
            return self
        told = f"{what}: {count:,}{whole}"
        return replace(self, counts=", ".join(filter(None, (self.counts, told))))

    @classmethod
    def of_file(cls, path: StrPath, format: str, weights: str = "", columns: str = "") -> Source:
        """Return the source of a file; `plancc.graph.formats.read_graph` adds the hash."""
        name = os.path.basename(os.fspath(path))
        return cls(name, format=format, weights=weights, columns=columns)

    @property
    def weights_in_words(self) -> str:
        """Name and range of the weights, for display; "" if the graph has no weights."""
        return ", ".join(filter(None, (self.weights, self.weight_range)))


@dataclass(frozen=True, repr=False)
class Graph(WithColumns):
    """A directed or undirected graph as a square sparse matrix ``A`` in CSR.

    ``A[i, j] != 0`` means *row i needs row j*: vertex i aggregates from vertex j. In every row,
    columns are sorted and unique. No stored value is zero.

    Attributes:
        indptr: int64[num_vertices + 1].
        indices: int32[num_nonzeros].
        values (float32 or float64[num_nonzeros], or None): Edge weights. None for a matrix of ones
            (a graph without edge weights).
        directed: Whether the graph is directed: the source says so, or the pattern is not symmetric
            (`plancc.graph.canonical.detect_direction`). An undirected graph holds both (i, j) and
            (j, i).
        vertex_weights (int64[num_vertices, num_weights], or None): Weights of vertices, from the
            source (METIS ``.graph``) or the user (`plancc.graph.weights`).
        original_ids (int64 or bytes[num_vertices], or None): The source's own vertex ids: whole
            numbers, or names (`plancc.graph.named_ids`). None if ids are 0..n-1, and for formats
            that number vertices from 1 without gaps (MatrixMarket, METIS).
        types: Vertex types and relations; None for a graph of one vertex type.
        columns: Further arrays with an entry for every nonzero (`plancc.graph.columns`).
    """

    indptr: Int64Array
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.floating] | None = None
    directed: bool = True
    vertex_weights: Int64Array | None = None
    original_ids: Array | None = None
    source: Source = field(default_factory=Source)
    types: Types | None = None

    @property
    def num_vertices(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_nonzeros(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        sizes = f"{self.num_vertices} vertices, {self.num_nonzeros} nonzeros"
        return f"<Graph {self.source.name}: {sizes}, {kind}>"

    def row_nonzeros(self) -> Int64Array:
        """Return the number of nonzeros of every row, int64[num_vertices]."""
        return np.diff(self.indptr)

    def nonzero_rows(self) -> Int64Array:
        """Return the row of every nonzero, int64[num_nonzeros]."""
        return np.repeat(np.arange(self.num_vertices), self.row_nonzeros())

    def relations(self, first: int = 0) -> IntArray | None:
        """Return the index of every nonzero's relation, int[num_nonzeros]; None without types.

        Parameters:
            first: Vertex of the first row, if the rows are a range of a larger graph's rows.
        """
        if self.types is None or self.relation is not None:
            return self.relation
        return self.types.relation_of(first + self.nonzero_rows(), self.indices)

    def only(self, kept: Mask) -> Graph:
        """Return the graph of the nonzeros where `kept`, bool[num_nonzeros], is true."""
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        values = None if self.values is None else self.values[kept]
        taken: Any = {"indices": self.indices[kept], "columns": self.columns_at(kept)}
        return replace(self, indptr=indptr, values=values, **taken)


def as_vertices(given: int | Graph, original_ids: Array | None = None) -> Graph:
    """Return a graph unchanged; for a number n, return a graph of n vertices without edges."""
    if isinstance(given, Graph):
        return given
    empty = np.empty(0, np.int32)
    return Graph(np.zeros(given + 1, np.int64), empty, original_ids=original_ids)


def first_true(found: Mask | np.bool_) -> int | None:
    """Return the index of the first true entry; None if all entries are false."""
    return int(np.argmax(found)) if found.any() else None


def first_outside(numbers: IntArray, bound: int) -> int | None:
    """Return the index of the first number outside 0..bound - 1; None if all are inside."""
    if not numbers.size or (numbers.min() >= 0 and numbers.max() < bound):
        return None
    return first_true((numbers < 0) | (numbers >= bound))


def check_num_vertices(num_vertices: int, where: str) -> None:
    """Raise InputError for 0 vertices, and for more than `MAX_VERTICES` or `bounded` allows."""
    if num_vertices < 1:
        raise InputError(f"{where}: the graph has no vertices")
    if num_vertices > MAX_VERTICES:
        raise InputError(f"{where}: has {num_vertices} vertices; the limit is {MAX_VERTICES}")
    check_vertices(num_vertices, where)


def check_one_type(graph: Graph, where: str) -> None:
    """Raise InputError if the graph has types, which the format of the file `where` cannot hold."""
    if graph.types is not None:
        raise InputError(
            f"{where} cannot hold the types of {graph.source.name}; compile the source itself"
        )


def check_range(numbers: IntArray, bound: int, where: str, says: str = ": vertex '{}' is") -> None:
    """Raise InputError for a number outside 0..bound - 1; {} in `says` stands for the number."""
    if (k := first_outside(numbers, bound)) is not None:
        raise InputError(f"{where}{says.format(numbers.flat[k])} out of range 0..{bound - 1}")


def as_offsets(array: IntArray, end: int, what: str, of: str = "") -> Int64Array:
    """Return offsets of compressed rows as int64; InputError unless they ascend from 0 to `end`.

    Neighbours are compared, not subtracted: a difference may overflow, and a difference of unsigned
    numbers is never negative.
    """
    falls = np.flatnonzero(array[1:] < array[:-1])
    bad = 0 if not len(array) or array[0] != 0 else int(falls[0]) + 1 if len(falls) else -1
    if bad < 0 and array[-1] != end:
        bad = len(array) - 1
    if bad >= 0:
        value = array[bad] if len(array) else "missing"
        raise InputError(f"{what} does not ascend from 0 to {end}{of}: entry {bad} is '{value}'")
    return array.astype(np.int64, copy=False)
