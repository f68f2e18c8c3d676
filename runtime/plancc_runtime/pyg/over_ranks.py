"""Sums, means, extremes and norms over the entries of all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from plancc_runtime.pyg.calls import Call, refuse
from plancc_runtime.pyg.marks import (
    EdgeEnds,
    Spread,
    Unknown,
    alike,
    is_end,
    is_rows,
    marked,
    plain,
    spread,
)
from plancc_runtime.pyg.moved import FetchedColumns, largest, returned, summed
from plancc_runtime.pyg.products import Patterns
from plancc_runtime.pyg.spaces import TypeRows
from plancc_runtime.transport.base import Transport


class OverRanks(TorchFunctionMode):
    """Rules for torch's functions that combine the entries of all ranks, such as sums.

    `mask` is a function that applies dropout. Its arguments are a tensor, the rate, the entries'
    ids, and the number of dropout masks drawn before.
    """

    def __init__(
        self,
        transport: Transport,
        patterns: Patterns,
        mask: Callable[[Tensor, float, Tensor | None, int], Tensor],
        num_vertices: int,
    ) -> None:
        super().__init__()
        self.transport, self.patterns, self.mask = transport, patterns, mask
        self.columns, self.num_vertices = FetchedColumns(), num_vertices
        self.calls: list[str] = []  # names of the called functions that had marked arguments
        self.draws = 0  # number of dropout masks drawn
        self.inside: Any = None  # rows and edges of the HGTConv that is running
        self.edges: EdgeEnds | None = None  # the edge index that was last split into its ends

    def _reduce_by_index(self, call: Call, dim: int, index: Any, src: Any, reduce: str) -> Tensor:
        """Reduce, over all ranks, the entries of `src` that have the same `index`.

        An index is a vertex at the source of edges, or the number of a group of rows.
        """
        transport, is_source = self.transport, is_end(index, True)
        whole, at = plain(call.args[0]), plain(index)
        src = plain(src) if isinstance(src, Tensor) else whole.new_tensor(src).expand(at.shape)
        shape = list(whole.shape)
        if is_source:
            shape[dim] = len(index.of.vertices)
        if call.name.startswith("index"):
            at = at.view(-1, *[1] * (src.ndim - dim - 1)).expand_as(src)
        if call.kwargs.get("alpha", 1) != 1:
            refuse(call, "multiplies by `alpha`")

        def total(x: Tensor) -> Tensor:
            here = whole.new_zeros(shape).scatter_add(dim, at, x.to(whole.dtype))
            return returned(here, dim, index) if is_source else summed(here, transport)

        def most(x: Tensor) -> Tensor:
            here = x.new_full(shape, least(x)).scatter_reduce(dim, at, x, "amax")
            return returned(here, dim, index, True) if is_source else largest(here, transport)

        def at_entries(x: Tensor) -> Tensor:
            x = self.columns.of(spread(x, dim, index.of), index.relations) if is_source else x
            return x.gather(dim, at)

        own = call.get(5, "include_self", True)
        if reduce == "sum" and own:
            return whole + total(src)
        count = total(torch.ones_like(src))
        if reduce in ("sum", "mean"):
            found = total(src) + (whole if own else 0)
            found = found / (count + own).clamp(min=1) if reduce == "mean" else found
        elif reduce in ("amax", "amin"):
            found = extreme(src, reduce, Bins(total, most, at_entries), None, whole, own)
        else:
            return refuse(call, f"computes '{reduce}' over the entries of this rank only")
        return torch.where(count > 0, found, whole)

    def _reduce_axes(self, call: Call, x: Spread, dims: set[int]) -> Any:
        """Reduce the entries of all ranks over the axes `dims`; ranks split one of these axes."""
        name, axes, whole = call.name, tuple(sorted(dims)), plain(x)
        flag = next((k for k in call.args[1:] if isinstance(k, bool)), None)
        keep = bool(call.get({"var": 3, "std": 3, "norm": 3}.get(name, 2), "keepdim", False))
        bins = self._bins(axes)
        if name == "sum":
            found = bins.total(whole.to(call.kwargs.get("dtype") or x.dtype))
        elif name == "mean":
            found = self._mean(x, axes)
        elif name in ("var", "std"):
            less = call.kwargs.get("correction", call.kwargs.get("unbiased", flag))
            found = self._variance(x, axes, 1 if less is None else int(less))
            found = found if name == "var" else root(found)
        elif name == "norm" and call.get(1, "p", "fro") in (2, "fro", None):
            found = root(bins.total(whole.pow(2)))
        elif name in ("any", "all"):
            wanted = bins.total(whole.bool() == (name == "any")) > 0
            found = wanted if name == "any" else ~wanted
        elif name == "norm":
            refuse(call, "computes a norm other than the root of the sum of squares")
        else:
            with_places = name in ("max", "min") and call.get(1, "dim") is not None
            pick = partial(self._first, call, x, bins) if with_places else None
            found = extreme(whole, name, bins, pick)
        found = found if keep else found.squeeze(axes)
        if name in ("max", "min") and call.get(1, "dim") is not None:  # no rank knows the places
            kind = type(torch.zeros(1).max(0) if name == "max" else torch.zeros(1).min(0))
            return kind((found, marked(torch.full_like(found, -1, dtype=torch.int64), Unknown)))
        return found

    def _first(self, call: Call, x: Spread, bins: Bins, ties: Tensor) -> Tensor:
        """Return which of a bin's equal extremes a single process would find first: bool[...].

        A bin is a set of entries that are reduced to their maximum or minimum; `ties` marks the
        entries that equal it. Only the entry that is found first gets the gradient.
        """
        number = self._numbers(x)
        at = [-1 if k == x.axis else 1 for k in range(x.ndim)]
        order = torch.zeros(1).long() if number is None else -number.view(at)
        order = torch.where(ties, order, least(order))
        ties = ties & (order == bins.most(order))
        if (bins.total(ties) > 1).any():
            refuse(call, "passes the gradient to the first of several equal extremes")
        return ties

    def _numbers(self, x: Spread) -> Tensor | None:
        """Return ids of the entries, int64[entries], or None if the entries have no ids.

        Ids rise in the order that the entries have in a single process. The id of a row is its
        vertex; the id of an edge is made from its two vertices.
        """
        of, edges = x.of, self.edges
        if of is not None and is_rows(x):
            return of.vertices[: of.num_rows]
        if edges is None or of is not None or x.shape[x.axis] != edges.shape[1]:
            return None
        row, ends = edges.source_row, plain(edges)
        target = edges.ends[1 - row].of.vertices[ends[1 - row]]
        return edges.sources.vertices[ends[row]] + self.num_vertices * target

    def _bins(self, axes: tuple[int, ...]) -> Bins:
        """Return a bin for every result of a reduction over `axes`; ranks split one of the axes."""
        transport = self.transport

        def most(x: Tensor) -> Tensor:
            shape = [1 if k in axes else size for k, size in enumerate(x.shape)]
            here = x.amax(axes, True) if x.numel() else x.new_full(shape, least(x))
            return largest(here, transport)

        return Bins(lambda x: summed(x.sum(axes, keepdim=True), transport), most, lambda x: x)

    def _total(self, size: int, of: TypeRows | None) -> int:
        """Return the number of entries on all ranks; collective if `of` is None."""
        return of.total if of is not None else int(summed(torch.tensor(size), self.transport))

    def _count(self, x: Spread, axes: Iterable[int]) -> int:
        """Return how many entries x has along `axes`, on all ranks together.

        One of `axes` must be ``x.axis``, along which the entries are spread over the ranks.
        """
        size = self._total(x.shape[x.axis], x.of if is_rows(x) else None)
        return size * prod(x.shape[k] for k in axes if k != x.axis)

    def _mean(self, x: Spread, axes: tuple[int, ...]) -> Tensor:
        return self._bins(axes).total(plain(x)) / self._count(x, axes)

    def _variance(self, x: Spread, axes: tuple[int, ...], less: int) -> Tensor:
        off = plain(x) - self._mean(x, axes)
        return self._bins(axes).total(off.pow(2)) / (self._count(x, axes) - less)

    def _batch_norm(self, call: Call, x: Spread) -> Tensor:
        if x.axis == 1 and x.ndim > 1:
            refuse(call, "treats rows as channels")
        if not call.get(5, "training", False):
            return alike(call.run(), x)
        return self._normalized(call, x, (0, *range(2, x.ndim)))

    def _instance_norm(self, call: Call, x: Spread) -> Tensor:
        if not call.get(5, "use_input_stats", True) or (
            x.axis == 0 and call.get(1, "running_mean") is None
        ):
            return alike(call.run(), x)
        if x.axis < 2 or x.shape[0] != 1:
            refuse(call, "computes statistics over the entries of this rank only")
        return self._normalized(call, x, (0, *range(2, x.ndim)))

    def _normalized(self, call: Call, x: Spread, axes: tuple[int, ...]) -> Tensor:
        """Return x normalised over all ranks per channel (axis 1); update running statistics."""
        scale, shift = call.get(3, "weight"), call.get(4, "bias")
        momentum, eps = call.get(6, "momentum", 0.1), call.get(7, "eps", 1e-5)
        mean, variance = self._mean(x, axes), self._variance(x, axes, 0)
        running = call.get(1, "running_mean"), call.get(2, "running_var")
        if running[0] is not None:
            count = self._count(x, axes)
            unbiased = variance.detach() * (count / max(count - 1, 1))
            running[0].lerp_(mean.detach().flatten(), momentum)
            running[1].lerp_(unbiased.flatten(), momentum)
        found = (plain(x) - mean) / (variance + eps).sqrt()
        shape = [-1 if k == 1 else 1 for k in range(x.ndim)]
        found = found if scale is None else found * scale.view(shape)
        return alike(found if shift is None else found + shift.view(shape), x)


class Bins(NamedTuple):
    """A division of a tensor's entries into bins; a bin may have entries on several ranks.

    Attributes:
        total (callable): Maps entries to the sum of every bin, with gradient.
        most (callable): Maps entries to the largest entry of every bin.
        at (callable): Maps values of bins to entries: each entry gets the value of its bin.
    """

    total: Callable[[Tensor], Tensor]
    most: Callable[[Tensor], Tensor]
    at: Callable[[Tensor], Tensor]


def extreme(
    x: Tensor,
    name: str,
    bins: Bins,
    pick: Callable[[Tensor], Tensor] | None = None,
    base: Tensor | None = None,
    own: bool = False,
) -> Tensor:
    """Return the largest (if `name` contains "max") or least entry of x in every bin.

    The bins divide the entries of x on all ranks, for example by the targets of edges. Equal
    extremes share the gradient equally. As in torch, a start value that equals them has a share
    too, even if `own` is false.

    Parameters:
        pick: Maps bool[entries], the equal extremes, to those entries that get the gradient.
        base: A start value for each bin, which counts as an entry if `own`; None: no start values.
    """
    sign = 1 if "max" in name else -1
    wide = x.detach() if x.is_floating_point() else x.long()  # int64 holds the negatives too
    best = (sign * bins.most(sign * wide)).to(x.dtype)
    if base is not None and own:
        best = (torch.maximum if sign > 0 else torch.minimum)(best, base.detach())
    if not (x.requires_grad or (base is not None and base.requires_grad)):
        return best
    first = x == bins.at(best)
    first = first if pick is None else pick(first)
    is_base = torch.zeros_like(best) if base is None else base == best
    ties = bins.total(first) + is_base
    found = bins.total(torch.where(first, x / bins.at(ties), 0))
    if base is not None and own:
        found = found + torch.where(is_base, base / ties, 0)
    return with_gradient(best, found)


def root(x: Tensor) -> Tensor:
    """Return the square root of x. Its gradient at 0 is 0, as for torch's `std` and `norm`."""
    return torch.where(x > 0, x, 1).sqrt() * (x > 0)


def least(x: Tensor) -> float:
    return -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min + 1


def with_gradient(value: Tensor, like: Tensor) -> Tensor:
    """Return the numbers of `value`; in the backward pass, the gradient goes to `like`."""
    return torch.where(value == like, like, like + (value - like).detach())
