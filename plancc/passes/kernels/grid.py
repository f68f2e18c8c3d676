"""Moves of vertices between the row groups or the column groups of a checkerboard.

One kernel serves both kinds of groups: for column groups it is given the transpose of everything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.models.limits import Bounds
from plancc.passes.kernels.volume import penalty


class CellSide(NamedTuple):
    """Vertices as rows (or as columns) of a matrix.

    Attributes:
        ptr, nets (int64[n + 1], int32[num_pins]): Nets of every vertex: the columns that its row
            has nonzeros in, and its own.
        near_ptr, near, weight (int64[n + 1], int32[m], int64[m]): The vertices whose columns it has
            nonzeros in, and how many.
        rows (int64[n]): Rows of the matrix that every vertex stands for.
    """

    ptr: Any
    nets: Any
    near_ptr: Any
    near: Any
    weight: Any
    num_nets: int
    rows: Any


@njit(cache=True, nogil=True)
def pins_by_group(side: Any, group: Any, num_groups: int) -> Any:
    """Pins that every net has in every group: int32[num_nets, num_groups]."""
    count = np.zeros((side.num_nets, num_groups), dtype=np.int32)
    for v in range(len(group)):
        for k in range(side.ptr[v], side.ptr[v + 1]):
            count[side.nets[k], group[v]] += 1
    return count


@njit(cache=True, nogil=True)
def cells(side: Any, group: Any, other: Any, num_groups: int, num_others: int) -> Any:
    """Nonzeros and rows of every cell: int64[num_groups, num_others] each."""
    load = np.zeros((num_groups, num_others), dtype=np.int64)
    size = np.zeros((num_groups, num_others), dtype=np.int64)
    for v in range(len(group)):
        size[group[v], other[v]] += side.rows[v]
        for k in range(side.near_ptr[v], side.near_ptr[v + 1]):
            load[group[v], other[side.near[k]]] += side.weight[k]
    return load, size


class Messages(NamedTuple):
    """Rows between cells, and what they cost beside one each; of the finest level only.

    Net e of a side is then that of vertex e: its row travels from the group of e to all others that
    have a pin of it, between cells of one group of the other side.

    Attributes:
        flow (int64[num_others, num_groups, num_groups]): Rows of this side's step (``flow[b, a,
            q]``: from cell (a, b) to cell (q, b)).
        other_flow (int64[num_groups, num_others, num_others]): Rows of the other side's step.
        other_count (int32[n, num_others]): Pins of the other side's nets.
        fee (float64[k]): Fee of a row that joins x others in their message: ``fee[x]``, none from k
            on.
    """

    flow: Any
    other_flow: Any
    other_count: Any
    fee: Any


@njit(cache=True, nogil=True)
def flows(group: Any, other: Any, count: Any, num_others: int) -> Any:
    """Rows of one side's step between the cells: see `Messages`."""
    num_groups = count.shape[1]
    flow = np.zeros((num_others, num_groups, num_groups), dtype=np.int64)
    for e in range(len(group)):
        for q in range(num_groups):
            if q != group[e] and count[e, q] > 0:
                flow[other[e], group[e], q] += 1
    return flow


@njit(cache=True, nogil=True)
def _fee(rows: int, fee: Any) -> float:
    return fee[rows] if rows < len(fee) else 0.0


@njit(cache=True, nogil=True)
def _fees(v: int, side: Any, group: Any, other: Any, count: Any, messages: Any, cost: Any) -> float:
    """Fees saved where v leaves its group; adds those of entering group q to ``cost[q]``.

    Each row is charged as if it were the only one that moves.
    """
    num_groups, num_others = messages.other_flow.shape[:2]
    fee = messages.fee
    here, b_own = group[v], other[v]
    saved = 0.0
    for k in range(side.ptr[v], side.ptr[v + 1]):
        e = side.nets[k]
        if e == v:
            continue
        flow = messages.flow[other[e], group[e]]
        if count[e, here] == 1:
            saved += _fee(flow[here] - 1, fee)
        for q in range(num_groups):
            if count[e, q] == 0:
                cost[q] += _fee(flow[q], fee)
    for a in range(num_groups):  # v's own row, which is sent from another cell then
        if a != here and count[v, a] > 0:
            saved += _fee(messages.flow[b_own, here, a] - 1, fee)
        if count[v, a] > (a == here):
            for q in range(num_groups):
                if q != a:
                    cost[q] += _fee(messages.flow[b_own, q, a], fee)
    for b in range(num_others):  # and its row of the other step
        if b != b_own and messages.other_count[v, b] > 0:
            saved += _fee(messages.other_flow[here, b_own, b] - 1, fee)
            for q in range(num_groups):
                cost[q] += _fee(messages.other_flow[q, b_own, b], fee)
    return saved


