"""Normalisation of the adjacency matrix; the result is the matrix of the sparse product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.arrays import Array, FloatArray, Int64Array, IntArray
from plancc.graph.graph import NORMALIZATIONS, Graph
from plancc.graph.listed_edges import with_columns_of
from plancc.graph.types import Types, in_words
from plancc.kernel import njit
from plancc.registry import check_choice
from plancc.text import shown
from plancc.threads import in_chunks

LOOPS = "self loops of the source raised by the identity"
"""Phrase that names a count (`Source.counting`)."""
CANCELLED = 1e-14
"""If a row's sum is below this share of the sum of its magnitudes, the sum is rounding error."""


def normalize(
    graph: Graph,
    normalization: str = "sym",
    *,
    self_loops: bool = True,
    dtype: npt.DTypeLike = np.float32,
) -> Graph:
    """Return the matrix of the distributed sparse product, with values.

    With ``B = A + I`` (or ``B = A`` without self loops) and ``d_i = sum_j B[i, j]``, values are:

    ========  =================================================================
    ``sym``   ``B[i, j] / sqrt(d_i d_j)`` (Demirci et al. 2022, section 3.1; d_j is a row sum, too)
    ``row``   ``B[i, j] / d_i`` (mean over the neighbours)
    ``none``  ``B[i, j]``
    ========  =================================================================

    Values are computed in float64 and rounded once to `dtype`, float32 or float64. An empty row i
    has 0 in place of 1 / d_i, so that with ``sym`` column i becomes empty, too. Zeros are dropped.

    In a graph of several vertex types, every relation is normalised separately, without self loops,
    and ``sym`` divides by ``sqrt(sum_k B[i, k] sum_k B[k, j])``.
    """
    if graph.types is not None:
        typed = RowsOfTypes(graph, 0, normalization, whole=True)
        return typed.scaled(typed.sums(typed.no_sums), dtype)
    arrays = graph.indptr, graph.indices, graph.values
    how = normalization, self_loops, graph.original_ids
    rows = Rows(*arrays, 0, graph.source.name, *how)
    scale = rows.scale()
    indptr, indices, values = rows.scaled(scale, scale, dtype)
    source = graph.source.counting(LOOPS, rows.num_raised)
    made = replace(graph, indptr=indptr, indices=indices, values=values, source=source)
    return with_columns_of(made, graph)


def _wrong_sum(name: str, what: str, total: float, normalization: str) -> InputError:
    """Return the error for a sum of values that has no inverse or no square root."""
    needs = f"`normalize` {normalization} needs positive and finite sums; use `normalize` none"
    return InputError(f"{name}: {what} sum to {total:g}; {needs}")


