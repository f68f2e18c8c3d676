"""Virtual time: when ranks compute and wait, and when messages arrive. Knows ranks, times, bytes;
must not know buffers, threads or what is computed.

A conservative discrete-event simulation. Every rank has a clock of its own, which computing moves
on (`VirtualTime.compute`). `next` handles whatever the network does until a rank can go on, and
names the one whose clock is least: nothing that happens later can reach it before.

    message      is under way once its sender has sent it and its receiver has posted it. It takes
                 latency + bytes / bandwidth of the sender's port and of the receiver's, and between
                 nodes bytes / injection of what both nodes share. Each of these serves one message
                 after the other, in the order in which they got under way, and lets none wait for
                 the others' queues: a message has arrived once all of them are done with it. So
                 ranks that exchange take as long as the busiest port or node.
    collective   is under way once all members are there, and takes its time of both ports of each
    port         goes on while its rank waits, and while it computes at a share of that speed
                 (`Links.overlap`)

Messages that are sent at the same time therefore take what `plancc.predict.simulation` says of an
exchange; what it does not know is who is late.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from plancc_runtime.transport.links import Links


class Moment(NamedTuple):
    """A moment of a rank's time, and what happened then.

    Attributes
    ----------
    rank : int
    time : float
        Seconds.
    what : str
        What the rank began, or what was on its way: "message", a collective, "meeting".
    """

    rank: int
    time: float
    what: str = "message"


class Wait(NamedTuple):
    """A stretch of a rank's time in which it waited.

    Attributes
    ----------
    begin, end : float
        Seconds.
    cause : Moment
        What the end followed from: between that moment and the end only the network worked. It is
        of this rank where that was waited for itself, such as messages that arrived earlier and
        were taken only now.
    """

    begin: float
    end: float
    cause: Moment


class VirtualTime:
    """The clocks of all ranks, and the messages between them.

    Parameters
    ----------
    links : Links
        Has the slowness of every rank, and so their number.

    Attributes
    ----------
    clock : list of float
        Every rank's time in seconds.
    waits : list of list of Wait
        What every rank waited for, in order; whoever reads them may empty them.
    now : float
        Time of the last event.
    """

    def __init__(self, links: Links) -> None:
        num_ranks = len(links.slowness)
        num_nodes = -(-num_ranks // links.ranks_per_node)
        self.links, self.now = links, 0.0
        self.waits: list[list[Wait]] = [[] for _ in range(num_ranks)]
        self._ranks = [_Rank(rank, links.overlap) for rank in range(num_ranks)]
        self._out: list[_Port] = []
        self._in: list[_Port] = []
        for ports in (self._out, self._in):
            nodes = [_Shared() for _ in range(num_nodes)]
            ports += [_Port(r, nodes[r.number // links.ranks_per_node]) for r in self._ranks]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = 0
        # ranks that can go on, from the beginning all of them
        self._ready = [(0.0, rank) for rank in range(num_ranks)]

    def time_of(self, rank: int) -> float:
        """The clock of a rank, in seconds."""
        return self._ranks[rank].clock

    def compute(self, rank: int, seconds: float) -> None:
        """Let a rank compute what takes this computer's thread so long."""
        self._ranks[rank].clock += seconds * self.links.slowness[rank]

    def block(self, rank: int) -> None:
        """From now on, by its clock, a rank waits: until `resume`, or for good."""
        self._ranks[rank].waits = True
        self._plan(self._out[rank])
        self._plan(self._in[rank])

    def resume(self, rank: int, time: float, cause: Moment) -> None:
        """Let a rank that waits go on at this time, by its clock at the earliest."""
        waiting = self._ranks[rank]
        begin = waiting.clock
        waiting.go_on(max(time, begin))
        if waiting.clock > begin:
            self.waits[rank].append(Wait(begin, waiting.clock, cause))
        self._plan(self._out[rank])
        self._plan(self._in[rank])
        heapq.heappush(self._ready, (waiting.clock, rank))

    def message(
        self, sent: Moment, posted: Moment, num_bytes: int, done: Callable[[Moment], None]
    ) -> None:
        """A message between two ranks, of which one has just sent or posted it.

        Parameters
        ----------
        sent, posted : Moment
            When its sender sent it and its receiver posted it.
        num_bytes : int
        done : callable of Moment
            Called once it is there, with what that followed from.
        """
        links, a, b = self.links, sent.rank, posted.rank
        near = links.are_near(a, b)
        link = links.inside if near else links.between
        cause = max(posted, sent, key=lambda moment: moment.time)
        item = _Item(link.seconds(num_bytes), 2 if near else 4, cause, done)
        if not near:
            item.crossing = _Crossing(link.latency, num_bytes / links.injection)

        def begin() -> None:
            self._enter(self._out[a], item)
            self._enter(self._in[b], item)

        self.at(cause.time, begin)

    def collective(
        self, joined: Sequence[Moment], seconds: float, done: Callable[[int, Moment], None]
    ) -> None:
        """A collective whose last member has just joined.

        Parameters
        ----------
        joined : sequence of Moment
            When every member did.
        seconds : float
            What it takes then.
        done : callable of int and Moment
            Called once for every member when it is over there, with what that followed from.
        """
        cause = max(joined, key=lambda moment: moment.time)

        def begin() -> None:
            for rank, _, _ in joined:
                item = _Item(seconds, 2, cause, partial(done, rank))
                self._enter(self._out[rank], item)
                self._enter(self._in[rank], item)

        self.at(cause.time, begin)

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Let `call` be called when all clocks have come to this time."""
        self._num_events += 1
        heapq.heappush(self._events, (time, self._num_events, call))

    def next(self) -> int | None:
        """The rank that goes on next; None if all that there are wait for good."""
        events, ready = self._events, self._ready
        while events or ready:
            if ready and not (events and events[0][0] <= ready[0][0]):
                return heapq.heappop(ready)[1]
            self.now, _, call = heapq.heappop(events)
            call()
        return None

    def _enter(self, port: _Port, item: _Item) -> None:
        port.queue.append(item)
        if port.item is None:
            self._begin(port, fresh=True)

    def _begin(self, port: _Port, fresh: bool) -> None:
        """Let a port that serves nothing serve the next of its queue; `fresh`: after a pause."""
        if port.queue and port.rank.is_moving(self.now):
            item = port.item = port.queue.popleft()
            port.end = port.rank.moved(self.now) + item.seconds
            if fresh:
                port.cause = item.cause
            if item.crossing is not None:
                self._cross(port.shared, item, item.crossing, port.followed_from(self.now, item))
        self._plan(port)

    def _cross(self, shared: _Shared, item: _Item, crossing: _Crossing, cause: Moment) -> None:
        """Let a message pass what the ranks of a node share."""
        shared.serve(self.now, crossing.seconds, cause)
        followed = shared.cause._replace(what=item.cause.what)
        self.at(shared.free + crossing.latency, lambda: item.over(followed))

    def _plan(self, port: _Port) -> None:
        """Set the next event of a port; what was set before is void."""
        port.version += 1
        time = port.next()
        if time < math.inf:
            version = port.version

            def happen() -> None:
                if port.version == version:
                    self._serve(port)

            self.at(max(time, self.now), happen)

    def _serve(self, port: _Port) -> None:
        """The next event of a port: it is done with what it serves, or begins after a pause."""
        item, port.item = port.item, None
        if item is None:
            self._begin(port, fresh=True)
            return
        followed = port.followed_from(self.now, item)
        self._begin(port, fresh=False)
        item.over(followed)


class _Rank:
    """A rank's clock, and how much time its ports have had.

    Attributes
    ----------
    number : int
    clock : float
        Until then it computes, or has computed.
    waits : bool
        Whether it waits from then on.
    """

    def __init__(self, number: int, overlap: float) -> None:
        self.number, self.overlap = number, overlap
        self.clock, self.waits = 0.0, False
        self._since = self._had = 0.0  # when it began to compute; what its ports had had by then

    def moved(self, time: float) -> float:
        """Seconds that its ports have had."""
        had = self._had + self.overlap * (min(time, self.clock) - self._since)
        return had + max(0.0, time - self.clock) if self.waits else had

    def when(self, moved: float) -> float:
        """When they will have had so much; infinity where that is not known yet."""
        then = self.moved(self.clock)
        if moved > then:
            return self.clock + (moved - then) if self.waits else math.inf
        return self._since + (moved - self._had) / self.overlap if self.overlap else self._since

    def is_moving(self, time: float) -> bool:
        """Whether its ports go on."""
        return self.overlap > 0 or (self.waits and time >= self.clock)

    def go_on(self, time: float) -> None:
        """Compute from this time on."""
        self._had = self.moved(time)
        self._since = self.clock = time
        self.waits = False


class _Crossing(NamedTuple):
    """What a message needs of either node: a latency, and seconds of what its ranks share."""

    latency: float
    seconds: float


class _Item:
    """A message, or a collective at one rank."""

    def __init__(
        self, seconds: float, left: int, cause: Moment, done: Callable[[Moment], None]
    ) -> None:
        self.seconds, self.left, self.cause, self._done = seconds, left, cause, done
        self.crossing: _Crossing | None = None

    def over(self, cause: Moment) -> None:
        """One of those that serve it is done."""
        self.left -= 1
        if not self.left:
            self._done(cause)


class _Port:
    """Serves one item after the other, in the time that its rank gives it.

    Attributes
    ----------
    shared : _Shared
        What the ports of all ranks of its node share.
    """

    def __init__(self, rank: _Rank, shared: _Shared) -> None:
        self.rank, self.shared = rank, shared
        self.queue: deque[_Item] = deque()
        self.item: _Item | None = None  # being served, until its rank's ports have had `end`
        self.end = 0.0
        self.cause = Moment(rank.number, 0.0)  # began the stretch in which it has always had work
        self.version = 0

    def next(self) -> float:
        """When it is done, or can begin; infinity where that is not known yet."""
        if self.item is not None:
            return self.rank.when(self.end)
        return self.rank.clock if self.queue and self.rank.waits else math.inf

    def followed_from(self, time: float, item: _Item) -> Moment:
        """What it follows from that the port is here by now."""
        rank, cause = self.rank, self.cause
        if rank.overlap < 1 and rank.waits and cause.time < rank.clock <= time:
            cause = Moment(rank.number, rank.clock)  # before, the rank computed
        return cause._replace(what=item.cause.what)


class _Shared:
    """One direction of what a node's ranks share: serves one message after the other."""

    def __init__(self) -> None:
        self.free = 0.0
        self.cause = Moment(0, 0.0)

    def serve(self, time: float, seconds: float, cause: Moment) -> None:
        if self.free <= time:
            self.free, self.cause = time, cause
        self.free += seconds
