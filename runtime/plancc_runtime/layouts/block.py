"""A block is the matrix of one layer on one rank, with the exchanges that its product needs.

A plan's slice is one block that all layers use. A block may be rectangular: it has fewer outputs
than inputs if only some rows of a layer's output are needed. The block of an edge plan also has
folded rows, below its outputs. A folded row is a partial sum for an output of another rank.

            own inputs       halo rows
          +------------+---------------+
    own   |            |               |   row_ptr, column, value: CSR
    out-  |            |               |   columns numbered [own inputs | halo rows]
    puts  +------------+---------------+
    folded|            |               |   rows numbered [own outputs | folded rows]
    rows  +------------+---------------+
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.columns import WithColumns
from plancc.kernel import njit
from plancc.plan.exchange import Exchange, Int32Array, Int64Array
from plancc.plan.parts import Part, taken

NONZEROS = ("plan", "edges", "closed")


@dataclass(frozen=True, eq=False)
class Nonzeros:
    """For every row of some messages, the numbers (ids) of nonzeros in the row's column.

    These are the nonzeros that the receiver of the row has in this column; `Numbering` says how
    they are numbered. For row r, the numbers are ``number[ptr[r]:ptr[r + 1]]``, ascending.

    Attributes:
        ptr (int64[rows + 1]): Bounds, in `number`, of the range of every row.
        number (int32[nonzeros]): The numbers.
    """

    ptr: Int64Array
    number: Int32Array


@dataclass(frozen=True, eq=False)
class Numbering:
    """Serial numbers of message rows, and of nonzeros in halo columns, for the draws of samples.

    Every random draw of `layouts.boundary` is a function of these serial numbers. They are assigned
    in the whole block, and do not change when rows are dropped from the block. So a row has the
    same draws in the smaller block as in the whole block.

    Attributes:
        received, sent (int32[num_halo], int32[sent rows]): For every halo row, and for every sent
            row, its position in its message, before any row is dropped.
        uses: For every halo row, the serial numbers of the nonzeros in its column. In the whole
            block, the nonzeros of a column are numbered from 0, by ascending row. None if boundary
            edges are not sampled.
        uses_sent: For every sent row, the serial numbers of the nonzeros that the receiver has in
            the row's column. None if boundary edges are not sampled.
    """

    received: Int32Array
    sent: Int32Array
    uses: Nonzeros | None = None
    uses_sent: Nonzeros | None = None


@dataclass(frozen=True, eq=False)
class Block(WithColumns):
    """The matrix of one layer on one rank, with the exchanges that its product needs. Immutable.

    Attributes:
        inputs (int32[num_inputs]): Vertex of every own row of the layer's input.
        outputs (int64[num_outputs] or None): For every own row of the layer's output, its position
            among the inputs, ascending. None if outputs and inputs are the same rows. In a process
            grid (`layouts.grid_block`), the column in which the row has its diagonal entry; -1 if
            another rank has this column.
        row_ptr, column, value (int64[num_local_rows + 1], int32[nonzeros], float[nonzeros]): Local
            CSR. Rows are numbered [own outputs | folded rows], columns [own inputs | halo rows].
            The columns of a row are distinct. Only own outputs have nonzeros on the diagonal.
        expand: Exchange that sends input rows to the peers and receives halo rows.
        self_loops: Whether normalising added the nonzeros on the diagonal. If true, these nonzeros
            do not count as edges.
        halo (int32[num_halo] or None): Vertex of every halo row; None if no random draw needs it.
            Boundary sampling, dropout of nonzeros, and mini-batches need it.
        numbering: Serial numbers of rows and nonzeros for random draws; None if the boundary is not
            sampled.
        edges (int64[num_local_rows] or None): Number of edges of every row, if the block lacks some
            of these edges. `boundary.draw` stores the number of edges before the draw.
            `whole_counts.with_whole_rows` stores the number of edges on all ranks.
        closed_edges (int64[num_local_rows] or None): Number of edges of every row on all ranks,
            plus 1 if the row has no edge to itself.
        scale: Factors by which `boundary.draw` multiplied edges in own columns and edges in halo
            columns.
        factor (float64[nonzeros] or None): Factors by which a mini-batch multiplied the values;
            None if all factors are 1.
        columns: Data of the nonzeros that layers read beside the values: arrays with one entry per
            nonzero, by name. If there is an array "relation", a row may have several nonzeros in
            one column of the matrix.
        fold: Exchange that sends folded rows to their owners, and receives partial sums of own
            outputs; None if no rank has folded rows.
    """

    inputs: Int32Array
    outputs: Int64Array | None
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    expand: Exchange
    self_loops: bool
    halo: Int32Array | None = None
    numbering: Numbering | None = None
    edges: Int64Array | None = None
    scale: tuple[float, float] = (1.0, 1.0)
    factor: npt.NDArray[np.float64] | None = None
    fold: Exchange | None = None
    closed_edges: Int64Array | None = None

    @classmethod
    def of_part(
        cls, part: Part, self_loops: bool, factor: npt.NDArray[np.float64] | None = None
    ) -> Block:
        """Return the block that has all rows and nonzeros of a plan's slice.

        All layers can use this block.

        Parameters:
            part: The slice.
            self_loops, factor: Values of the attributes of these names.
        """
        return cls(
            inputs=part.global_id,
            outputs=None,
            row_ptr=part.row_ptr,
            column=part.column,
            value=part.value,
            expand=part.expand,
            self_loops=self_loops,
            factor=factor,
            fold=part.fold,
            columns=part.columns,
        )

    @property
    def num_inputs(self) -> int:
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        return self.num_inputs if self.outputs is None else len(self.outputs)

    @property
    def num_folded(self) -> int:
        return 0 if self.fold is None else self.fold.send.volume

    @property
    def num_local_rows(self) -> int:
        return self.num_outputs + self.num_folded

    @property
    def num_sent(self) -> int:
        """Number of rows that this rank sends in one product, in the expand and in the fold."""
        return self.expand.send.volume + self.num_folded

    @property
    def num_halo(self) -> int:
        return self.expand.receive.volume

    @property
    def num_columns(self) -> int:
        return self.num_inputs + self.num_halo

    def output_places(self) -> Int64Array:
        """Return, for every output, its position among the inputs: int64[num_outputs]."""
        return np.arange(self.num_inputs) if self.outputs is None else self.outputs

    def with_coefficients(self, name: str, dtype: npt.DTypeLike = np.float64) -> Block:
        """Return the block with the values that `name` selects.

        Unless `name` is "plan", a diagonal that normalising added is removed. In a block that
        `boundary.draw` sampled, a mean divides by the number of edges before the draw, and edges
        are multiplied by `scale`. So the expected values of sums and means equal the values in the
        whole block. In a mini-batch, the values of "sum" are multiplied by `factor`, and a mean is
        over the edges that the batch keeps.

        Parameters:
            name: "plan": the plan's values. "sum": 1 for every edge. "mean": 1 / (number of edges
                of the row). "closed-mean": the mean over the edges and the row's own vertex, for
                which every own row gets a diagonal nonzero.
            dtype: Type of the values that this method computes. The plan's values keep their type,
                and values that are multiplied by a factor are float64.
        """
        if name == "plan":
            return self
        source = self if name == "sum" else replace(self, factor=None)
        block = edges = source.without_added_diagonal()
        if name == "closed-mean":
            block = edges.closed()
        degree = np.diff(block.row_ptr)
        whole = degree
        if name == "closed-mean" and self.closed_edges is not None:
            whole = self.closed_edges
        elif self.edges is not None:
            whole = self.edges + degree - np.diff(edges.row_ptr)
        each = np.ones(len(degree)) if name == "sum" else 1 / np.maximum(whole, 1)
        factor, scaled = block.factor if name == "sum" else None, self.scale != (1.0, 1.0)
        value = np.repeat(each if scaled or factor is not None else each.astype(dtype), degree)
        if factor is not None:
            value *= factor
        if scaled:
            scale = np.where(block.column < self.num_inputs, *self.scale)
            value *= np.where(block._diagonal(), 1, scale) if name == "closed-mean" else scale
        return replace(block, value=value)

    def with_nonzeros(self, name: str) -> Block:
        """Return the block with the nonzeros that a name in `NONZEROS` selects.

        Messages do not change.

        Parameters:
            name: "plan": all nonzeros of the plan. "edges": all nonzeros except a diagonal that
                normalising added. "closed": the edges, and a diagonal nonzero in every own row. If
                the row has no edge to itself, this nonzero has the value 1.
        """
        if name == "plan":
            return self
        edges = self.without_added_diagonal()
        return edges if name == "edges" else edges.closed()

    def closed(self) -> Block:
        """Return the block with a diagonal nonzero in every own row.

        Diagonal nonzeros that the block lacks are added with value 1.
        """
        loops = np.concatenate([[0], np.cumsum(self._diagonal())])[self.row_ptr]
        places = self.output_places()
        missing = np.flatnonzero((np.diff(loops[: self.num_outputs + 1]) == 0) & (places >= 0))
        at, places = self.row_ptr[missing], places[missing]
        added = np.zeros(self.num_local_rows + 1, np.int64)
        added[missing + 1] = 1
        return replace(
            self,
            row_ptr=self.row_ptr + np.cumsum(added),
            column=np.insert(self.column, at, places),
            value=np.insert(self.value, at, 1),
            factor=None if self.factor is None else np.insert(self.factor, at, 1),
            columns={},  # a new diagonal nonzero has no entry in the columns
        )

    def whole_degree(self, nonzeros: str) -> Int64Array:
        """Return, for every row, the number of its nonzeros on all ranks: int64[num_local_rows].

        `layouts.whole_counts` must have counted these nonzeros before.

        Parameters:
            nonzeros: Name in `NONZEROS`.
        """
        closed = nonzeros == "closed" or (nonzeros == "plan" and self.self_loops)
        counts = self.closed_edges if closed else self.edges
        assert counts is not None
        return counts

    def _diagonal(self) -> npt.NDArray[np.bool_]:
        """Return whether each nonzero is on the diagonal: bool[nonzeros]."""
        places = np.concatenate([self.output_places(), np.full(self.num_folded, -1)])
        return self.column == np.repeat(places, np.diff(self.row_ptr))

    def without_added_diagonal(self) -> Block:
        """Return the block without a diagonal that normalising added. Messages stay the same."""
        if not self.self_loops:
            return self
        row_ptr, edges = _edges(self.row_ptr, self.column, self.output_places())
        return replace(
            self,
            row_ptr=row_ptr,
            column=self.column[edges],
            value=self.value[edges] if any(self.value.strides) else self.value[: row_ptr[-1]],
            factor=taken(self.factor, edges),
            columns=self.columns_at(edges),
            self_loops=False,
        )


@njit(cache=True, nogil=True)
def _edges(row_ptr: Any, column: Any, diagonal: Any) -> Any:
    """Select the nonzeros that are not on the diagonal.

    Parameters:
        diagonal (int64[own rows]): For every own row, the column of its diagonal. Rows after the
            own rows have no diagonal.

    Returns:
        int64[rows + 1], bool[nonzeros]: New row pointers, and whether each nonzero is kept.
    """
    new_ptr = np.zeros(len(row_ptr), dtype=np.int64)
    kept = np.empty(len(column), dtype=np.bool_)
    size = 0
    for i in range(len(row_ptr) - 1):
        loop = diagonal[i] if i < len(diagonal) else -1
        for a in range(row_ptr[i], row_ptr[i + 1]):
            kept[a] = column[a] != loop
            size += kept[a]
        new_ptr[i + 1] = size
    return new_ptr, kept
