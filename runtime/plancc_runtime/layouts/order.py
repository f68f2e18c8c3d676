"""A rank's rows in another order, for the cache. Knows slices; must not know layers or files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

from plancc.plan.plan import Int64Array, Part


def in_cache_order(part: Part, method: str) -> Part:
    """The slice with its rows in the order of `kernels.order.cache_order`; not collective.

    Parameters
    ----------
    part : Part
    method : str
        "none", "rcm" or "degree".
    """
    if method == "none":
        return part
    from plancc_runtime.kernels.order import cache_order

    shape = part.num_rows, part.num_rows + part.num_halo
    row_ptr = part.row_ptr[: part.num_rows + 1]
    column = part.column[: row_ptr[-1]]
    pattern = csr_matrix((np.ones(len(column), np.int8), column, row_ptr), shape, copy=False)
    return reordered(part, cache_order(pattern, method, part.num_interior))


def reordered(part: Part, order: Int64Array) -> Part:
    """The slice with other local numbers of its rows; messages bring the same rows as before.

    Parameters
    ----------
    part : Part
    order : int64[rows]
        Old number of every new row. Interior rows must stay before the others.

    Returns
    -------
    Part
        Its rows are no longer in plan order, and those of a message no longer ascend.
    """
    new = np.empty(part.num_rows + part.num_halo, part.column.dtype)
    new[order] = np.arange(part.num_rows)
    new[part.num_rows :] = np.arange(part.num_rows, len(new))  # halo rows stay where they are
    fold = part.fold
    if fold is not None:
        fold = replace(fold, recv_row=new[fold.recv_row])
    folded = np.arange(part.num_rows, len(part.row_ptr) - 1)  # so do folded rows
    local = np.concatenate([order, folded])
    degree = np.diff(part.row_ptr)[local]
    row_ptr = np.concatenate([[0], np.cumsum(degree)])
    taken = np.arange(row_ptr[-1]) + np.repeat(part.row_ptr[local] - row_ptr[:-1], degree)
    return replace(
        part,
        global_id=part.global_id[order],
        row_ptr=row_ptr,
        column=new[part.column[taken]],
        value=part.value[taken],
        send_row=new[part.send_row],
        vertex_data=part.vertex_data.take(order),
        fold=fold,
    )
