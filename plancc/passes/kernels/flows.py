"""Kernels that find minimum cuts between two parts, on the hypergraph around their boundary.

In the flow network (Lawler, 1973), a net is an arc from node *in* to node *out*, whose capacity is
the net's cost. Arcs of unbounded capacity lead from every pin to *in*, and from *out* to every pin.
The vertices of a part far from the boundary are merged into a terminal.

FlowCutter balances the cuts (Hamann and Strasser, 2018; on hypergraphs Gottesbueren, Hamann and
Wagner, 2019). While neither minimum cut is balanced, the lighter side takes in a vertex beyond its
cut (*piercing*), and the flow is augmented.

Finding a cut depends only on pins in the two parts, and does not change the `State`. So disjoint
pairs can be cut in parallel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plancc.kernel import njit
from plancc.passes.kernels.heap import pop, push
from plancc.passes.kernels.nets import transpose
from plancc.passes.kernels.state import last_slot, move
from plancc.passes.kernels.volume import gain_of
from plancc.passes.presets import Cuts

UNBOUNDED = 1 << 62
FREE, COSTLY = range(2)
"""The two heaps of a side. FREE has vertices that it can probably take in without more flow; COSTLY
has vertices that increase the flow."""
DEEPEST = 1 << 15
"""Largest depth that a key can hold; larger depths are stored as this number."""


class CutNetwork(NamedTuple):
    """The hypergraph around the boundary of a pair of parts, which are called part 0 and part 1.

    Vertices 0 and 1 are terminals: all vertices of part 0, and of part 1, that must stay.

    Attributes:
        vertex (int32[v]): Index of every vertex in the whole hypergraph; -1 for terminals.
        part (int8[v]): Part of every vertex before the cut, 0 or 1.
        depth (int32[v]): Number of nets on the shortest path from the boundary, at least 1.
        weight (int64[v, num_constraints]): Weights of the vertices.
        net_ptr, pins, cost (int64[m + 1], int32[num_pins], int64[m]): The nets, except nets that
            have both terminals.
        net_of (int32[num_pins]): The net of every pin.
        vertex_ptr, pins_of (int64[v + 1], int32[num_pins]): Offsets and indices in `pins` of the
            pins of every vertex.
    """

    vertex: Any
    part: Any
    depth: Any
    weight: Any
    net_ptr: Any
    pins: Any
    cost: Any
    net_of: Any
    vertex_ptr: Any
    pins_of: Any


class Region(NamedTuple):
    """Bounds on the size of the network of a pair of parts, and on the work for its cut.

    Attributes:
        room (float64[2, num_constraints]): Largest total weight that may leave each part.
        max_degree: Largest total number of nets that the vertices that may leave a part have.
        max_pins: Nets with more pins are left out, and the cut ignores them.
        max_work: Largest number of visited nodes, divided by the nodes of the network.
    """

    room: Any
    max_degree: int
    max_pins: int
    max_work: int = Cuts.max_work


@njit(cache=True, nogil=True)
def cut_nets_of_pairs(partner: Any, max_spread: int, state: Any) -> Any:
    """List the nets that touch both parts of a pair, for several disjoint pairs of parts.

    Parameters:
        partner (int64[num_parts]): For every part, the other part of its pair, or the part itself.
        max_spread: Largest number of parts that a net may touch; other nets are left out.

    Returns:
        ptr (int64[num_parts + 1]), nets (int32[m]): The nets of a pair whose lower part is q are
            ``nets[ptr[q]:ptr[q + 1]]``.
    """
    num_parts = len(partner)
    ptr = np.zeros(num_parts + 2, dtype=np.int64)
    found = np.empty(0, dtype=np.int32)
    here = np.zeros(num_parts, dtype=np.int64)
    # Two rounds over the nets: the first counts, the second fills (a counting sort by pair).
    for fill in range(2):
        if fill == 1:
            ptr = np.cumsum(ptr)
            found = np.empty(ptr[num_parts], dtype=np.int32)
        for e in range(len(state.spread)):
            spread = state.spread[e]
            if spread < 2 or spread > max_spread:
                continue
            start, end = state.slot_ptr[e], last_slot(e, state)
            for k in range(start, end):
                # `here[q] == e + 1` marks the parts of net e, so marks need no reset per net.
                if state.count[k] > 0:
                    here[state.part[k]] = e + 1
            for k in range(start, end):
                q = state.part[k]
                if state.count[k] > 0 and partner[q] > q and here[partner[q]] == e + 1:
                    if fill == 0:
                        ptr[q + 1] += 1
                    else:
                        found[ptr[q]] = e
                        ptr[q] += 1
        here[:] = 0
    # Filling has moved each offset to the next; shift the offsets back.
    for q in range(num_parts, 0, -1):
        ptr[q] = ptr[q - 1]
    ptr[0] = 0
    return ptr[: num_parts + 1], found


@njit(cache=True, nogil=True)
def adjacent_parts(max_spread: int, most: int, nets: Any, state: Any) -> Any:
    """List pairs of parts, ascending, that share nets, with the total cost of the shared nets.

    Nets on more than `max_spread` parts are left out. The search for pairs stops early once the
    list has more than `most` pairs.
    """
    num_parts = len(state.sums)
    ptr = np.zeros(num_parts + 2, dtype=np.int64)
    of_part = np.empty(0, dtype=np.int32)
    for fill in range(2):  # cut nets by part
        if fill == 1:
            ptr = np.cumsum(ptr)
            of_part = np.empty(ptr[num_parts + 1], dtype=np.int32)
        for e in range(len(state.spread)):
            spread = state.spread[e]
            if spread < 2 or spread > max_spread:
                continue
            for k in range(state.slot_ptr[e], last_slot(e, state)):
                if state.count[k] > 0:
                    q = state.part[k]
                    if fill == 1:
                        of_part[ptr[q + 1]] = e
                        ptr[q + 1] += 1
                    else:
                        ptr[q + 2] += 1
    one, two = np.empty(16, dtype=np.int64), np.empty(16, dtype=np.int64)
    found, num = np.empty(16, dtype=np.int64), 0
    # `shared[r]`: cost of the nets that part q shares with part r.
    shared = np.zeros(num_parts, dtype=np.int64)
    for q in range(num_parts):
        if num > most:
            break
        for a in range(ptr[q], ptr[q + 1]):
            e = of_part[a]
            for k in range(state.slot_ptr[e], last_slot(e, state)):
                if state.count[k] > 0 and state.part[k] > q:
                    shared[state.part[k]] += nets.cost[e]
        for r in range(q + 1, num_parts):
            if shared[r] == 0:
                continue
            # room for twice the number of pairs
            if num == len(one):
                one = np.concatenate((one, np.empty(num, dtype=np.int64)))
                two = np.concatenate((two, np.empty(num, dtype=np.int64)))
                found = np.concatenate((found, np.empty(num, dtype=np.int64)))
            one[num], two[num], found[num] = q, r, shared[r]
            shared[r] = 0
            num += 1
    return one[:num], two[:num], found[:num]


@njit(cache=True, nogil=True)
def network_of(pair: Any, cut_nets: Any, region: Any, place: Any, nets: Any, state: Any) -> Any:
    """Return the `CutNetwork` of a pair of parts, and the cost of its nets that touch both."""
    n, num_constraints = nets.weight.shape
    # Phase 1, the region: breadth first from the boundary of each part, until `region` is full.
    # `place[v]` is the number of vertex v in the network, `place[n + e]` a mark of net e.
    most = min(n, 2 * region.max_degree) + 2
    vertex = np.empty(most, dtype=np.int32)
    part = np.empty(most, dtype=np.int8)
    depth = np.empty(most, dtype=np.int32)
    vertex[:2], part[0], part[1], depth[:2] = -1, 0, 1, 1 << 30
    stays = np.zeros((2, num_constraints), dtype=np.int64)
    end = 2
    for s in range(2):
        start, q = end, pair[s]
        weight = np.zeros(num_constraints, dtype=np.int64)
        degree = 0
        head = start - 1
        while head < end:  # first the cut nets, then the nets of each vertex in the queue
            first, last = 0, len(cut_nets)
            if head >= start:
                first = nets.vertex_ptr[vertex[head]]
                last = nets.vertex_ptr[vertex[head] + 1]
            for a in range(first, last):
                e = nets.nets[a] if head >= start else cut_nets[a]
                if nets.net_ptr[e + 1] - nets.net_ptr[e] > region.max_pins:
                    continue
                for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                    v = nets.pins[k]
                    if state.owner[v] != q or place[v] >= 0:
                        continue
                    size = nets.vertex_ptr[v + 1] - nets.vertex_ptr[v]
                    # A vertex belongs to the region if degree and every weight have room for it.
                    fits = degree + size <= region.max_degree
                    for c in range(num_constraints):
                        fits &= weight[c] + nets.weight[v, c] <= region.room[s, c]
                    if fits:
                        for c in range(num_constraints):
                            weight[c] += nets.weight[v, c]
                        degree += size
                        place[v] = end
                        vertex[end], part[end] = v, s
                        depth[end] = 1 + (depth[head] if head >= start else 0)
                        end += 1
            head += 1
        for c in range(num_constraints):
            # The weight of a part's terminal is the weight of the part outside the region.
            stays[s, c] = state.sums[q, c] - weight[c]
    # Phase 2, the nets of the region, counted first so that the arrays are allocated once.
    num_nets, num_pins = 0, 0
    for x in range(2, end):
        for a in range(nets.vertex_ptr[vertex[x]], nets.vertex_ptr[vertex[x] + 1]):
            e = nets.nets[a]
            size = nets.net_ptr[e + 1] - nets.net_ptr[e]
            if place[n + e] < 0 and size <= region.max_pins:
                place[n + e] = 0
                num_nets += 1
                num_pins += size
    net_ptr = np.zeros(num_nets + 1, dtype=np.int64)
    pins = np.empty(num_pins, dtype=np.int32)
    net_of = np.empty(num_pins, dtype=np.int32)
    cost = np.empty(num_nets, dtype=np.int64)
    m, at, now = 0, 0, np.int64(0)
    for x in range(2, end):
        for a in range(nets.vertex_ptr[vertex[x]], nets.vertex_ptr[vertex[x] + 1]):
            e = nets.nets[a]
            if place[n + e] < 0:
                continue
            # Remove the mark when the net is written, so that each net is written once.
            place[n + e] = -1
            start = at
            stay_0, stay_1, in_0, in_1 = False, False, False, False
            for k in range(nets.net_ptr[e], nets.net_ptr[e + 1]):
                v = nets.pins[k]
                q = state.owner[v]
                if q != pair[0] and q != pair[1]:
                    continue
                in_0 |= q == pair[0]
                in_1 |= q == pair[1]
                if place[v] >= 0:
                    pins[at] = place[v]
                    at += 1
                elif q == pair[0]:
                    stay_0 = True
                else:
                    stay_1 = True
            # A net with both terminals is always cut: leave it out.
            if stay_0 and stay_1:
                at = start
                continue
            if stay_0 or stay_1:
                pins[at] = 1 if stay_1 else 0
                at += 1
            # A net with one node of the network is never cut.
            if at - start < 2:
                at = start
                continue
            net_of[start:at] = m
            cost[m] = nets.cost[e]
            # a net that the present owners cut
            if in_0 and in_1:
                now += nets.cost[e]
            m += 1
            net_ptr[m] = at
    weight = np.empty((end, num_constraints), dtype=np.int64)
    for c in range(num_constraints):
        weight[0, c], weight[1, c] = stays[0, c], stays[1, c]
        for x in range(2, end):
            weight[x, c] = nets.weight[vertex[x], c]
    for x in range(2, end):
        place[vertex[x]] = -1
    places = np.arange(at).astype(np.int32)
    vertex_ptr, _, pins_of = transpose(net_ptr[: m + 1], pins[:at], places, end)
    found = CutNetwork(
        vertex[:end],
        part[:end],
        depth[:end],
        weight,
        net_ptr[: m + 1],
        pins[:at],
        cost[:m],
        net_of[:at],
        vertex_ptr,
        pins_of,
    )
    return found, now


class CutFlow(NamedTuple):
    """A flow from the source (vertex 0) to the target (vertex 1), and the state of two searches.

    Side 0 searches the residual network from the source along the arcs; side 1 searches from the
    target against the arcs. Each side numbers v vertices, then *near* and then *far* nodes of m
    nets. A search enters a net at its near node: *in* for side 0, *out* for side 1. The first index
    of arrays [2, ...] is the side, except in `sent`.

    Attributes:
        sent (int64[2, num_pins]): Flow from every pin into its net (0), and back (1).
        through (int64[m]): Flow through every net.
        reached (bool[2, v + 2 m]): Whether the side has reached a node.
        fixed (bool[2, v]): Whether a vertex belongs to the side, and must stay there.
        order (int32[2, v]): The vertices that the side has reached, in order of the search.
        behind (int64[2, 2, v]): Heaps `FREE` and `COSTLY` of vertices that a side could take next.
        listed (bool[2, v]): Whether a vertex has been put into a heap of the side.
        number (int64[2, 5]): Vertices reached, fixed vertices, sizes of both heaps, and 1 if all
            other vertices are listed, else 0.
        work (int64[1]): Number of nodes that searches and augmenting paths have visited.
        weight (int64[2, num_constraints]): Weight of the vertices that the side has reached.
        level, arc, queue, path, path_pin, room (v + 2 m entries each): Scratch; levels and arcs are
            0 between calls.
    """

    sent: Any
    through: Any
    reached: Any
    fixed: Any
    order: Any
    behind: Any
    listed: Any
    number: Any
    work: Any
    weight: Any
    level: Any
    arc: Any
    queue: Any
    path: Any
    path_pin: Any
    room: Any


@njit(cache=True, nogil=True)
def empty_flow(net: Any) -> Any:
    """Make a flow of 0, in which neither side's search has reached a node of the flow network."""
    v, m = len(net.vertex), len(net.cost)
    nodes = v + 2 * m
    return CutFlow(
        np.zeros((2, len(net.pins)), dtype=np.int64),
        np.zeros(m, dtype=np.int64),
        np.zeros((2, nodes), dtype=np.bool_),
        np.zeros((2, v), dtype=np.bool_),
        np.empty((2, v), dtype=np.int32),
        np.empty((2, 2, v), dtype=np.int64),
        np.zeros((2, v), dtype=np.bool_),
        np.zeros((2, 5), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros((2, net.weight.shape[1]), dtype=np.int64),
        np.zeros(nodes, dtype=np.int32),
        np.zeros(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes + 1, dtype=np.int32),
        np.empty(nodes + 1, dtype=np.int32),
        np.empty(nodes + 1, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def _levels(side: int, num: int, net: Any, flow: Any) -> Any:
    """Search breadth first from ``flow.queue[:num]``, through nodes that `side` has not reached.

    Returns the number of visited nodes, and whether a vertex fixed on the other side is among them.
    ``flow.queue`` gets these nodes; ``flow.level`` gets their distances from the start, plus 1.
    """
    v, m = len(net.vertex), len(net.cost)
    near_flow, far_flow = flow.sent[side], flow.sent[1 - side]
    reached, level, queue, target = flow.reached[side], flow.level, flow.queue, flow.fixed[1 - side]
    head, end, last = 0, num, UNBOUNDED
    # Nodes that are not seen have level 0, sources have level 1; a step goes from l to l + 1.
    for k in range(num):
        level[queue[k]] = 1
    while head < end:
        x = queue[head]
        head += 1
        below = level[x] + 1
        if below > last:
            break
        if x < v:
            # From a vertex to the near node of each of its nets, without bound, and to the far node
            # against the flow that the vertex receives from there.
            for a in range(net.vertex_ptr[x], net.vertex_ptr[x + 1]):
                k = net.pins_of[a]
                y = v + net.net_of[k]
                if level[y] == 0 and not reached[y]:
                    level[y] = below
                    queue[end] = y
                    end += 1
                y += m
                if far_flow[k] > 0 and level[y] == 0 and not reached[y]:
                    level[y] = below
                    queue[end] = y
                    end += 1
            continue
        # Between the two nodes of a net: near to far if the net has capacity left, far to near
        # against the net's flow.
        near = x < v + m
        e = x - v if near else x - v - m
        y = x + m if near else x - m
        if level[y] == 0 and not reached[y]:
            left = net.cost[e] - flow.through[e] if near else flow.through[e]
            if left > 0:
                level[y] = below
                queue[end] = y
                end += 1
        # From the far node to any pin; from the near node against the flow that a pin sends.
        for k in range(net.net_ptr[e], net.net_ptr[e + 1]):
            y = net.pins[k]
            if level[y] == 0 and not reached[y] and (not near or near_flow[k] > 0):
                level[y] = below
                queue[end] = y
                end += 1
                if target[y]:
                    last = below
    return end, last < UNBOUNDED


@njit(cache=True, nogil=True)
def _push(side: int, length: int, amount: int, net: Any, flow: Any) -> int:
    """Send flow along ``flow.path[:length]``; return how many nodes precede its first full arc."""
    v, m = len(net.vertex), len(net.cost)
    near_flow, far_flow, through = flow.sent[side], flow.sent[1 - side], flow.through
    path, path_pin, cost = flow.path, flow.path_pin, net.cost
    open_until = length
    for d in range(length - 1):
        x, y, k = path[d], path[d + 1], path_pin[d + 1]
        full = False
        # Each branch is one kind of arc, forward or against its flow. `full`: the arc has no
        # capacity left, which only happens to bounded arcs. The search continues from the first
        # full arc of the path.
        if x < v:
            if y < v + m:
                near_flow[k] += amount
            else:
                far_flow[k] -= amount
                full = far_flow[k] == 0
        elif x < v + m:
            if y < v:
                near_flow[k] -= amount
                full = near_flow[k] == 0
            else:
                through[x - v] += amount
                full = through[x - v] == cost[x - v]
        elif y < v:
            far_flow[k] += amount
        else:
            through[y - v] -= amount
            full = through[y - v] == 0
        if full and open_until == length:
            open_until = d + 1
    return open_until


@njit(cache=True, nogil=True)
def _block(side: int, source: int, net: Any, flow: Any) -> Any:
    """Run a phase of Dinic's algorithm from `source`; return the added flow.

    The code is one long function for speed, since most of the time is spent here.
    """
    v, m = len(net.vertex), len(net.cost)
    near_flow, far_flow, through = flow.sent[side], flow.sent[1 - side], flow.through
    level, arc, path, path_pin, room = flow.level, flow.arc, flow.path, flow.path_pin, flow.room
    target, cost = flow.fixed[1 - side], net.cost
    vertex_ptr, pins_of, net_of = net.vertex_ptr, net.pins_of, net.net_of
    net_ptr, pins = net.net_ptr, net.pins
    # Nodes are 0..v-1 vertices, v..v+m-1 near nodes, v+m..v+2m-1 far nodes of the m nets.
    # The first `arc[x]` arcs of x are known to lead nowhere. A vertex has two arcs for every pin:
    # `at >> 1` is the pin, `at & 1` is 0 for the near node of the pin's net and 1 for the far
    # node. A net's node has arc 0 to its other node, then an arc to every pin.
    # `room[d]` is the most that can flow along the first d arcs of the path.
    total: Any = np.int64(0)
    path[0], length, room[0] = source, 1, UNBOUNDED
    steps = 0
    while length > 0:
        steps += 1
        x = path[length - 1]
        # If the path ends at a fixed vertex of the other side, send as much as fits, and step back
        # to the first full arc.
        if x < v and target[x]:
            amount = room[length - 1]
            total += amount
            steps += length
            length = _push(side, length, amount, net, flow)
            for d in range(1, length):
                room[d] -= amount
            if length == 1:
                room[0] = UNBOUNDED
            continue
        below, at = level[x] + 1, arc[x]
        y, k = -1, -1
        left: Any = np.int64(0)
        if x < v:
            start = vertex_ptr[x]
            end = 2 * (vertex_ptr[x + 1] - start)
            while at < end:
                k = pins_of[start + (at >> 1)]
                z = v + net_of[k]
                if at & 1 == 0:
                    if level[z] == below:
                        y, left = z, UNBOUNDED
                        break
                elif level[z + m] == below and far_flow[k] > 0:
                    y, left = z + m, far_flow[k]
                    break
                at += 1
        else:
            near = x < v + m
            e = x - v if near else x - v - m
            if at == 0:
                z = x + m if near else x - m
                left = cost[e] - through[e] if near else through[e]
                if level[z] == below and left > 0:
                    y = z
                else:
                    at = 1
            if y < 0:
                start = net_ptr[e] - 1
                end = net_ptr[e + 1] - start
                while at < end:
                    k = start + at
                    z = pins[k]
                    if level[z] == below:
                        if not near:
                            y, left = z, UNBOUNDED
                            break
                        if near_flow[k] > 0:
                            y, left = z, near_flow[k]
                            break
                    at += 1
        arc[x] = at
        if y >= 0:
            room[length] = min(room[length - 1], left)
            path[length], path_pin[length] = y, k
            length += 1
        else:
            # x is a dead end: remove it from the level graph and step back.
            level[x] = -1
            length -= 1
    flow.work[0] += steps
    return total


@njit(cache=True, nogil=True)
def extend(side: int, num: int, bound: int, max_work: int, net: Any, flow: Any) -> Any:
    """Add as much flow as possible from the vertices ``flow.queue[:num]``; return the added flow.

    All nodes that flow could still reach are then marked in `flow.reached`, unless the flow exceeds
    `bound` or ``flow.work`` exceeds `max_work`.
    """
    v, m = len(net.vertex), len(net.cost)
    total: Any = np.int64(0)
    while True:
        end, found = _levels(side, num, net, flow)
        flow.work[0] += end
        if found:
            for k in range(num):
                total += _block(side, flow.queue[k], net, flow)
        for k in range(end):
            x = flow.queue[k]
            flow.level[x] = 0
            flow.arc[x] = 0
        # No path is left, and the last search has found all nodes that can be reached.
        if not found:
            break
        if total > bound or flow.work[0] > max_work:
            return total
    number = flow.number[side]
    for k in range(end):
        x = flow.queue[k]
        flow.reached[side, x] = True
        if x < v:
            flow.order[side, number[0]] = x
            number[0] += 1
            for c in range(net.weight.shape[1]):
                flow.weight[side, c] += net.weight[x, c]
    # A net belongs to the cut if its near node is reached and its far node is not. The net's other
    # pins are candidates for piercing.
    for i in range(end):
        x = flow.queue[i]
        if v <= x < v + m and not flow.reached[side, x + m]:
            for k in range(net.net_ptr[x - v], net.net_ptr[x - v + 1]):
                _list(side, net.pins[k], net, flow)
    return total


@njit(cache=True, nogil=True)
def _list(side: int, x: int, net: Any, flow: Any) -> None:
    """Add vertex x to the vertices that a side of the cut could take in next.

    The side's own vertices come first, those farthest from the boundary before all others; of the
    other part's vertices, the farthest come last.
    """
    if flow.reached[side, x] or flow.listed[side, x] or x < 2:
        return
    flow.listed[side, x] = True
    depth: Any = net.depth[x]
    depth = np.int64(min(depth, DEEPEST))
    # A key packs three fields, the most significant first: the depth, a random number of 20 bits,
    # the vertex in 24 bits. Own vertices come first, the deepest first; then vertices of the other
    # part, the shallowest first.
    key = DEEPEST + (depth if net.part[x] == side else -depth)
    key = (((key << 20) + _hash(x)) << 24) + x
    number = flow.number[side]
    number[2 + FREE] = push(flow.behind[side, FREE], number[2 + FREE], key)


@njit(cache=True, nogil=True)
def _reach_again(side: int, net: Any, flow: Any) -> None:
    """Find anew which nodes the fixed vertices on one side reach, after the flow has changed."""
    number = flow.number[side]
    flow.reached[side, :] = False
    flow.listed[side, :] = False
    flow.weight[side, :] = 0
    number[0] = number[2] = number[3] = number[4] = 0
    # Fixed vertices come first in `order`; they are the sources of the new search.
    for k in range(number[1]):
        flow.queue[k] = flow.order[side, k]
    extend(side, number[1], 0, UNBOUNDED, net, flow)
    other = flow.number[1 - side]  # candidates of the other side that were costly may be free now
    for k in range(other[2 + COSTLY]):
        key = flow.behind[1 - side, COSTLY, k]
        other[2 + FREE] = push(flow.behind[1 - side, FREE], other[2 + FREE], key)
    other[2 + COSTLY] = 0


@njit(cache=True, nogil=True)
def _hash(x: int) -> int:
    """Return a pseudo-random number below 2^20 that depends on x only."""
    return ((x * 0x9E3779B1) >> 12) & 0xFFFFF


@njit(cache=True, nogil=True)
def _piercing(side: int, costly: bool, most: Any, net: Any, flow: Any) -> int:
    """Return the next vertex beyond the cut that `side` takes in; -1 if there is none.

    A vertex that the other side has reached raises the cost of the cut when `side` takes it in.
    Such a vertex is returned only if `costly`.
    """
    number, reached, behind = flow.number[side], flow.reached[side], flow.behind[side]
    # Round 1: vertices next to the cut. Round 2, if there are none: all other vertices.
    for _ in range(2):
        for kind in range(1 + costly):
            while number[2 + kind] > 0:
                key, number[2 + kind] = pop(behind[kind], number[2 + kind])
                x = key & 0xFFFFFF
                if reached[x] or flow.fixed[1 - side, x] or not _has_room(side, x, most, net, flow):
                    continue
                # The other side reaches x, so flow would grow: keep x for later.
                if kind == FREE and flow.reached[1 - side, x]:
                    number[2 + COSTLY] = push(behind[COSTLY], number[2 + COSTLY], key)
                    continue
                return x
        if number[4] == 0:  # list the vertices that no net of the cut leads to
            number[4] = 1
            flow.work[0] += len(net.vertex)
            for x in range(2, len(net.vertex)):
                _list(side, x, net, flow)
    return -1


@njit(cache=True, nogil=True)
def _has_room(side: int, x: int, most: Any, net: Any, flow: Any) -> bool:
    for c in range(most.shape[1]):
        if flow.weight[side, c] + net.weight[x, c] > most[side, c]:
            return False
    return True


@njit(cache=True, nogil=True)
def _fullness(one: Any, whole: Any, side: int, most: Any) -> float:
    """Return the largest ratio of weight to limit, over both sides of a cut and all constraints.

    `side` weighs `one`, both sides together weigh `whole`, and ``most[side]`` has a side's limits.
    """
    full = 0.0
    for c in range(most.shape[1]):
        if whole[c] > 0:
            full = max(full, one[c] / max(most[side, c], 1.0))
            full = max(full, (whole[c] - one[c]) / max(most[1 - side, c], 1.0))
    return full


@njit(cache=True, nogil=True)
def _leaves_both(one: Any, whole: Any) -> bool:
    """Whether both sides of a cut have weight: one side weighs `one`, and both weigh `whole`."""
    some, rest = False, False
    for c in range(len(whole)):
        some |= one[c] > 0
        rest |= one[c] < whole[c]
    return some and rest


@njit(cache=True, nogil=True)
def balanced_cut(most: Any, now: int, max_work: int, net: Any) -> Any:
    """Find the balanced cut of least cost by FlowCutter, if it is better than the current cut.

    Returns:
        moved (int32[k]): Vertices of the network that change parts; empty if no cut is better.
        cost (int): Cost of the best cut; `now`, the current cost, if no cut is better.
        work (int): Number of visited nodes; `max_work` ends the search.
    """
    v = len(net.vertex)
    flow = empty_flow(net)
    whole, present = np.zeros(most.shape[1], dtype=np.int64), np.zeros(most.shape[1], np.int64)
    for x in range(v):
        for c in range(most.shape[1]):
            whole[c] += net.weight[x, c]
            if net.part[x] == 0:
                present[c] += net.weight[x, c]
    nothing = np.empty(0, dtype=np.int32)
    # Start: each side owns its terminal; the flow between them gives the smallest cut.
    for side in range(2):
        flow.fixed[side, side] = True
    cost: Any = np.int64(0)
    for side in range(2):
        flow.queue[0] = side
        cost += extend(side, 1, now - cost, max_work, net, flow)
        if cost > now or flow.work[0] > max_work:
            return nothing, now, flow.work[0]
        flow.number[side, 1] = 1
    best_side, best_number, best_cost = -1, np.int64(0), now
    best_full = _fullness(present, whole, 0, most)
    # The piercing loop of FlowCutter. The vertices reached from the source, and those reached from
    # the target, give two cuts of the same cost. Keep the best balanced cut. Then the lighter side
    # takes in one vertex behind its cut, and the flow grows. The loop ends when the cost is above
    # the present cut's, when no vertex can be taken in, or when the work is used up.
    while True:
        for side in range(2):
            full = _fullness(flow.weight[side], whole, side, most)
            better = cost < best_cost or full < best_full
            if full <= 1.0 and better and _leaves_both(flow.weight[side], whole):
                best_side, best_number = side, flow.number[side, 0]
                best_cost, best_full = cost, full
        # The lighter side takes in the next vertex, since its cut is further from the balance.
        lighter, lightest = 0, np.inf
        for side in range(2):
            share = 0.0
            for c in range(most.shape[1]):
                share = max(share, flow.weight[side, c] / max(most[side, c], 1.0))
            if share < lightest:
                lighter, lightest = side, share
        side, pierced = lighter, -1
        for _ in range(2):  # once a balanced cut is known, larger cuts are not tried
            pierced = _piercing(side, best_side < 0, most, net, flow)
            if pierced >= 0:
                break
            side = 1 - side
        if pierced < 0:
            break
        # All vertices that the side has reached are fixed from now on.
        number = flow.number[side]
        for k in range(number[1], number[0]):
            flow.fixed[side, flow.order[side, k]] = True
        flow.order[side, number[0]] = pierced  # `extend` writes the same entry
        number[1] = number[0] + 1
        flow.fixed[side, pierced] = True
        flow.queue[0] = pierced
        more = extend(side, 1, now - cost, max_work, net, flow)
        cost += more
        if cost > now or flow.work[0] > max_work:
            break
        # New flow may cut off what the other side had reached.
        if more > 0:
            _reach_again(1 - side, net, flow)
    if best_side < 0:
        return nothing, now, flow.work[0]
    # Vertices that the best side had reached at its cut go to this side, all others to the other.
    goes = np.full(v, 1 - best_side, dtype=np.int8)
    for k in range(best_number):
        goes[flow.order[best_side, k]] = best_side
    return np.flatnonzero(goes != net.part).astype(np.int32), best_cost, flow.work[0]


@njit(cache=True, nogil=True)
def split_pair(
    pair: Any,
    cut_nets: Any,
    region: Any,
    most: Any,
    history: Any,
    place: Any,
    nets: Any,
    state: Any,
) -> Any:
    """Return the vertices that the parts of a pair should exchange, int32[k], and the work done.

    Pairs are searched in numbered batches. `history` is (moved, seen): for each vertex, the last
    batch that moved the vertex, int32[num_vertices]; and the last batch before the previous search
    of this pair, or -1. If no later batch moved a vertex of the pair's network, the network is not
    cut again.
    """
    net, now = network_of(pair, cut_nets, region, place, nets, state)
    moved_at, since = history
    # If the network is the same as last time, its best cut is the same: nothing to do.
    same = True
    for x in range(2, len(net.vertex)):
        same &= moved_at[net.vertex[x]] <= since
    if now == 0 or same:
        return np.empty(0, dtype=np.int32), len(net.pins)
    nodes = len(net.vertex) + 2 * len(net.cost)
    moved, _, work = balanced_cut(most, now, region.max_work * nodes, net)
    return net.vertex[moved], work


@njit(cache=True, nogil=True)
def exchange_between(vertices: Any, one: int, two: int, nets: Any, state: Any) -> Any:
    """Move each of `vertices` from part `one` to `two`, or back; return the fall of the volume."""
    saved: Any = np.int64(0)
    for v in vertices:
        there = one if state.owner[v] == two else two
        saved += gain_of(v, there, nets, state)
        move(v, there, nets, state)
    return saved
