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
    for e in range(len(place)):
        right[place[e]] = of_columns[e]

    left_ptr = np.zeros(num_left + 1, dtype=np.int64)
    right_ptr = np.zeros(num_right + 1, dtype=np.int64)
    for k in range(len(left)):
        if left[k] >= 0:
            left_ptr[left[k] + 1] += 1
            right_ptr[right[k] + 1] += 1
    left_ptr, right_ptr = np.cumsum(left_ptr), np.cumsum(right_ptr)
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


@njit(cache=True, nogil=True)
def match(cut: Any, banned: Any) -> Any:
    """A maximum matching without the right vertices `banned` (Hopcroft and Karp, 1973).

    Returns the partner of every left and of every right vertex, int32, -1: none.
    """
    num_left, num_right = len(cut.left_ptr) - 1, len(cut.right_ptr) - 1
    mate = np.full(num_left, -1, dtype=np.int32)
    mate_right = np.full(num_right, -1, dtype=np.int32)
    for x in range(num_left):  # a maximal one to start from
        for e in range(cut.left_ptr[x], cut.left_ptr[x + 1]):
            y = cut.right[e]
            if mate_right[y] < 0 and not banned[y]:
                mate[x], mate_right[y] = y, x
                break
    depth = np.empty(num_left, dtype=np.int32)
    queue = np.empty(num_left, dtype=np.int32)
    edge = np.empty(num_left, dtype=np.int64)
    path = np.empty(num_left, dtype=np.int32)
    while True:
        # Layers of shortest alternating paths from all free left vertices.
        tail = 0
        for x in range(num_left):
            depth[x] = -1
            if mate[x] < 0:
                depth[x] = 0
                queue[tail] = x
                tail += 1
        head, found = 0, False
        while head < tail:
            x = queue[head]
            head += 1
            for e in range(cut.left_ptr[x], cut.left_ptr[x + 1]):
                y = cut.right[e]
                if banned[y]:
                    continue
                z = mate_right[y]
                if z < 0:
                    found = True
                elif depth[z] < 0:
                    depth[z] = depth[x] + 1
                    queue[tail] = z
                    tail += 1
        if not found:
            return mate, mate_right
        # As many paths without a common vertex as a depth first search meets.
        edge[:] = cut.left_ptr[:-1]
        for start in range(num_left):
            if mate[start] >= 0:
                continue
            length = 1
            path[0] = start
            while length > 0:
                x = path[length - 1]
                if edge[x] == cut.left_ptr[x + 1]:
                    depth[x] = -1  # a dead end
                    length -= 1
                    continue
                y = cut.right[edge[x]]
                edge[x] += 1
                if banned[y]:
                    continue
                z = mate_right[y]
                if z < 0:
                    while length > 0:
                        length -= 1
                        x = path[length]
                        before = mate[x]
                        mate[x], mate_right[y] = y, x
                        y = before
                elif depth[z] == depth[x] + 1:
                    path[length] = z
                    length += 1


@njit(cache=True, nogil=True)
def cover(cut: Any, banned: Any, mate: Any, mate_right: Any) -> Any:
    """Vertices of every minimum cover, and those of some (Koenig; Dulmage, Mendelsohn).

    Every minimum cover that has all of `banned` holds the right vertices that alternating paths
    from free left vertices reach, and the left vertices that such paths from free right ones reach.
    What no path reaches is matched perfectly and falls into connected components: of each all left
    vertices are a choice, and all right ones are.

    Returns:
        left, right : bool[num_left], bool[num_right]: In every cover.
        component (int32[num_left]): Component of every left vertex that may be chosen, or -1. A
            right vertex has its mate's.
        num_components: int
    """
    num_left, num_right = len(cut.left_ptr) - 1, len(cut.right_ptr) - 1
    left = np.zeros(num_left, dtype=np.bool_)
    right = banned.copy()
    settled = np.zeros(num_left, dtype=np.bool_)
    queue = np.empty(num_left, dtype=np.int32)
    tail = 0
    for x in range(num_left):
        if mate[x] < 0:
            settled[x] = True
            queue[tail] = x
            tail += 1
    head = 0
    while head < tail:
        x = queue[head]
        head += 1
        for e in range(cut.left_ptr[x], cut.left_ptr[x + 1]):
            y = cut.right[e]
            if not right[y]:
                right[y] = True
                settled[mate_right[y]] = True
                queue[tail] = mate_right[y]
                tail += 1
    waiting = np.empty(num_right, dtype=np.int32)
    tail = 0
    for y in range(num_right):
        if mate_right[y] < 0 and not banned[y]:
            waiting[tail] = y
            tail += 1
    head = 0
    while head < tail:
        y = waiting[head]
        head += 1
        for a in range(cut.right_ptr[y], cut.right_ptr[y + 1]):
            x = cut.left[cut.right_edges[a]]
            if not left[x]:
                left[x] = settled[x] = True
                waiting[tail] = mate[x]
                tail += 1

    component = np.full(num_left, -1, dtype=np.int32)
    num = 0
    for start in range(num_left):
        if settled[start] or component[start] >= 0:
            continue
        component[start] = num
        queue[0], head, tail = start, 0, 1
        while head < tail:
            x = queue[head]
            head += 1
            y = mate[x]
            for a in range(cut.right_ptr[y], cut.right_ptr[y + 1]):
                z = cut.left[cut.right_edges[a]]
                if not settled[z] and component[z] < 0:
                    component[z] = num
                    queue[tail] = z
                    tail += 1
            for e in range(cut.left_ptr[x], cut.left_ptr[x + 1]):
                if not right[cut.right[e]]:
                    z = mate_right[cut.right[e]]
                    if component[z] < 0:
                        component[z] = num
                        queue[tail] = z
                        tail += 1
        num += 1
    return left, right, component, num