@njit(cache=True, nogil=True)
def _reroute(v: int, b_own: int, source: int, count: Any, messages: Any, sign: int) -> None:
    """Add (sign 1) or take out (-1) what vertex v of cell (source, b_own) sends in both steps."""
    num_groups, num_others = messages.other_flow.shape[:2]
    for a in range(num_groups):
        if a != source and count[v, a] > 0:
            messages.flow[b_own, source, a] += sign
    for b in range(num_others):
        if b != b_own and messages.other_count[v, b] > 0:
            messages.other_flow[source, b_own, b] += sign


class CellRules(NamedTuple):
    """Which moves a sweep makes.

    Attributes:
        nonzeros, rows: Of the cells, all float64[num_groups, num_others].
        temperature: 0: the best group is taken, if it is better than the vertex' own. Above: a heat
            bath; group q is drawn with a probability in proportion to ``exp(gain / temperature)``.
        least_size: No move leaves a cell fewer rows.
    """

    nonzeros: Bounds
    rows: Bounds
    temperature: float
    least_size: int


@njit(cache=True, nogil=True)
def sweep(order, side, group, other, count, load, size, rules, rng, messages):  # type: ignore[no-untyped-def]
    """Offer every vertex in `order` the groups of its side; changes group, count, load and size.

    What falls is ``volume + sum over the cells of price / 2 * max(0, load - target)^2``, as in
    `plancc.passes.kernels.volume`, the same of their rows, and the fees of the messages. A vertex
    that leaves group a for group q takes its nonzeros from the cells (a, b) to the cells (q, b),
    for every group b of the other side.

    Parameters:
        order: int64[m].
        side: CellSide.
        group, other (int32[n]): Groups of the vertices on this side and on the other.
        count (int32[num_nets, num_groups]): See `pins_by_group`.
        load, size (int64[num_groups, num_others]): See `cells`.
        rules: CellRules.
        rng (numpy.random.Generator): Asked if the temperature is above 0.
        messages (Messages): Its flows change too, where there are fees.
    """
    nonzeros, rows, temperature, least_size = rules
    num_groups, num_others = load.shape
    held = np.zeros(num_others, dtype=np.int64)  # nonzeros of v by group of the other side
    entered = np.zeros(num_groups)  # nets of v that have no pin in the group, and their fees
    with_fees = len(messages.fee) > 0
    for v in order:
        here, b_own = group[v], other[v]
        own = side.rows[v]
        if size[here, b_own] - own < least_size:
            continue
        held[:] = 0
        for k in range(side.near_ptr[v], side.near_ptr[v + 1]):
            held[other[side.near[k]]] += side.weight[k]
        entered[:] = 0
        left = 0
        for k in range(side.ptr[v], side.ptr[v + 1]):
            e = side.nets[k]
            left += count[e, here] == 1
            for q in range(num_groups):
                entered[q] += count[e, q] == 0
        saved = float(left)
        if with_fees:
            saved += _fees(v, side, group, other, count, messages, entered)
        for b in range(num_others):
            if held[b] > 0:
                target = nonzeros.target[here, b]
                saved += penalty(load[here, b], target, nonzeros.price[here, b])
                saved -= penalty(load[here, b] - held[b], target, nonzeros.price[here, b])
        saved += penalty(size[here, b_own], rows.target[here, b_own], rows.price[here, b_own])
        saved -= penalty(size[here, b_own] - own, rows.target[here, b_own], rows.price[here, b_own])
        best, best_value = here, 0.0
        if temperature > 0:
            best_value = -temperature * np.log(rng.standard_exponential())
        for q in range(num_groups):
            value = saved - entered[q]
            if q == here or (temperature == 0 and value <= best_value):
                continue
            fits = size[q, b_own] + own <= rows.cap[q, b_own]
            value -= penalty(size[q, b_own] + own, rows.target[q, b_own], rows.price[q, b_own])
            value += penalty(size[q, b_own], rows.target[q, b_own], rows.price[q, b_own])
            for b in range(num_others):
                if held[b] > 0:
                    target = nonzeros.target[q, b]
                    fits &= load[q, b] + held[b] <= nonzeros.cap[q, b]
                    value -= penalty(load[q, b] + held[b], target, nonzeros.price[q, b])
                    value += penalty(load[q, b], target, nonzeros.price[q, b])
            if not fits:
                continue
            if temperature > 0:  # the largest of values with Gumbel noise is such a draw
                value -= temperature * np.log(rng.standard_exponential())
            if value > best_value:
                best, best_value = q, value
        if best == here:
            continue
        if with_fees:
            _reroute(v, b_own, here, count, messages, -1)
        group[v] = best
        size[here, b_own] -= own
        size[best, b_own] += own
        for k in range(side.ptr[v], side.ptr[v + 1]):
            e = side.nets[k]
            count[e, here] -= 1
            count[e, best] += 1
            if with_fees and e != v:
                messages.flow[other[e], group[e], here] -= count[e, here] == 0
                messages.flow[other[e], group[e], best] += count[e, best] == 1
        if with_fees:
            _reroute(v, b_own, best, count, messages, 1)
        for b in range(num_others):
            load[here, b] -= held[b]
            load[best, b] += held[b]
