"""Moves that lower the traffic of the busiest parts, or the number of messages.

What a sweep minimises, beside the volume and the price of overweight parts of ``volume.py``::

    sum over parts   pressure / 2 * (excess(sent side)^2 + excess(received side)^2)
    sum over pairs   fee(rows from q to m)

    side   = row * rows + message * messages        of one part, sent or received
    excess = max(0, side - ceiling)

A fee that rises less and less with the rows of a message makes many small messages dearer than
few large ones. Traffic and fees are followed exactly, move by move; only the choice of a move takes
the fees of rows of one message, and the pressure on third parts, at their present prices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.state import last_slot, move, pins_in
from plancc.passes.kernels.volume import fits, penalty, saving, value_in
from plancc.passes.presets import MAX_FEES_READ


class PairTraffic(NamedTuple):
    """Traffic of every part under a `State`.

    Attributes:
        sent, received (int64[num_parts]): Rows.
        messages_sent, messages_received (int64[num_parts]): Zero unless `pair` is kept.
        pair (int32[steps, num_parts, num_parts], or int32[steps, 0, 0] where messages do not
            matter): Rows from one part to another in every step; here there is one.
    """

    sent: Any
    received: Any
    messages_sent: Any
    messages_received: Any
    pair: Any


class Tariff(NamedTuple):
    """Prices of traffic.

    Attributes:
        row, message: Cost of one row, and of one message, at either end.
        ceiling, pressure: See the module.
        fees (float64[m], m at least 1): What the first, second, ... row of a message costs; the
            last is for all that follow.
    """

    row: float
    message: float
    ceiling: float
    pressure: float
    fees: Any


def no_traffic(num_parts: int, steps: int, with_pairs: bool) -> PairTraffic:
    """No part sends anything."""
    side = num_parts if with_pairs else 0
    sent, received, messages_sent, messages_received = np.zeros((4, num_parts), dtype=np.int64)
    pair = np.zeros((steps, side, side), dtype=np.int32)
    return PairTraffic(sent, received, messages_sent, messages_received, pair)


def flow_of(nets: Any, state: Any, with_pairs: bool) -> PairTraffic:
    """Count the traffic of a partition of nets with sources."""
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
    """`rows` more (or fewer) from part q to part m."""
    flow.sent[q] += rows
    flow.received[m] += rows
    if flow.pair.shape[1] > 0:
        # A message appears with its first row and goes with its last one.
        before = flow.pair[step, q, m]
        flow.pair[step, q, m] = before + rows
        change = (before + rows > 0) - (before > 0)
        flow.messages_sent[q] += change
        flow.messages_received[m] += change


@njit(cache=True, nogil=True)
def _send(e: int, q: int, rows: int, nets: Any, state: Any, flow: Any) -> None:
    """The rows of net e from part q to all others that it touches."""
    for k in range(state.slot_ptr[e], last_slot(e, state)):
        if state.part[k] != q and state.count[k] > 0:
            add_rows(0, q, state.part[k], rows, flow)


@njit(cache=True, nogil=True)
def shift(v: int, there: int, nets: Any, state: Any, flow: Any) -> None:
    """`move` that keeps the traffic up to date."""
    here = state.owner[v]
    for a in range(nets.vertex_ptr[v], nets.vertex_ptr[v + 1]):
        e = nets.nets[a]
        cost = nets.cost[e]
        # The rows of an own net come from another part after the move: take all away, add all
        # after the move.
        if nets.source[e] == v:
            _send(e, here, -cost, nets, state, flow)
            continue
        # Another vertex sends this net: it stops sending to a part that loses its last pin,
        # and begins sending to a part that gains its first.
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
    """Strain of part q when it sends and receives more rows."""
    out = tariff.row * (flow.sent[q] + sent) + tariff.message * flow.messages_sent[q]
    into = tariff.row * (flow.received[q] + received)
    into += tariff.message * flow.messages_received[q]
    return _strain(out, tariff) + _strain(into, tariff)


@njit(cache=True, nogil=True)
def _row_price(q: int, flow: Any, tariff: Any) -> float:
    """Cost of one more row sent by part q now: the row itself, and the strain."""
    # the derivative of pressure / 2 * excess^2 by the rows
    out = tariff.row * flow.sent[q] + tariff.message * flow.messages_sent[q]
    return 1.0 + tariff.pressure * tariff.row * max(0.0, out - tariff.ceiling)


@njit(cache=True, nogil=True)
def _fee(q: int, m: int, more: int, flow: Any, tariff: Any) -> float:
    """Fee of the next row from q to m (`more` 0), or of the last one (-1)."""
    at = flow.pair[0, q, m] + more
    return tariff.fees[max(0, min(at, len(tariff.fees) - 1))]


@njit(cache=True, nogil=True)
def sweep_traffic(  # type: ignore[no-untyped-def]
    order, nets, state, flow, tariff, bounds
):
    """Move every vertex in `order` to the part where all costs together fall most, if any.

    With fees a vertex that needs rows of very many parts tries some of its parts only.

    Parameters:
        order: int64[m].
        bounds: plancc.models.limits.Bounds.

    Returns:
        moved, evaluations
    """
    # Moving v from part `here` to part q saves, in rows at their prices,
    #
    # left - (needed - saved_rows[q]) + own_rows[q] - own_stay
    #
    # left      rows that only v needs in `here`: they are sent no more
    # needed    rows of others that v reads; q has saved_rows[q] of them already
    # own_rows  rows of v that q receives: inside q they need no message
    # own_stay  rows of v that other vertices of `here` read: `here` must receive them then
    #
    # The strain of both parts and the fees of all messages that change are added to this.
    num_parts = len(state.sums)
    saved_rows = np.zeros(num_parts)  # at their prices: nets of v that touch the part already
    known_rows = np.zeros(num_parts, dtype=np.int64)  # ... as rows
    known_fees = np.zeros(num_parts)  # ... their fees
    own_rows = np.zeros(num_parts, dtype=np.int64)  # rows of v itself that the part receives
    touched = np.zeros(num_parts, dtype=np.bool_)
    seen = np.empty(num_parts, dtype=np.int64)
    receivers = np.empty(num_parts, dtype=np.int64)
    from_part = np.zeros(num_parts, dtype=np.int64)  # rows that v needs, by their owner
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
            # Own nets carry the row of v to other parts; the others bring rows of part q0 to v.
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
        # A value with fees reads one fee for every owner and every receiver: try fewer parts, so
        # that the fees read per vertex stay below a limit.
        most = num if not fees else 1 + MAX_FEES_READ // (1 + num_owners + num_own)
        tried = 0
        best, best_value = -1, 1e-9
        for k in range(num):
            # begin at another part for every vertex, so that a limit favours none
            q = seen[(k + v) % num]
            if alone or tried == most:
                break
            if not fits(v, q, nets, state, bounds.cap):
                continue
            tried += 1
            value = freed + left_price - (needed_price - saved_rows[q]) + own_rows[q] - own_stay
            value = value_in(v, q, value, nets, state, bounds)
            # What q receives and sends more, once v is there.
            received = needed - known_rows[q] - own_rows[q]
            sent = own_sent - own_rows[q] + own_stay
            value += _sides(q, 0, 0, flow, tariff)
            value -= _sides(q, sent, received, flow, tariff)
            if fees:
                # Fees of the rows that v needs: their owners send to q now.
                value += known_fees[q]
                for i in range(num_owners):
                    q0 = owners[i]
                    if q0 != q:
                        value -= from_part[q0] * _fee(q0, q, 0, flow, tariff)
                for i in range(num_own):
                    # Fees of the row of v: q sends it in place of `here`.
                    m = receivers[i]
                    value += own_rows[m] * _fee(here, m, -1, flow, tariff)
                    if m != q:
                        value -= own_rows[m] * _fee(q, m, 0, flow, tariff)
                if own_stay > 0:
                    value -= own_stay * _fee(q, here, 0, flow, tariff)
            if value > best_value:
                best, best_value = q, value
        evaluations += tried
        # Only the touched places are set back, whatever the number of parts.
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
