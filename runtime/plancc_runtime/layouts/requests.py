"""What a network asks of the graph in one epoch, found by letting it work on no rows at all.

Knows autograd and the graph as layers see it; no layout, no rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc.plan.words import Counts
from plancc_runtime.layouts.layer_graph import LayerGraph, Request


def asked_of_graphs(
    forward: Callable[[Sequence[LayerGraph]], Tensor],
    parameters: Sequence[Tensor],
    layers: int,
) -> list[list[Request]]:
    """What every layer asks for in a training pass, forward and back; not collective.

    Parameters
    ----------
    forward : callable
        From graphs of no rows, one per layer, to outputs; that of an evaluation, which sums nothing
        over ranks.
    parameters : sequence of Tensor
        That need gradients; none is changed.
    layers : int
    """
    graphs = [_Recorder(parameters[0].device) for _ in range(layers)]
    with torch.enable_grad():
        outputs = forward(graphs)
        torch.autograd.grad(outputs.sum(), parameters, allow_unused=True)
    return [graph.asked for graph in graphs]


class _Recorder(LayerGraph):
    """A graph without vertices that notes what it is asked for; it has no ranks to sum over."""

    def __init__(self, device: torch.device) -> None:
        self.asked: list[Request] = []
        self._device = device

    @property
    def vertices(self) -> Tensor:
        return torch.empty(0, dtype=torch.int32, device=self._device)

    def product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        return self._noted("product", x, None, coefficients)

    def linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, rectified: bool = False
    ) -> Tensor:
        return self._noted("linear", x, weight)

    def whole_rows(self, x: Tensor, width: int) -> Tensor:
        return self._noted("whole rows", x, None)

    def degree(self, nonzeros: str) -> Tensor:
        return torch.empty(0, dtype=torch.int64, device=self._device)

    def counts(self, request: Request) -> Counts:
        return Counts.zero(1)

    def release_buffers(self) -> None:
        """There are none."""

    def _noted(self, kind: str, x: Tensor, weight: Tensor | None, coefficients: str = "") -> Tensor:
        return _Noted.apply(x, weight, self, kind, coefficients)


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, graph: _Recorder, kind: str, coefficients: str
    ) -> Tensor:
        graph.asked.append(Request(kind, x.shape[1], False, coefficients))
        ctx.noted, ctx.graph, ctx.width = (kind, coefficients), graph, x.shape[1]
        ctx.weight = None if weight is None else weight.detach()
        return x.new_empty(0, x.shape[1] if weight is None else weight.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        kind, coefficients = ctx.noted
        ctx.graph.asked.append(Request(kind, g.shape[1], True, coefficients))
        gradient = None if ctx.weight is None else torch.zeros_like(ctx.weight)
        return g.new_empty(0, ctx.width), gradient, None, None, None
