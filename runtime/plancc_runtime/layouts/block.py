"""A block is the matrix of one layer on one rank, with the exchanges that its product needs.

Outputs are fewer than inputs if only some rows of a layer's output are needed. A folded row, in
edge plans, is a partial sum for another rank's output.

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
    """For every row of some messages, serial numbers of the receiver's nonzeros that read the row.

    Attributes:
        ptr (int64[rows + 1]): Row r has the numbers ``number[ptr[r]:ptr[r + 1]]``, ascending.
        number (int32[nonzeros]): The numbers, as in `Numbering`.
    """

    ptr: Int64Array
    number: Int32Array


@dataclass(frozen=True, eq=False)
class Numbering:
    """Serial numbers of message rows and of nonzeros in halo columns, from which samples are drawn.

    Rows and nonzeros keep their numbers when other rows are dropped, so that draws do not change.

    Attributes:
        received, sent (int32[num_halo], int32[sent rows]): Position of every row in its message.
        uses: For every halo row, the nonzeros in its column, counted from 0 in the order of their
            rows; None without boundary edge sampling.
        uses_sent: For every sent row, the receiver's `uses`.
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
        outputs (int64[num_outputs] or None): Positions of own output rows among the inputs,
            ascending; None if outputs and inputs are the same rows. In a process grid, the column
            of every row's diagonal entry, or -1.
        row_ptr, column, value: CSR with rows [own outputs | folded rows] and columns [own inputs |
            halo rows]; columns are distinct in a row, and only own outputs have diagonal nonzeros.
        expand: Exchange that sends input rows to the peers and receives halo rows.
        self_loops: Whether normalising added the diagonal nonzeros, which then are no edges.
        halo (int32[num_halo] or None): Vertex of every halo row; None if no random draw needs it.
        numbering: Serial numbers of rows and nonzeros, which determine random draws; None if the
            boundary is not sampled.
        edges (int64[num_local_rows] or None): Number of edges of every row, including edges that
            `boundary.draw` left out or other ranks have; None if the block has all edges.
        closed_edges (int64[num_local_rows] or None): The same number, plus 1 if the row has no edge
            to itself.
        scale: Factors by which `boundary.draw` multiplied edges in own and in halo columns.
        factor (float64[nonzeros] or None): A mini-batch's factors of the values; None if all are 1.
        columns: Further data of the nonzeros, by name; with "relation", columns may repeat in a
            row.
        fold: Exchange that sends folded rows to their owners; None if no rank has folded rows.
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
        """Return the block with all rows and nonzeros of a plan's slice; it serves every layer."""
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

        "plan" keeps the values; all others drop a diagonal that normalising added. "sum": 1 per
        edge, times the nonzero's `factor` if the block has factors. "mean": 1 / (edges of the row).
        "closed-mean": as "mean", but the row's own vertex counts too, with a nonzero on the
        diagonal.

        In a block from `boundary.draw`, means divide by the edges before the draw, and edges are
        multiplied by the block's `scale`, which keeps the expected values.
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
        """Return the block with the nonzeros that `name` selects; messages do not change.

        "plan" keeps all nonzeros. "edges" drops a diagonal that normalising added. "closed" drops
        this diagonal too; every own row without a diagonal nonzero then gets one of value 1.
        """
        if name == "plan":
            return self
        edges = self.without_added_diagonal()
        return edges if name == "edges" else edges.closed()

    def closed(self) -> Block:
        """Return the block with a diagonal nonzero in every own row; new ones have value 1."""
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
        """Return how many nonzeros each local row has on all ranks together: int64[num_local_rows].

        `nonzeros`, a name in `NONZEROS`, says which nonzeros count. `layouts.whole_counts` must
        have counted them before.
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
    """Return the row pointers of a CSR matrix without its diagonal, and which nonzeros remain.

    `diagonal` has the column of every own row's diagonal; rows after the own rows have none.
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
