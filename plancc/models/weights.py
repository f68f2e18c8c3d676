"""Vertex weights: what a partition balances. Knows the matrix, not the model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.registry import check_choice

BALANCES = ("nnz", "rows", "weights")
MAX_TOTAL = 2**53
"""Largest sum of vertex weights: exact in int64 and in float64."""


def vertex_weights(matrix: Graph, balance: str) -> npt.NDArray[np.int64]:
    """Weights that the parts are to share evenly.

    Parameters
    ----------
    matrix : Graph
        The normalised matrix.
    balance : {"nnz", "rows", "weights"}
        "nnz": nonzeros of the row, the work of its product (paper 000, section 4.3.1,
        ``w(v_i) = |cols(A(i, :))|``); "rows": 1 for every row; "weights": the vertex weights that
        the source of the graph gives.

    Returns
    -------
    int64[num_vertices]

    Raises
    ------
    InputError
        Unknown `balance`; "weights" for a graph without vertex weights, with several per vertex, or
        with weights whose sum is above `MAX_TOTAL`.
    """
    check_choice("balance", balance, BALANCES)
    if balance == "nnz":
        return matrix.row_nonzeros().astype(np.int64, copy=False)
    if balance == "rows":
        return np.ones(matrix.num_vertices, dtype=np.int64)
    weights = matrix.vertex_weights
    if weights is None:
        raise InputError(f"{matrix.source.name}: balance 'weights', but it has no vertex weights")
    if weights.ndim == 2 and weights.shape[1] != 1:
        raise InputError(
            f"{matrix.source.name}: balance 'weights' needs one weight per vertex, "
            f"the graph has {weights.shape[1]}"
        )
    if weights.sum(dtype=np.float64) > MAX_TOTAL:
        raise InputError(
            f"{matrix.source.name}: its weights sum to more than {MAX_TOTAL}; scale them down"
        )
    return np.ascontiguousarray(weights.reshape(-1), dtype=np.int64)


def check_num_parts(num_vertices: int, num_parts: int) -> None:
    """Raise InputError unless `num_parts` is an integer in ``1..num_vertices``."""
    if not isinstance(num_parts, int | np.integer) or isinstance(num_parts, bool):
        raise InputError(f"{num_parts!r} parts: a whole number is needed")
    if num_parts < 1:
        raise InputError(f"{num_parts} parts: at least 1 is needed")
    if num_parts > num_vertices:
        raise InputError(
            f"{num_parts} parts for {num_vertices} vertices: every part needs at least one vertex"
        )
