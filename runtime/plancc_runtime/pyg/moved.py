"""What comes from other ranks, differentiably: halo rows, sums and maxima over rows.

Every rank computes the loss of its own rows, and the loss is the sum over ranks. So the gradient of
a sum over ranks is the sum of what the ranks find.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc.errors import InputError
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.pyg.marks import Spread, plain
from plancc_runtime.transport.base import Transport


class FetchedColumns:
    """Own and halo rows of tensors, each fetched once. Collective.

    Parameters:
        graph: Of a row plan.
    """

    def __init__(self, graph: EdgeGraph) -> None:
        self._graph = graph
        self._kept: dict[int, tuple[weakref.ref[Tensor], int, Tensor]] = {}

    def of(self, x: Spread) -> Tensor:
        """Spread of the columns of x, as its axis of rows: Tensor[..., num_columns, ...]."""
        self.fetch([x])
        return self._kept[id(x)][2]

    def fetch(self, tensors: Sequence[Spread]) -> None:
        """Bring the halo rows of those that are not here yet, in one exchange for each dtype."""
        new: dict[torch.dtype, dict[int, Spread]] = {}
        for x in tensors:
            kept = self._kept.get(id(x))
            if kept is None or kept[0]() is not x or kept[1] != _version(x):
                new.setdefault(x.dtype, {})[id(x)] = x
        for of_dtype in new.values():
            self._fetch(list(of_dtype.values()))

    def forget(self, x: Tensor) -> None:
        """Drop the rows of x, which has changed."""
        self._kept.pop(id(x), None)

    def clear(self) -> None:
        """Forget all rows."""
        self._kept.clear()

    def _fetch(self, tensors: list[Spread]) -> None:
        graph = self._graph
        first = [plain(x).movedim(x.axis, 0) for x in tensors]
        if graph.num_ranks == 1:
            found = first
        else:
            flat = [_flat(x) for x in first]
            sent = torch.cat(flat, dim=1)
            columns = graph.columns(_as_sent(sent, graph)).to(sent.dtype)
            widths = [each.shape[1] for each in flat]
            found = [
                each.reshape(len(columns), *x.shape[1:])
                for each, x in zip(columns.split(widths, dim=1), first, strict=True)
            ]
        for x, columns in zip(tensors, found, strict=True):
            forget = _forgetting(self._kept, id(x))
            self._kept[id(x)] = weakref.ref(x, forget), _version(x), columns.movedim(0, x.axis)


def _forgetting(kept: dict[int, Any], key: int) -> Any:
    return lambda _: kept.pop(key, None)


def _version(x: Tensor) -> int:
    return 0 if x.is_inference() else x._version


def _flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), prod(x.shape[1:]))


def _as_sent(x: Tensor, graph: EdgeGraph, sums: bool = False) -> Tensor:
    """x in the graph's type, which must hold its numbers, or their `sums`. Collective."""
    if x.dtype.is_floating_point:
        if x.dtype.itemsize > graph.dtype.itemsize:
            raise InputError(
                f"the network computes in {x.dtype}, but the plan was opened in {graph.dtype}: "
                f"open it with dtype={x.dtype}, or convert the network"
            )
        return x.to(graph.dtype)
    whole = x.long().abs()
    most = whole.sum() if sums else whole.max() if x.numel() else whole.new_zeros(())
    limit = 2**24 if graph.dtype == torch.float32 else 2**53
    if (summed(most, graph.transport) if sums else largest(most, graph.transport)) > limit:
        raise InputError(
            f"whole numbers above {limit} travel, which {graph.dtype} does not hold: open the plan "
            "with dtype=torch.float64"
        )
    return x.to(graph.dtype)


def returned(y: Tensor, axis: int, graph: EdgeGraph) -> Tensor:
    """Own rows of y and, added, what other ranks have of them. Collective.

    Parameters:
        y (Tensor[..., num_columns, ...]): With [own rows | halo rows] as its axis `axis`.

    Returns:
        Tensor[..., num_rows, ...]
    """
    if graph.num_ranks == 1:
        return y
    first = y.movedim(axis, 0)
    flat = graph.returned(_as_sent(_flat(first), graph, sums=True)).to(y.dtype)
    return flat.reshape(len(flat), *first.shape[1:]).movedim(0, axis)


def largest_returned(y: Tensor, axis: int, graph: EdgeGraph) -> Tensor:
    """As `returned`, but the maximum, and without gradient. Collective."""
    if graph.num_ranks == 1:
        return y.detach()
    first = y.detach().movedim(axis, 0)
    flat = graph.largest_returned(_as_sent(_flat(first), graph)).to(y.dtype)
    return flat.reshape(len(flat), *first.shape[1:]).movedim(0, axis)


def summed(x: Tensor, transport: Transport) -> Tensor:
    """The sum of x over the ranks; so is its gradient. Collective."""
    if x.dtype == torch.bool:
        x = x.long()
    found: Tensor = _Summed.apply(x, transport)
    return found


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, transport: Transport) -> Tensor:
        ctx.transport = transport
        return _total(x, transport)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        return _total(g, ctx.transport), None


def _total(x: Tensor, transport: Transport) -> Tensor:
    total = x.clone(memory_format=torch.contiguous_format)
    transport.allreduce_sum(total)
    return total


def largest(x: Tensor, transport: Transport) -> Tensor:
    """The maximum of x over the ranks, without gradient. Collective."""
    found = x.detach().clone(memory_format=torch.contiguous_format)
    transport.allreduce_max(found)
    return found
