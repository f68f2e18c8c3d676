"""Kernels that assign nonzeros to parts with the least volume, for given owners of rows.

Let part P own row i and part Q own row j of H, and let (i, j) be a nonzero. If P computes the
nonzero, P must receive row j of H. If Q computes it, Q must send a partial sum of row i. These
choices form a bipartite graph::

    left vertex (i, Q): part Q sends a partial sum of row i     costs one row
    right vertex (j, P): part P receives row j of H             costs one row

Every nonzero between two parts is an edge, and at least one of its two vertices must be chosen. So
the chosen vertices are a vertex cover, and a minimum vertex cover gives the least volume. The
graphs of different pairs of parts have no vertex in common, and are solved as one graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from plancc.kernel import njit
from plancc.passes.kernels.nets import transpose


class Cut(NamedTuple):
    """The bipartite graph whose edges are the nonzeros between two parts.

    Attributes:
        at (int64[num_edges]): Index in the CSR of every edge's nonzero, sorted by left vertex.
        left_ptr (int64[num_left + 1]): Offsets of every left vertex's edges.
        left, right (int32[num_edges]): Left and right vertex of every edge.
        right_ptr, right_edges (int64[num_right + 1], int64[num_edges]): Offsets, and indices, of
            every right vertex's edges.
        left_parts, right_parts (int32[num_left, 2], int32[num_right, 2]): Owner of the rows, and
            owner of the columns, of a vertex's nonzeros.
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
    """Number vertices on one side of the bipartite graph (see the module); return each nonzero's.

    Also return the number of vertices. With CSR arrays, the side is the left one: a vertex is a
    pair (row, part), and the part owns the column of a nonzero in the row, but not the row. With
    CSC arrays, the side is the right one: a vertex is a pair (column, part), and the part owns the
    row of a nonzero in the column, but not the column. A nonzero gets -1 if its row and column have
    the same owner.
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
    """Build the `Cut` of a CSR pattern for given owners of rows, in about 50 bytes per nonzero."""
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
    # Visit nonzeros row by row, and write each edge to the place of its left vertex.
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
    """Find the vertices in every minimum vertex cover of `cut`, and the choices that remain.

    `cut` is a bipartite graph of left and right vertices. The method follows Koenig, and Dulmage
    and Mendelsohn. The vertices that are in some, but not all, minimum covers are divided into
    components: a minimum cover has either all left or all right vertices of a component.

    Returns:
        left, right (bool[num_left], bool[num_right]): Whether a vertex is in every minimum cover.
        component (int32[num_left]): Component of every left vertex; -1 if it is in none. A right
            vertex is in the component of its mate.
        mate (int32[num_left]): The right vertex to which a left vertex is matched, or -1.
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

    # Vertices that no alternating path reaches have a choice: join vertices whose edges force the
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
    """Return for each left vertex of a bipartite graph if an alternating path reaches it: bool[m].

    Paths begin at the right vertices for which `starts` is true. Right vertex x has the neighbours
    ``ends[ptr[x]:ptr[x + 1]]``. `mate` has the right vertex to which each left vertex is matched.
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
                # continue from the mate: every second edge of an alternating path is matched
                queue[tail] = mate[y]
                tail += 1
    return found


@njit(cache=True, nogil=True)
def complete(cut, left, right, component, mate, own, scale):  # type: ignore[no-untyped-def]
    """Add to a vertex cover either the left or the right vertices of every component (see `cover`).

    All nonzeros of a component then go to one of its two parts: to the part with fewer nonzeros so
    far, large components first. `left` and `right` are updated.

    Parameters:
        left, right, component, mate: The result of `cover`.
        own (int64[num_parts]): For every part, its number of nonzeros that are not edges of `cut`.
        scale (float64[num_parts]): Mean capacity of the parts, divided by the part's capacity.
    """
    load, num = own.copy(), component.max() + 1 if len(component) > 0 else 0
    size = np.zeros(num, dtype=np.int64)
    parts = np.zeros((num, 2), dtype=np.int32)
    for e in range(len(cut.at)):
        x, y = cut.left[e], cut.right[e]
        # A nonzero of a component goes with the component. Other nonzeros have a fixed part, except
        # if both ends are paid for (`place` assigns these).
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
    # Choose once more: a component changes sides if the lighter part then stays lighter.
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
    """Return whether each nonzero between two parts goes to its column's owner, bool[num_edges].

    `cut` is the bipartite graph; `left` and `right` are its cover. If both ends of a nonzero's edge
    are in the cover, the lighter of the two parts gets the nonzero. `load` counts the parts'
    nonzeros, and is updated.
    """
    with_column = np.zeros(len(cut.at), dtype=np.bool_)
    # First the nonzeros with one end paid for, then those with a choice.
    for free in (False, True):
        for e in range(len(cut.at)):
            x, y = cut.left[e], cut.right[e]
            here, there = cut.left_parts[x]
            if (left[x] and right[y]) == free:
                less = load[there] * scale[there] < load[here] * scale[here]
                with_column[e] = less if free else not right[y]
                load[there if with_column[e] else here] += 1
    return with_column
