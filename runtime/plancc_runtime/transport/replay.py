"""Recorded ranks, replayed on the links of a machine: a discrete-event simulation without threads.

A rank is a list of *steps*: seconds that it computes, then an event (`transport.recorded`):

    start(number, receives, pieces)     a round of messages begins: its receives are posted
    send(number, messages)              messages of the round are sent
    arrive(number, receive)             a receive of the round is waited for
    finish(number)                      all that is left of the round is waited for
    join(number, what)                  a collective, or a meeting, which takes no time
    over(number)                        it is waited for
    mark()                              nothing: the time is noted

Both ends of a message, and the members of a collective, find each other by their order.

    cores        the ranks of a node that compute at the same time share them evenly
    message      is under way once its sender has sent it and its receiver has posted it. It takes
                 latency + bytes / bandwidth of the sender's port and of the receiver's, and between
                 nodes bytes / injection of what the ranks of either node share. Each of these
                 serves one message after the other, in the order in which they got under way, and
                 lets none wait for the others' queues: a message has arrived once all of them are
                 done with it. So ranks that exchange take as long as the busiest port or node.
    collective   is under way once all members are there, and takes its time of both ports of each
    port         goes on while its rank waits, and while it computes at a share of that speed
                 (`Links.overlap`)

Messages that are sent at the same time therefore take what `plancc.predict.simulation` says of an
exchange; what it does not know is who is late.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from plancc_runtime.transport.links import Collective, Links

MEETING = "meeting"
"""Kind of a collective that takes no time."""
Step = tuple[float, tuple[Any, ...]]
"""Seconds of computing, and an event: its name and what it is of."""


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


class Played(NamedTuple):
    """What a rank did: when it was past each of its events, and what it waited for, in order."""

    times: list[float]
    waits: list[Wait]


class Replay:
    """The clocks of all ranks, and the messages between them.

    Attributes
    ----------
    now : float
        The present time in seconds.
    """

    def __init__(self, links: Links) -> None:
        self._links, self.now = links, 0.0
        size, per_node = len(links.slowness), links.ranks_per_node
        nodes = [_Node(links.cores) for _ in range(-(-size // per_node))]
        self._ranks = [_Rank(rank, nodes[rank // per_node], links) for rank in range(size)]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = self._busy = 0
        self._ready: deque[_Rank] = deque()  # ranks that have waited
        self._ends: dict[tuple[int, int, int], deque[_End]] = defaultdict(deque)
        self._calls: dict[tuple[int, ...], list[_Call]] = defaultdict(list)

    def play(self, steps: Sequence[Sequence[Step]]) -> list[Played]:
        """Let all ranks go on with these steps, which end with a meeting of all."""
        for rank, own in zip(self._ranks, steps, strict=True):
            rank.steps, rank.played = own, Played([], [])
        self._ready += self._ranks
        self._busy = len(self._ranks)
        while self._busy:
            if self._ready:
                self._go_on(self._ready.popleft())
            else:
                self.now, _, call = heapq.heappop(self._events)
                call()
        return [rank.played for rank in self._ranks]

    def _at(self, time: float, call: Callable[[], None]) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (time, self._num_events, call))

    # -- ranks ---------------------------------------------------------------------------------

    def _go_on(self, rank: _Rank, computed: bool = False) -> None:
        """Play a rank's steps up to its next computing or waiting."""
        times = rank.played.times
        while len(times) < len(rank.steps):
            seconds, (name, *what) = rank.steps[len(times)]
            if seconds > 0 and not computed and rank.done is None:
                self._compute(rank, seconds * self._links.slowness[rank.number])
                return
            rank.done = getattr(self, f"_{name}")(rank, *what)
            if rank.done is not None:
                self._turn(rank, True)
                return
            times.append(self.now)
            computed = False
        self._busy -= 1

    def _wake(self, rank: _Rank, cause: Moment) -> None:
        """Let a rank look again at its event if what it waits for is done."""
        if rank.waits and rank.done is not None and rank.done():
            if self.now > rank.since:
                rank.played.waits.append(Wait(rank.since, self.now, cause))
            self._turn(rank, False)
            self._ready.append(rank)

    def _turn(self, rank: _Rank, waits: bool) -> None:
        """Let a rank wait from now on, or compute."""
        rank.turn(self.now, waits)
        for port in rank.ports:
            if port.item is None:
                self._begin(port, fresh=True)
            else:
                self._plan(port)

    def _compute(self, rank: _Rank, seconds: float) -> None:
        node = rank.node
        if node.cores >= self._links.ranks_per_node:
            self._at(self.now + seconds, partial(self._go_on, rank, True))
            return
        node.pass_time(self.now)
        node.left[rank] = seconds
        self._share(node)

    def _share(self, node: _Node) -> None:
        """Set the time at which the next of the ranks that share cores has computed."""
        node.version += 1
        if node.left:
            first, version = min(node.left, key=lambda rank: node.left[rank]), node.version

            def happen() -> None:
                if node.version == version:
                    node.pass_time(self.now)
                    del node.left[first]
                    self._share(node)
                    self._go_on(first, True)

            self._at(self.now + node.left[first] / node.rate, happen)

    # -- events: each returns what tells whether the rank may go on, None if it may ------------

    def _mark(self, rank: _Rank) -> None:
        pass

    def _start(
        self, rank: _Rank, number: int, receives: Sequence[int], pieces: Sequence[tuple[int, ...]]
    ) -> None:
        """`receives`: their numbers of pieces; of every piece its sender, tag and receive."""
        mine = rank.under_way[number] = _Round(rank, list(receives), len(pieces))
        for peer, tag, k in pieces:
            self._meet((peer, rank.number, tag), _End(mine, self.now, False, k))

    def _send(self, rank: _Rank, number: int, pieces: Sequence[tuple[int, ...]]) -> None:
        """Of every piece its receiver, tag and bytes."""
        mine = rank.under_way[number]
        mine.open += len(pieces)
        for peer, tag, num_bytes in pieces:
            self._meet((rank.number, peer, tag), _End(mine, self.now, True, num_bytes))

    def _arrive(self, rank: _Rank, number: int, k: int) -> Callable[[], bool] | None:
        mine = rank.under_way[number]
        there = mine.missing.count(0)
        # whatever comes wakes the rank, as it may have to wait for another sender's rank then
        return (lambda: mine.missing.count(0) > there) if mine.missing[k] else None

    def _finish(self, rank: _Rank, number: int) -> Callable[[], bool] | None:
        mine = rank.under_way[number]
        return (lambda: mine.open == 0) if mine.open else None

    def _join(self, rank: _Rank, number: int, what: Collective) -> None:
        calls = self._calls[what.ranks]
        call = next((call for call in calls if rank.number not in call.joined), None)
        if call is None:
            call = _Call({}, set())
            calls.append(call)
        rank.under_way[number] = call
        call.joined[rank.number] = cause = Moment(rank.number, self.now, what.kind)
        if len(call.joined) < len(what.ranks):
            return
        calls.remove(call)
        seconds = 0.0 if what.kind == MEETING else self._links.collective(what)
        for member in map(self._ranks.__getitem__, call.joined):
            done = partial(self._end, call, member)
            if what.kind == MEETING:
                done(cause)
            else:
                self._enter(_Item(seconds, 2, cause, done), *member.ports)

    def _end(self, call: _Call, member: _Rank, cause: Moment) -> None:
        call.over.add(member)
        self._wake(member, cause)

    def _over(self, rank: _Rank, number: int) -> Callable[[], bool] | None:
        over = rank.under_way[number].over
        return None if rank in over else (lambda: rank in over)

    # -- messages ------------------------------------------------------------------------------

    def _meet(self, place: tuple[int, int, int], mine: _End) -> None:
        """One end of a message, which is under way once the other is there too."""
        ends = self._ends[place]
        if not ends or ends[0].is_sent == mine.is_sent:
            ends.append(mine)
            return
        posted, sent = sorted((ends.popleft(), mine), key=lambda end: end.is_sent)
        links, a, b, size = self._links, sent.round.rank, posted.round.rank, sent.what
        near = a.node is b.node
        link = links.inside if near else links.between
        later = posted if posted.time >= sent.time else sent
        cause = Moment(later.round.rank.number, later.time)
        item = _Item(link.seconds(size), 2 if near else 4, cause, partial(self._bring, sent, posted))
        if not near:
            item.crossing = _Crossing(link.latency, size / links.injection)
        self._enter(item, a.ports[0], b.ports[1])

    def _bring(self, sent: _End, posted: _End, cause: Moment) -> None:
        """A message has arrived."""
        posted.round.missing[posted.what] -= 1
        for end in (posted, sent):
            end.round.open -= 1
        for end in (posted, sent):
            self._wake(end.round.rank, cause)

    def _enter(self, item: _Item, *ports: _Port) -> None:
        for port in ports:
            port.queue.append(item)
            if port.item is None:
                self._begin(port, fresh=True)

    def _begin(self, port: _Port, fresh: bool) -> None:
        """Let a port that serves nothing serve the next of its queue; `fresh`: after a pause."""
        if port.queue and port.rank.speed > 0:
            item = port.item = port.queue.popleft()
            port.end = port.rank.moved(self.now) + item.seconds
            if fresh:
                port.cause = item.cause
            if item.crossing is not None:
                self._cross(port.shared, item, item.crossing, port.followed_from(item))
        self._plan(port)

    def _cross(self, shared: _Shared, item: _Item, crossing: _Crossing, cause: Moment) -> None:
        """Let a message pass what the ranks of a node share."""
        shared.serve(self.now, crossing.seconds, cause)
        followed = shared.cause._replace(what=item.cause.what)
        self._at(shared.free + crossing.latency, lambda: item.over(followed))

    def _plan(self, port: _Port) -> None:
        """Set the time at which a port is done with what it serves; that set before is void."""
        port.version += 1
        if port.item is not None and port.rank.speed > 0:
            version = port.version

            def happen() -> None:
                if port.version == version:
                    self._serve(port)

            self._at(port.rank.when(port.end), happen)

    def _serve(self, port: _Port) -> None:
        """A port is done with what it serves."""
        item, port.item = port.item, None
        assert item is not None
        followed = port.followed_from(item)
        self._begin(port, fresh=False)
        item.over(followed)


