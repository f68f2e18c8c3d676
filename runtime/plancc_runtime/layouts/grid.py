"""Process grids: products of 1D, 2D and Split-3D (Tripathy et al. 2020, Algorithms 1 and 3),
differentiable.

Knows a rank's share of a grid plan and groups of ranks; must not know losses or files. Replicated
grids (1.5D) are in `layouts.replicated`.

The rows of A in a process row are cut into pieces of columns (`Grid.pieces`), each of which one of
its ranks has. H is held by rows of a part and, where the grid splits columns, a slice of them. 1D
is a grid of one process column, where no piece of A moves; 2D is a Split-3D of one layer.

forward, H -> A H, at every rank (i, j) of a layer:

    for every piece q:   A_iq is broadcast in the process row, where it has several ranks
                         H_qj is broadcast in the process column
                         T_ij += A_iq H_qj
    between layers:      T_ij is reduce-scattered: every layer keeps the rows of its part

adjoint, G -> A^T G, the same read backward:

    between layers:      G is all-gathered to the rows of the process row
    for every piece q:   A_iq is broadcast in the process row
                         A_iq^T G_ij is reduced in the process column to the rank that has H_qj

`GridGraph.counts` says what all this moves; the closed forms are in `plancc.predict.cagnet`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc.plan.exchange import Int64Array
from plancc.plan.grid import Piece
from plancc.plan.layers import Aggregate, LayerStep, Linear, WholeRows
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.plan.words import AllGatherWords, BroadcastWords, Counts
from plancc_runtime.kernels.dense import laid_out_for, weight_gradient
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.grid_block import (
    block_of_share,
    rows_of_process_row,
    with_whole_counts,
)
from plancc_runtime.layouts.grid_pieces import (
    Multiplier,
    OwnPieces,
    RowPieces,
    counts_of,
    in_turn,
    members,
)
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import ProductFunction
from plancc_runtime.layouts.matrices import halo_part
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Pending
from plancc_runtime.workspace import empty


class Product(Protocol):
    """A product with one set of coefficients, outside of autograd. Collective."""

    def forward(self, x: Tensor) -> Tensor: ...
    def adjoint(self, g: Tensor) -> Tensor: ...
    def release(self) -> None: ...
    def counts(self, columns: int, back: bool) -> Counts:
        """What this rank hands to the network, for so many columns of its own: int64[1] each."""
        ...


class GridGraph(LayerGraph):
    """What a layer needs of the graph, on a grid "1d", "2d" or "3d". Making one is collective.

    Gradients are whole ones, of the rank's rows and columns.

    Parameters
    ----------
    part : Part
        With a `GridShare`.
    header : Header
    resources : Resources
        Its transport has as many ranks as the grid. With `overlap` the next piece travels while one
        is multiplied.

    Attributes
    ----------
    grid : Grid
    row, column, fiber : Group
        Ranks that share the part; the process column, in this layer; the same place in all layers.
    """

    def __init__(self, part: Part, header: Header, resources: Resources) -> None:
        share, transport = part.grid, resources.transport
        assert share is not None
        assert share.rank == transport.rank
        grid, rank = share.grid, share.rank
        self.grid, self.resources, self.transport = grid, resources, transport
        self.clock, self.device = resources.clock, resources.device
        self.copies = grid.copies
        self.position = grid.position(rank)
        self.row = transport.subgroup(grid.ranks_of_row(rank))
        self.column = transport.subgroup(grid.ranks_of_column(rank))
        self.fiber = transport.subgroup(grid.ranks_of_fiber(rank))
        self._vertices = torch.from_numpy(part.global_id).to(self.device)
        self._block = self._block_of(part, header.self_loops)
        self._products: dict[str, Product] = {}

    def _block_of(self, part: Part, self_loops: bool) -> Block:
        share = part.grid
        assert share is not None
        self.pieces = self.grid.pieces(share.part_ptr, self.position.layer)
        self.first_row = part.first_row
        first, last = rows_of_process_row(share)
        self.place_in_row = slice(part.first_row - first, part.first_row - first + part.num_rows)
        self.num_row_rows = last - first
        parts = self.position.row * self.grid.layers + np.arange(self.grid.layers)
        self._rows_of_layers = np.diff(share.part_ptr)[parts].tolist()
        return block_of_share(share, self_loops)

    @property
    def vertices(self) -> Tensor:
        return self._vertices

    def degree(self, nonzeros: str) -> Tensor:
        block = self._with_whole_counts()
        closed = nonzeros == "closed" or (nonzeros == "plan" and block.self_loops)
        counts = block.closed_edges if closed else block.edges
        assert counts is not None
        return torch.from_numpy(counts[self.place_in_row]).to(self.device)

    def block(self, coefficients: str = "plan") -> Block:
        """This rank's nonzeros, and its pieces as halo rows. Collective but for "plan"."""
        if coefficients in ("mean", "closed-mean"):
            self._with_whole_counts()
        return self._block.with_coefficients(coefficients)

    def _with_whole_counts(self) -> Block:
        if self._block.edges is None:
            self._block = with_whole_counts(self._block, [self.row, self.fiber])
        return self._block

    def product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        return ProductFunction.apply(x, self, coefficients)

    def forward_product(self, x: Tensor, coefficients: str) -> Tensor:
        """A x, outside of autograd. Collective."""
        total = self.lay_out(coefficients).forward(x.contiguous())
        if self.fiber.size == 1:
            return total
        with self.clock("wait"):
            self.fiber.reduce_scatter_sum(total.split(self._rows_of_layers))
        out = empty(self.num_outputs, x.shape[1], x)
        return out.copy_(total[self.place_in_row])

    def adjoint_product(self, g: Tensor, coefficients: str) -> Tensor:
        """A^T g, outside of autograd. Collective."""
        if self.fiber.size > 1:
            own, g = g, empty(self.num_row_rows, g.shape[1], g)
            g[self.place_in_row] = own
            with self.clock("wait"):
                self.fiber.allgather(g.split(self._rows_of_layers))
        return self.lay_out(coefficients).adjoint(g.contiguous())

    def use_kernel(self, name: str) -> None:
        """Make products by this kernel; before the first one."""
        self.resources = replace(self.resources, kernel=name)

    def lay_out(self, coefficients: str) -> Product:
        """What multiplies by A with these values; made once. Collective."""
        if coefficients not in self._products:
            self._products[coefficients] = self._new_product(coefficients)
        return self._products[coefficients]

    def _new_product(self, coefficients: str) -> Product:
        return Summa(self, self.block(coefficients))

    def linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        """x weight + bias, as in `LayerGraph` (Algorithm 3, second phase). Collective.

        Slices of x are broadcast in the process row, and those of the gradient back: with them a
        rank makes its slice of x's gradient, and the rows of the weight's that its columns meet.
        """
        if not self.grid.splits_columns:
            return super().linear(x, weight, bias, rectified)
        return self.finished(_SlicedLinear.apply(x, weight, self), bias, rectified)

    def own_columns(self, vector: Tensor) -> Tensor:
        return vector[self.slice_of(len(vector))]

    def first_column(self, width: int) -> int:
        return self.slice_of(width).start

    def slice_of(self, width: int, column: int | None = None) -> slice:
        """The columns that a process column, by default this rank's, has of a matrix so wide."""
        if not self.grid.splits_columns:
            return slice(0, width)
        column = self.position.column if column is None else column
        return slice(*self.grid.slice_of_columns(width, column))

    def whole_rows(self, x: Tensor, width: int) -> Tensor:
        """All columns of x, as in `LayerGraph`. Collective.

        The loss of a row is computed by `copies` ranks, each of which counts it once among so many;
        the gradient of a rank's slice is `copies` times what it finds.
        """
        if not self.grid.splits_columns:
            return x
        return _WholeRows.apply(x, self, width)

    def every_slice(self, x: Tensor, width: int) -> Iterator[tuple[slice, Tensor]]:
        """The slices of x of the process row in turn, each with its columns of `width`. Collective.

        A slice is valid until the next one is asked for.
        """
        columns = [self.slice_of(width, j) for j in range(self.row.size)]
        widths = [at.stop - at.start for at in columns]
        buffers = [empty(len(x), max(widths), x).view(-1) for _ in range(2)]

        def start(k: int) -> Callable[[], tuple[slice, Tensor]]:
            own = k == self.row.rank
            rows = x if own else buffers[k % 2][: len(x) * widths[k]].view(len(x), widths[k])
            with self.clock("wait"):
                pending = self.row.start_broadcast(rows, k)

            def finish() -> tuple[slice, Tensor]:
                with self.clock("wait"):
                    pending.wait()
                return columns[k], rows

            return finish

        return in_turn(self.row.size, start, self.resources.overlap)

    def counts(self, step: LayerStep) -> Counts:
        if isinstance(step, Aggregate):
            own = self.slice_of(step.columns)
            columns = own.stop - own.start
            found = self.lay_out(step.coefficients).counts(columns, step.back)
            found.add(self._counts_of_sums(columns, step.back))
            return found
        if self.grid.splits_columns and isinstance(step, WholeRows) and not step.back:
            words = self._words_of_slices(step.columns)
            return counts_of(self.row, AllGatherWords(members(self.row), words[None]))
        if self.grid.splits_columns and isinstance(step, Linear):
            words = self._words_of_slices(step.columns if step.back else step.inner)
            rounds = np.arange(self.row.size)[:, None]
            return counts_of(self.row, BroadcastWords(members(self.row), words[:, None], rounds))
        return Counts.zero(1)

    def _words_of_slices(self, width: int) -> Int64Array:
        """Words of every rank's slice of own rows: int64[columns]."""
        slices = (self.slice_of(width, j) for j in range(self.row.size))
        return self.num_inputs * np.array([at.stop - at.start for at in slices], np.int64)

    def _counts_of_sums(self, columns: int, back: bool) -> Counts:
        """Between layers, of a product with so many columns at this rank."""
        words = np.array([self._rows_of_layers]) * columns
        return counts_of(self.fiber, AllGatherWords(members(self.fiber), words, reverse=not back))

    def release_buffers(self) -> None:
        for product in self._products.values():
            product.release()


