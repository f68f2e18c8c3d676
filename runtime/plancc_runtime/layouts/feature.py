"""Feature-parallel products: mixture of parallelism (Wan et al. 2025, Section 3.1.2, Algorithm 2).

The ranks of a group share one part. Between products, a rank has some of the part's rows; during a
product, it has a *slice*: some columns of all rows of the part.

      own rows              slice of all rows         slice of A H            own rows
    +-----------+            +----+                    +----+                +-----------+
    | 0 |   |   | --0--> 0   |    |                    |    | --0--> 0       |   | 1 | 2 |
    |   |   |   |            +----+      A H           +----+                |   |   |   |
    +-----------+ --1--> 1   |    |  ------------->    |    | --1--> 1       +-----------+
      row share   --2--> 2   +----+                    +----+ --2--> 2         row share
                             |    |                    |    |
                             +----+                    +----+
              all-to-all                                        all-to-all

The adjoint is the same with A^T. Every number travels at most twice, on any number of ranks.
Several groups (Section 5.2.1) have one part each; ranks with the same number in their groups
exchange halo rows of their slices.

With a pipeline (`layouts.pipeline`), a batch of rows is multiplied when the input batches that it
reads have arrived, while the previous batch's product goes to its owners, which update their rows
(the dense layer):

    batch       0         1         2
    in        #####     #####     #####
    A H            ####      ####      ####
    out                #####     #####     #####
    update                   ###       ###       ###
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc.plan.layers import Aggregate, LayerStep
from plancc.plan.parts import Part
from plancc.plan.products import FEATURE, Program, adjoint
from plancc.plan.stages import Batches
from plancc.plan.values import Header
from plancc.plan.words import AllToAllWords, Transfer
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.dense import laid_out_for, weight_gradient
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.feature_flow import BatchCallback, Flow, Slicing
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.matrices import is_symmetric, matrix_of
from plancc_runtime.layouts.pipeline import pipelining
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.group import GroupTransport
from plancc_runtime.workspace import empty

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class FeatureGraph(LayerGraph):
    """The graph of a layer on a rank of a feature plan. The constructor is collective.

    Parameters:
        part: Part of a feature plan, made by `layouts.order.order_rows` with the same pipeline.
        resources: `wire` is the dtype of halo rows, which groups of ranks send to each other. The
            ranks of a group share a part.
        pipeline: Value of the option `pipeline`, as in `layouts.pipeline.pipelining`.
        aggregate_on: "device", or "cpu": the CPU multiplies while the device updates rows
            (MixGCN-CPU; Wan et al. 2025, Section 4.1).
    """

    def __init__(
        self,
        part: Part,
        header: Header,
        resources: Resources,
        pipeline: str = "off",
        aggregate_on: str = "device",
    ) -> None:
        share, transport = part.grid, resources.transport
        assert share is not None
        assert share.block is not None
        grid, rank = share.grid, share.rank
        self.transport = transport
        self.pipelining = pipelining(share, pipeline)
        self._grid, self._column = grid, grid.position(rank).column
        self._device = resources.device
        self._block = Block.of_part(share.block, header.self_loops)
        stages = 1 if self.pipelining is None else self.pipelining.stages
        self._batches = Batches(self._block.num_inputs, grid.columns, stages)
        self._rows = self._batches.rows_of(self._column)
        if not np.array_equal(self._block.inputs[self._rows], part.global_id):
            raise ValueError("the rows of the part are not in the order of the pipeline")
        self._vertices = torch.from_numpy(part.global_id).to(self._device)
        self._slicing = Slicing(
            grid=grid,
            batches=self._batches,
            members=transport.subgroup(grid.ranks_of_row(rank)),
            resources=resources,
            crosses=aggregate_on == "cpu",
        )
        between = GroupTransport(transport.subgroup(grid.ranks_of_column(rank)))
        self._resources = replace(resources, transport=between, device=self._slicing.place)
        self._slices = LocalGraph(self._block, self._resources)
        self._staged: dict[str, tuple[_Stages, _Stages]] = {}

    @property
    def vertices(self) -> Tensor:
        return self._vertices

    def degree(self, nonzeros: str) -> Tensor:
        degree = np.diff(self._block.with_nonzeros(nonzeros).row_ptr)[self._rows]
        return torch.from_numpy(degree.astype(np.int64)).to(self._device)

    def multiplied(self, x: Tensor, coefficients: str, back: bool = False) -> Tensor:
        """Return A x or, if `back`, A^T x, without autograd. Collective.

        If x has fewer columns than the part has ranks, some ranks get no columns.
        """
        if self.alone:
            return self.multiply(0, x.contiguous(), coefficients, back)
        out = empty_like(x)
        self.run(x.contiguous(), out, coefficients, back)
        return out

    def product_linear(
        self,
        x: Tensor,
        weight: Tensor,
        coefficients: str = "plan",
        bias: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """Return (A x) weight + bias, as in `LayerGraph`. Collective.

        With a pipeline, each batch of rows of A x is multiplied by the weight as soon as it
        arrives.
        """
        if self._batches.stages == 1:
            return super().product_linear(x, weight, coefficients, bias, rectified)
        z = _ProductLinear.apply(x, weight, self, coefficients)
        return self.finished(z, bias, rectified)

    def linear_product(
        self,
        x: Tensor,
        weight: Tensor,
        coefficients: str = "plan",
        bias: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """Return A (x @ weight) + bias, as in `LayerGraph`. Collective.

        With a pipeline, each batch of rows of x weight is sent as soon as it is computed.
        """
        if self._batches.stages == 1:
            return super().linear_product(x, weight, coefficients, bias, rectified)
        z = _LinearProduct.apply(x, weight, self, coefficients)
        return self.finished(z, bias, rectified)

    def program(self, step: LayerStep) -> Program:
        if not isinstance(step, Aggregate):
            return ()
        return adjoint(FEATURE) if step.back else FEATURE

    def moved(self, step: LayerStep) -> Mapping[str, Sequence[Transfer]]:
        """Return the transfers of a step, as in `LayerGraph`.

        A group of c ranks that share n rows equally sends 2 n width (c - 1) / c words (Wan et al.
        2025, Proposition 3.4), besides halo rows to other groups.
        """
        assert isinstance(step, Aggregate)
        batches, ranks = self._batches, np.array([self._slicing.members.ranks])
        slices = (self._grid.slice_of_columns(step.columns, k) for k in range(ranks.size))
        columns = np.array([[last - first for first, last in slices]])
        rows = (
            np.array([[b - a for a, b in (batches.share(k, n) for n in range(ranks.size))]])
            for k in range(batches.stages)
        )
        own = int(columns[0, self._column])
        return {
            "slices": [AllToAllWords(ranks, each, columns) for each in rows],
            **self._slices.moved(replace(step, columns=own)),
        }

    def release_buffers(self) -> None:
        self._slices.release_buffers()

    def run(
        self,
        source: Tensor,
        out: Tensor,
        coefficients: str,
        back: bool = False,
        before: BatchCallback | None = None,
        after: BatchCallback | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Compute out = A source or, if `back`, A^T source, batch by batch, without autograd.

        Collective. Input and output are contiguous: Tensor[num_inputs, width].

        Parameters:
            before: Called with the range of a batch's rows, to fill these rows of `source` before
                they are sent.
            after: Called with the range of a batch's rows when they are in `out`.
            meanwhile: Called once, while the first messages are in flight.
        """
        needs = self._needs(coefficients, back)
        last = len(needs) - 1
        flow = Flow(self._slicing, source, out, before)
        for stage in range(last + 1):
            # A rank finishes messages in the order in which it started them: the input of this
            # batch, the output of the last batch, the input of the next batch, this batch's output.
            flow.send_input(needs[min(stage + 1, last)])
            if stage == 0 and meanwhile is not None:
                meanwhile()
            flow.receive_input(needs[stage])
            flow.send_output(stage, self.multiply(stage, flow.held, coefficients, back))
            for arrived in range(max(stage - 1, 0), stage + (stage == last)):
                at = flow.receive_output(arrived)
                if after is not None:
                    after(at)

    def _needs(self, coefficients: str, back: bool) -> list[int]:
        """Return, for each batch of output rows, the last batch of input rows that it needs."""
        return [0] if self._batches.stages == 1 else self._stages_of(coefficients, back).needs

    @property
    def alone(self) -> bool:
        """Whether products send nothing: no other rank shares the part, and nothing is pipelined.

        Also False if this rank's columns are in host memory, but its own rows are on a device.
        """
        return self._grid.columns == self._batches.stages == 1 and not self._slicing.crosses

    def multiply(self, stage: int, x: Tensor, coefficients: str, back: bool) -> Tensor:
        """Return batch `stage` of the rows of A x or, if `back`, A^T x: Tensor[batch, columns].

        x has this rank's columns of all rows of the part. Ranks that share a part form a group;
        the method is collective among the ranks with the same position in their groups.
        """
        if self._batches.stages == 1:
            return self._slices.multiplied(x, coefficients, back)
        matrix = self._stages_of(coefficients, back).matrices[stage]
        out = empty(matrix.shape[0], x.shape[1], x)
        with self._resources.clock("spmm"):
            matrix.multiply(x, out)
        return out

    def _stages_of(self, coefficients: str, back: bool) -> _Stages:
        if coefficients not in self._staged:
            matrix = matrix_of(self._block.with_coefficients(coefficients))
            forward = backward = self._laid_out(matrix)
            if not is_symmetric(matrix):
                backward = self._laid_out(matrix.T.tocsr())
            self._staged[coefficients] = forward, backward
        return self._staged[coefficients][back]

    def _laid_out(self, matrix: csr_matrix) -> _Stages:
        batches = self._batches
        bounds = [batches.bounds(stage) for stage in range(batches.stages)]
        return _Stages(
            batches.needs(matrix.indptr, matrix.indices),
            [self._resources.lay_out(matrix[a:b]) for a, b in bounds],
        )


