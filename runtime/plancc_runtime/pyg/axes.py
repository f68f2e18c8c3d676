"""Where rows are in what a function returns: read off shapes alone, on which it is run once.

A function of `calls.BY_ROW` treats each row by itself if all axes of rows that it is given are one
axis of its result: with many rows in each of them it runs, and with other numbers of rows in each
it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plancc_runtime.pyg.calls import Call
from plancc_runtime.pyg.marks import Count, Spread, marks_in

MANY = 1_000_003
"""A prime, as the number of rows: no other axis has a multiple of it."""
KEPT = 10_000
"""Calls of other shapes whose results are kept."""
FAILS = (RuntimeError, TypeError, ValueError, IndexError)

_found: dict[tuple[Any, ...], tuple[Place | None, ...] | None] = {}


class Place(NamedTuple):
    """Axis `axis` of a tensor has `each` entries for every row, one row after another."""

    axis: int
    each: int


def places_of_rows(call: Call) -> tuple[Place | None, ...] | None:
    """Of every tensor that a function returns, where its rows are; None for one without rows.

    Without communication, and alike on all ranks: it does not depend on how many rows one has.

    Returns:
        None if the function mixes rows, or reads tensors that have as many entries by chance.
    """
    key = call.name, *_shape_of((*call.args, *call.kwargs.items()))
    if key not in _found:
        if len(_found) >= KEPT:
            _found.clear()
        with torch.inference_mode(False):
            _found[key] = _places(call)
    return _found[key]


def _shape_of(values: Iterable[Any]) -> Iterator[Any]:
    """What the places depend on; hashable."""
    for x in values:
        if isinstance(x, Spread):
            yield x.axis, x.shape[: x.axis], x.shape[x.axis + 1 :], x.of, x.each, x.dtype
        elif isinstance(x, Tensor):
            yield x.shape, x.dtype
        elif isinstance(x, Count):
            yield x.of
        elif isinstance(x, slice):
            yield slice
            yield from _shape_of((x.start, x.stop, x.step))
        elif isinstance(x, list | tuple):
            yield len(x)
            yield from _shape_of(x)
        else:
            yield float if isinstance(x, float) else (type(x), x)


def _places(call: Call) -> tuple[Place | None, ...] | None:
    marks = [*marks_in((*call.args, *call.kwargs.values()))]
    first = next(x for x in marks if isinstance(x, Spread))
    try:
        out, given = _on_shapes(call, first, 0)
        if len(marks) > 1 and _runs(call, first):
            return None
        whole = (out,) if isinstance(out, Tensor) else out
        return tuple(_place(x, first, given) for x in whole)
    except FAILS:
        return None


def _runs(call: Call, first: Spread) -> bool:
    """Whether a function takes other numbers of rows in each tensor: it joins them in pairs."""
    try:
        _on_shapes(call, first, 1)
    except FAILS:
        return False
    return True


def _on_shapes(call: Call, first: Spread, apart: int) -> tuple[Any, Tensor]:
    """What the function returns for tensors of so many rows, and the first of them.

    Parameters:
        apart: How many rows more each tensor has than the one before.
    """
    sizes, made = count(MANY, apart), {}

    def alike(x: Any) -> Any:
        if isinstance(x, Tensor):
            shape = list(x.shape)
            if isinstance(x, Spread):
                shape[x.axis] = next(sizes) * x.each
            like = torch.empty(shape, dtype=x.dtype, device="meta")
            made.setdefault(x is first, like)
            return like
        if isinstance(x, Count):
            return MANY if x.of == first.of else MANY - 1
        if isinstance(x, slice):
            return slice(alike(x.start), alike(x.stop), alike(x.step))
        return tuple(map(alike, x)) if isinstance(x, list | tuple) else x

    kwargs = {k: alike(each) for k, each in call.kwargs.items() if k != "device"}
    return call.func(*alike(call.args), **kwargs), made[True]


def _place(x: Tensor, first: Spread, given: Tensor) -> Place | None:
    """The one axis of rows, if all entries of a row are together: in a view, as its strides say."""
    found = [Place(k, size // MANY) for k, size in enumerate(x.shape) if size and size % MANY == 0]
    if not found:
        return None
    [place] = found
    steps = x.stride(place.axis) * place.each, given.stride(first.axis) * first.each
    if steps[0] != steps[1] if x._base is given else place.each != first.each:
        raise ValueError("the rows are mixed")
    return place
