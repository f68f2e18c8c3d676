"""Collect the rows of all ranks, block by block, in the order of the source's vertices.

In this module a *block* is the rows of consecutive vertices. Every rank sends its rows of a block
to the ranks that collect, which hold one block at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanError
from plancc.files import StrPath
from plancc_runtime.rowfiles import Column, RowFile, check_columns, check_name, open_row_file
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import swapped

BLOCK_BYTES = 32 << 20
"""Largest number of bytes of a block, unless one row has more."""


@dataclass(frozen=True)
class Ids:
    """This rank's share of the ids that vertices have in the graph's source.

    Every vertex is in the share of exactly one rank.

    Attributes:
        vertex (int[m]): The vertices, as vertex numbers of the plan.
        original (int64[m], or bytes[m] for names): The ids of these vertices in the source.
    """

    vertex: npt.NDArray[np.integer]
    original: npt.NDArray[Any]

    def within(self, vertices: slice) -> Ids:
        """Return the ids of a range of vertices; the new `vertex` counts from the range's start."""
        there = (self.vertex >= vertices.start) & (self.vertex < vertices.stop)
        return Ids(self.vertex[there] - vertices.start, self.original[there])


class RowSource:
    """Arrays with one row for each of this rank's vertices; each vertex is on exactly one rank."""

    def __init__(self, vertices: npt.NDArray[np.integer], arrays: Mapping[str, np.ndarray]) -> None:
        self._order = np.argsort(vertices, kind="stable")
        self._vertices = vertices[self._order].astype(np.int64)
        self.arrays = arrays

    @property
    def row_bytes(self) -> int:
        """Number of bytes that one vertex takes: its number, and its row in every array."""
        return 8 + sum(a.dtype.itemsize * math.prod(a.shape[1:]) for a in self.arrays.values())

    def rows(self, start: int, stop: int) -> tuple[npt.NDArray[np.int64], dict[str, np.ndarray]]:
        """Return this rank's vertices among ``start..stop-1``, and their rows of each array."""
        first, last = np.searchsorted(self._vertices, [start, stop])
        taken = self._order[first:last]
        return self._vertices[first:last], {k: a[taken] for k, a in self.arrays.items()}


Block = tuple[int, int, dict[str, np.ndarray] | None]
"""First vertex, last vertex + 1, and arrays with a row for each vertex of the range.

The arrays are None on a rank that does not collect."""


def named_arrays(rows: Any, num_rows: int, of: str = "`rows`") -> dict[str, np.ndarray]:
    """Convert `rows` to NumPy arrays by name; a single tensor or array gets the name "row".

    A floating-point tensor with numbers of less than 4 bytes becomes float32. `of` names `rows` in
    messages.

    Raises:
        InputError: If a value is no dense array of numbers with `num_rows` rows, or names repeat.
    """
    given = rows if isinstance(rows, Mapping) else {"row": rows}
    found: dict[str, np.ndarray] = {}
    for name, each in given.items():
        array = each
        called = f"{of}[{name!r}]" if given is rows else of
        if not isinstance(array, np.ndarray):
            try:
                array = each.detach().cpu()
                if array.is_floating_point() and array.element_size() < 4:  # numpy lacks bfloat16
                    array = array.float()
                array = array.numpy()
            except (AttributeError, TypeError, NotImplementedError):  # a list; a sparse tensor
                array = None
        if array is None or array.dtype.kind not in "biufc":
            raise InputError(
                f"{called} is not a dense tensor or array of numbers (type {type(each).__name__})"
            )
        if array.ndim == 0 or len(array) != num_rows:
            raise InputError(
                f"{called} has shape {list(array.shape)}, but needs [{num_rows}, ...]: one entry "
                "for every row of this rank, in the order of graph.vertices"
            )
        if str(name) in found:
            raise InputError(f"two arrays have the name {name}; rename one of them")
        found[str(name)] = array
    return found


def columns_of(arrays: Mapping[str, np.ndarray], transport: Transport) -> dict[str, Column]:
    """Return dtype and row shape of every array; raise InputError if ranks differ. Collective."""
    columns = {name: Column(a.dtype, a.shape[1:]) for name, a in arrays.items()}
    if not transport.all_equal(repr(columns).encode()):
        transport.agree(InputError("the ranks give arrays of different names, dtypes or widths"))
    return columns


