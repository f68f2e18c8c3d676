"""Kernels that cluster vertices by label propagation, and build the graph of clusters.

A *link* leads from a vertex to a neighbour, and has a cost. The links along rows and along columns
are separate lists, to save memory; a neighbour in both lists has two links.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit


class ClusterLinks(NamedTuple):
    """The links (edges with costs) of all vertices; links of a vertex to itself are ignored.

    The first list of vertex v has the columns of row v; in a directed matrix, a second list has the
    rows of column v.

    Attributes:
        ptr (int64[n + 1]), ends (int32[num_links]): First list of vertex v: the neighbours
            ``ends[ptr[v]:ptr[v + 1]]``.
        cost (int64[num_links], or int64[0]): Costs of the first lists' links; if empty, all are 1.
        other_ptr (int64[num_lists + 1]), other_ends (int32[num_others]): Second list k: the
            neighbours ``other_ends[other_ptr[k]:other_ptr[k + 1]]``, at cost 1.
        other (int32[n], or int32[0]): Index k of every vertex's second list, or -1; if empty, no
            vertex has a second list.
    """

    ptr: Any
    ends: Any
    cost: Any
    other_ptr: Any
    other_ends: Any
    other: Any


@njit(cache=True, nogil=True)
def propagate(
    order: Any, heaviest: Any, links: ClusterLinks, weight: Any, load: Any, label: Any, score: Any
) -> int:
    """Give every vertex in `order` the label to which its links have the highest total cost.

    A label that gains a vertex must then weigh at most `heaviest`. On a tie, a vertex keeps its
    label, or takes the lightest. Returns the number of vertices with a new label.

    Parameters:
        weight (int64[n, c]), load (int64[n, c]): Weights of vertices, and of labels (updated).
        label (int32[n]): Label of every vertex; updated.
        score (int64[n]): Scratch, 0 before and after.
    """
    seen = np.empty(len(label), dtype=np.int32)
    moved = 0
    for v in order:
        here = label[v]
        best = best_label(v, v, heaviest, links, weight, load, label, score, seen)
        if best != here:
            label[v] = best
            moved += 1
            for c in range(load.shape[1]):
                load[here, c] -= weight[v, c]
                load[best, c] += weight[v, c]
    return moved


@njit(cache=True, nogil=True)
def best_label(
    v: int, at: int, heaviest: Any, links: ClusterLinks, weight: Any, load: Any, label: Any,
    score: Any, seen: Any,
) -> int:  # fmt: skip
    """Return the label that `propagate` gives to vertex v; v's own label if no other has room."""
    num = _add_scores(v, at, -1, 0, links, label, score, seen)
    here = label[v]
    best, most = here, score[here]
    for k in range(num):
        there = seen[k]
        found = score[there]
        score[there] = 0
        # v keeps its label unless another label has more links
        if there == here or found < most:
            continue
        if found == most and (best == here or load[there, 0] >= load[best, 0]):
            continue
        room = True
        for c in range(load.shape[1]):
            room &= load[there, c] + weight[v, c] <= heaviest[c]
        if room:
            best, most = there, found
    return int(best)


@njit(cache=True, nogil=True)
def _add_scores(
    v: int, at: int, but: int, num: int, links: Any, label: Any, score: Any, seen: Any
) -> int:
    """Add the cost of every link of vertex v to the score of the label at the link's other end.

    Links to v itself and to label `but` (-1: none) do not count. Labels whose score was 0 are
    appended to ``seen[:num]``, whose new length is returned.
    """
    for k in range(links.ptr[at], links.ptr[at + 1]):
        u = links.ends[k]
        there = label[u]
        if u != v and there != but:
            if score[there] == 0:
                seen[num] = there
                num += 1
            score[there] += links.cost[k] if len(links.cost) > 0 else 1
    # the second list: the rows of the column
    if len(links.other) > 0 and links.other[at] >= 0:
        e = links.other[at]
        for k in range(links.other_ptr[e], links.other_ptr[e + 1]):
            u = links.other_ends[k]
            there = label[u]
            if u != v and there != but:
                if score[there] == 0:
                    seen[num] = there
                    num += 1
                score[there] += 1
    return num


