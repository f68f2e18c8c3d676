"""A forward pass that keeps only results of exchanges; the backward pass computes all else again.

Between two exchanges, the layers handle every row independently. The backward pass repeats this
work for as many rows at a time as fit in the cache.

    kept                   computed again                          kept
    A H of layer k   -->   W, bias, norm, activation, dropout   -->   A H of layer k + 1

Sequential Aggregation and Rematerialization (Mostafa, MLSys 2022) also sends rows again; this
module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph, local_graph
from plancc_runtime.nn.conv import unchanged
from plancc_runtime.nn.network import Network
from plancc_runtime.workspace import empty

AT_ONCE = 1 << 18
"""Largest count of numbers in a matrix that has one block of rows."""

Rows = tuple[Tensor, ...]
Work = Callable[[slice, Rows], Rows]
"""Function that handles some rows. Its arguments are the range of these rows, and copies of these
rows of all inputs. It returns these rows of all outputs."""


def recomputed(
    network: Network,
    graphs: Sequence[LayerGraph],
    x: Tensor,
    fixed: Tensor | None = None,
    step: int = 0,
) -> Tensor:
    """Run `Network.forward` in training, but keep only results of exchanges. Collective."""
    kept: Rows = (x,)
    works: list[Work] = []  # map the kept rows to the input of a layer
    for k, graph in enumerate(graphs):
        network.enter(f"layer {k + 1} forward")
        known = fixed if k == 0 else None
        layer = _Layer(network, k, step, local_graph(graph, "`recompute`"), known is not None)
        if known is not None:
            kept = layer.across_fixed(known, x)
        else:
            kept = layer.across(apply_all(network, [*works, layer.before], kept))
        network.watch(kept[0], k)
        works = [layer.after]
        if layer.is_hidden:
            if network.options.norm == "batch":
                z, *own = apply_all(network, works, kept)
                kept, works = (network.normalised(z, k, graph), *own), []
            works.append(layer.finish)
    (outputs,) = apply_all(network, works, kept)
    return outputs.to(next(network.parameters()).dtype)


class _Layer:
    """Layer k of a network (counted from 0), as functions to call before and after its exchange.

    With a residual, every method but `finish` also returns the layer's input rows, as last result.
    """

    def __init__(
        self, network: Network, k: int, step: int, graph: LocalGraph, is_fixed: bool
    ) -> None:
        self._network, self._k, self._step, self._graph = network, k, step, graph
        self._halves = network.convs[k].halves(graph, is_fixed, k == 0, **network.key(k, step))
        self.is_hidden = k < len(network.convs) - 1
        self._skips = network.options.residual and self.is_hidden

    def across_fixed(self, fixed: Tensor, x: Tensor) -> Rows:
        """Return the arguments of `Halves.after` for all rows of the network's first layer.

        `fixed` is what `Conv.fixed` computed for this layer before training.
        """
        reads = self._network.convs[0].reads_input
        own = (self._graph.targets(x),) if reads or self._skips else ()
        given = (fixed, *own) if reads else (fixed,)
        if self._halves.before is not unchanged:
            given = apply_all(self._network, [lambda _, rows: self._halves.before(*rows)], given)
        return (*self._halves.across(*given), *(own if self._skips else ()))

    def before(self, place: slice, rows: Rows) -> Rows:
        """Return, for some input rows, the rows to send, and rows that this rank needs later."""
        vertices = self._graph.vertices[place]
        (x,) = rows
        x = self._network.dropped(x, self._k, self._step, vertices)
        return (*self._halves.before(x), *((x,) if self._skips else ()))

    def across(self, given: Rows) -> Rows:
        """Return the arguments of `Halves.after`, made from the results `given` of `Halves.before`.

        The arguments have all rows, as `given` does. Collective.
        """
        moved, own = self._parted(given)
        return (*self._halves.across(*moved), *(self._graph.targets(each) for each in own))

    def after(self, place: slice, rows: Rows) -> Rows:
        """Return the convolution's output for the rows in `place`; `rows` is from `across`."""
        given, own = self._parted(rows)
        return (self._halves.after(*given), *own)

    def finish(self, place: slice, rows: Rows) -> Rows:
        """Apply layer norm, activation and residual to some rows of a hidden layer's output.

        A batch norm needs all rows, so it is not applied here. With a residual, the last of `rows`
        holds the layer's input rows.
        """
        (z,), own = self._parted(rows)
        if self._network.options.norm == "layer":
            z = self._network.normalised(z, self._k, self._graph)
        z = self._network.activate(z)
        for x in own:
            z = z + self._network.skipped(x, self._k, self._graph)
        return (z,)

    def _parted(self, rows: Rows) -> tuple[Rows, Rows]:
        first_own = len(rows) - self._skips
        return rows[:first_own], rows[first_own:]


