"""Kernels that build column nets from a pattern or from mini-batches, and merge equal nets."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.sampling.batch import BatchLayer
from plancc.sampling.counter import GAMMA, mix


@njit(cache=True)
def column_nets(indptr: Any, indices: Any) -> Any:
    """Build a net for each column: its pins are the rows with a nonzero, and the column's own row.

    Nets of one pin are left out.

    Returns:
        net_ptr (int64[num_nets + 1]): Offsets of the nets' pins; nets are in the order of columns.
        pins (int32[num_pins]): Indices of rows, ascending in a net.
        column (int32[num_nets]): For every net, the index of its column.
    """
    n = len(indptr) - 1
    size = np.zeros(n, dtype=np.int64)
    for i in range(n):
        # A net needs its own row as a pin, whether or not the diagonal is stored.
        missing = 1
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            size[j] += 1
            if j == i:
                missing = 0
        size[i] += missing

    num_nets = 0
    for j in range(n):
        num_nets += size[j] > 1
    net_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    column = np.empty(num_nets, dtype=np.int32)
    # `end[j]`: place of the next pin of net j; -1 if the net has one pin and is left out.
    end = np.full(n, -1, dtype=np.int64)
    net = 0
    for j in range(n):
        if size[j] > 1:
            end[j] = net_ptr[net]
            net_ptr[net + 1] = net_ptr[net] + size[j]
            column[net] = j
            net += 1

    # Rows come in ascending order, and so do the pins of every net.
    pins = np.empty(net_ptr[num_nets], dtype=np.int32)
    for i in range(n):
        missing = True
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if j == i:
                missing = False
            if end[j] >= 0:
                pins[end[j]] = i
                end[j] += 1
        if missing and end[i] >= 0:
            pins[end[i]] = i
            end[i] += 1
    return net_ptr, pins, column


def merge_equal_nets(net_ptr: Any, pins: Any, size: Any, cost: Any, source: Any) -> Any:
    """Merge nets that have equal pins (and equal sizes and sources if given); add up their costs.

    Nets count as equal if their numbers of pins and their 64-bit hashes are equal. `size`,
    int32[num_pins], and `source`, int32[num_nets], may be int32[0]. The nets get another order.
    """
    mark = _marks(net_ptr, pins, size, source)
    order = np.lexsort((mark, np.diff(net_ptr)))
    return _merge_sorted(net_ptr, pins, size, cost, source, mark, order)


@njit(cache=True, nogil=True)
def _mixed(x: int) -> Any:
    """Return a 64-bit hash of a small number x, computed as the generator splitmix64 does."""
    return mix(np.uint64(x) * GAMMA)


@njit(cache=True, nogil=True)
def _marks(net_ptr: Any, pins: Any, size: Any, source: Any) -> Any:
    """Return a hash of every net's source, pins (in any order) and sizes: uint64[num_nets]."""
    mark = np.empty(len(net_ptr) - 1, dtype=np.uint64)
    for e in range(len(mark)):
        code = np.uint64(0)
        for k in range(net_ptr[e], net_ptr[e + 1]):
            weight = np.uint64(size[k] if len(size) > 0 else 1)
            # A sum of hashes does not depend on the order of pins; odd factors distinguish sizes.
            code += _mixed(pins[k]) * (np.uint64(2) * weight - np.uint64(1))
        if len(source) > 0:
            code ^= _mixed(-source[e] - 2)
        mark[e] = code
    return mark


@njit(cache=True, nogil=True)
def _merge_sorted(
    net_ptr: Any, pins: Any, size: Any, cost: Any, source: Any, mark: Any, order: Any
) -> Any:
    """Merge equal nets; for the other parameters and the result see `merge_equal_nets`.

    `mark` holds the nets' hashes; `order` sorts nets by number of pins, then by hash.
    """
    sourced, sized = len(source) > 0, len(size) > 0
    first = np.empty(len(order), dtype=np.int64)
    total = np.empty(len(order), dtype=np.int64)
    out_ptr = np.zeros(len(order) + 1, dtype=np.int64)
    kept = 0
    for e in order:
        num_pins = net_ptr[e + 1] - net_ptr[e]
        if kept > 0:
            before = first[kept - 1]
            # Equal nets are neighbours in the order: add the cost to the first of them.
            as_many = net_ptr[before + 1] - net_ptr[before] == num_pins
            if as_many and mark[before] == mark[e]:
                total[kept - 1] += cost[e]
                continue
        first[kept], total[kept] = e, cost[e]
        out_ptr[kept + 1] = out_ptr[kept] + num_pins
        kept += 1
    out = np.empty(out_ptr[kept], dtype=np.int32)
    out_size = np.empty(out_ptr[kept] if sized else 0, dtype=np.int32)
    out_source = np.empty(kept if sourced else 0, dtype=np.int32)
    for k in range(kept):
        start = net_ptr[first[k]]
        for i in range(out_ptr[k + 1] - out_ptr[k]):
            out[out_ptr[k] + i] = pins[start + i]
            if sized:
                out_size[out_ptr[k] + i] = size[start + i]
        if sourced:
            out_source[k] = source[first[k]]
    return out_ptr[: kept + 1].copy(), out, out_size, total[:kept].copy(), out_source


