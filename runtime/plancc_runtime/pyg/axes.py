"""Finds which axis of a function's result has the graph's rows.

The function is tried on tensors without data. If it succeeds with equally many rows in all
arguments, and fails with different numbers of rows, it handles each row independently.
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
"""Number of rows in trial runs: a large prime, so that no other axis has a multiple as its size."""
KEPT = 10_000
"""Largest number of calls whose results are kept."""

_found: dict[tuple[Any, ...], list[RowAxis] | None] = {}


class RowAxis(NamedTuple):
    """An axis of a tensor that has entries for the rows of a graph, in the order of the rows.

    Attributes:
        axis: Index of the axis among the tensor's axes, from 0.
        each: Number of consecutive entries for every row.
    """

    axis: int
    each: int


def places_of_rows(call: Call) -> list[RowAxis] | None:
    """Return the row axis of every tensor that a function returns; all ranks get the same answer.

    [] means no row axis. None means that the function mixes rows, or works only if another axis
    happens to have as many entries as there are rows.
    """
    key = call.name, *_shapes((*call.args, *call.kwargs.items()))
    with suppress(KeyError):  # if ranks are threads, another rank may clear the dictionary
        return _found[key]
    if len(_found) >= KEPT:
        _found.clear()
    _found[key] = places = _places(call)
    return places


def _shapes(values: Iterable[Any]) -> Iterator[Any]:
    """Yield, for a call's arguments, hashable values that determine the call's row axes."""
    for x in values:
        if isinstance(x, Spread):
            of = x.of and x.of.name  # the key keeps no graph alive
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
    if call.name in PRODUCTS:  # a product may have two axes of rows, each of several tensors
        if len(others) > 3:
            return None
        apart = [*product((0, 1), repeat=len(others) + 1)][1 : 2 ** len(others)]
    with suppress(*FAILS):
        for more in apart:
            with suppress(*FAILS):
                _on_shapes(call, first, more)
                return None  # the function pairs every row of a tensor with all rows of another
        out, given = _on_shapes(call, first, repeat(0))
        if isinstance(out, Tensor) and out.numel() % MANY:
            return []
        whole = (out,) if isinstance(out, Tensor) else out
        return [_place(x, given, first) for x in whole]
    return None


def _on_shapes(call: Call, first: Spread, more: Iterable[int]) -> tuple[Any, Tensor]:
    """Run the function of a call on tensors without data, which have about `MANY` rows.

    Return the result, and the tensor that replaced `first`. `more` has a number for each argument
    with a row axis: how many rows more than `MANY` the argument gets.
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
    """Return the row axis of x, a result of a function that was called on trial.

    In this call, the tensor `given`, with `MANY` rows, took the place of the argument `first`.
    Raise ValueError if the entries of a row are not next to each other on this axis.
    """
    [place] = [
        RowAxis(k, size // MANY) for k, size in enumerate(x.shape) if size and size % MANY == 0
    ]
    steps = x.stride(place.axis) * place.each, given.stride(first.axis) * first.each
    if steps[0] != steps[1] if x._base is given else place.each != first.each:
        raise ValueError("rows are mixed")
    return place
