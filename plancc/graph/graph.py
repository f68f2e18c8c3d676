"""The Graph value: a square sparse matrix in CSR."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.bounds import check_vertices
from plancc.graph.columns import WithColumns
from plancc.graph.types import Types

MAX_VERTICES = 2**31 - 1
NORMALIZATIONS = ("sym", "row", "none")


@dataclass(frozen=True)
class Source:
    """Where a graph came from, for the provenance of a plan.

    Attributes:
        name: File name without its folder, or a short description of an in-memory object.
        sha256: Hash of the file's bytes, or of a folder's files; empty for in-memory graphs.
        format: Name of the format in ``plancc.graph.formats``, or of the Python type.
        reading: Reading options that were on, joined by spaces, as in "symmetrize
            num_vertices=1000" (`plancc.graph.formats.reading_of`).
        weights: What the source calls the weights of its edges, as in "column 'weight'"; empty
            where the graph has none.
        weight_range: "LEAST to LARGEST" or "all VALUE", before entries at one place are summed, and
            how many were; empty where it is not known.
        columns: Of edge lists: the names of the columns of u and v, with a comma between
            (`plancc.graph.formats.join_names`); empty where they have none.
        counts: What was merged, added or left out, in words with its number; empty for nothing.
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
        """The same, which says also how many (of the `whole`) were merged, added or left out."""
        if not count:
            return self
        told = f"{what}: {count:,}{whole}"
        return replace(self, counts=", ".join(filter(None, (self.counts, told))))

    @classmethod
    def of_file(
        cls, path: str | os.PathLike[str], format: str, weights: str = "", columns: str = ""
    ) -> Source:
        """Source of a file of that format; `plancc.graph.formats.read_graph` adds the hash."""
        name = os.path.basename(os.fspath(path))
        return cls(name, format=format, weights=weights, columns=columns)

    @property
    def weights_in_words(self) -> str:
        """Name and range of the weights; "" without weights."""
        return ", ".join(filter(None, (self.weights, self.weight_range)))


@dataclass(frozen=True, repr=False)
class Graph(WithColumns):
    """A directed or undirected graph as a square sparse matrix ``A`` in CSR.

    ``A[i, j] != 0`` means *row i needs row j*: vertex i aggregates from vertex j. Columns are
    sorted and unique in every row and no stored value is zero.

    Attributes:
        indptr: int64[num_vertices + 1].
        indices: int32[num_nonzeros].
        values (float32 or float64[num_nonzeros], or None): None stands for a matrix of ones (a
            graph without edge weights).
        directed: As the source declares it, or as the pattern is
            (`plancc.graph.canonical.detect_direction`); an undirected graph holds both (i, j) and
            (j, i).
        vertex_weights (int64[num_vertices, num_weights], or None): Weights of vertices, of the
            source (METIS ``.graph``) or others (`plancc.graph.weights`).
        original_ids (int64 or bytes[num_vertices], or None): The source's own vertex ids, whole
            numbers or names (`plancc.graph.named_ids`); None when they are 0..n-1, and for formats
            that count vertices from 1 without gaps (MatrixMarket, METIS).
        types: The types of the vertices, and the relations that the nonzeros are of.
        columns: What nonzeros carry beside their values.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.floating] | None = None
    directed: bool = True
    vertex_weights: npt.NDArray[np.int64] | None = None
    original_ids: npt.NDArray[Any] | None = None
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
        return (
            f"<Graph {self.source.name}: {self.num_vertices} vertices, "
            f"{self.num_nonzeros} nonzeros, {kind}>"
        )

    def row_nonzeros(self) -> npt.NDArray[np.int64]:
        """Nonzeros of every row, int64[num_vertices]."""
        return np.diff(self.indptr)

    def nonzero_rows(self) -> npt.NDArray[np.int64]:
        """The row of every nonzero, int64[num_nonzeros]."""
        return np.repeat(np.arange(self.num_vertices), self.row_nonzeros())


def as_vertices(given: int | Graph, original_ids: npt.NDArray[Any] | None = None) -> Graph:
    """A graph as it is; for a number, as many vertices with these ids and without edges."""
    if isinstance(given, Graph):
        return given
    empty = np.empty(0, np.int32)
    return Graph(np.zeros(given + 1, np.int64), empty, original_ids=original_ids)


def first_true(found: npt.NDArray[np.bool_]) -> int | None:
    """Number of the first entry that is true; None if none is."""
    return int(np.argmax(found)) if found.any() else None


def first_outside(numbers: npt.NDArray[np.integer], bound: int) -> int | None:
    """Place of the first number outside 0..bound - 1; None if there is none."""
    if not numbers.size or (numbers.min() >= 0 and numbers.max() < bound):
        return None
    return first_true((numbers < 0) | (numbers >= bound))


def check_num_vertices(num_vertices: int, where: str) -> None:
    """Refuse an empty graph, one whose vertices do not fit int32, and one whose source is too small
    for them (`plancc.graph.bounds`); `where` names the source."""
    if num_vertices < 1:
        raise InputError(f"{where}: the graph has no vertices")
    if num_vertices > MAX_VERTICES:
        raise InputError(f"{where}: {num_vertices} vertices; at most {MAX_VERTICES} are supported")
    check_vertices(num_vertices, where)


def check_one_type(graph: Graph, where: str) -> None:
    """Refuse a graph of types, which `where` cannot hold."""
    if graph.types is not None:
        raise InputError(
            f"{where} cannot hold the types of {graph.source.name}: compile its own source"
        )


def check_range(
    numbers: npt.NDArray[np.integer], bound: int, where: str, says: str = ": vertex '{}' is"
) -> None:
    """Refuse numbers outside 0..bound - 1; `where` names the source, and `says` the number."""
    if (k := first_outside(numbers, bound)) is not None:
        raise InputError(f"{where}{says.format(numbers.flat[k])} out of range 0..{bound - 1}")


def as_offsets(
    array: npt.NDArray[np.integer], end: int, what: str, of: str = ""
) -> npt.NDArray[np.int64]:
    """Where compressed rows begin, as int64; InputError unless they ascend from 0 to `end`.

    Neighbours are compared: a difference may overflow, and of unsigned numbers is never below 0.

    Parameters:
        array: int[rows + 1].
        end: The number of entries.
        what: Names the array in messages.
        of: Says what `end` counts.
    """
    falls = np.flatnonzero(array[1:] < array[:-1])
    bad = 0 if not len(array) or array[0] != 0 else int(falls[0]) + 1 if len(falls) else -1
    if bad < 0 and array[-1] != end:
        bad = len(array) - 1
    if bad >= 0:
        value = array[bad] if len(array) else "missing"
        raise InputError(f"{what} does not ascend from 0 to {end}{of}: entry {bad} is '{value}'")
    return array.astype(np.int64, copy=False)
