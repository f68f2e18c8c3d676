"""Kernels that lower the traffic of the busiest parts, or the number of messages.

A sweep minimises a sum: the volume, the penalties of overweight (see ``volume.py``), and::

    sum over parts   pressure / 2 * (excess(sent side)^2 + excess(received side)^2)
    sum over pairs   fee(rows from q to m)

    side   = row * rows + message * messages        that one part sends, or receives
    excess = max(0, side - ceiling)

`Tariff` explains these constants. Every further row of a message has a smaller fee, so that many
small messages cost more than few large ones. After every move, traffic and fees are updated
exactly. But when a move is chosen, two prices are taken as they were before the move: the fee of a
row in each message, and the price of a row that another part sends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import last_slot, move, pins_in
from plancc.passes.kernels.volume import fits, penalty, saving, value_in
from plancc.passes.presets import MAX_FEES_READ


class PairTraffic(NamedTuple):
    """Traffic of every part for a `State`.

    Attributes:
        sent, received (int64[num_parts]): Number of rows that a part sends, and receives.
        messages_sent, messages_received (int64[num_parts]): Messages; 0 if `pair` is empty.
        pair (int32[steps, num_parts, num_parts], or int32[steps, 0, 0]): Rows from one part to
            another in each step. Row plans have one step, edge plans two. Empty if messages do not
            matter.
    """

    sent: Any
    received: Any
    messages_sent: Any
    messages_received: Any
    pair: Any


class Tariff(NamedTuple):
    """Prices of traffic, as in the formula at the top of this module.

    Attributes:
        row: Load that a row adds to the sent side of one part, and to the received side of another.
        message: Load that a message adds to the same two sides.
        ceiling, pressure: Load above which a side has a cost, and the price of the excess.
        fees (float64[m], m at least 1): ``fees[k]``: fee of row k of a message. Further rows have
            the last fee.
    """

    row: float
    message: float
    ceiling: float
    pressure: float
    fees: Any


def no_traffic(num_parts: int, steps: int, with_pairs: bool) -> PairTraffic:
    """Make a `PairTraffic` of zeros; `pair` is empty unless `with_pairs`."""
    side = num_parts if with_pairs else 0
    sent, received, messages_sent, messages_received = np.zeros((4, num_parts), dtype=np.int64)
    pair = np.zeros((steps, side, side), dtype=np.int32)
    return PairTraffic(sent, received, messages_sent, messages_received, pair)


def flow_of(nets: Any, state: Any, with_pairs: bool) -> PairTraffic:
    """Count the traffic of a partition; `Nets.source` must be known."""
    flow = no_traffic(len(state.sums), 1, with_pairs)
    _fill(nets, state, flow)
    return flow


@njit(cache=True, nogil=True)
def _fill(nets: Any, state: Any, flow: Any) -> None:
    for e in range(len(state.spread)):
        if state.spread[e] > 1:
            _send(e, state.owner[nets.source[e]], nets.cost[e], nets, state, flow)


@njit(cache=True, nogil=True)
def add_rows(step: int, q: int, m: int, rows: int, flow: Any) -> None:
    """Add `rows` rows to the traffic from part q to part m; a negative number removes rows."""
    flow.sent[q] += rows
    flow.received[m] += rows
    if flow.pair.shape[1] > 0:
        # A message begins with its first row, and ends with the loss of its last row.
        before = flow.pair[step, q, m]
        flow.pair[step, q, m] = before + rows
        change = (before + rows > 0) - (before > 0)
        flow.messages_sent[q] += change
        flow.messages_received[m] += change


@njit(cache=True, nogil=True)
def _send(e: int, q: int, rows: int, nets: Any, state: Any, flow: Any) -> None:
    """Add `rows` rows to the traffic from part q to every other part that net e touches."""
    for k in range(state.slot_ptr[e], last_slot(e, state)):
        if state.part[k] != q and state.count[k] > 0:
            add_rows(0, q, state.part[k], rows, flow)


@njit(cache=True, nogil=True)
def shift(v: int, there: int, nets: Any, state: Any, flow: Any) -> None:
    """Move v to part `there`, and update the traffic."""
    here = state.owner[v]
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        cost = nets.cost[e]
        # After the move, another part sends the rows of v's own nets: remove all their traffic
        # here, and add all after the move.
        if nets.source[e] == v:
            _send(e, here, -cost, nets, state, flow)
            continue
        # Another vertex is the source of this net. Its part stops sending to a part that loses the
        # last pin, and starts sending to a part that gains the first pin.
        q = state.owner[nets.source[e]]
        if pins_in(e, here, state) == 1:
            add_rows(0, q, here, -cost, flow)
        if pins_in(e, there, state) == 0:
            add_rows(0, q, there, cost, flow)
    move(v, there, nets, state)
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        if nets.source[e] == v:
            _send(e, there, nets.cost[e], nets, state, flow)


@njit(cache=True, nogil=True)
def _strain(side: float, tariff: Any) -> float:
    return penalty(side, tariff.ceiling, tariff.pressure)


@njit(cache=True, nogil=True)
def _sides(q: int, sent: int, received: int, flow: Any, tariff: Any) -> float:
    """Return part q's penalty if it sends `sent` more rows and receives `received` more rows."""
    out = tariff.row * (flow.sent[q] + sent) + tariff.message * flow.messages_sent[q]
    into = tariff.row * (flow.received[q] + received)
    into += tariff.message * flow.messages_received[q]
    return _strain(out, tariff) + _strain(into, tariff)


