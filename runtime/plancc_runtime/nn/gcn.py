"""The graph convolution of paper 000 and of Kipf and Welling (2017): Z = A H W.

A has the values of the plan, so that its normalisation is the plan's choice.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn.conv import Conv, LinearAggregation, glorot, plus


class GCNConv(Conv):
    """Z = A H W (+ b); no bias unless asked for, as both papers have it."""

    uses: ClassVar[tuple[str, ...]] = ("bias", "order")
    reads_input = False

    def _make(self, random: np.random.Generator) -> None:
        self.weight = nn.Parameter(glorot(random, self.d_in, self.d_out))
        self.bias = self._new_bias()
        self._aggregate = LinearAggregation(self.options.order, self.d_in, self.d_out, "plan")
        self.moves_input = self._aggregate.moves_input

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """A x: Tensor[num_outputs, d_in]."""
        return self._aggregate.fixed(graph, x)

    def forward(self, graph: LayerGraph, x: Tensor, fixed: Tensor | None = None) -> Tensor:
        return plus(graph, self._aggregate(graph, x, self.weight, fixed), self.bias)

    def widths(self) -> tuple[int, int]:
        return self._aggregate.widths

    def plain_widths(self, first: bool) -> tuple[int, int]:
        return self._aggregate.plain_widths
