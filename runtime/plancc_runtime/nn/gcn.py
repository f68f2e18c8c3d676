"""The graph convolution of Demirci et al. 2022 and of Kipf and Welling (2017): Z = A H W.

A has the values that the plan stores, normalised when the plan was compiled.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from plancc.plan.convolutions import GCNOptions
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn.conv import Halves, LinearConv, glorot, unchanged


class GCNConv(LinearConv):
    """Computes Z = A H W + b.

    As in PyTorch Geometric's GCNConv, W is a Glorot matrix and b starts at 0. With
    `parametrization` "paper", the layer has a bias b only if the option `bias` is set.
    """

    Options = GCNOptions
    rectifies = True
    takes_bfloat16: ClassVar[bool] = True

    def _make(self, random: np.random.Generator) -> None:
        self.weight = nn.Parameter(glorot(random, self.d_in, self.d_out))
        self.bias = self._new_bias()
        self._aggregate_with("plan")

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
    ) -> Tensor:
        return self._aggregate(graph, x, self.weight, fixed, self.bias, rectified, onto)

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        def project(x: Tensor) -> tuple[Tensor]:
            return (graph.linear(x, self.weight),)

        def across(moved: Tensor) -> tuple[Tensor]:
            return (self._aggregate.product(graph, moved),)

        def after(product: Tensor) -> Tensor:
            return graph.finished(product, self.bias)

        def update(product: Tensor) -> Tensor:
            return graph.linear(product, self.weight, self.bias)

        if fixed:
            return Halves(unchanged, unchanged, update)
        if self._aggregate.projects_first(first):
            return Halves(project, across, after)
        return Halves(unchanged, across, update)
