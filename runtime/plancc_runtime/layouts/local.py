"""One rank's share of the graph of a row or edge plan: differentiable products and halo exchanges.

All ranks must call methods that move rows, and their backward passes, in the same order.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from plancc.errors import InputError
from plancc.graph.columns import EDGE_FEATURES
from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate, GatherNeighbours, LayerStep, Maximum, RowStep
from plancc.plan.products import ROW, Program, adjoint, edge_program
from plancc.plan.words import RowMessages
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.executor import Executor, ProgramGraph
from plancc_runtime.layouts.halo import Halo, HaloExchange, halo_vertices
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.matrices import blocks_of, halo_blocks, halo_part
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.routed import halo_exchange

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from plancc_runtime.kernels.edges import Pattern
    from plancc_runtime.layouts.boundary import Sample


MOVING: dict[type[LayerStep], tuple[str, ...]] = {
    Aggregate: ("expand", "fold"),
    GatherNeighbours: ("expand",),
    Maximum: ("fold",),
}
"""Names of the exchanges, in the product's program, that each kind of a layer's steps uses."""


class LocalGraph(ProgramGraph):
    """The graph of a layer in a row plan or an edge plan.

    The block of an edge plan must come from `whole_counts.with_whole_rows`.
    """

    def __init__(self, block: Block, resources: Resources) -> None:
        self.resources, self.transport = resources, resources.transport
        self._block = block
        self._whole: LocalGraph | None = None
        self._sample: Sample | None = None
        n, fold = block.num_inputs, block.fold
        self._halo = halo_exchange(block.expand, n, resources)
        self._program = ROW
        self._copies: HaloExchange[Any] | None = None
        self._partials: Halo | None = None
        self._returning: tuple[Halo, Tensor] | None = None  # made by `largest_returned`
        if fold is not None:
            self._program = edge_program(block.num_halo >= block.num_folded)
            # `_copies` sends own outputs to the ranks that have them as folded rows; `_partials`
            # sends folded rows to the owners.
            self._copies = halo_exchange(fold.reversed(), block.num_outputs, resources)
            self._partials = Halo(fold, block.num_folded, resources)
        self._halo_parts: dict[str, csr_matrix] = {}
        self._layouts: dict[str, Executor] = {}
        self._patterns: dict[str, Pattern] = {}
        self._fold_patterns: dict[str, Pattern] = {}
        self._column_vertices: Tensor | None = None

    def sampled(self, sample: Sample) -> LocalGraph:
        """Return a copy of this graph that has only what a sample keeps. Not collective."""
        graph = copy(self)
        graph._whole, graph._sample = self, sample
        graph._halo = Halo(sample.expand, sample.whole.num_inputs, self.resources)
        graph._layouts, graph._patterns = {}, {}
        graph._returning = None
        graph._column_vertices = None
        return graph

    def with_halo(self, halo: Tensor | None = None) -> GraphWithHalo:
        """Return a copy of this graph whose products need not receive halo rows.

        If `halo` has the halo rows, inputs of the products have own rows only. If it is None,
        inputs have own rows, then halo rows.
        """
        return GraphWithHalo(self, halo)

    @property
    def block(self) -> Block:
        """The block of the graph. In a sampled graph, the first use draws nonzeros and is slow."""
        return self._block if self._sample is None else self._sample.block

    @property
    def num_inputs(self) -> int:
        return self._block.num_inputs

    @property
    def num_outputs(self) -> int:
        return self._block.num_outputs

    @cached_property
    def vertices(self) -> Tensor:
        return torch.from_numpy(self._block.inputs).to(self.resources.device)

    def column_vertices(self) -> Tensor:
        """Return the vertex of every column, own inputs before halo rows: int32[num_columns].

        The first call is collective, unless the block knows the halo rows' vertices (`Block.halo`).
        """
        if self._column_vertices is None:
            block, sample = self._block, self._sample
            halo = halo_vertices(block, self.transport) if block.halo is None else block.halo
            kept = halo if sample is None else halo[sample.received]
            vertices = torch.from_numpy(np.concatenate([block.inputs, kept]))
            self._column_vertices = vertices.to(self.resources.device)
        return self._column_vertices

    @cached_property
    def _places(self) -> Tensor:
        return torch.from_numpy(self._block.output_places()).to(self.resources.device)

    @property
    def places(self) -> Tensor | None:
        return None if self._block.outputs is None else self._places

    def rows_of_product(self, outputs: Int64Array) -> Int64Array:
        """Return which rows of A x a layer needs to compute the rows `outputs`: int64[m]."""
        return outputs

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.block.value).all())

    def halo(self, x: Tensor) -> Tensor:
        """Return the halo rows of x, Tensor[num_halo, ...]. Collective.

        In the backward pass, the owners add the gradients of halo rows.
        """
        return self._copied(x, self._halo)

    def columns(self, x: Tensor) -> Tensor:
        """Return own and halo rows of x, Tensor[num_columns, ...]. Collective."""
        return x if self.transport.size == 1 else torch.cat([x, self.halo(x)])

    def returned(self, y: Tensor) -> Tensor:
        """Add to the own rows of y the copies of these rows on other ranks; return the sums.

        y has own rows, then halo rows, Tensor[num_columns, width]. The method is the adjoint of
        `columns`. Collective.
        """
        own, copies = y.split([self._halo.num_inputs, self._halo.num_halo])
        found: Tensor = _Returned.apply(own, copies, self._halo)
        return found

    def largest_returned(self, y: Tensor) -> Tensor:
        """Return elementwise maxima of own rows of y and their copies on other ranks. Collective.

        Like `returned`, but without gradient, and never node-aware.
        """
        if self._returning is None:
            exchange = self.block.expand
            back = Halo(exchange.reversed(), exchange.receive.volume, self.resources)
            at = torch.from_numpy(exchange.send.row.astype(np.int64)).to(y.device)
            self._returning = back, at
        back, at = self._returning
        own, rows = y.detach().split([self.num_inputs, back.num_inputs])
        at = at[:, None].expand(-1, y.shape[1])
        return own.scatter_reduce(0, at, halo_rows(rows, back), "amax")

    @property
    def folds(self) -> bool:
        """Whether several ranks may have nonzeros of one row, as in an edge plan."""
        return self._copies is not None

    def local_rows(self, x: Tensor) -> Tensor:
        """Return own rows of x, then folded rows: Tensor[num_local_rows, ...]. Collective.

        Folded rows are received from their owners, which add the gradients in the backward pass.
        """
        if self._copies is None:
            return x
        return torch.cat([x, self._copied(x, self._copies)])

    def partial_rows(self, x: Tensor) -> Tensor:
        """Send the partial sums in x, of rows that other ranks own, to the owners. Collective.

        Return own rows, then the received partial sums. `fold_pattern` says to which own row each
        of these belongs.
        """
        if self._partials is None:
            return x
        own = self.num_outputs
        return torch.cat([x[:own], self._copied(x[own:], self._partials)])

    def fold_pattern(self, nonzeros: str) -> Pattern:
        """Return the pattern of the matrix that sums own and received rows into own rows.

        The columns are the rows that `partial_rows` returns: own rows, then received rows.
        An own row has a nonzero in its own column if this rank has nonzeros in the row, and a
        nonzero for every rank that sends a folded row for it.
        """
        from plancc_runtime.kernels.edges import Pattern

        if nonzeros not in self._fold_patterns:
            fold, own = self.block.fold, self.num_outputs
            assert fold is not None
            row_ptr = self.block.with_nonzeros(nonzeros).row_ptr
            filled = np.flatnonzero(np.diff(row_ptr[: own + 1]))
            rows = np.concatenate([filled, fold.receive.row])
            column = np.concatenate([filled, own + np.arange(fold.receive.volume)])
            degree = np.bincount(rows, minlength=own)
            self._fold_patterns[nonzeros] = Pattern.from_csr(
                np.concatenate([[0], np.cumsum(degree)]),
                column[np.argsort(rows, kind="stable")],
                own + fold.receive.volume,
                self.resources.device,
            )
        return self._fold_patterns[nonzeros]

    def degree(self, nonzeros: str) -> Tensor:
        """Return the number of nonzeros of every own row, on all ranks: int64[num_outputs]."""
        if not self.folds:
            return self.local_pattern(nonzeros).degree
        counts = self.block.whole_degree(nonzeros)[: self.num_outputs]
        return torch.from_numpy(counts).to(self.resources.device)

    def pattern(self, nonzeros: str) -> Pattern:
        """Return the pattern of the nonzeros that a name in `layouts.block.NONZEROS` selects.

        Raise InputError in an edge plan, in which a rank may have only some nonzeros of a row.
        """
        if self.folds:
            raise InputError(
                "the plan is an edge plan, in which several ranks share a row; layers that need "
                "whole rows, such as attention, need a row plan"
            )
        return self.local_pattern(nonzeros)

    def local_pattern(self, nonzeros: str) -> Pattern:
        """Return the pattern of own rows and, in an edge plan, of rows with partial sums to send.

        `nonzeros` is a name in `layouts.block.NONZEROS`.
        """
        from plancc_runtime.kernels.edges import Pattern

        if nonzeros not in self._patterns:
            block = self.block.with_nonzeros(nonzeros)
            self._patterns[nonzeros] = Pattern.from_csr(
                block.row_ptr, block.column, block.num_columns, self.resources.device
            )
        return self._patterns[nonzeros]

    @cached_property
    def edge_features(self) -> Tensor | None:
        """Features of this rank's edges, Tensor[edges, width] in `resources.dtype`.

        None if the plan has no features of edges.
        """
        return self.edge_column(EDGE_FEATURES, self.resources.dtype)

    def edge_column(self, name: str, dtype: torch.dtype | None = None) -> Tensor | None:
        """Return edge data in the order of ``local_pattern("edges")``: Tensor[edges, ...].

        None if the plan has no column `name` (`plancc.graph.columns`).
        """
        return self._edge_tensor(self.block.with_nonzeros("edges").columns.get(name), dtype)

    @cached_property
    def edge_factors(self) -> Tensor | None:
        """Factors by which the sampler scales the edges' values in sums: Tensor[edges].

        Edges are in the order of ``local_pattern("edges")``. None if all factors are 1.
        """
        return self._edge_tensor(self.block.with_nonzeros("edges").factor, self.resources.dtype)

    def _edge_tensor(self, numbers: Any, dtype: torch.dtype | None) -> Tensor | None:
        if numbers is None:
            return None
        writable = np.require(numbers, requirements=["C", "W"])  # torch warns of read-only arrays
        return torch.from_numpy(writable).to(self.resources.device, dtype)

    def program(self, step: LayerStep) -> Program:
        moving = MOVING.get(type(step), ())
        steps = tuple(each for each in self._program if each.name in moving)
        return adjoint(steps) if step.back else steps

    def moved(self, step: LayerStep) -> dict[str, list[RowMessages]]:
        assert isinstance(step, RowStep)
        if isinstance(step, Maximum) and self._partials is not None:  # the exchange is direct
            return {"fold": [RowMessages(self._partials.steps[0], step.columns, reverse=True)]}
        return {
            name: [RowMessages(moved, step.columns) for moved in each.steps]
            for name, each in self._exchanges().items()
        }

    def release_buffers(self) -> None:
        """Free the buffers of messages; the next product makes new ones. Not collective."""
        for each in (self._halo, self._copies, self._partials):
            if each is not None:
                each.release_buffers()

    def lay_out(self, coefficients: str) -> Executor:
        """Return the executor of products with A, as in `ProgramGraph`. Not collective."""
        if coefficients not in self._layouts:
            with self.resources.clock("mask"):
                self._layouts[coefficients] = self._new_layout(coefficients)
        return self._layouts[coefficients]

    def _new_layout(self, coefficients: str) -> Executor:
        whole, sample = self._whole, self._sample
        if whole is not None and sample is not None and sample.keeps_own:
            part = sample.kept_halo_part(whole._halo_part(coefficients))
            received = sample.expand.receive
            blocks = halo_blocks("halo", part, received.row_ptr, self.resources)
            return whole.lay_out(coefficients).with_blocks(blocks, self._exchanges())
        dtype = np.float32 if self.resources.dtype == torch.float32 else np.float64
        block = self.block.with_coefficients(coefficients, dtype)
        blocks = blocks_of(block, self.resources)
        return Executor(self._program, blocks, self._exchanges(), self.resources)

    def _halo_part(self, coefficients: str) -> csr_matrix:
        if coefficients not in self._halo_parts:
            block = self._block.with_coefficients(coefficients)
            self._halo_parts[coefficients] = halo_part(block)
        return self._halo_parts[coefficients]

    def _exchanges(self) -> dict[str, HaloExchange[Any]]:
        """Return the exchanges of a product, by the names of its steps."""
        expand = {"expand": self._halo}
        return expand if self._copies is None else expand | {"fold": self._copies}

    def _copied(self, x: Tensor, halo: HaloExchange[Any]) -> Tensor:
        """Send rows of x with the exchange `halo`, and return the received rows. Collective."""
        width = prod(x.shape[1:])
        rows = halo_rows(x.reshape(len(x), width), halo)
        return rows.reshape(len(rows), *x.shape[1:])


class GraphWithHalo(LocalGraph):
    """A graph for layers whose halo rows are already on the rank, so that no rows are sent.

    Parameters:
        graph: Graph of a row plan; a sampled block must come from `boundary.ready_to_draw`.
        halo (Tensor[num_halo, ...], optional): Halo rows of every input, which then has own rows
            only. None: every input has own rows, then halo rows.
    """

    def __init__(self, graph: LocalGraph, halo: Tensor | None = None) -> None:
        vars(self).update(vars(graph))
        vars(self).pop("vertices", None)
        self._own, self._constant = self._block.num_inputs, halo

    @property
    def num_inputs(self) -> int:
        return self._own + (self._halo.num_halo if self._constant is None else 0)

    @cached_property
    def vertices(self) -> Tensor:
        return self.column_vertices()[: self.num_inputs]

    def targets(self, x: Tensor) -> Tensor:
        return super().targets(x[: self._own])

    def halo(self, x: Tensor) -> Tensor:
        return x[self._own :] if self._constant is None else self._constant

    def columns(self, x: Tensor) -> Tensor:
        return x if self._constant is None else torch.cat([x, self._constant])

    def spaces(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"x": x[: self._own], "halo": self.halo(x), "y": y}

    def program(self, step: LayerStep) -> Program:
        return ()


def local_graph(graph: LayerGraph, what: str) -> LocalGraph:
    """Return the graph if its plan is a row plan or an edge plan; else raise InputError.

    The error message begins with `what`, the option that needs such a plan.
    """
    if isinstance(graph, LocalGraph):
        return graph
    raise InputError(f"{what} needs a row plan or an edge plan, not a plan of a process grid")


def halo_rows(x: Tensor, halo: HaloExchange[Any]) -> Tensor:
    """Send rows of x to the ranks that read them; return the halo rows: Tensor[num_halo, width].

    x has own rows. In the backward pass, the owners add up the gradients of the rows. Collective.
    """
    found: Tensor = _HaloRows.apply(x, halo)
    return found


class _HaloRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, halo: HaloExchange[Any]) -> Tensor:
        ctx.halo = halo
        return halo.expand(x.contiguous(), halo.buffers_for(x.shape[1])).clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Returned.apply(None, g, ctx.halo), None


class _Returned(torch.autograd.Function):
    """Sends the halo rows `copies` to their owners, which add them to `own` (None means zeros).

    If g is the gradient of the result, the gradient of `own` is g, and that of `copies` is
    ``halo_rows(g)``.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor | None, copies: Tensor, halo: HaloExchange[Any]) -> Tensor:
        ctx.halo, buffers = halo, halo.buffers_for(copies.shape[1])
        buffers.halo.copy_(copies)
        if own is None:
            out = copies.new_zeros(halo.num_inputs, copies.shape[1])
        else:
            out = own.clone(memory_format=torch.contiguous_format)
        halo.reduce(out, buffers)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g if ctx.needs_input_grad[0] else None, halo_rows(g, ctx.halo), None
