"""Aggregation of neighbours' rows. In an edge plan, several ranks may have nonzeros of one row."""

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
    """For every own row, reduce the rows of its neighbours on all ranks. Collective.

    In an edge plan, the owner reduces the ranks' partial results. The gradient of a maximum is
    added to a single nonzero, on one rank.

    Parameters:
        x (Tensor[num_inputs, d]): Own rows.
        weight (Tensor[nnz] or Tensor[nnz, d], optional): Weights of this rank's nonzeros.
        nonzeros: Name in `layouts.block.NONZEROS`.
    """
    partial = "sum" if graph.folds and reduce == "mean" else reduce
    out = operators.aggregate(graph.local_pattern(nonzeros), graph.columns(x), weight, partial)
    if not graph.folds:
        return out
    out = operators.aggregate(graph.fold_pattern(nonzeros), graph.partial_rows(out), reduce=partial)
    if reduce == "mean":
        out = out / graph.degree(nonzeros).clamp(min=1).unsqueeze(1).to(out.dtype)
    return out