MAX_WAITING = 1024
"""Largest number of blocks that wait to be merged."""


class NetUnion:
    """The column nets of many blocks of mini-batches.

    Equal nets become one net, whose cost is the number of these nets. `indptr` and `indices` are
    the whole matrix. `vertices_seen` is the number of its vertices that are in a block, and
    `nonzeros_seen` is the share of its nonzeros off the diagonal that are in a block.

    Attributes:
        num_nets (int): Number of nets before merging, including nets of one pin.
        num_pins (int): Number of pins that are in memory now.
    """

    def __init__(self, indptr: Any, indices: Any) -> None:
        self._indptr, self._indices = indptr, indices
        n = len(indptr) - 1
        self._seen_vertex = np.zeros(n, dtype=np.bool_)
        self._seen_nonzero = np.zeros(len(indices), dtype=np.bool_)
        self._place = np.full(n, -1, dtype=np.int64)
        self._waiting: list[Any] = []
        self._merged_pins = 0
        self.num_nets = 0
        self.num_pins = 0

    def add(self, block: BatchLayer) -> None:
        """Add the nets of a block (the nonzeros that a mini-batch keeps in one layer)."""
        found = _block_nets(
            block.rows,
            block.ptr,
            block.columns,
            self._indptr,
            self._indices,
            self._place,
            self._seen_vertex,
            self._seen_nonzero,
        )
        self.num_nets += found[0]
        self._waiting.append(found[1:])
        self.num_pins += len(found[2])
        full = self.num_pins > 2 * max(self._merged_pins, len(self._indices))
        if full or len(self._waiting) > MAX_WAITING:
            self.merged()

    def merged(self) -> tuple[Any, Any, Any, Any]:
        """Merge equal nets of all blocks so far; return net_ptr, pins, cost, source (`Nets`)."""
        ptrs, pins, costs, sources = zip(*self._waiting, strict=True)
        sizes = np.concatenate([np.diff(ptr) for ptr in ptrs])
        ptr, pin, _, cost, source = merge_equal_nets(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate(pins),
            np.empty(0, dtype=np.int32),
            np.concatenate(costs),
            np.concatenate(sources),
        )
        self._waiting = [(ptr, pin, cost, source)]
        self._merged_pins = self.num_pins = len(pin)
        return ptr, pin, cost, source

    @property
    def vertices_seen(self) -> int:
        """Number of vertices with a nonzero in some block."""
        return int(self._seen_vertex.sum())

    @property
    def nonzeros_seen(self) -> float:
        """Share of the matrix' off-diagonal nonzeros in at least one block; 1 if there are none."""
        rows = np.repeat(np.arange(len(self._indptr) - 1), np.diff(self._indptr))
        off = rows != self._indices
        return float(self._seen_nonzero[off].mean()) if off.any() else 1.0


@njit(cache=True, nogil=True)
def _block_nets(
    rows: Any,
    ptr: Any,
    columns: Any,
    indptr: Any,
    indices: Any,
    place: Any,
    seen_vertex: Any,
    seen_nonzero: Any,
) -> Any:
    """Build a net for every column of a block, as `column_nets` does for a matrix.

    The first result is the number of columns. Nets of one pin are left out of the other results.

    Parameters:
        rows, ptr, columns: The `plancc.sampling.batch.BatchLayer`.
        place (int64[n]): Working memory, -1 everywhere before and after the call.
        seen_vertex (bool[n]), seen_nonzero (bool[num_nonzeros]): Masks, which become True for the
            vertices and the nonzeros of the block.
    """
    num = 0
    source = np.empty(len(columns), dtype=np.int32)
    size = np.zeros(len(columns), dtype=np.int64)
    for k in range(len(rows)):
        at, end = indptr[rows[k]], indptr[rows[k] + 1]
        seen_vertex[rows[k]] = True
        for a in range(ptr[k], ptr[k + 1]):
            j = columns[a]
            seen_vertex[j] = True
            while at < end and indices[at] < j:
                at += 1
            if at < end and indices[at] == j:
                seen_nonzero[at] = True
            if place[j] < 0:
                place[j] = num
                source[num] = j
                size[num] = 1
                num += 1
            size[place[j]] += rows[k] != j
    net = np.full(num, -1, dtype=np.int64)
    kept = 0
    for c in range(num):
        if size[c] > 1:
            net[c] = kept
            kept += 1
    net_ptr = np.zeros(kept + 1, dtype=np.int64)
    sources = np.empty(kept, dtype=np.int32)
    for c in range(num):
        if net[c] >= 0:
            net_ptr[net[c] + 1] = size[c]
            sources[net[c]] = source[c]
    net_ptr = np.cumsum(net_ptr)
    pins = np.empty(net_ptr[kept], dtype=np.int32)
    end_of = net_ptr[:-1].copy()
    for e in range(kept):
        pins[end_of[e]] = sources[e]
        end_of[e] += 1
    for k in range(len(rows)):
        for a in range(ptr[k], ptr[k + 1]):
            e = net[place[columns[a]]]
            if e >= 0 and rows[k] != columns[a]:
                pins[end_of[e]] = rows[k]
                end_of[e] += 1
    for c in range(num):
        place[source[c]] = -1
    return num, net_ptr, pins, np.ones(kept, dtype=np.int64), sources