class Summa:
    """The product with one set of coefficients, one rank's share: between layers nothing moves yet.

    Sums are made in the order of the pieces, so that the same inputs give the same bits.

    Parameters
    ----------
    graph : GridGraph
    block : Block
        What `GridGraph.block` returned.
    """

    def __init__(self, graph: GridGraph, block: Block) -> None:
        self._graph, self.pieces = graph, graph.pieces
        others = [size(piece) for piece in self.pieces if piece.row != graph.position.row]
        self._largest = max(others, default=0)
        travel = graph.grid.splits_columns
        resources = graph.resources
        self._own = OwnPieces(halo_part(block), block.expand.receive.row_ptr, resources, travel)
        self._of_row: RowPieces | None = None
        if travel:
            self._of_row = RowPieces(
                self._own, self.pieces, graph.num_row_rows, graph.row, resources
            )

    def forward(self, h: Tensor) -> Tensor:
        """The sum over this rank's pieces: Tensor[rows of the process row, width]. Collective.

        Parameters
        ----------
        h : Tensor[rows of the part, width]
            Contiguous.
        """
        graph, width = self._graph, h.shape[1]
        out = empty(graph.num_row_rows, width, h)
        if not self.pieces:  # of a copy that has no chunk
            out.zero_()
        buffers = [empty(self._largest, width, h) for _ in range(2)]

        def start(k: int) -> Callable[[], tuple[Multiplier, Tensor]]:
            piece = self.pieces[k]
            rows = self._own_rows(piece, h)
            if rows is None:
                rows = buffers[k % 2][: size(piece)]
            with graph.clock("wait"):
                matrix = self._start_matrix(k, transposed=False)
                pending = graph.column.start_broadcast(rows, piece.row)

            def finish() -> tuple[Multiplier, Tensor]:
                with graph.clock("wait"):
                    found = matrix()
                    pending.wait()
                return found, rows

            return finish

        arriving = in_turn(len(self.pieces), start, graph.resources.overlap)
        for k, (matrix, rows) in enumerate(arriving):
            with graph.clock("spmm"):
                (matrix.add_product if k else matrix.put_product)(rows, out)
        return out

    def adjoint(self, g: Tensor) -> Tensor:
        """The rows of the part in A^T g, summed over the process column. Collective.

        Parameters
        ----------
        g : Tensor[rows of the process row, width]
            Contiguous.

        Returns
        -------
        Tensor[rows of the part, width]
            Undefined where the rank's process column does not multiply with its rows.
        """
        graph, width = self._graph, g.shape[1]
        out = empty(graph.num_inputs, width, g)
        buffers = deque(empty(self._largest, width, g) for _ in range(2))
        under_way: deque[Pending] = deque()

        def wait(at_most: int) -> None:
            with graph.clock("wait"):
                while len(under_way) > at_most:
                    under_way.popleft().wait()

        def start(k: int) -> Callable[[], tuple[Piece, Multiplier]]:
            with graph.clock("wait"):
                matrix = self._start_matrix(k, transposed=True)

            def finish() -> tuple[Piece, Multiplier]:
                with graph.clock("wait"):
                    return self.pieces[k], matrix()

            return finish

        for piece, matrix in in_turn(len(self.pieces), start, graph.resources.overlap):
            wait(1)
            rows = self._own_rows(piece, out)
            if rows is None:
                rows = buffers[0][: size(piece)]
                buffers.rotate()
            with graph.clock("spmm"):
                matrix.matrix.multiply(g, rows)
            with graph.clock("wait"):
                under_way.append(graph.column.start_reduce_sum(rows, piece.row))
            if not graph.resources.overlap:
                wait(0)
        wait(0)
        return out

    def release(self) -> None:
        """Free the buffers of pieces that arrive; made again when they are needed."""
        if self._of_row is not None:
            self._of_row.release()

    def counts(self, columns: int, back: bool) -> Counts:
        group = self._graph.column
        words = np.array([size(piece) * columns for piece in self.pieces], np.int64)[:, None]
        root = np.array([piece.row for piece in self.pieces], np.int64)[:, None]
        found = counts_of(group, BroadcastWords(members(group), words, root, reverse=back))
        if self._of_row is not None:
            found.add(self._of_row.counts())
        return found

    def _own_rows(self, piece: Piece, rows: Tensor) -> Tensor | None:
        """The rows of a piece among this rank's, if it has them."""
        if piece.row != self._graph.position.row:
            return None
        first = piece.first - self._graph.first_row
        return rows[first : first + size(piece)]

    def _start_matrix(self, k: int, transposed: bool) -> Callable[[], Multiplier]:
        if self._of_row is not None:
            return self._of_row.start(k, transposed)
        own = self._own.piece(k, transposed)
        return lambda: own