@dataclass(frozen=True)
class _Stages:
    """A matrix cut into batches of rows.

    Attributes:
        needs: For every batch, the last input batch that its product reads (`Batches.needs`).
        matrices: For every batch, its rows of the matrix, laid out for products.
    """

    needs: list[int]
    matrices: list[SparseMatrix]


def empty_like(x: Tensor) -> Tensor:
    return empty(x.shape[0], x.shape[1], x)


class _ProductLinear(torch.autograd.Function):
    """The product (A x) W and its gradients, for a graph with a pipeline.

    For the result's gradient g, each batch of rows of g W^T is sent as soon as it is computed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, graph: FeatureGraph, coefficients: str
    ) -> Tensor:
        aggregated = empty_like(x)
        out = empty(x.shape[0], weight.shape[1], x)
        laid_out = laid_out_for(weight)

        def update(at: slice) -> None:
            torch.mm(aggregated[at], laid_out, out=out[at])

        graph.run(x.contiguous(), aggregated, coefficients, after=update)
        ctx.save_for_backward(aggregated, weight)
        ctx.graph, ctx.coefficients = graph, coefficients
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        aggregated, weight = ctx.saved_tensors
        need_x, need_weight, *_ = ctx.needs_input_grad
        found = [weight_gradient(aggregated, g)] if need_weight and not need_x else []
        back = None
        if need_x:
            g = g.contiguous()
            back, projected = empty_like(aggregated), empty_like(aggregated)

            def project(at: slice) -> None:
                torch.mm(g[at], weight.T, out=projected[at])

            def meanwhile() -> None:
                if need_weight:
                    found.append(weight_gradient(aggregated, g))

            ctx.graph.run(
                projected, back, ctx.coefficients, back=True, before=project, meanwhile=meanwhile
            )
        return back, found[0] if found else None, None, None


class _LinearProduct(torch.autograd.Function):
    """The product A (x W) and its gradients, for a graph that exchanges batches of rows in turn.

    In the backward pass, g is the result's gradient; each batch of rows of A^T g is multiplied by
    W^T as soon as it is computed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, graph: FeatureGraph, coefficients: str
    ) -> Tensor:
        x, laid_out = x.contiguous(), laid_out_for(weight)
        projected, out = (empty(x.shape[0], weight.shape[1], x) for _ in range(2))

        def project(at: slice) -> None:
            torch.mm(x[at], laid_out, out=projected[at])

        graph.run(projected, out, coefficients, before=project)
        ctx.save_for_backward(x, weight)
        ctx.graph, ctx.coefficients = graph, coefficients
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        need_x, need_weight, *_ = ctx.needs_input_grad
        aggregated, back = empty_like(g), empty_like(x)

        def update(at: slice) -> None:
            if need_x:
                torch.mm(aggregated[at], weight.T, out=back[at])

        ctx.graph.run(g.contiguous(), aggregated, ctx.coefficients, back=True, after=update)
        return (
            back if need_x else None,
            weight_gradient(x, aggregated) if need_weight else None,
            None,
            None,
        )
