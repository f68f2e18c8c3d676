"""Vertex ids of edge lists: kept as vertex numbers, or numbered in ascending order."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.graph.graph import MAX_VERTICES, check_num_vertices

ID_OPTIONS = ("num_vertices", "keep_ids")


class Numbered(NamedTuple):
    """Edges by vertex numbers.

    Attributes
    ----------
    num_vertices : int
    u, v : int[edges]
        Vertex numbers.
    original_ids : int64[num_vertices], or None
        The source's ids; None where they are the vertex numbers.
    """

    num_vertices: int
    u: npt.NDArray[np.integer]
    v: npt.NDArray[np.integer]
    original_ids: npt.NDArray[np.int64] | None


def number(
    u: npt.NDArray[np.int64],
    v: npt.NDArray[np.int64],
    where: str,
    *,
    num_vertices: int | None = None,
    keep_ids: bool = False,
) -> Numbered:
    """Vertex numbers for the ids of an edge list.

    Parameters
    ----------
    u, v : int64[edges]
        Ids, not negative; at least one edge.
    where : str
        Names the source in messages.
    num_vertices : int, optional
        The ids are vertex numbers, of this many vertices.
    keep_ids : bool
        The ids are vertex numbers; the last vertex is the largest id.

    Returns
    -------
    Numbered
        Without `num_vertices` and `keep_ids` the vertices are the ids that occur, in ascending
        order.

    Raises
    ------
    InputError
        For an id that `num_vertices` leaves no room for, or too many vertices.

    Warns
    -----
    PlanccWarning
        If ids between the smallest and the largest do not occur, and therefore are no vertices.
    """
    smallest, largest = int(min(u.min(), v.min())), int(max(u.max(), v.max()))
    if num_vertices is not None:
        check_num_vertices(num_vertices, where)
        if largest >= num_vertices:
            raise InputError(
                f"{where}: vertex id '{largest}' is out of range 0..{num_vertices - 1} "
                f"(`num_vertices` {num_vertices})"
            )
        return Numbered(num_vertices, u, v, None)
    if keep_ids:
        if largest >= MAX_VERTICES:
            raise InputError(
                f"{where}: vertex id '{largest}' is too large to be a vertex number (`keep_ids`); "
                f"at most {MAX_VERTICES - 1} is supported"
            )
        return Numbered(largest + 1, u, v, None)
    found = _compact(u, v, largest)
    if found.num_vertices != largest - smallest + 1:
        others = "" if largest >= MAX_VERTICES else (
            f": `keep_ids` or `num_vertices` {largest + 1} keeps the others"
        )  # fmt: skip
        warnings.warn(
            f"{where}: {found.num_vertices:,} vertices occur; ids go up to {largest:,}{others}",
            PlanccWarning,
            stacklevel=2,
        )
    return found


def _compact(u: npt.NDArray[np.int64], v: npt.NDArray[np.int64], largest: int) -> Numbered:
    """Number the ids that occur 0..n-1 in ascending order."""
    if largest < 8 * len(u) + 1024:  # a table of all ids is cheaper than sorting
        occurs = np.zeros(largest + 1, np.bool_)
        occurs[u] = True
        occurs[v] = True
        ids = np.flatnonzero(occurs)
        if len(ids) == largest + 1:
            return Numbered(len(ids), u, v, None)
        place = np.cumsum(occurs, dtype=np.int64) - 1
        return Numbered(len(ids), place[u], place[v], ids)
    ids, both = np.unique(np.concatenate([u, v]), return_inverse=True)
    return Numbered(len(ids), both[: len(u)], both[len(u) :], ids)