class _Rank:
    """A rank's steps, and how much time its ports have had.

    Attributes
    ----------
    done : callable or None
        Whether what it waits for is done; None: it does not wait.
    under_way : dict of int to _Round or _Call
        Its rounds and collectives, by number.
    ports : tuple of _Port
        For what it sends, and for what it receives.
    waits : bool
    since : float
        When it began to wait, or to compute.
    """

    def __init__(self, number: int, node: _Node, links: Links) -> None:
        self.number, self.node, self.overlap = number, node, links.overlap
        self.steps: Sequence[Step] = ()
        self.played = Played([], [])
        self.done: Callable[[], bool] | None = None
        self.under_way: dict[int, Any] = {}
        self.ports = tuple(_Port(self, shared) for shared in node.shared)
        self.waits, self.since = False, 0.0
        self._had = 0.0  # seconds that its ports had had by `since`

    @property
    def speed(self) -> float:
        """Speed of its ports."""
        return 1.0 if self.waits else self.overlap

    def moved(self, time: float) -> float:
        """Seconds that its ports have had."""
        return self._had + self.speed * (time - self.since)

    def when(self, moved: float) -> float:
        """Return the time at which this much work is done, at the current rates."""
        return self.since + (moved - self._had) / self.speed

    def turn(self, time: float, waits: bool) -> None:
        """Wait, or compute, from this time on."""
        self._had, self.since, self.waits = self.moved(time), time, waits


