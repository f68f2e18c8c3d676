"""Sums, means, extremes and norms over the entries of all ranks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from plancc_runtime.graph import Graph
from plancc_runtime.pyg.calls import Call, refuse
from plancc_runtime.pyg.marks import (
    EdgeEnds,
    Sources,
    Spread,
    Unknown,
    is_rows,
    marked,
    plain,
    spread,
)
from plancc_runtime.pyg.moved import FetchedColumns, largest, largest_returned, returned, summed


class OverRanks(TorchFunctionMode):
    """Functions whose result is of the entries of all ranks.

    Parameters:
        columns: Of this forward pass.
        mask (callable): From (tensor, rate, edges or None, spread axis or None) to the tensor after
            dropout.
    """

    def __init__(
        self,
        graph: Graph,
        columns: FetchedColumns,
        mask: Callable[[Tensor, float, EdgeEnds | None, int | None], Tensor],
    ) -> None:
        super().__init__()
        self.graph, self.columns, self.mask = graph, columns, mask
        self.edges: EdgeEnds | None = None  # those that ends were last taken from

    def _by_bins(self, call: Call, dim: int, index: Tensor, src: Any, reduce: str) -> Tensor:
        """Entries of all ranks, in bins: sources of edges, or groups such as a batch's graphs."""
        graph, transport = self.graph, self.graph.transport
        of_rows = isinstance(index, Sources)
        whole, at = plain(call.args[0]), plain(index)
        src = plain(src) if isinstance(src, Tensor) else whole.new_tensor(src).expand(at.shape)
        shape = list(whole.shape)
        if of_rows:
            shape[dim] = graph.num_rows + graph.num_halo
        if call.name.startswith("index"):
            at = at.view(-1, *[1] * (src.ndim - dim - 1)).expand_as(src)
        if call.kwargs.get("alpha", 1) != 1:
            refuse(call, "multiplies by `alpha`")

        def added(x: Tensor) -> Tensor:
            here = whole.new_zeros(shape).scatter_add(dim, at, x.to(whole.dtype))
            return returned(here, dim, graph) if of_rows else summed(here, transport)

        def at_bins(x: Tensor) -> Tensor:
            return (self.columns.of(spread(x, dim)) if of_rows else x).gather(dim, at)

        if reduce == "sum" and call.get(5, "include_self", True):
            return whole + added(src)
        count = added(torch.ones_like(src))
        own = call.get(5, "include_self", True)
        if reduce in ("sum", "mean"):
            total = added(src) + (whole if own else 0)
            found = total / (count + own).clamp(min=1) if reduce == "mean" else total
        elif reduce in ("amax", "amin"):
            sign = 1 if reduce == "amax" else -1
            here = whole.new_full(shape, least(whole))
            here = here.scatter_reduce(dim, at, sign * src.detach(), "amax")
            best = sign * (
                largest_returned(here, dim, graph) if of_rows else largest(here, transport)
            )
            first = src == at_bins(best)
            ties = added(first)
            found = best
            if src.requires_grad:
                share = torch.where(first, src / at_bins(ties), 0)
                found = with_gradient(best, added(share))
            if own:
                both = torch.maximum if sign == 1 else torch.minimum
                found = both(whole, found)
        else:
            return refuse(call, f"takes '{reduce}' over entries of all ranks")
        return torch.where(count > 0, found, whole)

    # Over the entries of all ranks

    def _reduced(self, call: Call, x: Spread, dims: set[int]) -> Any:
        """Reductions over axes `dims`, one of them spread: over all ranks."""
        name, transport = call.name, self.graph.transport
        flag = next((k for k in call.args[1:] if isinstance(k, bool)), None)
        keep = bool(call.get({"var": 3, "std": 3, "norm": 3}.get(name, 2), "keepdim", False))
        whole, axes = plain(x), sorted(dims)
        if name == "sum":
            return summed(whole.sum(axes, keepdim=keep, dtype=call.kwargs.get("dtype")), transport)
        if name == "mean":
            return self._mean(x, axes, keep)
        if name in ("var", "std"):
            less = call.kwargs.get("correction", call.kwargs.get("unbiased", flag))
            variance = self._variance(x, axes, keep, 1 if less is None else int(less))
            return variance if name == "var" else root(variance)
        if name == "norm" and call.get(1, "p", "fro") in (2, "fro", None):
            return root(summed(whole.pow(2).sum(axes, keepdim=keep), transport))
        if name in ("any", "all"):
            wanted = whole.bool() if name == "any" else ~whole.bool()
            found = summed(wanted.long().sum(axes, keepdim=keep), transport) > 0
            return found if name == "any" else ~found
        if name in ("amax", "amin") or (name in ("max", "min") and len(dims) == x.ndim):
            return self._extreme(whole, axes, keep, 1 if "max" in name else -1)
        if name in ("max", "min"):  # of one axis: the values, and places that no rank knows
            value = self._extreme(whole, axes, keep, 1 if name == "max" else -1)
            kind = type(torch.zeros(1).max(0) if name == "max" else torch.zeros(1).min(0))
            return kind((value, marked(torch.full_like(value, -1, dtype=torch.int64), Unknown)))
        return refuse(call, "takes the place of a row")

    def _count(self, x: Spread, axes: list[int]) -> int:
        """Entries of all ranks in these axes."""
        size = self.graph.num_vertices
        if not is_rows(x):
            size = int(summed(torch.tensor(x.shape[x.axis]), self.graph.transport))
        return size * prod(x.shape[k] for k in axes if k != x.axis)

    def _mean(self, x: Spread, axes: list[int], keep: bool) -> Tensor:
        total = summed(plain(x).sum(axes, keepdim=keep), self.graph.transport)
        return total / self._count(x, axes)

    def _variance(self, x: Spread, axes: list[int], keep: bool, less: int) -> Tensor:
        off = plain(x) - self._mean(x, axes, True)
        total = summed(off.pow(2).sum(axes, keepdim=keep), self.graph.transport)
        return total / (self._count(x, axes) - less)

    def _extreme(self, x: Tensor, axes: list[int], keep: bool, sign: int) -> Tensor:
        """The largest or least of all entries; its gradient goes to all that are."""
        transport = self.graph.transport
        shape = [1 if k in axes else size for k, size in enumerate(x.shape)]
        here = (sign * x.detach()).amax(axes, True) if x.numel() else x.new_full(shape, least(x))
        best = sign * largest(here, transport)
        if x.is_floating_point():
            first = x == best
            ties = summed(first.sum(axes, keepdim=True), transport)
            grown = summed(torch.where(first, x / ties, 0).sum(axes, keepdim=True), transport)
            best = with_gradient(best, grown)
        return best if keep else best.squeeze(axes)

    def _batch_norm(self, call: Call, x: Spread) -> Tensor:
        if x.axis == 1 and x.ndim > 1:
            refuse(call, "takes rows for channels")
        if not call.get(5, "training", False):
            return spread(call.run(), x.axis, x.of)
        return self._normalized(call, x, [k for k in range(x.ndim) if k != 1])

    def _instance_norm(self, call: Call, x: Spread) -> Tensor:
        if not call.get(5, "use_input_stats", True) or (
            x.axis == 0 and not call.get(1, "running_mean")
        ):
            return spread(call.run(), x.axis, x.of)
        if x.axis < 2 or x.shape[0] != 1:
            refuse(call, "takes statistics of this rank")
        return self._normalized(call, x, [0, *range(2, x.ndim)])

    def _normalized(self, call: Call, x: Spread, axes: list[int]) -> Tensor:
        """(x - mean) / sqrt(variance + eps), both over all ranks, by channel (axis 1)."""
        scale, shift = call.get(3, "weight"), call.get(4, "bias")
        momentum, eps = call.get(6, "momentum", 0.1), call.get(7, "eps", 1e-5)
        mean, variance = self._mean(x, axes, True), self._variance(x, axes, True, 0)
        running = call.get(1, "running_mean"), call.get(2, "running_var")
        if running[0] is not None:
            count = self._count(x, axes)
            unbiased = variance.detach() * (count / max(count - 1, 1))
            running[0].lerp_(mean.detach().flatten(), momentum)
            running[1].lerp_(unbiased.flatten(), momentum)
        found = (plain(x) - mean) / (variance + eps).sqrt()
        shape = [-1 if k == 1 else 1 for k in range(x.ndim)]
        found = found if scale is None else found * scale.view(shape)
        return spread(found if shift is None else found + shift.view(shape), x.axis, x.of)


def root(x: Tensor) -> Tensor:
    """The square root; its gradient at 0 is 0, as those of `std` and `norm` are."""
    return torch.where(x > 0, x, 1).sqrt() * (x > 0)


def least(x: Tensor) -> float:
    return -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min + 1


def with_gradient(value: Tensor, like: Tensor) -> Tensor:
    """`value` with the gradient of `like`."""
    return torch.where(value == like, like, like + (value - like).detach())
