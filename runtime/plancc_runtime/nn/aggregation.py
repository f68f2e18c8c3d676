"""Aggregation over the nonzeros that all ranks have in a row (in edge plans, several may)."""

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
    """Return `operators.aggregate` of every own row, over the nonzeros of all ranks. Collective.

    In an edge plan, every rank reduces its own nonzeros, and owners reduce the partial rows. The
    expand moves rows of x, the fold moves partial rows of the result. The gradient of a maximum is
    added to one of the nonzeros that attain the maximum, on one rank.

    Parameters:
        x (Tensor[num_inputs, d]): Own rows.
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
