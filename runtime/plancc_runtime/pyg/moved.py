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

from plancc.errors import InputError
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.pyg.marks import EdgeEnds, Spread, plain
from plancc_runtime.pyg.spaces import TypeRows
from plancc_runtime.transport.base import Transport


class FetchedColumns:
    """Own and halo rows of tensors, each fetched once. Collective.

    A type's halo rows that edges of one relation do not read come when those of another do.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Spread], int, Tensor, frozenset[int]]] = {}

    def of(self, x: Spread, read: frozenset[int]) -> Tensor:
        """The rows of x that edges of relations have as sources, at their places among columns.

        Tensor[..., num_columns, ...], in the axis of rows; fewer columns where no halo row is here.
        """
        self.fetch([x], read)
        return self._found(x)[0]

    def fetch(self, tensors: Sequence[Spread], read: frozenset[int]) -> None:
        """Bring the halo rows of the same rows that relations read, where they are not here yet.

        In one exchange, unless dtypes differ, or what is here.
        """
        new: dict[Any, dict[int, Spread]] = {}
        for x in tensors:
            here = self._found(x)[1]
            if not read <= here:
                new.setdefault((x.dtype, here), {})[id(x)] = x
        for (_, here), of_kind in new.items():
            self._fetch(list(of_kind.values()), read, here)

    def _found(self, x: Spread) -> tuple[Tensor, frozenset[int]]:
        """The columns of x that are here, and the relations that read them."""
        kept = self._kept.get(id(x))
        if kept is None or kept[0]() is not x or kept[1] != version(x):
            return plain(x), frozenset()
        if torch.is_grad_enabled() and x.requires_grad > kept[2].requires_grad:
            return plain(x), frozenset()  # they came under no_grad
        return kept[2:]

    def forget(self, x: Tensor) -> None:
        """Drop the rows of x, which has changed."""
        self._kept.pop(id(x), None)

    def copy(self) -> FetchedColumns:
        """The same rows, which stay when these are forgotten."""
        found = FetchedColumns()
        found._kept.update(self._kept)
        return found

    def _fetch(self, tensors: list[Spread], read: frozenset[int], here: frozenset[int]) -> None:
        rows = tensors[0].of
        assert rows is not None
        graph, places = rows.halo(read, here)
        found = [self._found(x)[0].movedim(x.axis, 0) for x in tensors]
        if graph.transport.size > 1:
            flat = [_flat(x[: rows.num_rows]) for x in found]
            sent = torch.cat(flat, dim=1)
            halo = graph.halo(_as_sent(sent, graph)).to(sent.dtype)
            parts = halo.split([each.shape[1] for each in flat], dim=1)
            came = [y.reshape(len(y), *x.shape[1:]) for x, y in zip(found, parts, strict=True)]
            found = [_with_rows(x, y, places, rows) for x, y in zip(found, came, strict=True)]
        for x, columns in zip(tensors, found, strict=True):
            kept: weakref.ref[Spread] = weakref.ref(x, _forgetting(self._kept, id(x)))
            columns = columns.movedim(0, x.axis)
            if not torch.is_grad_enabled():  # an alias would still say that it requires gradients
                columns = columns.detach()
            self._kept[id(x)] = kept, version(x), columns, here | read


def _with_rows(x: Tensor, came: Tensor, places: Tensor | None, rows: TypeRows) -> Tensor:
    """x with rows that came at their places among columns; None: behind own rows."""
    if places is None:  # x may have zeros there
        return torch.cat([x[: rows.num_rows], came])
    return with_zeros(x, len(rows.vertices)).index_copy(0, places, came)


def with_zeros(x: Tensor, size: int) -> Tensor:
    """x with rows of zeros behind it, up to `size` rows."""
    return x if len(x) == size else torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])])


def _forgetting(kept: dict[int, Any], key: int) -> Any:
    return lambda _: kept.pop(key, None)


def version(x: Any) -> int:
    """How often a tensor was changed in place, where it tells; 0 of others."""
    return 0 if not isinstance(x, Tensor) or x.is_inference() else x._version


def _flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), prod(x.shape[1:]))


def _as_sent(x: Tensor, graph: LocalGraph, sums: bool = False) -> Tensor:
    """x in the graph's type, which must hold its numbers, or their `sums`. Collective."""
    dtype = graph.resources.dtype
    if x.dtype.is_floating_point:
        if x.dtype.itemsize > dtype.itemsize:
            raise InputError(
                f"the network computes in {x.dtype}, but the plan was opened in {dtype}: "
                f"open it with dtype={x.dtype}, or convert the network"
            )
        return x.to(dtype)
    if x.is_complex():
        raise InputError("complex numbers travel: compute with `torch.view_as_real` of them")
    whole = x.long().abs()
    most = whole.sum() if sums else whole.max() if x.numel() else whole.new_zeros(())
    limit = 2**24 if dtype == torch.float32 else 2**53
    if (summed(most, graph.transport) if sums else largest(most, graph.transport)) > limit:
        raise InputError(
            f"whole numbers above {limit} travel, which {dtype} does not hold: open the plan "
            "with dtype=torch.float64"
        )
    return x.to(dtype)


def returned(y: Tensor, axis: int, index: EdgeEnds, largest: bool = False) -> Tensor:
    """Own rows of y and, added, what other ranks have of them. Collective.

    Parameters:
        y (Tensor[..., num_columns, ...]): With columns of ``index.of`` as its axis `axis`; those
            that `index` does not name are 0.
        largest: The maximum in place of the sum, and without gradient.

    Returns:
        Tensor[..., num_rows, ...]
    """
    graph, places = index.of.halo(index.relations)
    first = (y.detach() if largest else y).movedim(axis, 0)
    if graph.transport.size > 1:
        if places is not None:
            first = torch.cat([first[: index.of.num_rows], first[places]])
        sent = _as_sent(_flat(first), graph, sums=not largest)
        flat = (graph.largest_returned if largest else graph.returned)(sent).to(y.dtype)
        first = flat.reshape(len(flat), *first.shape[1:])
    return first.movedim(0, axis)


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
        total = x.clone(memory_format=torch.contiguous_format)
        transport.allreduce_sum(total)
        return total

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return summed(g, ctx.transport), None


def largest(x: Tensor, transport: Transport) -> Tensor:
    """The maximum of x over the ranks, without gradient. Collective."""
    found = x.detach().clone(memory_format=torch.contiguous_format)
    transport.allreduce_max(found)
    return found
