"""Keeps parameters the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from plancc_runtime.transport.base import Transport


def sum_gradients(parameters: Iterable[nn.Parameter], transport: Transport) -> None:
    """Replace every gradient by its sum over all ranks, in one all-reduce. Collective.

    Demirci et al. 2022, Algorithm 2, line 13. A parameter without a gradient counts as zero, as it
    may have one on another rank.

    Parameters:
        parameters: The same on all ranks, in the same order; parameters without gradients are left
            out.
    """
    sum_together(gradients_of([w for w in parameters if w.requires_grad]), transport)


def copy_from_first(tensors: Sequence[Tensor], transport: Transport) -> None:
    """Give all ranks the values of rank 0. Collective."""
    with torch.no_grad():
        if transport.rank > 0:
            for tensor in tensors:
                tensor.zero_()
        # float64 holds the values of all dtypes that occur, counters included
        values = [tensor.double() for tensor in tensors]
        sum_together(values, transport)
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


def gradients_of(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The gradients of parameters, which are zeros from now on where there were none."""
    for w in parameters:
        if w.grad is None:
            w.grad = torch.zeros_like(w)
    return [w.grad for w in parameters if w.grad is not None]


def sum_together(tensors: Sequence[Tensor], transport: Transport) -> None:
    """Replace tensors of one type by their sums over all ranks, in one all-reduce. Collective."""
    if not tensors:
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    transport.allreduce_sum(flat)
    pieces = flat.split([tensor.numel() for tensor in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))