def apply_all(network: Network, works: Sequence[Work], rows: Rows) -> Rows:
    """Apply the functions `works` to all rows, some rows at a time.

    Of the network, the functions use only the parameters.
    """
    return _ApplyAll.apply(tuple(works), max(network.dims), len(rows), *rows, *network.parameters())


class _ApplyAll(torch.autograd.Function):
    """The autograd function of `apply_all`. Its backward pass applies the functions again."""

    @staticmethod
    def forward(
        ctx: Any, works: Sequence[Work], width: int, num_rows: int, *tensors: Tensor
    ) -> Rows:
        ctx.works, ctx.num_rows, ctx.step = works, num_rows, max(1, AT_ONCE // width)
        ctx.save_for_backward(*tensors)
        rows = tensors[:num_rows]
        first, *others = _blocks(len(rows[0]), ctx.step)
        with torch.enable_grad():  # the first block shows which outputs have a gradient
            found = _done(works, first, _leaves(rows, first, ctx.needs_input_grad[3:]))
        outputs = tuple(empty(len(rows[0]), part.shape[1], part) for part in found)
        for whole, part in zip(outputs, found, strict=True):
            whole[first] = part.detach()
        for place in others:
            made = _done(works, place, tuple(each[place] for each in rows))
            for whole, part in zip(outputs, made, strict=True):
                whole[place] = part
        ctx.mark_non_differentiable(
            *(whole for whole, part in zip(outputs, found, strict=True) if not part.requires_grad)
        )
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        rows, parameters = tensors[: ctx.num_rows], tensors[ctx.num_rows :]
        out: list[Tensor | None] = [
            empty(len(each), each.shape[1], each) if needs else None
            for each, needs in zip(rows, needed, strict=False)
        ]
        sums: list[Tensor | None] = [None] * len(parameters)
        for place in _blocks(len(rows[0]), ctx.step):
            with torch.enable_grad():
                leaves = _leaves(rows, place, needed)
                made = _done(ctx.works, place, leaves)
            ends = [(y, g[place]) for y, g in zip(made, gradients, strict=True) if y.requires_grad]
            sources = [each for each in (*leaves, *parameters) if each.requires_grad]
            found = iter(
                torch.autograd.grad(
                    [y for y, _ in ends], sources, [g for _, g in ends], allow_unused=True
                )
            )
            for whole in out:
                if whole is not None:
                    part = next(found)
                    whole[place] = 0 if part is None else part
            for i, parameter in enumerate(parameters):
                if parameter.requires_grad:
                    part, before = next(found), sums[i]
                    if part is not None:
                        sums[i] = part if before is None else before.add_(part)
        return None, None, None, *out, *sums


def _done(works: Sequence[Work], place: slice, rows: Rows) -> Rows:
    rows = tuple(each.clone() for each in rows)
    for work in works:
        rows = work(place, rows)
    return rows


def _leaves(rows: Rows, place: slice, needed: Sequence[bool]) -> Rows:
    """Return the rows in `place` as leaves of a new autograd graph, with gradient if `needed`."""
    return tuple(
        each[place].detach().requires_grad_(needs)
        for each, needs in zip(rows, needed, strict=False)
    )


def _blocks(size: int, step: int) -> Iterator[slice]:
    """Yield the ranges of blocks of at most `step` rows; without rows, one empty range."""
    for first in range(0, max(size, 1), step):
        yield slice(first, min(first + step, size))
