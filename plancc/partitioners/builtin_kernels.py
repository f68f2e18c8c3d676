"""Loops of the builtin partitioner over vertices and pins, in numba. Imported at first use only.

A `Level` is a hypergraph with its transpose (the nets of every vertex). All kernels are plain
sequential loops, so the same seed gives the same owners everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from plancc.models.weights import part_weights

MAX_RATED_PINS = 100
"""Nets with more pins say little about who belongs together: clustering ignores them."""
MAX_RATED_PARTS = 64
"""Nets in more parts than this stay there whatever one vertex does: refinement ignores them."""
FEW_MOVES = 100
"""A sweep that moves less than one vertex in this many is the last one."""
MAX_SEARCHED_PINS = 1000
"""Nets with more pins reach everywhere in one step: breadth-first search ignores them."""


class Level:
    """A hypergraph on one level of the hierarchy.

    Attributes
    ----------
    net_ptr : int64[num_nets + 1]
    pins : int32[num_pins]
    costs, weights : int64[num_nets], int64[num_vertices]
    vertex_ptr, nets : int64[num_vertices + 1], int32[num_pins]
        The nets of every vertex.
    """

    def __init__(self, net_ptr: Any, pins: Any, costs: Any, weights: Any) -> None:
        self.net_ptr, self.pins, self.costs, self.weights = net_ptr, pins, costs, weights
        self.vertex_ptr, self.nets = _transpose(net_ptr, pins, len(weights))

    @property
    def num_vertices(self) -> int:
        return len(self.weights)

    def _arrays(self) -> Any:
        return self.net_ptr, self.pins, self.costs, self.weights, self.vertex_ptr, self.nets

    def cluster(self, order: Any, heaviest: int) -> npt.NDArray[np.int32]:
        """Cluster of every vertex, numbered 0..m-1; no joined cluster above `heaviest`."""
        return _cluster(*self._arrays(), order, heaviest, MAX_RATED_PINS)

    def contract(self, cluster: npt.NDArray[np.int32]) -> Level:
        """The hypergraph of the clusters: nets of one pin dropped, equal nets merged."""
        num = int(cluster.max()) + 1
        weights = part_weights(cluster, self.weights, num)
        net_ptr, pins, costs, mark = _contract(self.net_ptr, self.pins, self.costs, cluster, num)
        order = np.lexsort((mark, np.diff(net_ptr)))
        net_ptr, pins, costs = _merge_equal_nets(net_ptr, pins, costs, mark, order)
        return Level(net_ptr, pins, costs, weights)

    def bisect(self, num_parts: int, order: Any) -> npt.NDArray[np.int32]:
        """Owners by recursive bisection; `order` is where the searches start."""
        return _bisect(*self._arrays(), num_parts, order.astype(np.int64))

    def refine(
        self,
        owner: npt.NDArray[np.int32],
        num_parts: int,
        allowed: int,
        sweeps: int,
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int32]:
        """Better owners: balance first, then sweeps while the cut still falls.

        Parts above `allowed` give away vertices, cheapest first; no move fills a part above it.
        """
        owner = owner.copy()
        sums = part_weights(owner, self.weights, num_parts)
        state = _count_parts(self.net_ptr, self.pins, owner, num_parts)
        arrays = self._arrays()
        for sweep in range(sweeps + 1):
            if (sums > allowed).any():
                loss = _losses(*arrays, owner, sums, allowed, *state, MAX_RATED_PARTS)
                giving = np.flatnonzero(sums[owner] > allowed)
                order = giving[np.argsort(loss[giving], kind="stable")]
                _move(*arrays, order, owner, sums, allowed, *state, MAX_RATED_PARTS, True)
            if sweep == sweeps:
                break
            order = rng.permutation(self.num_vertices)
            moved = _move(*arrays, order, owner, sums, allowed, *state, MAX_RATED_PARTS, False)
            if moved <= self.num_vertices // FEW_MOVES:
                break
        return owner

    def connectivity_cut(self, owner: npt.NDArray[np.int32], num_parts: int) -> int:
        """Sum over the nets of cost times (connectivity - 1)."""
        _, _, spread = _count_parts(self.net_ptr, self.pins, owner, num_parts)
        return int((self.costs * (spread - 1)).sum())


@njit(cache=True)
def _transpose(net_ptr: Any, pins: Any, n: int) -> Any:
    ptr = np.zeros(n + 1, dtype=np.int64)
    for pin in pins:
        ptr[pin + 1] += 1
    ptr = np.cumsum(ptr)
    end = ptr[:-1].copy()
    nets = np.empty(len(pins), dtype=np.int32)
    for e in range(len(net_ptr) - 1):
        for k in range(net_ptr[e], net_ptr[e + 1]):
            v = pins[k]
            nets[end[v]] = e
            end[v] += 1
    return ptr, nets


@njit(cache=True)
def _cluster(
    net_ptr: Any,
    pins: Any,
    costs: Any,
    weights: Any,
    vertex_ptr: Any,
    nets: Any,
    order: Any,
    heaviest: int,
    max_pins: int,
) -> Any:
    """Every still single vertex joins the cluster with the best rating that has room.

    Rating of a cluster: sum over shared nets of cost / (pins - 1) per shared pin.
    """
    n = len(weights)
    label = np.arange(n).astype(np.int32)
    load = weights.copy()
    single = np.ones(n, dtype=np.bool_)
    score = np.zeros(n)
    seen = np.empty(n, dtype=np.int32)
    for v in order:
        if not single[v]:
            continue
        num_seen = 0
        for a in range(vertex_ptr[v], vertex_ptr[v + 1]):
            e = nets[a]
            size = net_ptr[e + 1] - net_ptr[e]
            if size < 2 or size > max_pins:
                continue
            gain = costs[e] / (size - 1)
            for k in range(net_ptr[e], net_ptr[e + 1]):
                c = label[pins[k]]
                if score[c] == 0.0:
                    seen[num_seen] = c
                    num_seen += 1
                score[c] += gain
        best = v
        best_score = 0.0
        for k in range(num_seen):
            c = seen[k]
            if c != v and load[c] + weights[v] <= heaviest and score[c] > best_score:
                best = c
                best_score = score[c]
            score[c] = 0.0
        if best != v:
            label[v] = best
            load[best] += weights[v]
            load[v] = 0
            single[v] = False
            single[best] = False
    number = np.full(n, -1, dtype=np.int32)
    count = 0
    for v in range(n):
        c = label[v]
        if number[c] < 0:
            number[c] = count
            count += 1
        label[v] = number[c]
    return label


@njit(cache=True)
def _contract(net_ptr: Any, pins: Any, costs: Any, cluster: Any, num: int) -> Any:
    """Nets over clusters, each with a mark that equal sets of pins share."""
    num_nets = len(net_ptr) - 1
    last = np.full(num, -1, dtype=np.int64)
    out_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    out = np.empty(len(pins), dtype=np.int32)
    out_costs = np.empty(num_nets, dtype=np.int64)
    mark = np.empty(num_nets, dtype=np.uint64)
    kept = 0
    end = 0
    for e in range(num_nets):
        start = end
        code = np.uint64(0)
        for k in range(net_ptr[e], net_ptr[e + 1]):
            c = cluster[pins[k]]
            if last[c] != e:
                last[c] = e
                out[end] = c
                end += 1
                x = np.uint64(c + 1) * np.uint64(0x9E3779B97F4A7C15)
                x = (x ^ (x >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
                code += x ^ (x >> np.uint64(29))
        if end - start < 2:
            end = start
            continue
        out_costs[kept] = costs[e]
        mark[kept] = code
        kept += 1
        out_ptr[kept] = end
    return out_ptr[: kept + 1].copy(), out[:end].copy(), out_costs[:kept], mark[:kept]


@njit(cache=True)
def _merge_equal_nets(net_ptr: Any, pins: Any, costs: Any, mark: Any, order: Any) -> Any:
    """Nets with the same size and mark become one with the sum of their costs."""
    out_ptr = np.zeros(len(order) + 1, dtype=np.int64)
    out = np.empty_like(pins)
    out_costs = np.empty_like(costs)
    kept = 0
    end = 0
    before = -1
    for e in order:
        size = net_ptr[e + 1] - net_ptr[e]
        if before >= 0:
            same_size = net_ptr[before + 1] - net_ptr[before] == size
            if same_size and mark[before] == mark[e]:
                out_costs[kept - 1] += costs[e]
                continue
        for k in range(net_ptr[e], net_ptr[e + 1]):
            out[end] = pins[k]
            end += 1
        out_costs[kept] = costs[e]
        kept += 1
        out_ptr[kept] = end
        before = e
    return out_ptr[: kept + 1].copy(), out[:end].copy(), out_costs[:kept].copy()


@njit(cache=True)
def _search(
    net_ptr: Any,
    pins: Any,
    vertex_ptr: Any,
    nets: Any,
    order: Any,
    low: int,
    high: int,
    region: Any,
    here: int,
    net_seen: Any,
    stamp: int,
) -> None:
    """Put ``order[low:high]``, the vertices of region `here`, into breadth-first order.

    Reached vertices move to region `here` + 1; a new search starts where one ran dry.
    """
    found = np.empty(high - low, dtype=np.int64)
    tail = 0
    head = 0
    for k in range(low, high):
        root = order[k]
        if region[root] != here:
            continue
        region[root] = here + 1
        found[tail] = root
        tail += 1
        while head < tail:
            v = found[head]
            head += 1
            for a in range(vertex_ptr[v], vertex_ptr[v + 1]):
                e = nets[a]
                if net_seen[e] == stamp:
                    continue
                net_seen[e] = stamp
                if net_ptr[e + 1] - net_ptr[e] > MAX_SEARCHED_PINS:
                    continue
                for b in range(net_ptr[e], net_ptr[e + 1]):
                    u = pins[b]
                    if region[u] == here:
                        region[u] = here + 1
                        found[tail] = u
                        tail += 1
    for k in range(tail):
        order[low + k] = found[k]


@njit(cache=True)
def _bisect(
    net_ptr: Any,
    pins: Any,
    costs: Any,
    weights: Any,
    vertex_ptr: Any,
    nets: Any,
    num_parts: int,
    order: Any,
) -> Any:
    """Split along a breadth-first order from a far vertex, each half again, down to one part."""
    n = len(weights)
    owner = np.zeros(n, dtype=np.int32)
    region = np.zeros(n, dtype=np.int64)
    net_seen = np.full(len(net_ptr) - 1, -1, dtype=np.int64)
    stamp = 0
    regions = 0
    todo = [(0, n, 0, num_parts)]
    while len(todo) > 0:
        low, high, first, parts = todo.pop()
        if parts == 1 or high - low <= 1:
            for k in range(low, high):
                owner[order[k]] = first
            continue
        for _ in range(2):
            regions += 2
            for k in range(low, high):
                region[order[k]] = regions
            stamp += 1
            _search(
                net_ptr, pins, vertex_ptr, nets, order, low, high, region, regions, net_seen, stamp
            )
            # The second search starts at the last vertex that the first one reached.
            for k in range((high - low) // 2):
                order[low + k], order[high - 1 - k] = order[high - 1 - k], order[low + k]
        total = 0
        for k in range(low, high):
            total += weights[order[k]]
        left = parts // 2
        wanted = total * left / parts
        reached = 0
        middle = low
        while middle < high and 2 * reached + weights[order[middle]] < 2 * wanted:
            reached += weights[order[middle]]
            middle += 1
        middle = max(min(middle, high - (parts - left)), min(low + left, high))
        todo.append((low, middle, first, left))
        todo.append((middle, high, first + left, parts - left))
    return owner


@njit(cache=True)
def _count_parts(net_ptr: Any, pins: Any, owner: Any, num_parts: int) -> Any:
    """Parts of every net and its pins in each.

    Returns
    -------
    part, count : int32[num_pins]
        The first ``spread[e]`` places of net e are in use.
    spread : int64[num_nets]
        Connectivity.
    """
    part = np.empty(len(pins), dtype=np.int32)
    count = np.zeros(len(pins), dtype=np.int32)
    spread = np.zeros(len(net_ptr) - 1, dtype=np.int64)
    place = np.full(num_parts, -1, dtype=np.int64)
    for e in range(len(net_ptr) - 1):
        start = net_ptr[e]
        end = start
        for k in range(start, net_ptr[e + 1]):
            q = owner[pins[k]]
            if place[q] < start:
                place[q] = end
                part[end] = q
                end += 1
            count[place[q]] += 1
        spread[e] = end - start
    return part, count, spread


@njit(cache=True)
def _best_part(
    v: int,
    net_ptr: Any,
    costs: Any,
    vertex_ptr: Any,
    nets: Any,
    weight: int,
    here: int,
    sums: Any,
    allowed: int,
    part: Any,
    count: Any,
    spread: Any,
    max_parts: int,
    score: Any,
    seen: Any,
) -> Any:
    """Best part with room for `v` among those of its nets, and what moving there gains.

    Gain = cost of nets that leave part `here` - cost of nets that are not yet in the new part.
    Part -1: none has room.
    """
    leaves = 0
    all_costs = 0
    num_seen = 0
    for a in range(vertex_ptr[v], vertex_ptr[v + 1]):
        e = nets[a]
        if spread[e] > max_parts:
            continue
        cost = costs[e]
        all_costs += cost
        for k in range(net_ptr[e], net_ptr[e] + spread[e]):
            q = part[k]
            if q == here:
                if count[k] == 1:
                    leaves += cost
            else:
                if score[q] == 0:
                    seen[num_seen] = q
                    num_seen += 1
                score[q] += cost
    best = -1
    best_score = -1
    for k in range(num_seen):
        q = seen[k]
        if sums[q] + weight <= allowed and (
            score[q] > best_score or (score[q] == best_score and sums[q] < sums[best])
        ):
            best = q
            best_score = score[q]
        score[q] = 0
    return best, leaves - all_costs + max(best_score, 0)


@njit(cache=True)
def _losses(
    net_ptr: Any,
    pins: Any,
    costs: Any,
    weights: Any,
    vertex_ptr: Any,
    nets: Any,
    owner: Any,
    sums: Any,
    allowed: int,
    part: Any,
    count: Any,
    spread: Any,
    max_parts: int,
) -> Any:
    """What moving each vertex of an overweight part to its best part costs per weight."""
    score = np.zeros(len(sums), dtype=np.int64)
    seen = np.empty(len(sums), dtype=np.int64)
    loss = np.zeros(len(weights))
    for v in range(len(weights)):
        if sums[owner[v]] > allowed:
            _, gain = _best_part(
                v,
                net_ptr,
                costs,
                vertex_ptr,
                nets,
                weights[v],
                owner[v],
                sums,
                allowed,
                part,
                count,
                spread,
                max_parts,
                score,
                seen,
            )
            loss[v] = -gain / max(weights[v], 1)
    return loss


@njit(cache=True)
def _move(
    net_ptr: Any,
    pins: Any,
    costs: Any,
    weights: Any,
    vertex_ptr: Any,
    nets: Any,
    order: Any,
    owner: Any,
    sums: Any,
    allowed: int,
    part: Any,
    count: Any,
    spread: Any,
    max_parts: int,
    forced: bool,
) -> int:
    """Visit the vertices in `order` and move each to its best part; returns how many moved.

    Forced: only vertices of parts above `allowed` move, whatever it costs. Otherwise a vertex
    moves where the cut falls, or stays equal while the balance improves. Changes `owner`, `sums`,
    `part`, `count` and `spread`.
    """
    score = np.zeros(len(sums), dtype=np.int64)
    seen = np.empty(len(sums), dtype=np.int64)
    moved = 0
    for v in order:
        here = owner[v]
        weight = weights[v]
        if forced and (sums[here] <= allowed or weight == 0):
            continue
        there, gain = _best_part(
            v,
            net_ptr,
            costs,
            vertex_ptr,
            nets,
            weight,
            here,
            sums,
            allowed,
            part,
            count,
            spread,
            max_parts,
            score,
            seen,
        )
        if forced:
            if there < 0:
                there = np.argmin(sums)
                if sums[there] + weight > allowed:
                    continue
        elif there < 0 or gain < 0 or (gain == 0 and sums[there] + weight >= sums[here]):
            continue
        owner[v] = there
        sums[here] -= weight
        sums[there] += weight
        moved += 1
        for a in range(vertex_ptr[v], vertex_ptr[v + 1]):
            e = nets[a]
            start = net_ptr[e]
            end = start + spread[e]
            # Count v in its new part first: a net that is only changing parts keeps its place.
            k = start
            while k < end and part[k] != there:
                k += 1
            old = start
            while part[old] != here:
                old += 1
            count[old] -= 1
            if k < end:
                count[k] += 1
                if count[old] == 0:
                    end -= 1
                    part[old] = part[end]
                    count[old] = count[end]
            else:
                if count[old] == 0:
                    k = old
                else:
                    end += 1
                part[k] = there
                count[k] = 1
            spread[e] = end - start
    return moved
