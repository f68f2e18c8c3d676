"""Aggregation over whole rows, whose nonzeros several ranks hold in an edge plan."""

from __future__ import annotations

import torch
from torch import Tensor

from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn import operators


def aggregate(
    graph: LocalGraph,
    x: Tensor | None,
    weight: Tensor | None = None,
    op: str = "copy",
    reduce: str = "sum",
    target: Tensor | None = None,
    nonzeros: str = "edges",
) -> Tensor:
    """`operators.aggregate` over the nonzeros of every own row, wherever they are. Collective.

    In an edge plan every rank reduces the nonzeros that it has; owners reduce these partial rows.
    The expand moves the columns of x, the fold those of the result; those of `target` travel along
    the fold backward. A gradient of max or min goes to one of the nonzeros that attain it, on one
    rank.

    Parameters:
        x (Tensor[num_inputs, d] or None): None if `op` does not need it.
        weight (Tensor[nnz] or Tensor[nnz, d], optional): Weights of this rank's nonzeros.
        op, reduce: As in `operators.aggregate`.
        target: Tensor[num_outputs, d], optional.
        nonzeros: A name in `layouts.block.NONZEROS`.

    Returns:
        Tensor[num_outputs, d]

    Raises:
        InputError: As `operators.aggregate`.
    """
    columns = torch.empty(0) if x is None else graph.columns(x)
    if x is not None and target is not None:
        operators.check_operand("target", target, (graph.num_outputs, None), x)
        target = graph.local_rows(target)
    partial = "sum" if graph.folds and reduce == "mean" else reduce
    pattern = graph.local_pattern(nonzeros)
    out = operators.aggregate(pattern, columns, weight, op, partial, target)
    if not graph.folds:
        return out
    out = operators.aggregate(graph.fold_pattern(nonzeros), graph.partial_rows(out), reduce=partial)
    if reduce == "mean":
        out = out / graph.degree(nonzeros).clamp(min=1).unsqueeze(1).to(out.dtype)
    return out