@dataclass(frozen=True, eq=False)
class RowsOfTypes:
    """A range of rows of a graph of several vertex types; relations are normalised separately.

    Attributes:
        rows: The rows, with the whole graph's types and columns.
        first: Index of the first row.
        whole: Whether the range is all rows. If so, the sum of a vertex's values in a relation is
            kept only if the vertex has nonzeros there, to save memory.
    """

    rows: Graph
    first: int
    normalization: str
    whole: bool = False

    def __post_init__(self) -> None:
        check_choice("normalization", self.normalization, NORMALIZATIONS)

    @property
    def _types(self) -> Types:
        assert self.rows.types is not None
        return self.rows.types

    @cached_property
    def _row(self) -> Int64Array:
        """Row of every nonzero, int64[nonzeros]."""
        return self.first + self.rows.nonzero_rows()

    @cached_property
    def _of(self) -> IntArray:
        """Index of the relation of every nonzero, int[nonzeros]."""
        found = self.rows.relations(self.first)
        assert found is not None
        return found

    @cached_property
    def _given(self) -> FloatArray:
        given = self.rows.values
        return np.ones(self.rows.num_nonzeros) if given is None else given.astype(np.float64)

    @cached_property
    def _ends(self) -> list[tuple[IntArray, Int64Array, int]]:
        """How to sum nonzeros by row and relation and, if "sym", also by column and relation.

        The list has one entry for the sums by row and, if normalisation is "sym", a second entry
        for the sums by column. An entry holds the row (or column) of every nonzero, the index of
        the sum that contains the nonzero, and the number of sums. A vertex has a sum for every
        relation that ends (or begins) at its type.
        """
        names = self._types.names
        found: list[tuple[IntArray, Int64Array, int]] = []
        pairs = (2, self._row), (0, self.rows.indices)
        for end, vertices in pairs[: {"none": 0, "row": 1, "sym": 2}[self.normalization]]:
            types = np.array([names.index(each[end]) for each in self._types.relations])
            start = np.cumsum([0, *np.diff(self._types.first)[types]])
            number, size = (start[:-1] - self._types.first[types])[self._of] + vertices, start[-1]
            if self.whole and size > len(number):
                some, number = np.unique(number, return_inverse=True)
                size = len(some)
            found.append((vertices, number, int(size)))
        return found

    @property
    def no_sums(self) -> list[FloatArray]:
        """Arrays of zeros, to pass to the first call of `sums`."""
        return [np.zeros(size) for _, _, size in self._ends]

    def sums(self, before: list[FloatArray]) -> list[FloatArray]:
        """Add these rows' values in place to `before`, the sums of earlier rows; return it."""
        for total, (_, number, _) in zip(before, self._ends, strict=True):
            np.add.at(total, number, self._given)
        return before

    def scaled(self, sums: Sequence[FloatArray], dtype: npt.DTypeLike) -> Graph:
        """Return the rows, normalised by `sums`: what the method `sums` returns after all rows."""
        graph, values = self.rows, self._given.copy()
        for (vertices, number, _), every in zip(self._ends, sums, strict=True):
            total = every[number]
            bad = np.flatnonzero(~((total > 0) & np.isfinite(total)))
            if len(bad):
                at = bad[np.argmin(self._of[bad])]
                vertex = vertices[at] - self._types.first[self._types.type_of(vertices[at])]
                name = in_words(self._types.relations[self._of[at]])
                told = f"{name}: the weights of vertex {vertex} (counted from 0)"
                raise _wrong_sum(graph.source.name, told, total[at], self.normalization)
            values /= np.sqrt(total) if self.normalization == "sym" else total
        made = values.astype(dtype)
        if not np.isfinite(made).all():
            raise InputError(f"{graph.source.name}: a value is too large for {np.dtype(dtype)}")
        return replace(graph, values=made).only(made != 0)  # drop values that underflow


@dataclass(frozen=True, eq=False)
class Rows:
    """A range of rows of a matrix that is to be normalised: all rows, or a rank's rows.

    Attributes:
        indptr (int64[m + 1]): Offsets of the rows, from 0.
        indices (int32[entries]): Columns, ascending in every row.
        values (float32 or float64[entries], or None): Values; None for ones.
        first: Row of the whole matrix that is this range's first row.
        self_loops: Whether the identity is added.
        ids: Ids of these rows' vertices; None if ids are vertex numbers.
    """

    indptr: Int64Array
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.floating] | None
    first: int
    name: str
    normalization: str
    self_loops: bool
    ids: Array | None = None

    def __post_init__(self) -> None:
        check_choice("normalization", self.normalization, NORMALIZATIONS)

    @cached_property
    def made_ptr(self) -> Int64Array:
        """Offsets of the rows after the identity is added, int64[m + 1]."""
        if not self.self_loops:
            return self.indptr
        made = self.indptr.copy()
        made[1:] += np.cumsum(_missing_diagonal(self.indptr, self.indices, self.first))
        return made

    @property
    def num_raised(self) -> int:
        """Number of existing diagonal entries to which the identity is added."""
        made = int(self.made_ptr[-1] - self.indptr[-1])
        return len(self.indptr) - 1 - made if self.self_loops else 0

    @property
    def _given_values(self) -> npt.NDArray[np.floating]:
        return np.empty(0) if self.values is None else self.values

    def scale(self) -> FloatArray:
        """Return the factor by which normalisation multiplies each of these rows, float64[m].

        With "sym", each column too is multiplied by its vertex's factor.
        """
        scale = np.ones(len(self.indptr) - 1)
        if self.normalization == "none":
            return scale
        row_sum = _row_sums(self.indptr, self._given_values) + (1.0 if self.self_loops else 0.0)
        used = np.diff(self.made_ptr) > 0
        bad = np.flatnonzero(used & ~((row_sum > 0) & np.isfinite(row_sum)))
        if len(bad):
            vertex = f"{self.first + bad[0]} (counted from 0, "
            if self.ids is not None:
                vertex = f"{shown(self.ids[bad[0]])} ("
            told = f"the weights of vertex {vertex}with its self loop, if any)"
            raise _wrong_sum(self.name, told, row_sum[bad[0]], self.normalization)
        scale[used] = row_sum[used]
        scale[~used] = np.inf
        return 1.0 / (np.sqrt(scale) if self.normalization == "sym" else scale)

    def scaled(
        self, row_scale: FloatArray, all_scale: FloatArray, dtype: npt.DTypeLike
    ) -> tuple[Int64Array, npt.NDArray[np.int32], npt.NDArray[np.floating]]:
        """Return the normalised rows: indptr, indices and values.

        `row_scale`, float64[m], is the result of `scale` for these rows; `all_scale`, float64[n],
        is the result for all rows of the matrix.
        """
        dtype, indptr = np.dtype(dtype), self.made_ptr
        values = np.empty(indptr[-1], dtype)
        indices = np.empty(indptr[-1], np.int32) if self.self_loops else self.indices
        col_scale = all_scale if self.normalization == "sym" else np.empty(0)
        given, made = (self.indptr, self.indices, self._given_values), (indptr, indices, values)

        def fill(first: int, last: int) -> None:
            _fill(first, last, self.first, given, made, row_scale, col_scale, self.self_loops)

        in_chunks(fill, indptr)
        if self.values is not None and not np.isfinite(values).all():
            raise InputError(f"{self.name}: a value is too large for {dtype}")
        if not values.all():  # columns of empty rows, 1 - 1 on the diagonal, or underflow
            kept = values != 0
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            indices, values = indices[kept], values[kept]
        return indptr, indices, values