@njit(cache=True, nogil=True)
def _row_price(q: int, flow: Any, tariff: Any) -> float:
    """Return the cost if part q sends one more row: 1, plus the rise of q's penalty."""
    # the derivative of pressure / 2 * excess^2 by the rows
    out = tariff.row * flow.sent[q] + tariff.message * flow.messages_sent[q]
    return 1.0 + tariff.pressure * tariff.row * max(0.0, out - tariff.ceiling)


@njit(cache=True, nogil=True)
def _fee(q: int, m: int, more: int, flow: Any, tariff: Any) -> float:
    """Return the fee for a row of the message from q to m.

    With `more` 0 it is the row that would be added next, with -1 the last row.
    """
    at = flow.pair[0, q, m] + more
    return tariff.fees[max(0, min(at, len(tariff.fees) - 1))]


@njit(cache=True, nogil=True)
def sweep_traffic(  # type: ignore[no-untyped-def]
    order, nets, state, flow, tariff, bounds
):
    """Move every vertex in `order` to the part for which the sum that the module defines is least.

    A vertex stays if no move lowers the sum. Returns the numbers of vertices moved and of gains
    computed; `flow` is updated. If messages have fees, a vertex that needs rows from very many
    parts tries only some parts.
    """
    # Moving v from part `here` to part q saves, in rows at their prices,
    #
    # left - (needed - saved_rows[q]) + own_rows[q] - own_stay
    #
    # left      rows that only v needs in `here`: after the move nobody sends them
    # needed    rows of other vertices that v reads; q has saved_rows[q] of them already
    # own_rows  rows of v that q receives: inside q they need no message
    # own_stay  rows of v that other vertices of `here` read: `here` must then receive them
    #
    # The strain of both parts and the fees of all messages that change are added to this.
    num_parts = len(state.sums)
    saved_rows = np.zeros(num_parts)  # price of the rows that v reads and the part has already
    known_rows = np.zeros(num_parts, dtype=np.int64)  # number of these rows
    known_fees = np.zeros(num_parts)  # fees of these rows
    own_rows = np.zeros(num_parts, dtype=np.int64)  # rows of v itself that the part receives
    touched = np.zeros(num_parts, dtype=np.bool_)
    seen = np.empty(num_parts, dtype=np.int64)
    receivers = np.empty(num_parts, dtype=np.int64)
    from_part = np.zeros(num_parts, dtype=np.int64)  # rows that v needs, by the owner's part
    owners = np.empty(num_parts, dtype=np.int64)
    fees = flow.pair.shape[1] > 0
    moved, evaluations = 0, 0
    for v in order:
        here = state.owner[v]
        num, num_owners = 0, 0
        needed, needed_price = np.int64(0), 0.0
        left, left_price = np.int64(0), 0.0
        own_sent, own_stay = np.int64(0), np.int64(0)
        for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
            e = nets.nets[a]
            cost = nets.cost[e]
            # v's own nets carry the row of v to other parts; other nets bring rows of part q0.
            own = nets.source[e] == v
            q0 = state.owner[nets.source[e]]
            row_price = 0.0
            if own:
                own_sent += cost * (state.spread[e] - 1)
            else:
                row_price = _row_price(q0, flow, tariff)
                needed += cost
                needed_price += cost * row_price
                if fees:
                    if from_part[q0] == 0:
                        owners[num_owners] = q0
                        num_owners += 1
                    from_part[q0] += cost
            for k in range(state.slot_ptr[e], last_slot(e, state)):
                count = state.count[k]
                if count == 0:
                    continue
                q = state.part[k]
                if q == here:
                    if own:
                        if count > 1:
                            own_stay += cost
                    # v is the only pin of this net here
                    elif count == 1:
                        left += cost
                        left_price += cost * row_price
                        if fees:
                            left_price += cost * _fee(q0, here, -1, flow, tariff)
                    continue
                if not touched[q]:
                    touched[q] = True
                    seen[num] = q
                    num += 1
                if own:
                    own_rows[q] += cost
                else:
                    known_rows[q] += cost
                    saved_rows[q] += cost * row_price
                    if fees and q != q0:
                        known_fees[q] += cost * _fee(q0, q, 0, flow, tariff)
        freed, alone = saving(v, nets, state, bounds)
        # Without v its part sends `own_sent` rows fewer, receives `left` fewer and `own_stay` more.
        freed += _sides(here, 0, 0, flow, tariff)
        freed -= _sides(here, -own_sent, own_stay - left, flow, tariff)
        num_own = 0
        if fees:
            for k in range(num):
                if own_rows[seen[k]] > 0:
                    receivers[num_own] = seen[k]
                    num_own += 1
        # A value with fees reads one fee for every owner and every receiver. Try fewer parts, so
        # that a vertex reads at most `MAX_FEES_READ` fees.
        most = num if not fees else 1 + MAX_FEES_READ // (1 + num_owners + num_own)
        tried = 0
        best, best_value = -1, 1e-9
        for k in range(num):
            # begin at another part for every vertex, so that the limit favours no part
            q = seen[(k + v) % num]
            if alone or tried == most:
                break
            if not fits(v, q, nets, state, bounds.cap):
                continue
            tried += 1
            value = freed + left_price - (needed_price - saved_rows[q]) + own_rows[q] - own_stay
            value = value_in(v, q, value, nets, state, bounds)
            # Rows that q receives and sends in addition after the move.
            received = needed - known_rows[q] - own_rows[q]
            sent = own_sent - own_rows[q] + own_stay
            value += _sides(q, 0, 0, flow, tariff)
            value -= _sides(q, sent, received, flow, tariff)
            if fees:
                # Fees of the rows that v needs: after the move their owners send to q.
                value += known_fees[q]
                for i in range(num_owners):
                    q0 = owners[i]
                    if q0 != q:
                        value -= from_part[q0] * _fee(q0, q, 0, flow, tariff)
                for i in range(num_own):
                    # Fees of v's own row: q sends it instead of `here`.
                    m = receivers[i]
                    value += own_rows[m] * _fee(here, m, -1, flow, tariff)
                    if m != q:
                        value -= own_rows[m] * _fee(q, m, 0, flow, tariff)
                if own_stay > 0:
                    value -= own_stay * _fee(q, here, 0, flow, tariff)
            if value > best_value:
                best, best_value = q, value
        evaluations += tried
        # Reset only the touched places, so that the work does not depend on the number of parts.
        for i in range(num):
            q = seen[i]
            touched[q] = False
            saved_rows[q], known_fees[q] = 0.0, 0.0
            known_rows[q], own_rows[q] = 0, 0
        for k in range(num_owners):
            from_part[owners[k]] = 0
        if best >= 0:
            shift(v, best, nets, state, flow)
            moved += 1
    return moved, evaluations
