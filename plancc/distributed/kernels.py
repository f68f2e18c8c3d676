"""Kernels that choose clusters and parts for a rank's vertices, and list the parts of its nets.

The number of a vertex's cluster is called its label.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.models.limits import Bounds
from plancc.passes.kernels.label_propagation import ClusterLinks, best_label
from plancc.passes.kernels.volume import penalty
from plancc.sampling.counter import GAMMA, mix

MOST_SHORT = 1 << 16
"""Numbers below this one need only 16 bits."""


@njit(cache=True, nogil=True)
def turns(first: int, last: int, key: int, num_turns: int) -> Any:
    """Return the turn of each of the vertices first..last-1: uint8[last - first].

    In its turn, a vertex chooses its part or cluster. The turn is a hash of the vertex and `key`,
    so all ranks find the same turns.
    """
    found = np.empty(last - first, dtype=np.uint8)
    for v in range(first, last):
        # a hash of vertex and round, so that every rank finds the same turns
        found[v - first] = mix(np.uint64(v) + np.uint64(key - 1) * GAMMA) % np.uint64(num_turns)
    return found


@njit(cache=True, nogil=True)
def wanted_labels(
    rows: Any, base: int, links: ClusterLinks, weight: Any, load: Any, heaviest: Any, label: Any,
    score: Any,
) -> Any:  # fmt: skip
    """Return, for each vertex, the cluster with room to which it has most links.

    The result is -1 for a vertex that stays in its own cluster.

    Parameters:
        rows (int64[k]): The vertices; row r of `links` is vertex `base` + r.
        weight, load (int64[n, c]): Weights of all vertices, and of all clusters.
        heaviest (int64[c]): Largest allowed weights of a cluster.
        label (int32[n]): Cluster of every vertex.
        score (int64[n]): Scratch memory; all 0 before and after the call.
    """
    seen = np.empty(len(label), dtype=np.int32)
    wanted = np.full(len(rows), -1, dtype=np.int32)
    for i in range(len(rows)):
        v = base + rows[i]
        best = best_label(v, rows[i], heaviest, links, weight, load, label, score, seen)
        if best != label[v]:
            wanted[i] = best
    return wanted


@njit(cache=True, nogil=True)
def take_labels(
    vertices: Any, wanted: Any, weight: Any, load: Any, heaviest: Any, label: Any
) -> int:
    """Give vertices, one by one, their labels in `wanted`; return how many labels changed.

    A label names a cluster of vertices. A vertex keeps its label if it would make the wanted
    cluster heavier than `heaviest`. `label` and `load`, the weights of the clusters, are updated.
    """
    moved = 0
    for i in range(len(vertices)):
        v, there = vertices[i], wanted[i]
        here, room = label[v], True
        for c in range(load.shape[1]):
            room &= load[there, c] + weight[v, c] <= heaviest[c]
        if room:
            label[v] = there
            moved += 1
            for c in range(load.shape[1]):
                load[here, c] -= weight[v, c]
                load[there, c] += weight[v, c]
    return moved


def parts_of_nets(
    base: int, net_ptr: Any, pins: Any, owner: Any, num_parts: int
) -> tuple[Any, Any]:
    """Return the parts that have pins of each net of a rank, as offsets and entries.

    The nets are the nets of the vertices from `base` on; each has its own vertex as a pin. An
    entry, uint16 or uint32, is twice the part, plus 1 if the part has exactly one pin of the net.
    The entries of a net ascend if the net has pins in all parts.
    """
    dtype = np.uint16 if 2 * num_parts <= MOST_SHORT else np.uint32
    room = np.empty(len(pins) + len(net_ptr), dtype=dtype)  # untouched pages cost nothing
    ptr = list_parts(base, net_ptr, pins, owner, num_parts, room)
    return ptr, room[: ptr[-1]].copy()


@njit(cache=True, nogil=True)
def list_parts(base: int, net_ptr: Any, pins: Any, owner: Any, num_parts: int, entry: Any) -> Any:
    """Write the entries that `parts_of_nets` describes into `entry`; return their offsets."""
    m = len(net_ptr) - 1
    ptr = np.zeros(m + 1, dtype=np.int64)
    count, seen = np.zeros(num_parts, dtype=np.int32), np.empty(num_parts, dtype=np.int32)
    at = 0
    for e in range(m):
        num = 1
        # the own vertex is the first pin
        seen[0] = owner[base + e]
        count[seen[0]] = 1
        for k in range(net_ptr[e], net_ptr[e + 1]):
            if pins[k] == base + e:
                continue
            q = owner[pins[k]]
            if count[q] == 0:
                seen[num] = q
                num += 1
            count[q] += 1
        for k in range(num):
            q = k if num == num_parts else seen[k]  # a net in all parts lists them in order
            entry[at] = 2 * q + (count[q] == 1)
            count[q] = 0
            at += 1
        ptr[e + 1] = at
    return ptr


@njit(cache=True, nogil=True)
def mark_columns(rows: Any, base: int, indptr: Any, indices: Any, marked: Any) -> None:
    """Set `marked`, bool[n], for the local rows `rows` and for the columns of their nonzeros.

    So a vertex is marked exactly if its net has at least one of these rows as a pin.
    """
    for r in rows:
        marked[base + r] = True
        for k in range(indptr[r], indptr[r + 1]):
            marked[indices[k]] = True


@njit(cache=True, nogil=True)
def picked(ptr: Any, entry: Any, which: Any) -> Any:
    """Join the lists ``entry[ptr[i]:ptr[i + 1]]`` of all i in `which`; return their lengths too."""
    lengths = np.empty(len(which), dtype=np.int32)
    total = 0
    for i in range(len(which)):
        lengths[i] = ptr[which[i] + 1] - ptr[which[i]]
        total += lengths[i]
    found, at = np.empty(total, dtype=entry.dtype), 0
    for i in range(len(which)):
        for k in range(ptr[which[i]], ptr[which[i] + 1]):
            found[at] = entry[k]
            at += 1
    return lengths, found


@njit(cache=True, nogil=True)
def relief(v: int, here: int, there: int, weight: Any, load: Any, bounds: Bounds) -> float:
    """Return by how much the overweight penalty falls if v moves; -infinity if v does not fit."""
    found = 0.0
    for c in range(load.shape[1]):
        w = weight[v, c]
        if w == 0:
            continue
        full, less = load[there, c], load[here, c]
        if full + w > bounds.cap[there, c]:
            return -np.inf
        target, price = bounds.target, bounds.price
        found += penalty(full, target[there, c], price[there, c])
        found -= penalty(full + w, target[there, c], price[there, c])
        found += penalty(less, target[here, c], price[here, c])
        found -= penalty(less - w, target[here, c], price[here, c])
    return found


@njit(cache=True, nogil=True)
def wanted_parts(
    rows: Any, base: int, indptr: Any, indices: Any, place: Any, ptr: Any, entry: Any, owner: Any,
    weight: Any, load: Any, bounds: Bounds,
) -> Any:  # fmt: skip
    """Return the part with the largest gain for each of the given rows; -1 if the row stays.

    The gain is the number of rows that need no longer be sent (`saved`), plus the decrease of the
    penalty for overweight parts. Returns part, int32[k]; saved, int32[k]; and gain, float64[k].

    Parameters:
        rows (int64[k]): Rows of this rank; row r is vertex `base` + r.
        place (int32[n]): Index in `ptr` of the net of every vertex.
        ptr, entry: Result of `parts_of_nets`: the parts that have pins of each net.
        weight, load (int64[n, c], int64[num_parts, c]): Weights of vertices, and of parts.
    """
    num_parts = len(load)
    has, seen = np.zeros(num_parts, dtype=np.int32), np.empty(num_parts, dtype=np.int32)
    part = np.full(len(rows), -1, dtype=np.int32)
    saved, gain = np.zeros(len(rows), dtype=np.int32), np.zeros(len(rows))
    # The two lightest parts: the second is for rows of the lightest part.
    lightest, second = -1, -1
    for q in range(num_parts):
        of_part = load[q, 0] * bounds.scale[q]
        if lightest < 0 or of_part < load[lightest, 0] * bounds.scale[lightest]:
            lightest, second = q, lightest
        elif second < 0 or of_part < load[second, 0] * bounds.scale[second]:
            second = q
    for i in range(len(rows)):
        r = rows[i]
        v = base + r
        here = owner[v]
        num, nets, freed, full, itself = 0, 0, 0, 0, False
        for k in range(indptr[r], indptr[r + 1] + 1):
            # After the row's columns comes its own net, unless the diagonal was one of them.
            if k == indptr[r + 1]:
                if itself:
                    break
                net = v
            else:
                net = indices[k]
                itself |= net == v
            nets += 1
            start, end = ptr[place[net]], ptr[place[net] + 1]
            if end - start == num_parts:  # the net has every part, wherever the row goes
                full += 1
                freed += int(entry[start + here] & 1)
                continue
            for t in range(start, end):
                q = int(entry[t] >> 1)
                if q == here:
                    # the low bit: the row is the only pin of this net in its part
                    freed += int(entry[t] & 1)
                else:
                    if has[q] == 0:
                        seen[num] = q
                        num += 1
                    has[q] += 1
        heavy = load[here, 0] > bounds.target[here, 0]
        light = lightest if lightest != here else second
        if light >= 0 and has[light] == 0 and (heavy or full > 0):
            seen[num] = light
            num += 1
        best, most = -1, -np.inf
        for k in range(num):
            q = seen[k]
            # number of rows that need not travel to q, and the relief of overweight
            found = full + has[q] + relief(v, here, q, weight, load, bounds)
            if found > most or (best >= 0 and found == most and load[q, 0] < load[best, 0]):
                best, most, saved[i] = q, found, freed - nets + full + has[q]
            has[q] = 0
        if best < 0:
            continue
        gain[i] = freed - nets + most
        evens = gain[i] == 0 and load[best, 0] + weight[v, 0] < load[here, 0]
        if gain[i] > 0 or evens:
            part[i] = best
    return part, saved, gain


@njit(cache=True, nogil=True)
def move_rows(
    order: Any, vertices: Any, part: Any, saved: Any, weight: Any, load: Any, bounds: Bounds,
    size: Any, owner: Any,
) -> Any:  # fmt: skip
    """Move rows, in the given order, to the parts that they chose; return whether any row moved.

    Row ``vertices[i]`` chose part ``part[i]``; if the row moves there, ``saved[i]`` fewer rows are
    sent. A row moves only if the move, after those before it, still has a gain, or makes loads more
    even without a loss. No part loses its last row.
    """
    moved = False
    for i in order:
        v, there = vertices[i], part[i]
        here = owner[v]
        if size[here] == 1:
            continue
        # Loads have changed since the choice; the saved rows are taken from the choice.
        gain = saved[i] + relief(v, here, there, weight, load, bounds)
        evens = gain == 0 and load[there, 0] + weight[v, 0] < load[here, 0]
        if gain > 0 or evens:
            owner[v] = there
            size[here] -= 1
            size[there] += 1
            moved = True
            for c in range(load.shape[1]):
                load[here, c] -= weight[v, c]
                load[there, c] += weight[v, c]
    return moved


@njit(cache=True, nogil=True)
def unpack_rows(position: Any, row_ptr: Any, numbers: Any, out: Any) -> None:
    """Copy CSR rows from `numbers` to `out`, where row r begins at ``row_ptr[r]``.

    `numbers` has the rows ``position[0]``, ``position[1]`` and so on, one after another.
    """
    at = 0
    for r in position:
        for k in range(row_ptr[r], row_ptr[r + 1]):
            out[k] = numbers[at]
            at += 1
