"""The graph convolution of paper 000 and of Kipf and Welling (2017): Z = A H W.

A has the values of the plan, so that its normalisation is the plan's choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn.conv import Conv, ConvOptions, glorot


class GCNConv(Conv):
    """Z = A H W (+ b); no bias unless asked for, as both papers have it."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        options: ConvOptions,
        random: np.random.Generator,
        last: bool,
    ) -> None:
        super().__init__(d_in, d_out, options, random, last)
        self.weight = glorot(random, d_in, d_out)
        self.bias = nn.Parameter(torch.zeros(d_out, dtype=torch.float64)) if options.bias else None
        self.order = options.order
        if self.order == "auto":
            self.order = "project-first" if d_out < d_in else "aggregate-first"

    def fixed(self, graph: LocalGraph, x: Tensor) -> Tensor:
        """A x: Tensor[num_outputs, d_in]."""
        with torch.no_grad():
            return graph.product(x)

    def forward(self, graph: LocalGraph, x: Tensor, fixed: Tensor | None = None) -> Tensor:
        if fixed is not None:
            z = fixed @ self.weight
        elif self.order == "aggregate-first":
            z = graph.product(x) @ self.weight
        elif self.order == "project-first":
            z = graph.product(x @ self.weight)
        else:
            z = _PaperProduct.apply(x, self.weight, graph)
        return z if self.bias is None else z + self.bias

    def widths(self) -> tuple[int, int]:
        return {
            "aggregate-first": (self.d_in, self.d_in),
            "project-first": (self.d_out, self.d_out),
            "paper": (self.d_in, self.d_out),
        }[self.order]


class _PaperProduct(torch.autograd.Function):
    """(A H) W forward; back, S = A^T G is of d_out columns (paper 000, Equations 3 and 4).

    The exchange of G is made also where H needs no gradient, since the weight's is H^T S.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, graph: LocalGraph) -> Tensor:
        ctx.save_for_backward(h, weight)
        ctx.graph = graph
        return graph.forward_product(h, "plan") @ weight

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        h, weight = ctx.saved_tensors
        s = ctx.graph.adjoint_product(g, "plan")
        return (s @ weight.T if ctx.needs_input_grad[0] else None), h.T @ s, None