@njit(cache=True)
def _missing_diagonal(indptr, indices, base):  # type: ignore[no-untyped-def]
    """Return 1 for every row without a diagonal entry, else 0: int64[m].

    The diagonal entry of row i is in column `base` + i.
    """
    missing = np.ones(len(indptr) - 1, dtype=np.int64)
    for i in range(len(missing)):
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] >= i + base:
                if indices[k] == i + base:
                    missing[i] = 0
                break
    return missing


@njit(cache=True)
def _row_sums(indptr, values):  # type: ignore[no-untyped-def]
    """Return the sum of every row, float64[n]; empty `values` stand for ones.

    A sum is set to 0 if its terms cancel and only a rounding error is left.
    """
    sums = np.zeros(len(indptr) - 1)
    for i in range(len(sums)):
        if len(values) == 0:
            sums[i] = indptr[i + 1] - indptr[i]
            continue
        size = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            sums[i] += values[k]
            size += abs(values[k])
        if abs(sums[i]) < CANCELLED * size:
            sums[i] = 0.0
    return sums


@njit(cache=True, nogil=True)
def _fill(first, last, base, given, made, row_scale, col_scale, add_identity):  # type: ignore[no-untyped-def]
    """Copy rows first..last-1, add the identity to them if `add_identity`, and scale them.

    `given` is a CSR matrix: indptr, indices and values; indices and values of `made` are filled.
    Row i of each is row ``base + i`` of the whole matrix.
    """
    indptr, indices, values = given
    out_indptr, out_indices, out_values = made
    ones = len(values) == 0
    scale_columns = len(col_scale) > 0
    for i in range(first, last):
        out = out_indptr[i]
        need_diagonal = add_identity
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            value = 1.0 if ones else np.float64(values[k])
            if need_diagonal and j >= base + i:
                need_diagonal = False
                if j == base + i:
                    value += 1.0
                else:
                    factor = row_scale[i] * col_scale[base + i] if scale_columns else row_scale[i]
                    out_indices[out] = base + i
                    out_values[out] = factor
                    out += 1
            factor = row_scale[i] * col_scale[j] if scale_columns else row_scale[i]
            if add_identity:
                out_indices[out] = j
            out_values[out] = value * factor
            out += 1
        if need_diagonal:
            factor = row_scale[i] * col_scale[base + i] if scale_columns else row_scale[i]
            out_indices[out] = base + i
            out_values[out] = factor
