"""The least split of a matrix for given owners: minimum vertex covers of bipartite graphs.

Nonzero (i, j) of two parts, P of row i and Q of column j, can be where row i is, which then needs
column j, or where column j is, which then folds row i::

    left vertex (i, Q): part Q has a partial sum of row i       one row moved each
    right vertex (j, P): part P has column j                    one row moved each

One edge for every such nonzero, and at least one of its ends is paid for: a vertex cover. The
graphs of different pairs of parts share no vertex, so all are one graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from plancc.kernel import njit
from plancc.passes.kernels.nets import transpose


class Cut(NamedTuple):
    """The nonzeros between parts as a bipartite graph.

    Attributes:
        at (int64[num_edges]): Place of every edge's nonzero in the CSR; edges of a left vertex are
            neighbours.
        left_ptr (int64[num_left + 1]): Edges of left vertex x are ``left_ptr[x]:left_ptr[x + 1]``.
        left, right (int32[num_edges]): Ends of every edge.
        right_ptr: int64[num_right + 1].
        right_edges (int64[num_edges]): Edges of right vertex y are
            ``right_edges[right_ptr[y]:right_ptr[y + 1]]``.
        left_parts, right_parts (int32[num_left, 2], int32[num_right, 2]): Part of the row and part
            of the column, of all edges of a vertex.
    """

    at: Any
    left_ptr: Any
    left: Any
    right: Any
    right_ptr: Any
    right_edges: Any
    left_parts: Any
    right_parts: Any


@njit(cache=True, nogil=True)
def _groups(owner: Any, num_parts: int, ptr: Any, other: Any) -> Any:
    """Number the pairs of a line (a row or a column) and a foreign part of its nonzeros.

    `ptr`, `other`: CSR of the lines, and where their nonzeros have the other end. Returns the
    number of every nonzero's pair, int32[nnz], -1 within a part, and how many pairs there are.
    """
    number = np.empty(len(other), dtype=np.int32)
    last = np.full(num_parts, -1, dtype=np.int64)
    pair = np.empty(num_parts, dtype=np.int32)
    count = 0
    for line in range(len(ptr) - 1):
        for k in range(ptr[line], ptr[line + 1]):
            part = owner[other[k]]
            if part == owner[line]:
                number[k] = -1
                continue
            # `last[part] == line`: this line has a pair with the part already.
            if last[part] != line:
                last[part] = line
                pair[part] = count
                count += 1
            number[k] = pair[part]
    return number, count


@njit(cache=True, nogil=True)
def cut_of(indptr: Any, indices: Any, owner: Any, num_parts: int) -> Any:
    """The `Cut` of a CSR pattern under owners int32[n]; about 50 bytes for every nonzero."""
    left, num_left = _groups(owner, num_parts, indptr, indices)
    column_ptr, rows, place = transpose(indptr, indices, np.arange(len(indices)), len(indptr) - 1)
    of_columns, num_right = _groups(owner, num_parts, column_ptr, rows)
    right = np.empty(len(indices), dtype=np.int32)
    # Pairs of columns were numbered in CSC order; bring them into CSR order.
    for e in range(len(place)):
        right[place[e]] = of_columns[e]

    left_ptr = np.zeros(num_left + 1, dtype=np.int64)
    right_ptr = np.zeros(num_right + 1, dtype=np.int64)
    for k in range(len(left)):
        if left[k] >= 0:
            left_ptr[left[k] + 1] += 1
            right_ptr[right[k] + 1] += 1
    left_ptr, right_ptr = np.cumsum(left_ptr), np.cumsum(right_ptr)
    # Edges in the order of rows are grouped by left vertex as they are written.
    free = left_ptr[:-1].copy()
    at = np.empty(left_ptr[num_left], dtype=np.int64)
    left_end = np.empty(len(at), dtype=np.int32)
    right_end = np.empty(len(at), dtype=np.int32)
    left_parts = np.empty((num_left, 2), dtype=np.int32)
    right_parts = np.empty((num_right, 2), dtype=np.int32)
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            x, y = left[k], right[k]
            if x >= 0:
                here, there = owner[i], owner[indices[k]]
                e = free[x]
                at[e], left_end[e], right_end[e] = k, x, y
                free[x] += 1
                left_parts[x, 0] = right_parts[y, 0] = here
                left_parts[x, 1] = right_parts[y, 1] = there
    free = right_ptr[:-1].copy()
    right_edges = np.empty(len(at), dtype=np.int64)
    for e in range(len(at)):
        right_edges[free[right_end[e]]] = e
        free[right_end[e]] += 1
    return Cut(at, left_ptr, left_end, right_end, right_ptr, right_edges, left_parts, right_parts)


def cover(cut: Cut) -> Any:
    """Vertices of every minimum cover, and of at least one (Koenig; Dulmage, Mendelsohn).

    Every minimum cover holds the right vertices that alternating paths from free left vertices
    reach, and the left vertices that such paths from free right ones reach, whatever the maximum
    matching is. All others are matched and fall into connected components: of
    each all left vertices are a choice, and all right ones are.

    Returns:
        left, right : bool[num_left], bool[num_right]: In every cover.
        component (int32[num_left]): Component of every left vertex that may be chosen, or -1. A
            right vertex has its mate's.
        mate (int32[num_left]): Partner of every left vertex, or -1.
    """
    num_left, num_right = len(cut.left_parts), len(cut.right_parts)
    edges = (np.ones(len(cut.at), np.bool_), cut.right, cut.left_ptr)
    graph = csr_matrix(edges, shape=(num_left, num_right))
    # By Koenig a minimum cover has one end of every edge of a maximum matching.
    mate = maximum_bipartite_matching(graph, perm_type="column").astype(np.int32)
    mate_right = np.full(num_right, -1, dtype=np.int32)
    mate_right[mate[mate >= 0]] = np.flatnonzero(mate >= 0)
    right = _reached(cut.left_ptr, cut.right, mate < 0, mate_right)
    left = _reached(cut.right_ptr, cut.left[cut.right_edges], mate_right < 0, mate)

    # What no alternating path reaches is free to choose: join vertices whose edges force the
    # same choice.
    may = (mate >= 0) & ~left & ~right[mate]
    of_both = may[cut.left] & ~right[cut.right]
    pairs = cut.left[of_both], mate_right[cut.right[of_both]]
    joined = coo_matrix((np.ones(len(pairs[0]), np.bool_), pairs), shape=(num_left, num_left))
    component = np.full(num_left, -1, dtype=np.int32)
    label = connected_components(joined, directed=False)[1]
    number = np.cumsum(np.bincount(label[may], minlength=num_left) > 0) - 1
    component[may] = number[label[may]]
    return left, right, component, mate


@njit(cache=True, nogil=True)
def _reached(ptr: Any, ends: Any, starts: Any, mate: Any) -> Any:
    """Ends that are reached from the starts by any edge, from there by the one to their mate.

    Parameters:
        ptr (int64[n + 1]): The edges of vertex x lead to ``ends[ptr[x]:ptr[x + 1]]``.
        starts: bool[n].
        mate (int32[m]): Of the ends.
    """
    found, queue = np.zeros(len(mate), dtype=np.bool_), np.empty(len(starts), dtype=np.int64)
    tail = 0
    for x in range(len(starts)):
        if starts[x]:
            queue[tail] = x
            tail += 1
    head = 0
    while head < tail:
        x = queue[head]
        head += 1
        for k in range(ptr[x], ptr[x + 1]):
            y = ends[k]
            if not found[y]:
                found[y] = True
                # go on from the mate: every second edge of an alternating path is in the matching
                queue[tail] = mate[y]
                tail += 1
    return found


@njit(cache=True, nogil=True)
def complete(cut, left, right, component, mate, own, scale):  # type: ignore[no-untyped-def]
    """Choose a side of every component, so that the parts are even; changes `left` and `right`.

    The larger components come first, each to the part that has less so far; then all once more.

    Parameters:
        cut: Cut.
        left, right, component, mate: What `cover` answered.
        own (int64[num_parts]): Nonzeros that the parts have beside the nonzeros of the cut.
        scale (float64[num_parts]): Nonzeros of two parts are compared times this.
    """
    load, num = own.copy(), component.max() + 1 if len(component) > 0 else 0
    size = np.zeros(num, dtype=np.int64)
    parts = np.zeros((num, 2), dtype=np.int32)
    for e in range(len(cut.at)):
        x, y = cut.left[e], cut.right[e]
        # A nonzero of a component goes where the component goes; others have their place, but for
        # those that both ends pay for (`place` puts these).
        if component[x] >= 0 and not right[y]:
            size[component[x]] += 1
            parts[component[x]] = cut.left_parts[x]
        elif not (left[x] and right[y]):
            load[cut.left_parts[x, 1 if left[x] else 0]] += 1
    side = np.zeros(num, dtype=np.int64)
    order = np.argsort(-size, kind="mergesort")
    # Largest first, each to the lighter part.
    for c in order:
        one, two = parts[c]
        side[c] = 1 if load[two] * scale[two] < load[one] * scale[one] else 0
        load[parts[c, side[c]]] += size[c]
    # Once more: a component changes sides where that leaves the lighter part lighter still.
    for c in order:
        here, there = parts[c, side[c]], parts[c, 1 - side[c]]
        if (load[there] + size[c]) * scale[there] < load[here] * scale[here]:
            side[c] = 1 - side[c]
            load[here] -= size[c]
            load[there] += size[c]
    for x in range(len(component)):
        if component[x] >= 0:
            if side[component[x]] == 1:
                left[x] = True
            else:
                right[mate[x]] = True


@njit(cache=True, nogil=True)
def place(cut: Any, left: Any, right: Any, load: Any, scale: Any) -> Any:
    """Put every nonzero where it is paid for; those paid for at both ends where there is less.

    Parameters:
        cut: Cut.
        left, right (bool[num_left], bool[num_right]): A vertex cover.
        load (int64[num_parts]): Nonzeros that the parts have beside the cut's; changed.
        scale (float64[num_parts]): Nonzeros of two parts are compared times this.

    Returns:
        bool[num_edges]: Whether the nonzero is where its column is.
    """
    with_column = np.zeros(len(cut.at), dtype=np.bool_)
    # First what has one place only, then what may be at either end.
    for free in (False, True):
        for e in range(len(cut.at)):
            x, y = cut.left[e], cut.right[e]
            here, there = cut.left_parts[x]
            if (left[x] and right[y]) == free:
                less = load[there] * scale[there] < load[here] * scale[here]
                with_column[e] = less if free else not right[y]
                load[there if with_column[e] else here] += 1
    return with_column
