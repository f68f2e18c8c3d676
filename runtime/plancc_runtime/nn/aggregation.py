"""Aggregation over whole rows, whose nonzeros several ranks hold in an edge plan.

Knows the graph as `LocalGraph` and the operators on one rank; must not know transports or layers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plancc.errors import InputError
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
    As many columns as the result has travel in both steps.

    Parameters
    ----------
    graph : LocalGraph
    x : Tensor[num_inputs, d] or None
        None: `op` does not need it.
    weight : Tensor[nnz] or Tensor[nnz, d], optional
        Of this rank's nonzeros.
    op, reduce : str
        As of `operators.aggregate`.
    target : Tensor[num_outputs, d], optional
    nonzeros : str
        A name in `layouts.block.NONZEROS`.

    Returns
    -------
    Tensor[num_outputs, d]

    Raises
    ------
    InputError
        As `operators.aggregate`.
    """
    if target is not None and len(target) != graph.num_outputs:
        shape = list(target.shape)
        raise InputError(f"target has the shape {shape} where [{graph.num_outputs}, any] is needed")
    columns = torch.empty(0) if x is None else graph.columns(x)
    if target is not None:
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
