"""Differentiable exchanges with other ranks: halo rows, sums and maxima over rows.

The total loss is the sum of all ranks' losses. So the gradient of a sum over ranks is the sum of
all ranks' gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from plancc.errors import InputError
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.pyg.marks import EdgeEnds, Spread, plain, version
from plancc_runtime.pyg.spaces import TypeRows
from plancc_runtime.transport.base import Transport


class FetchedColumns:
    """Keeps own and halo rows of tensors, so that each halo row is fetched only once.

    Only halo rows that the edges of given relations read are fetched, when they are first needed.
    """

    def __init__(self) -> None:
        self._kept: Any = WeakTensorKeyDictionary()  # tensor to its version, columns, relations

    def of(self, x: Spread, read: frozenset[int]) -> Tensor:
        """Return own rows of x, and halo rows that edges of relations `read` need. Collective."""
        self.fetch([x], read)
        return self._found(x)[0]

    def fetch(self, tensors: Sequence[Spread], read: frozenset[int]) -> None:
        """Fetch the missing halo rows that the edges of relations `read` need. Collective.

        All tensors have the same `TypeRows`. Tensors of one dtype that miss the same rows share
        messages.
        """
        new: dict[Any, dict[int, Spread]] = {}
        for x in tensors:
            here = self._found(x)[1]
            if not read <= here:
                new.setdefault((x.dtype, here), {})[id(x)] = x
        for (_, here), tensors_of_kind in new.items():
            self._fetch(list(tensors_of_kind.values()), read, here)

    def _found(self, x: Spread) -> tuple[Tensor, frozenset[int]]:
        """Return own and fetched rows of x, and the relations whose halo rows were fetched."""
        at, columns, read = self._kept.get(x, (None, x, ()))
        if at != version(x) or (
            torch.is_grad_enabled() and x.requires_grad > columns.requires_grad
        ):  # x has changed since, or its columns were fetched under no_grad
            return plain(x), frozenset()
        return columns, read

    def forget(self, x: Tensor) -> None:
        """Drop the fetched rows of x, since x has changed."""
        self._kept.pop(x, None)

    def copy(self) -> FetchedColumns:
        """Return a copy. Rows that this object forgets later stay in the copy."""
        found = FetchedColumns()
        found._kept = self._kept.copy()
        return found

    def _fetch(self, tensors: list[Spread], read: frozenset[int], here: frozenset[int]) -> None:
        rows = tensors[0].of
        assert rows is not None
        graph, places = rows.halo(read, here)
        found = [self._found(x)[0].movedim(x.axis, 0) for x in tensors]
        if graph.transport.size > 1:
            flat = [_flat(x[: rows.num_rows]) for x in found]
            sent = torch.cat(flat, dim=1)
            halo = graph.halo(_sendable(sent, graph)).to(sent.dtype)
            parts = halo.split([each.shape[1] for each in flat], dim=1)
            came = [y.reshape(len(y), *x.shape[1:]) for x, y in zip(found, parts, strict=True)]
            found = [_with_rows(x, y, places, rows) for x, y in zip(found, came, strict=True)]
        for x, columns in zip(tensors, found, strict=True):
            columns = columns.movedim(0, x.axis)
            if not torch.is_grad_enabled():  # an alias would still require gradients
                columns = columns.detach()
            self._kept[x] = version(x), columns, here | read


def _with_rows(x: Tensor, came: Tensor, places: Tensor | None, rows: TypeRows) -> Tensor:
    """Return the rows of x together with the fetched halo rows `came`.

    `places`, int64[m], has the index in the result of every fetched row; it is None if `came` has
    all halo rows.
    """
    if places is None:  # x may have rows of zeros after own rows
        return torch.cat([x[: rows.num_rows], came])
    return with_zeros(x, len(rows.vertices)).index_copy(0, places, came)


def with_zeros(x: Tensor, size: int) -> Tensor:
    """Append rows of zeros to x, so that the result has `size` rows."""
    return x if len(x) == size else torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])])


def _flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), prod(x.shape[1:]))


def _sendable(x: Tensor, graph: LocalGraph, sums: bool = False) -> Tensor:
    """Return x in the graph's dtype. Collective.

    Raise InputError if the dtype cannot represent x or, if `sums`, sums of whole numbers in x.
    """
    dtype = graph.resources.dtype
    if x.dtype.is_floating_point:
        if x.dtype.itemsize > dtype.itemsize:
            raise InputError(
                f"the network computes in {x.dtype}, but the plan was opened in {dtype}: "
                f"open it with dtype={x.dtype}, or convert the network"
            )
        return x.to(dtype)
    if x.is_complex():
        raise InputError("complex numbers cannot be sent; convert them with `torch.view_as_real`")
    whole = x.long().abs()
    most = whole.sum() if sums else whole.max() if x.numel() else whole.new_zeros(())
    limit = 2**24 if dtype == torch.float32 else 2**53
    if (summed(most, graph.transport) if sums else largest(most, graph.transport)) > limit:
        raise InputError(
            f"whole numbers above {limit} cannot be sent as {dtype}; open the plan with "
            "dtype=torch.float64"
        )
    return x.to(dtype)


def returned(y: Tensor, axis: int, index: EdgeEnds, largest: bool = False) -> Tensor:
    """Send halo rows of y to their owners; return own rows plus received rows. Collective.

    The rows of y lie along its axis `axis`; rows to which `index` does not refer must be 0. If
    `largest`, return maxima without gradient instead of sums.
    """
    graph, places = index.of.halo(index.relations)
    first = (y.detach() if largest else y).movedim(axis, 0)
    if graph.transport.size > 1:
        if places is not None:
            first = torch.cat([first[: index.of.num_rows], first[places]])
        sent = _sendable(_flat(first), graph, sums=not largest)
        flat = (graph.largest_returned if largest else graph.returned)(sent).to(y.dtype)
        first = flat.reshape(len(flat), *first.shape[1:])
    return first.movedim(0, axis)


def summed(x: Tensor, transport: Transport) -> Tensor:
    """Return the sum of x over the ranks. Its gradient is summed over the ranks too. Collective."""
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
    """Return the maximum of x over the ranks, without gradient. Collective."""
    found = x.detach().clone(memory_format=torch.contiguous_format)
    transport.allreduce_max(found)
    return found