class _Node:
    """What the ranks of a node share.

    Attributes
    ----------
    cores : int
    left : dict of _Rank to float
        Seconds that each rank that computes would take yet with a core of its own.
    shared : tuple of _Shared
        For what they send to other nodes, and for what they receive.
    """

    def __init__(self, cores: int) -> None:
        self.cores, self.version = cores, 0
        self.left: dict[_Rank, float] = {}
        self.shared = _Shared(), _Shared()
        self._since = 0.0

    @property
    def rate(self) -> float:
        """Share of a core that each of them has."""
        return min(1.0, self.cores / len(self.left)) if self.left else 1.0

    def pass_time(self, time: float) -> None:
        """Let them compute until this time."""
        done = (time - self._since) * self.rate
        for rank in self.left:
            self.left[rank] -= done
        self._since = time


@dataclass(eq=False)
class _Round:
    """A round of messages at one rank.

    Attributes
    ----------
    missing : list of int
        Pieces of every receive that are not here.
    open : int
        Pieces, received or sent, that are not done.
    """

    rank: _Rank
    missing: list[int]
    open: int


class _End(NamedTuple):
    """One end of a message, and when its rank came there.

    Attributes
    ----------
    what : int
        Bytes of what is sent, number of the receive that it belongs to.
    """

    round: _Round
    time: float
    is_sent: bool
    what: int


class _Call(NamedTuple):
    """A collective: when its members joined it, and those for which it is over."""

    joined: dict[int, Moment]
    over: set[_Rank]


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

    def followed_from(self, item: _Item) -> Moment:
        """What it follows from that the port is here now."""
        rank, cause = self.rank, self.cause
        if rank.overlap < 1 and rank.waits and cause.time < rank.since:
            cause = Moment(rank.number, rank.since)  # before, the rank computed
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
