"""The graph isomorphism network of Xu et al. (ICLR 2019).

    h'_v = MLP((1 + eps) h_v + sum of h_u over u in N(v))                         (Equation 4.1)

N(v) are the columns of row v, without the diagonal that normalising added.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn.conv import LinearConv, glorot, plus


class GINConv(LinearConv):
    """eps is trained, from 0; the MLP is two linear layers of width d_out with a ReLU between.

    Both have a bias unless told otherwise. The first is linear, so that it can stand before the
    sum, where it is cheaper.
    """

    def _make(self, random: np.random.Generator) -> None:
        self.eps = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.weight = nn.Parameter(glorot(random, self.d_in, self.d_out))
        self.bias = self._new_bias(default=True)
        self.weight_out = nn.Parameter(glorot(random, self.d_out, self.d_out))
        self.bias_out = self._new_bias(default=True)
        self._aggregate_with("sum")

    def forward(self, graph: LayerGraph, x: Tensor, fixed: Tensor | None = None) -> Tensor:
        own = graph.linear(graph.targets(x), self.weight)
        z = (1 + self.eps) * own + self._aggregate(graph, x, self.weight, fixed)
        hidden = torch.relu(plus(graph, z, self.bias))
        return plus(graph, graph.linear(hidden, self.weight_out), self.bias_out)
