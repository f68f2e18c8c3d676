"""Sums of message tensors (`marks.Message`), as sparse products that store no row for each edge.

Indexing rows by sources with `index_select` makes a message tensor. It may be multiplied by factors
of edges. Its sum at the targets of edges is a sparse product.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from plancc.plan.exchange import offsets
from plancc_runtime.kernels.edges import Pattern
from plancc_runtime.nn.operators import aggregate, weighted_sum
from plancc_runtime.pyg.calls import Call
from plancc_runtime.pyg.marks import EdgeEnds, Message, Spread, is_end, is_rows, plain


def is_message(x: Any, dim: int, index: Any) -> TypeGuard[Spread]:
    """Return whether a `Message` can represent the result of ``x.index_select(dim, index)``."""
    return (
        is_rows(x, 0)
        and dim == 0
        and is_end(index, True)
        and index.ndim == 1
        and x.of == index.of
        and x.ndim > 1
        and prod(x.shape[1:]) > 0  # len(x) is not tested: all ranks must get the same result
        and x.dtype in (torch.float32, torch.float64)
        and x.device.type == "cpu"
        and not x.is_inference()  # inference tensors do not count changes in place
    )


def times_message(x: Any, y: Any) -> Message | None:
    """Return the product of a message tensor and factors of its edges; None if x, y do not fit.

    One of x and y is the message tensor, the other has the factors. Both have equally many axes.
    The factors' leading axes have the message tensor's sizes, and all further axes have size 1.
    """
    message, values = (x, y) if isinstance(x, Message) else (y, x)
    if (
        message.factors is not None
        or message.made is not None
        or not isinstance(values, Spread)
        or isinstance(values, Message)
        or (values.axis, values.of, values.each, values.dtype) != (0, None, 1, message.dtype)
        or values.ndim != message.ndim
        or len(values) != len(message)
    ):
        return None
    sizes = values.shape[1:]
    heads = sum(size > 1 for size in sizes)
    if sizes[:heads] != message.shape[1 : 1 + heads] or any(size != 1 for size in sizes[heads:]):
        return None
    return Message.of_rows(message.read()[0], message.source, plain(values))


def is_message_sum(call: Call) -> bool:
    """Return whether a call adds all rows of a message tensor at the targets of their edges."""
    out, index = call.args[0], call.get(2, "index")
    src = call.get(3, "source" if "index" in call.name else "src")
    return (
        isinstance(src, Message)
        and src.made is None
        and is_end(index, False)
        and call.get(1, "dim") == 0
        and len(index) == len(src)
        and out.shape[1:] == src.shape[1:]
        and out.dtype == src.dtype
        and call.kwargs.get("alpha", 1) == 1
        and (index.ndim == 1 or (index.shape == src.shape and not any(index.stride()[1:])))
    )


class _KeptPattern(NamedTuple):
    """A pattern of edges.

    `ends` (int64[2, edges]) has sources and targets. `order` sorts the edges by target; None if
    they are sorted.
    """

    ends: Tensor
    pattern: Pattern
    order: Tensor | None


class Patterns:
    """Sparsity patterns of the edges in a forward pass, kept for the next forward pass."""

    def __init__(self) -> None:
        self._last: list[_KeptPattern] = []
        self._now: list[_KeptPattern] = []

    def end_pass(self) -> None:
        """End a forward pass: forget every kept sparsity pattern that this pass did not use."""
        self._last, self._now = self._now, []

    def total(self, message: Message, targets: EdgeEnds) -> Tensor:
        """Return, for every own row, the sum of `message` over its edges: Tensor[num_rows, ...]."""
        rows, factors = message.read()
        at = plain(targets).flatten(1)[:, 0] if targets.ndim > 1 else plain(targets)
        ends = torch.stack([plain(message.source), at])
        _, pattern, order = self._kept_of(ends, targets.of.num_rows, len(rows))
        shape = rows.shape[1:]
        if factors is None:
            return aggregate(pattern, rows.flatten(1)).unflatten(1, shape)
        factors = factors.flatten(1)
        factors = factors if order is None else factors.index_select(0, order)
        heads = factors.shape[1]
        by_heads = rows.reshape(len(rows), heads, prod(shape) // heads)
        return weighted_sum(pattern, factors, by_heads).flatten(1).unflatten(1, shape)

    def _kept_of(self, ends: Tensor, num_rows: int, num_columns: int) -> _KeptPattern:
        for kept in (*self._now, *self._last):
            pattern = kept.pattern
            if (num_rows, num_columns) == (pattern.num_rows, pattern.num_columns) and torch.equal(
                kept.ends, ends
            ):
                break
        else:
            kept = _pattern_of(ends, num_rows, num_columns)
        if all(kept is not each for each in self._now):
            self._now.append(kept)
        return kept


def _pattern_of(ends: Tensor, num_rows: int, num_columns: int) -> _KeptPattern:
    source, target = ends
    order = None
    if (target[1:] < target[:-1]).any():
        order = target.argsort(stable=True)
        source = source[order]
    row_ptr = offsets(target.bincount(minlength=num_rows).numpy())
    return _KeptPattern(ends, Pattern.from_csr(row_ptr, source.numpy(), num_columns), order)
