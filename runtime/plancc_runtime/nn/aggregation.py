"""Aggregation over whole rows, also if several ranks have nonzeros of a row (edge plans)."""

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
    """Return `operators.aggregate` over the nonzeros of every own row, on all ranks. Collective.

    In an edge plan every rank reduces its own nonzeros, and owners reduce these partial rows. The
    expand moves columns of x, the fold columns of the result. The gradient of a maximum goes to one
    of the nonzeros that attain it, on one rank.

    Parameters:
        x: Tensor[num_inputs, d].
        reduce: Name in `operators.REDUCTIONS`.
        weight (Tensor[nnz] or Tensor[nnz, d], optional): Weights of this rank's nonzeros.
        nonzeros: Name in `layouts.block.NONZEROS`.

    Returns:
        Tensor[num_outputs, d]

    Raises:
        InputError: See `operators.aggregate`.
    """
    partial = "sum" if graph.folds and reduce == "mean" else reduce
    out = operators.aggregate(graph.local_pattern(nonzeros), graph.columns(x), weight, partial)
    if not graph.folds:
        return out
    out = operators.aggregate(graph.fold_pattern(nonzeros), graph.partial_rows(out), reduce=partial)
    if reduce == "mean":
        out = out / graph.degree(nonzeros).clamp(min=1).unsqueeze(1).to(out.dtype)
    return out
