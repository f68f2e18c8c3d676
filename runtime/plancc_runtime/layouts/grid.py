"""Process grids: products of 1D, 1.5D, 2D and Split-3D (Tripathy et al. 2020, Algorithms 1 to 3).

A process row has some rows of A, cut into pieces by columns (`Grid.pieces`), each on one rank. A
rank has the rows of H that belong to its part, or only some of their columns. A 1D grid has one
process column, and sends no piece of A. A 2D grid is a Split-3D grid with one grid layer.

H -> A H has these steps at rank (i, j) of a grid layer; G -> A^T G has them in reverse order. A_iq
is piece q of process row i, H_qj the rows of H for this piece at process column j, T_ij the result:

    for every piece q:   A_iq is broadcast in the process row, if the row has several ranks
                         H_qj is broadcast in the process column
                         T_ij += A_iq H_qj
    between layers:      T_ij is reduce-scattered: every layer keeps the rows of its part

In 1.5D every rank of process row i has a copy of part i. The parts are divided into chunks, one per
process column. Rank (i, j) multiplies by the columns of A that belong to chunk j (Equation 3):

    for every part q of chunk j:   H_q is broadcast in the process column
                                   T_ij += A_iq H_q
    between copies:                T_i is the sum in the process row (all-reduce); backward, rank
                                   (i, chunk of i) broadcasts its sum in the process row

If only needed rows are sent, messages of the row plan replace broadcasts and reductions in the
process column. The c copies of a part compute the same loss divided by c, so each copy of a row has
1 / c of its gradient. The gradient of a weight is the sum over all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate, LayerStep, Linear, RowStep, WholeRows
from plancc.plan.parts import Part
from plancc.plan.products import AllGather, Broadcast, Program, adjoint, grid_program
from plancc.plan.values import Header
from plancc.plan.words import AllGatherWords, AllReduceWords, BroadcastWords, RowMessages, Transfer
from plancc_runtime.kernels.dense import laid_out_for, weight_gradient
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.executor import Executor, ProgramGraph, SharedRows
from plancc_runtime.layouts.grid_block import (
    block_of_chunk,
    block_of_share,
    held_pieces,
    rows_of_process_row,
)
from plancc_runtime.layouts.grid_pieces import OwnPieces, Rounds, RowPieces, buffered
from plancc_runtime.layouts.halo import Halo, RowMover
from plancc_runtime.layouts.matrices import Blocks, blocks_of, halo_part
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_counts
from plancc_runtime.transport.group import GroupTransport
from plancc_runtime.workspace import empty


class GridGraph(ProgramGraph):
    """The graph of a network's layer on a process grid. The constructor is collective.

    In "1.5d", `Grid.copies` ranks have the same rows, and each computes 1 / `copies` of their
    gradients.

    Attributes:
        row (Group): Ranks of this rank's process row.
        column (Group): Ranks of this rank's process column in its layer of the grid.
        fiber (Group): Ranks with this rank's process row and column, one in every grid layer.
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
        self._program = grid_program(grid)
        first, last = rows_of_process_row(share)
        place = slice(part.first_row - first, part.first_row - first + part.num_rows)
        self.place_in_row, self.num_row_rows = place, last - first
        parts = self.position.row * grid.layers + np.arange(grid.layers)
        rows_of_layers = np.diff(share.part_ptr)[parts].tolist()
        self._shared = {
            "layers": SharedRows(self.fiber, rows_of_layers, place, idle=self.fiber.size == 1),
            "copies": SharedRows(self.row, [part.num_rows]),
            "holder": SharedRows(self.row, [part.num_rows], root=grid.chunk(grid.part(rank))),
        }
        self.pieces = grid.pieces(share.part_ptr, self.position.layer)
        if grid.scheme == "1.5d":
            self.pieces = held_pieces(share)
        self._rounds = Rounds(self.pieces, part.first_row, self.column, resources)
        self._needed: Halo | None = None
        if share.block is None:
            self._block = block_of_share(share, header.self_loops)
        else:
            self._block = block_of_chunk(share, header.self_loops)
            among = replace(resources, transport=GroupTransport(self.column))
            self._needed = Halo(self._block.expand, self._block.num_inputs, among)
        self._executors: dict[str, Executor] = {}
        self._travelling: dict[str, RowPieces] = {}

    @property
    def vertices(self) -> Tensor:
        return self._vertices

    def degree(self, nonzeros: str) -> Tensor:
        counts = self._with_whole_counts().whole_degree(nonzeros)[self.place_in_row]
        return torch.from_numpy(counts).to(self.device)

    def block(self, coefficients: str = "plan") -> Block:
        """Return the block that has this rank's nonzeros (`layouts.grid_block`).

        Collective on the first call for "mean" or "closed-mean".
        """
        if coefficients in ("mean", "closed-mean"):
            self._with_whole_counts()
        return self._block.with_coefficients(coefficients)

    def _with_whole_counts(self) -> Block:
        if self._block.edges is None:
            self._block = with_whole_counts(self._block, [self.row, self.fiber])
        return self._block

    def spaces(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        sums = y if self.fiber.size == 1 else empty(self.num_row_rows, x.shape[1], x)
        held = x if self._needed is None else x[: self._block.num_inputs]
        return {"x": x, "held": held, "sums": sums, "y": y}

    def lay_out(self, coefficients: str) -> Executor:
        """Return the executor of products with A, as in `ProgramGraph`. Collective."""
        if coefficients not in self._executors:
            blocks = self._blocks(coefficients)
            movers: dict[str, RowMover[Any]] = {"pieces": self._rounds}
            if self._needed is not None:
                movers = {"expand": self._needed}
            self._executors[coefficients] = Executor(
                self._program, blocks, movers, self.resources, self._shared
            )
        return self._executors[coefficients]

    def _blocks(self, coefficients: str) -> Blocks:
        block, resources = self.block(coefficients), self.resources
        if self._needed is not None:
            return blocks_of(block, resources)
        travel, ptr = self.grid.splits_columns, block.expand.receive.row_ptr
        own = OwnPieces(halo_part(block), ptr, resources, travel)
        if not travel:
            return {("matrix", back): own.both[back] for back in (False, True)}
        pieces = RowPieces(own, self.pieces, self.num_row_rows, self.row, resources)
        self._travelling[coefficients] = pieces
        return pieces.blocks()

    def linear(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
    ) -> Tensor:
        """Return ``x @ weight + bias``, as in `LayerGraph`. Collective.

        A process row broadcasts the columns of x and, backward, of the result's gradient (Tripathy
        et al. 2020, Algorithm 3, second phase).
        """
        if not self.grid.splits_columns:
            return super().linear(x, weight, bias, rectified, onto)
        product = _SlicedLinear.apply(x, weight, self)
        return self.finished(product if onto is None else onto.add_(product), bias, rectified)

    def own_columns(self, vector: Tensor) -> Tensor:
        return vector[self.slice_of(len(vector))]

    def first_column(self, width: int) -> int:
        return self.slice_of(width).start

    def slice_of(self, width: int, column: int | None = None) -> slice:
        """Return the range of `width` columns that a process column (None: this rank's) holds."""
        if not self.grid.splits_columns:
            return slice(0, width)
        column = self.position.column if column is None else column
        return slice(*self.grid.slice_of_columns(width, column))

    def whole_rows(self, x: Tensor, width: int) -> Tensor:
        """Return all columns of x, as in `LayerGraph`. Collective.

        Several ranks (`copies` ranks) get the same rows, and each of them divides the loss of these
        rows by `copies`. So the backward pass multiplies gradients by `copies`.
        """
        if not self.grid.splits_columns:
            return x
        return _WholeRows.apply(x, self, width)

    def every_slice(self, x: Tensor, width: int) -> Iterator[tuple[slice, Tensor]]:
        """Yield, for each rank of the process row, the range and values of its columns. Collective.

        The values, Tensor[rows, columns], are valid until the next pair is yielded.
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

        return buffered(self.row.size, start, self.resources.overlap)

    def program(self, step: LayerStep) -> Program:
        if isinstance(step, Aggregate):
            return adjoint(self._program) if step.back else self._program
        if self.grid.splits_columns and isinstance(step, Linear):
            return (Broadcast("slices", "x", "slice"),)
        if self.grid.splits_columns and isinstance(step, WholeRows) and not step.back:
            return (AllGather("slices", "x", "whole"),)
        return ()

    def moved(self, step: LayerStep) -> Mapping[str, Sequence[Transfer]]:
        row = np.array([self.row.ranks])
        if isinstance(step, Linear):
            words = self._words_of_slices(step.columns if step.back else step.inner)
            rounds = np.arange(self.row.size)[:, None]
            return {"slices": [BroadcastWords(row, words[:, None], rounds)]}
        assert isinstance(step, RowStep)
        if isinstance(step, WholeRows):
            return {"slices": [AllGatherWords(row, self._words_of_slices(step.columns)[None])]}
        assert isinstance(step, Aggregate)
        self.lay_out(step.coefficients)
        own, pieces = self.slice_of(step.columns), self._travelling.get(step.coefficients)
        columns = own.stop - own.start
        layers, copies, holder = (self._shared[name] for name in ("layers", "copies", "holder"))
        words = np.array(copies.rows) * columns
        return {
            "pieces": [self._rounds.moved(columns)],
            "matrix": [] if pieces is None else [pieces.moved()],
            "expand": [] if self._needed is None else [RowMessages(self._needed.steps[0], columns)],
            "layers": [
                AllGatherWords(np.array([self.fiber.ranks]), np.array([layers.rows]) * columns)
            ],
            "copies": [AllReduceWords(row, words)],
            "holder": [BroadcastWords(row, words[None], np.array([[holder.root]]))],
        }

    def _words_of_slices(self, width: int) -> Int64Array:
        """Return how many words each rank of the process row has in its own rows: int64[ranks]."""
        slices = (self.slice_of(width, j) for j in range(self.row.size))
        return self.num_inputs * np.array([at.stop - at.start for at in slices], np.int64)

    def release_buffers(self) -> None:
        if self._needed is not None:
            self._needed.release_buffers()
        for pieces in self._travelling.values():
            pieces.release()


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