def size(piece: Piece) -> int:
    """Rows of a piece."""
    return piece.last - piece.first


class _SlicedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, graph: GridGraph) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.graph = graph
        own = graph.slice_of(weight.shape[1])
        out = empty(len(x), own.stop - own.start, x).zero_()
        for columns, rows in graph.every_slice(x.contiguous(), weight.shape[0]):
            out.addmm_(rows, laid_out_for(weight[columns, own]))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        graph: GridGraph = ctx.graph
        own = graph.slice_of(weight.shape[0])
        back = empty(len(x), x.shape[1], g).zero_() if ctx.needs_input_grad[0] else None
        gradient = torch.zeros_like(weight)
        for columns, rows in graph.every_slice(g.contiguous(), weight.shape[1]):
            if back is not None:
                back.addmm_(rows, weight[own, columns].T)
            gradient[own, columns] = weight_gradient(x, rows)
        return back, gradient, None


class _WholeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: GridGraph, width: int) -> Tensor:
        ctx.own, ctx.copies = graph.slice_of(width), graph.copies
        columns = [graph.slice_of(width, j) for j in range(graph.row.size)]
        pieces = [x.new_empty(len(x), at.stop - at.start) for at in columns]
        pieces[graph.row.rank] = x.contiguous()
        with graph.clock("wait"):
            graph.row.allgather(pieces)
        return torch.cat(pieces, dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        return g[:, ctx.own] * ctx.copies, None, None