def blocks(
    sources: Sequence[RowSource], num_vertices: int, transport: Transport, everywhere: bool = False
) -> Iterator[Block]:
    """Yield all rows in the order of their vertices. Collective.

    Parameters:
        sources: This rank's rows. The k-th sources of all ranks have the same names, dtypes and row
            shapes, and together have each vertex once. Names of different sources differ.
        everywhere: Whether every rank gets the blocks; otherwise only rank 0 does.

    Raises:
        PlanError: On all ranks, if no rank has the row of some vertex.
    """
    row_bytes = sum(source.row_bytes for source in sources)
    step = max(1, BLOCK_BYTES // row_bytes)
    wanted = everywhere or transport.rank == 0
    targets = range(transport.size) if everywhere else range(1)
    for start in range(0, max(1, num_vertices), step):
        stop = min(start + step, num_vertices)
        block: dict[str, np.ndarray] = {}
        for source in sources:
            vertices, rows = source.rows(start, stop)

            def told(mine: np.ndarray) -> np.ndarray:
                pieces = [mine[: None if k in targets else 0] for k in range(transport.size)]
                return np.concatenate(swapped(pieces, transport, in_bytes=True))

            vertices, rows = told(vertices), {name: told(each) for name, each in rows.items()}
            with transport.agreement():
                if wanted:
                    block |= _merged(start, stop, vertices, rows)
        yield start, stop, block if wanted else None


def _merged(
    start: int, stop: int, vertices: npt.NDArray[np.int64], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the rows of vertices ``start..stop-1`` in ascending order of the vertices."""
    place = np.full(stop - start, -1)
    place[vertices - start] = np.arange(len(vertices))
    if (place < 0).any():
        vertex = start + int(np.argmin(place))
        raise PlanError(f"the plan is damaged: vertex {vertex} is in no part; compile a new plan")
    return {name: each[place] for name, each in arrays.items()}


@dataclass(frozen=True)
class RowsOfRank:
    """The rows that a rank contributes when the rows of all ranks are collected.

    Attributes:
        vertices (int[num_rows]): Vertex of every row.
        contributes: Whether this rank contributes; False if its rows are copies.
    """

    vertices: npt.NDArray[np.integer]
    num_vertices: int
    contributes: bool = True

    def among(self, rows: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> RowsOfRank:
        """Return a `RowsOfRank` of `rows` (local), whose vertices are positions in `wanted`."""
        order = np.argsort(wanted)
        places = order[np.searchsorted(wanted, self.vertices[rows], sorter=order)]
        return RowsOfRank(places, len(wanted), self.contributes)

    def within(self, vertices: slice) -> tuple[npt.NDArray[np.int64], RowsOfRank]:
        """Return the local rows of `vertices`, and a `RowsOfRank` of them.

        In it, vertices are counted from the start of the range.
        """
        there = (self.vertices >= vertices.start) & (self.vertices < vertices.stop)
        size, rows = vertices.stop - vertices.start, np.flatnonzero(there)
        return rows, RowsOfRank(self.vertices[rows] - vertices.start, size, self.contributes)

    def source(self, arrays: Mapping[str, np.ndarray]) -> RowSource:
        """Return the rows of these arrays that this rank contributes."""
        if not self.contributes:
            return RowSource(self.vertices[:0], {name: a[:0] for name, a in arrays.items()})
        return RowSource(self.vertices, arrays)


def gather_rows(
    rows: RowsOfRank, array: np.ndarray, transport: Transport, everywhere: bool
) -> np.ndarray | None:
    """Return all ranks' rows in vertex order, on rank 0 or on all ranks (`everywhere`). Collective.

    Other ranks get None.
    """
    columns_of({"rows": array}, transport)
    whole = None
    with transport.agreement():
        if everywhere or transport.rank == 0:
            whole = np.empty((rows.num_vertices, *array.shape[1:]), array.dtype)
    source = rows.source({"rows": array})
    for start, stop, block in blocks([source], rows.num_vertices, transport, everywhere):
        if whole is not None and block is not None:
            whole[start:stop] = block["rows"]
    return whole


def save_rows(
    path: StrPath,
    rows: RowsOfRank,
    arrays: Mapping[str, np.ndarray],
    ids: Ids | None,
    transport: Transport,
) -> None:
    """Write the rows of all ranks with the ids of their vertices to one file. Collective.

    Rank 0 holds one block of rows at a time. After an error, no half-written file is left. `ids` is
    None if vertex numbers are ids.
    """
    name = fspath(path)
    with transport.agreement():
        check_name(name)
        if "id" in arrays:
            raise InputError(f"{name}: 'id' is the column of ids; rename the array 'id'")
    columns = columns_of(arrays, transport)
    with transport.agreement():
        check_columns(name, columns)
    id_column = Column(np.dtype(np.int64) if ids is None else ids.original.dtype, ())
    columns = {"id": id_column, **columns}
    with ExitStack() as stack:
        file: RowFile | None = None
        with transport.agreement():
            if transport.rank == 0:
                whole = open_row_file(name, columns, rows.num_vertices)
                file = stack.enter_context(whole)
        for names in transport.gather(None if file is None else file.passes)[0]:
            sources = [rows.source({name: arrays[name] for name in names if name != "id"})]
            if "id" in names and ids is not None:
                sources.append(RowSource(ids.vertex, {"id": ids.original}))
            for start, stop, block in blocks(sources, rows.num_vertices, transport):
                with transport.agreement():
                    if file is not None and block is not None:
                        if "id" in names and ids is None:
                            block["id"] = np.arange(start, stop)
                        file.write({name: block[name] for name in names})
        with transport.agreement():
            stack.close()
