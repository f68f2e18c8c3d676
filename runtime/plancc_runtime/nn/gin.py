"""The graph isomorphism network of Xu et al. (ICLR 2019).

    h'_v = MLP((1 + eps) h_v + sum of h_u over u in N(v))                         (Equation 4.1)

N(v) is the set of the columns of row v, without v if normalisation added the diagonal.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from plancc.errors import InputError
from plancc.plan.convolutions import GINOptions
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn.conv import Halves, LinearConv, unchanged


class GINConv(LinearConv):
    """A layer of GIN. Its MLP has two linear maps with biases, and a ReLU between them.

    The hidden width of the MLP is d_out; in the last layer it is max(d_in, d_out). As in PyTorch
    Geometric's GINConv with Sequential(Linear, ReLU, Linear), weights and biases are drawn as in
    torch.nn.Linear, and eps stays 0. With `parametrization` "paper", the weights are Glorot
    matrices, the biases start at 0, and eps is trained. The first linear map may be applied before
    the sum if that is cheaper.
    """

    Options = GINOptions
    rectifies = True
    takes_bfloat16: ClassVar[bool] = True
    reads_values: ClassVar[bool] = False
    eps: Tensor

    def _make(self, random: np.random.Generator) -> None:
        if self.d_target not in (None, self.d_in):
            raise InputError(
                f"`model` gin: cannot add rows of {self.d_in} and of {self.d_target} columns; give "
                "all types features of one width, or choose rgcn or sage"
            )
        eps = torch.zeros((), dtype=torch.float64)
        if self.options.trains_eps:
            self.eps = nn.Parameter(eps)
        else:
            self.register_buffer("eps", eps)
        width = self.options.width(self.d_in, self.d_out, self.last)
        self.weight, self.bias = self._new_linear(random, self.d_in, width)
        self.weight_out, self.bias_out = self._new_linear(random, width)
        self._aggregate_with("sum", width)

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
    ) -> Tensor:
        own = graph.linear(graph.targets(x), self.weight)
        z = (1 + self.eps) * own + self._aggregate(graph, x, self.weight, fixed)
        return self._mapped(graph, z, rectified, onto)

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        projects = not fixed and self._aggregate.projects_first(first)

        def before(x: Tensor) -> tuple[Tensor, ...]:
            projected = graph.linear(x, self.weight)
            return projected if projects else x, (1 + self.eps) * projected

        def across(moved: Tensor, own: Tensor) -> tuple[Tensor, ...]:
            total, own = self._aggregate.product(graph, moved), graph.targets(own)
            return (total.add_(own),) if projects else (total, own)

        def after(total: Tensor, *own: Tensor) -> Tensor:
            return self._mapped(
                graph, torch.add(graph.linear(total, self.weight), *own) if own else total
            )

        def after_fixed(total: Tensor, x: Tensor) -> Tensor:
            return after(total, (1 + self.eps) * graph.linear(x, self.weight))

        return Halves(unchanged, unchanged, after_fixed) if fixed else Halves(before, across, after)

    def _mapped(
        self, graph: LayerGraph, z: Tensor, rectified: bool = False, onto: Tensor | None = None
    ) -> Tensor:
        """Return the MLP's output from z, which is overwritten.

        z is the result of the MLP's first linear map, to which the bias is not yet added.
        """
        hidden = graph.finished(z, self.bias, rectified=True)
        return graph.linear(hidden, self.weight_out, self.bias_out, rectified, onto)
