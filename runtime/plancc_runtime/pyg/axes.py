"""Where rows are in what a function returns: read off shapes alone, on which it is run once.

A function of `calls.BY_ROW` treats each row by itself if all axes of rows that it is given are one
axis of its result: with many rows in each of them it runs, and with other numbers of rows in each
it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import product, repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plancc_runtime.pyg.calls import FAILS, PRODUCTS, Call
from plancc_runtime.pyg.marks import Count, Mark, Spread
from plancc_runtime.pyg.trees import all_in

MANY = 1_000_003
"""A prime, as the number of rows: no other axis has a multiple of it."""
KEPT = 10_000
"""Calls of other shapes whose results are kept."""

_found: dict[tuple[Any, ...], list[RowAxis] | None] = {}


class RowAxis(NamedTuple):
    """Axis `axis` of a tensor has `each` entries for every row, one row after another."""

    axis: int
    each: int


def places_of_rows(call: Call) -> list[RowAxis] | None:
    """Where rows are in every tensor that a function returns: the same on all ranks.

    Returns:
        Empty if the result has no rows; None if the function mixes rows, or reads tensors that only
        happen to have as many entries.
    """
    key = call.name, *_shapes((*call.args, *call.kwargs.items()))
    with suppress(KeyError):  # ranks that are threads may clear it meanwhile
        return _found[key]
    if len(_found) >= KEPT:
        _found.clear()
    _found[key] = places = _places(call)
    return places


def _shapes(values: Iterable[Any]) -> Iterator[Any]:
    """What the places depend on; hashable."""
    for x in values:
        if isinstance(x, Spread):
            of = x.of and x.of.name  # graphs may go before what is kept here
            yield x.axis, x.shape[: x.axis], x.shape[x.axis + 1 :], of, x.each, x.dtype
        elif isinstance(x, Tensor):
            yield x.shape, x.dtype
        elif isinstance(x, Count):
            yield x.of and x.of.name
        elif isinstance(x, list | tuple | slice):
            each = (slice, x.start, x.stop, x.step) if isinstance(x, slice) else x
            yield len(each)
            yield from _shapes(each)
        else:
            yield float if isinstance(x, float) else (type(x), x)


def _places(call: Call) -> list[RowAxis] | None:
    first, *others = all_in([call.args, call.kwargs], Mark)
    assert isinstance(first, Spread)
    apart = [tuple(range(len(others) + 1))] * bool(others)
    if call.name in ("einsum", *PRODUCTS):  # whose axes of rows may be two, of several tensors each
        if len(others) > 3:
            return None
        apart = [*product((0, 1), repeat=len(others) + 1)][1 : 2 ** len(others)]
    with suppress(*FAILS):
        for more in apart:
            with suppress(*FAILS):
                _on_shapes(call, first, more)
                return None  # every row of one with every row of another
        out, given = _on_shapes(call, first, repeat(0))
        if isinstance(out, Tensor) and out.numel() % MANY:
            return []
        whole = (out,) if isinstance(out, Tensor) else out
        return [_place(x, given, first) for x in whole]
    return None


def _on_shapes(call: Call, first: Spread, more: Iterable[int]) -> tuple[Any, Tensor]:
    """What the function returns for tensors of many rows, and what was given for the first.

    Parameters:
        more: How many rows above `MANY` each tensor has.
    """
    left, given = iter(more), []

    def alike(x: Any) -> Any:
        if isinstance(x, Spread):
            shape = [*x.shape[: x.axis], (MANY + next(left)) * x.each, *x.shape[x.axis + 1 :]]
            given.append(torch.empty(shape, dtype=x.dtype, device="meta"))
            return given[-1]
        if isinstance(x, Tensor):
            return torch.empty_like(x, device="meta")
        if isinstance(x, Count):
            return MANY if x.of == first.of else MANY - 1
        if isinstance(x, slice):
            return slice(alike(x.start), alike(x.stop), alike(x.step))
        return tuple(map(alike, x)) if isinstance(x, list | tuple) else x

    args = alike(call.args)
    kwargs = {k: alike(each) for k, each in call.kwargs.items() if k != "device"}
    return call.func(*args, **kwargs), given[0]


def _place(x: Tensor, given: Tensor, first: Spread) -> RowAxis:
    """The one axis of rows; ValueError unless the entries of a row stay together."""
    [place] = [
        RowAxis(k, size // MANY) for k, size in enumerate(x.shape) if size and size % MANY == 0
    ]
    steps = x.stride(place.axis) * place.each, given.stride(first.axis) * first.each
    if steps[0] != steps[1] if x._base is given else place.each != first.each:
        raise ValueError("rows are mixed")
    return place