@njit(cache=True, nogil=True)
def numbered(label: Any) -> int:
    """Renumber labels to 0..m-1 in place, in order of first occurrence; return m."""
    number = np.full(len(label), -1, dtype=np.int32)
    count = 0
    for v in range(len(label)):
        # the first vertex of a label gives it the next number
        if number[label[v]] < 0:
            number[label[v]] = count
            count += 1
        label[v] = number[label[v]]
    return count


@njit(cache=True, nogil=True)
def between(num: int, most: int, links: ClusterLinks, label: Any) -> Any:
    """Build the graph of clusters; all links from one cluster to another become one link.

    Returns:
        ptr (int64[num + 1]): Offsets of the links of every cluster.
        ends (int32[num_links]): Cluster where every link ends.
        cost (int64[num_links]): Total cost of every link.

    If there are more than `most` links, `ends` and `cost` are empty.
    """
    start, members = members_of(num, label)
    ptr = count_between(start, members, links, label)
    chosen = np.arange(num if ptr[num] <= most else 0)
    ends, cost = links_between(chosen, start, members, ptr, links, label)
    return ptr, ends, cost


@njit(cache=True, nogil=True)
def members_of(num: int, label: Any) -> Any:
    """Sort the vertices by cluster; cluster c has ``members[start[c]:start[c + 1]]``.

    Returns start, int64[num + 1], and members, int32[n].
    """
    start = np.zeros(num + 1, dtype=np.int64)
    for v in range(len(label)):
        start[label[v] + 1] += 1
    for c in range(num):
        start[c + 1] += start[c]
    members = np.empty(len(label), dtype=np.int32)
    # A counting sort of the vertices by cluster.
    free = start[:-1].copy()
    for v in range(len(label)):
        members[free[label[v]]] = v
        free[label[v]] += 1
    return start, members


@njit(cache=True, nogil=True)
def count_between(start: Any, members: Any, links: ClusterLinks, label: Any) -> Any:
    """Return offsets of each cluster's links, int64[num + 1]; a pair of clusters has one link."""
    num = len(start) - 1
    score, seen = np.zeros(num, dtype=np.int64), np.empty(num, dtype=np.int32)
    ptr = np.zeros(num + 1, dtype=np.int64)
    for c in range(num):
        found = 0
        for k in range(start[c], start[c + 1]):
            found = _add_scores(-1, members[k], c, found, links, label, score, seen)
        # reset only the scores that were changed
        score[seen[:found]] = 0
        ptr[c + 1] = ptr[c] + found
    return ptr


@njit(cache=True, nogil=True)
def links_between(
    chosen: Any, start: Any, members: Any, ptr: Any, links: ClusterLinks, label: Any
) -> Any:
    """Return the links that lead from the clusters in `chosen` to other clusters.

    Returns the cluster at each link's end, int32[m], and its cost, int64[m], in the order of
    `chosen`. `start` and `members` come from `members_of`, `ptr` from `count_between`.
    """
    num = len(start) - 1
    score, seen = np.zeros(num, dtype=np.int64), np.empty(num, dtype=np.int32)
    total, at = 0, 0
    for c in chosen:
        total += ptr[c + 1] - ptr[c]
    ends, cost = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int64)
    for c in chosen:
        found = 0
        for k in range(start[c], start[c + 1]):
            found = _add_scores(-1, members[k], c, found, links, label, score, seen)
        for k in range(found):
            ends[at], cost[at] = seen[k], score[seen[k]]
            score[seen[k]] = 0
            at += 1
    return ends, cost


@njit(cache=True, nogil=True)
def degrees(ptr: Any, ends: Any, other_ptr: Any, other_ends: Any, other: Any) -> Any:
    """Return every vertex's number of distinct neighbours, int64[n].

    A vertex's neighbours are in two lists, `ends` and `other_ends`, which must ascend.
    """
    found = np.zeros(len(ptr) - 1, dtype=np.int64)
    for v in range(len(found)):
        a, end = ptr[v], ptr[v + 1]
        b, last = 0, 0
        if len(other) > 0 and other[v] >= 0:
            b, last = other_ptr[other[v]], other_ptr[other[v] + 1]
        # Merge two ascending lists; a neighbour in both lists counts once.
        while a < end or b < last:
            if b >= last or (a < end and ends[a] < other_ends[b]):
                u = ends[a]
                a += 1
            elif a >= end or other_ends[b] < ends[a]:
                u = other_ends[b]
                b += 1
            else:
                u = ends[a]
                a += 1
                b += 1
            found[v] += u != v
    return found