@njit(cache=True, nogil=True)
def complete(  # type: ignore[no-untyped-def]
    cut, left, right, component, num, mate, own, scale
):
    """Choose a side of every component, so that the parts are even; changes `left` and `right`.

    The larger components come first, each to the part that has less so far; then all once more.

    Parameters:
        cut: Cut.
        left, right, component, num: What `cover` answered.
        mate: int32[num_left].
        own (int64[num_parts]): Nonzeros that the parts have beside those of the cut.
        scale (float64[num_parts]): Nonzeros of two parts are compared times this.
    """
    load = own.copy()
    size = np.zeros(num, dtype=np.int64)
    parts = np.zeros((num, 2), dtype=np.int32)
    for e in range(len(cut.at)):
        x, y = cut.left[e], cut.right[e]
        if component[x] >= 0 and not right[y]:
            size[component[x]] += 1
            parts[component[x]] = cut.left_parts[x]
        elif not (left[x] and right[y]):
            load[cut.left_parts[x, 1 if left[x] else 0]] += 1
    side = np.zeros(num, dtype=np.int64)
    order = np.argsort(-size, kind="mergesort")
    for c in order:
        one, two = parts[c]
        side[c] = 1 if load[two] * scale[two] < load[one] * scale[one] else 0
        load[parts[c, side[c]]] += size[c]
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
def place(cut: Any, left: Any, right: Any, fixed: Any, load: Any, scale: Any) -> Any:
    """Put every nonzero where it is paid for; those paid for at both ends where there is less.

    Parameters:
        cut: Cut.
        left, right (bool[num_left], bool[num_right]): A vertex cover.
        fixed (bool[num_edges]): Nonzeros that must be where their rows are; their right ends are in
            the cover.
        load (int64[num_parts]): Nonzeros that the parts have beside those of the cut; changed to
            all.
        scale (float64[num_parts]): Nonzeros of two parts are compared times this.

    Returns:
        bool[num_edges]: Whether the nonzero is where its column is.
    """
    with_column = np.zeros(len(cut.at), dtype=np.bool_)
    for free in (False, True):
        for e in range(len(cut.at)):
            x, y = cut.left[e], cut.right[e]
            here, there = cut.left_parts[x]
            if (left[x] and right[y] and not fixed[e]) == free:
                less = load[there] * scale[there] < load[here] * scale[here]
                with_column[e] = less if free else not right[y]
                load[there if with_column[e] else here] += 1
    return with_column


@njit(cache=True, nogil=True)
def relieve(cut: Any, left: Any, right: Any, fixed: Any, load: Any, limit: Any, at: Any) -> int:
    """Pay for more vertices where that brings parts below `limit`; returns for how many.

    Each such vertex takes all of its nonzeros out of an overweight part at once, those of most
    nonzeros first, and never fills the other part above the limit.

    Parameters:
        cut, left, right, fixed, load: As `place` left them; `left`, `right` and `load` change.
        limit: float64[num_parts].
        at (bool[num_edges]): What `place` answered; changes.
    """
    num_left, num_right = len(left), len(right)
    size = np.zeros(num_left + num_right, dtype=np.int64)
    for x in range(num_left):
        here = cut.left_parts[x, 0]
        if not left[x] and load[here] > limit[here]:
            size[x] = cut.left_ptr[x + 1] - cut.left_ptr[x]
    for y in range(num_right):
        here = cut.right_parts[y, 1]
        if not right[y] and load[here] > limit[here]:
            size[num_left + y] = cut.right_ptr[y + 1] - cut.right_ptr[y]
    order = np.argsort(-size, kind="mergesort")
    taken = 0
    for v in order[: np.count_nonzero(size)]:
        if v < num_left:
            start, end = cut.left_ptr[v], cut.left_ptr[v + 1]
            here, there = cut.left_parts[v]
        else:
            start, end = cut.right_ptr[v - num_left], cut.right_ptr[v - num_left + 1]
            there, here = cut.right_parts[v - num_left]
        if load[here] <= limit[here]:
            continue
        moved = 0
        for a in range(start, end):
            e = a if v < num_left else cut.right_edges[a]
            moved += at[e] == (v >= num_left) and not fixed[e]
        if moved == 0 or load[there] + moved > limit[there]:
            continue
        for a in range(start, end):
            e = a if v < num_left else cut.right_edges[a]
            if not fixed[e]:
                at[e] = v < num_left
        load[here] -= moved
        load[there] += moved
        if v < num_left:
            left[v] = True
        else:
            right[v - num_left] = True
        taken += 1
    return taken
