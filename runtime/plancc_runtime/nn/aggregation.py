"""Aggregation over whole rows, whose nonzeros several ranks hold in an edge plan."""

from __future__ import annotations

from torch import Tensor

from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn import operators


def aggregate(
    graph: LocalGraph,
    x: Tensor,
    reduce: str = "sum",
    weight: Tensor | None = None,
    nonzeros: str = "edges",
) -> Tensor:
    """`operators.aggregate` over the nonzeros of every own row, wherever they are. Collective.

    In an edge plan every rank reduces the nonzeros that it has; owners reduce these partial rows.
    The expand moves columns of x, the fold columns of the result. A gradient of a maximum goes to
    one of the nonzeros that attain it, on one rank.

    Parameters:
        x: Tensor[num_inputs, d].
        reduce: As in `operators.aggregate`.
        weight (Tensor[nnz] or Tensor[nnz, d], optional): Weights of this rank's nonzeros.
        nonzeros: A name in `layouts.block.NONZEROS`.

    Returns:
        Tensor[num_outputs, d]

    Raises:
        InputError: As `operators.aggregate`.
    """
    partial = "sum" if graph.folds and reduce == "mean" else reduce
    out = operators.aggregate(graph.local_pattern(nonzeros), graph.columns(x), weight, partial)
    if not graph.folds:
        return out
    out = operators.aggregate(graph.fold_pattern(nonzeros), graph.partial_rows(out), reduce=partial)
    if reduce == "mean":
        out = out / graph.degree(nonzeros).clamp(min=1).unsqueeze(1).to(out.dtype)
    return out
