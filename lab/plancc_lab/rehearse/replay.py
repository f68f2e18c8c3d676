"""Recorded ranks, replayed on the links of a machine: a discrete-event simulation without threads.

A rank is a list of *steps*: seconds that it computes, then an event. The two ends of a message are
matched by their order, and so are the members of a collective. The *pieces* of a round are its
messages; a receive may be for several pieces.

    start(number, receives, pieces)     begins a round of messages: posts its receives
    send(number, pieces)                sends messages of the round
    arrive(number, k)                   waits for receive k of the round
    finish(number)                      waits for the rest of the round
    join(number, what)                  begins a collective
    over(number)                        waits for the end of the collective
    mark()                              records the time

Times are found as follows:

    cores        The ranks of a node that compute at the same time share the cores evenly.
    message      It starts once its sender has sent it and its receiver has posted the receive. The
                 ports of both ranks each need latency + bytes / bandwidth for it and, between
                 nodes, the ports of both nodes bytes / injection. A port serves one message after
                 the other, in the order of their starts, and does not wait for other ports. A
                 message has arrived once all its ports have finished it.
    collective   It starts once all members have joined. Both ports of every member are then busy
                 for as long as the collective takes.
    port         It works at full speed while its rank waits, and at speed `Links.overlap` while its
                 rank computes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from plancc_lab.rehearse.links import Links, RecordedCollective

MEETING = "meeting"
"""Kind of a collective that ends at once when all members have joined: a barrier."""
Step = tuple[float, tuple[Any, ...]]
"""Seconds of computing, and an event: its name and arguments."""


class Moment(NamedTuple):
    """When, in seconds, a rank began the operation `what`: a message, or a kind of collective."""

    rank: int
    time: float
    what: str = "message"


BEGINNING = Moment(0, 0.0)


class Wait(NamedTuple):
    """An interval in which a rank waited, in seconds, and the cause that ended the wait.

    `cause` is the last moment at which the network still waited for a rank, perhaps for the waiting
    rank itself. From this moment to `end`, the waiting rank waited only for the network.
    """

    begin: float
    end: float
    cause: Moment


class Replay:
    """A simulation of all ranks and of the messages between them; `now` is the time in seconds."""

    def __init__(self, links: Links) -> None:
        self.now, self._links = 0.0, links
        nodes: dict[int, _Node] = defaultdict(_Node)
        self._ranks = [
            _Rank(rank, nodes[rank // links.ranks_per_node], _Pace(links.overlap))
            for rank in range(len(links.slowness))
        ]
        self._happens: list[tuple[float, int, _Node | _Port | None, int, Callable[[], None]]] = []
        self._number = self._num_busy = 0
        self._ends: dict[tuple[int, int, int], deque[_ReplayEnd]] = defaultdict(deque)
        self._calls: dict[tuple[int, ...], list[dict[int, _Round]]] = defaultdict(list)

    def play(self, steps: Sequence[Sequence[Step]]) -> list[tuple[list[float], list[Wait]]]:
        """Replay the steps of all ranks; return, by rank, when each step ended, and the waits.

        The last step is a barrier of all ranks.
        """
        self._num_busy = len(steps)
        for rank, own in zip(self._ranks, steps, strict=True):
            rank.steps, rank.times, rank.waits = own, [], []
            self._at(self.now, partial(self._go_on, rank))
        while self._num_busy:
            time, _, of, version, call = heapq.heappop(self._happens)
            if of is None or of.version == version:
                self.now = time
                call()
        return [(rank.times, rank.waits) for rank in self._ranks]

    def _at(self, time: float, call: Callable[[], None], of: _Node | _Port | None = None) -> None:
        """Schedule `call` for `time`, in place of any call scheduled for the node or port `of`."""
        self._number += 1
        if of is not None:
            of.version = self._number
        heapq.heappush(self._happens, (time, self._number, of, self._number, call))

    # -- ranks ---------------------------------------------------------------------------------

    def _go_on(self, rank: _Rank, computed: bool = False) -> None:
        """Replay the steps of a rank up to its next computation or wait."""
        while len(rank.times) < len(rank.steps):
            seconds, (name, *what) = rank.steps[len(rank.times)]
            if seconds > 0 and not computed:
                work = seconds * self._links.slowness[rank.number]
                rank.node.computing[rank] = rank.node.pace.done(self.now) + work
                self._share(rank.node)
                return
            rank.goes_on = getattr(self, f"_{name}")(rank, *what)
            if rank.goes_on is not None:
                self._turn(rank, 1.0)
                return
            rank.times.append(self.now)
            computed = False
        self._num_busy -= 1

    def _share(self, node: _Node) -> None:
        """Divide the cores of a node evenly among the ranks that compute."""
        if node.computing:
            node.pace.change(self.now, min(1.0, self._links.cores / len(node.computing)))
            first = min(node.computing, key=node.computing.__getitem__)
            end = node.pace.when(node.computing[first])
            self._at(end, partial(self._computed, first), node)

    def _computed(self, rank: _Rank) -> None:
        del rank.node.computing[rank]
        self._share(rank.node)
        self._go_on(rank, True)

    def _turn(self, rank: _Rank, speed: float) -> None:
        """Set the speed at which a rank that begins to wait or to compute sends and receives."""
        rank.pace.change(self.now, speed)
        for port in rank.ports:
            self._serve(port)

    # -- events: each returns a function that says whether the rank may continue; None: it may --

    def _mark(self, rank: _Rank) -> None:
        pass

    def _start(
        self, rank: _Rank, number: int, receives: Sequence[int], pieces: Sequence[tuple[int, ...]]
    ) -> None:
        """Begin a round of messages to this rank; `receives` has each message's number of pieces.

        Each item of `pieces` is a piece's sender, its tag, and its message's index in `receives`.
        """
        mine = rank.rounds[number] = _Round(rank, len(pieces), [*receives])
        for peer, tag, k in pieces:
            self._meet((peer, rank.number, tag), _ReplayEnd(mine, self.now, False, k))

    def _send(self, rank: _Rank, number: int, pieces: Sequence[tuple[int, ...]]) -> None:
        """Send messages in round `number`; `pieces` has the receiver, tag and bytes of each."""
        mine = rank.rounds[number]
        mine.open += len(pieces)
        for peer, tag, num_bytes in pieces:
            self._meet((rank.number, peer, tag), _ReplayEnd(mine, self.now, True, num_bytes))

    def _join(self, rank: _Rank, number: int, what: RecordedCollective) -> None:
        steps = 1 if what.kind == MEETING else 2  # all are there, it is over
        mine = rank.rounds[number] = _Round(rank, steps)
        calls = self._calls[what.ranks]
        call = next((call for call in calls if rank.number not in call), None)
        if call is None:
            calls.append(call := {})
        call[rank.number] = mine
        if len(call) == len(what.ranks):
            calls.remove(call)
            cause = Moment(rank.number, self.now, what.kind)
            for each in call.values():
                self._done(each, cause)
            if what.kind != MEETING:
                seconds = self._links.collective(what)
                for each in call.values():
                    done = partial(self._done, each)
                    self._enter(_Item(seconds, 2, cause, done), *each.rank.ports)

    def _over(self, rank: _Rank, number: int) -> Callable[[], bool] | None:
        mine = rank.rounds[number]
        left = mine.open
        return (lambda: mine.open < left) if left else None

    def _arrive(self, rank: _Rank, number: int, k: int) -> Callable[[], bool] | None:
        missing = rank.rounds[number].missing
        there = missing.count(0)
        # any arrival ends a wait; the next one may have another cause
        return (lambda: missing.count(0) > there) if missing[k] else None

    def _finish(self, rank: _Rank, number: int) -> Callable[[], bool] | None:
        mine = rank.rounds[number]
        return (lambda: mine.open == 0) if mine.open else None

    def _done(self, mine: _Round, cause: Moment, receive: int | None = None) -> None:
        """Record that a piece of round `mine` has finished; its rank may then stop waiting.

        `cause` is the moment that led to the end of the piece. `receive` is the number of the
        receive that the piece belongs to; None for a sent piece.
        """
        rank, mine.open = mine.rank, mine.open - 1
        if receive is not None:
            mine.missing[receive] -= 1
        if rank.goes_on is not None and rank.goes_on():
            rank.goes_on = None
            if self.now > rank.pace.since:
                rank.waits.append(Wait(rank.pace.since, self.now, cause))
            self._turn(rank, self._links.overlap)
            self._at(self.now, partial(self._go_on, rank, True))

    # -- messages ------------------------------------------------------------------------------

    def _meet(self, place: tuple[int, int, int], mine: _ReplayEnd) -> None:
        """Record one end of a message; start the message if both of its ends are known.

        `place` is (sender, receiver, tag).
        """
        ends = self._ends[place]
        if not ends or ends[0].is_sent == mine.is_sent:
            ends.append(mine)
            return
        posted, sent = sorted((ends.popleft(), mine), key=lambda end: end.is_sent)
        a, b, links = sent.round.rank, posted.round.rank, self._links
        later = max(posted, sent, key=lambda end: end.time)

        def done(cause: Moment) -> None:
            self._done(posted.round, cause, posted.what)
            self._done(sent.round, cause)

        cause = Moment(later.round.rank.number, later.time)
        if a.node is b.node:
            item = _Item(links.inside.seconds(sent.what), 2, cause, done)
        else:
            crossing = sent.what / links.injection
            item = _Item(links.between.seconds(sent.what), 4, cause, done, crossing)
        self._enter(item, a.ports[0], b.ports[1])

    def _enter(self, item: _Item, *ports: _Port) -> None:
        for port in ports:
            port.queue.append(item)
            if port.item is None:
                self._serve(port)

    def _serve(self, port: _Port, fresh: bool = True) -> None:
        """Let a rank's port continue with its present item, or begin the next item in its queue.

        An item is one message. `fresh` says whether the port had nothing to do before.
        """
        pace = port.rank.pace
        if port.item is None and port.queue and pace.speed > 0:
            item = port.item = port.queue.popleft()
            port.end = pace.done(self.now) + item.seconds
            if fresh:
                port.cause = item.cause
            if item.crossing is not None:
                shared = port.shared
                if shared.free <= self.now:
                    shared.free, shared.cause = self.now, self._cause(port)
                shared.free += item.crossing
                end = shared.free + self._links.between.latency
                self._at(end, partial(item.over, shared.cause))
        if port.item is not None and pace.speed > 0:
            self._at(pace.when(port.end), partial(self._served, port, port.item), port)
        else:
            port.version = 0

    def _served(self, port: _Port, item: _Item) -> None:
        cause, port.item = self._cause(port), None
        self._serve(port, fresh=False)
        item.over(cause)

    def _cause(self, port: _Port) -> Moment:
        """Return the moment since which a rank's port has worked without a pause at this speed."""
        pace = port.rank.pace
        if pace.speed > self._links.overlap and port.cause.time < pace.since:
            return Moment(port.rank.number, pace.since)  # before, the rank computed
        return port.cause


@dataclass(eq=False)
class _Pace:
    """A speed that changes over time, and the work done so far, in seconds at full speed."""

    speed: float
    since: float = 0.0
    before: float = 0.0  # work done before `since`

    def done(self, time: float) -> float:
        return self.before + self.speed * (time - self.since)

    def when(self, work: float) -> float:
        return self.since + (work - self.before) / self.speed

    def change(self, time: float, speed: float) -> None:
        self.before, self.since, self.speed = self.done(time), time, speed


@dataclass
class _Shared:
    """One direction of the network port of a node, which serves one message after the other."""

    free: float = 0.0  # from then on
    cause: Moment = BEGINNING


@dataclass(eq=False)
class _Node:
    """Cores and ports that the ranks of a node share.

    All ranks that compute have the same speed, `pace`; ``pace.done(time)`` is the work that such a
    rank has done at this time. A rank's computation ends when this work is ``computing[rank]``.
    """

    shared: tuple[_Shared, _Shared] = field(default_factory=lambda: (_Shared(), _Shared()))
    pace: _Pace = field(default_factory=lambda: _Pace(1.0))
    computing: dict[_Rank, float] = field(default_factory=dict)
    version: int = 0


@dataclass(eq=False)
class _Rank:
    """The steps of a rank, and how far the rank has come.

    `pace` is the speed of the rank's two ports, which send and receive. ``goes_on()`` says whether
    a wait is over.
    """

    number: int
    node: _Node
    pace: _Pace
    steps: Sequence[Step] = ()
    times: list[float] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    rounds: dict[int, _Round] = field(default_factory=dict)  # and collectives, by number
    goes_on: Callable[[], bool] | None = None  # whether it need not wait any more; None: it works

    def __post_init__(self) -> None:
        self.ports = [_Port(self, shared) for shared in self.node.shared]


@dataclass(eq=False)
class _Round:
    """A round of messages, or a collective, of one rank.

    A *piece* is one message of the round or one step of the collective. `open` is the number of
    unfinished pieces. `missing` has, for every receive, the number of messages yet to arrive.
    """

    rank: _Rank
    open: int
    missing: list[int] = field(default_factory=list)


class _ReplayEnd(NamedTuple):
    """One end of a message.

    `what` is the size of the message in bytes (sender's end), or the buffer's number (receiver's).
    """

    round: _Round
    time: float
    is_sent: bool
    what: int


@dataclass(eq=False)
class _Item:
    """A message, or a rank's share of a collective, which keeps several ports busy.

    `left` is the number of ports that have not finished it yet.
    """

    seconds: float
    left: int
    cause: Moment
    done: Callable[[Moment], None]
    crossing: float | None = None  # seconds of what the ranks of either node share

    def over(self, cause: Moment) -> None:
        """Record that a port has finished the item; if no port has it left, call `done`."""
        self.left -= 1
        if not self.left:
            self.done(cause._replace(what=self.cause.what))


@dataclass(eq=False)
class _Port:
    """A rank's port for sending or for receiving, which serves one message after another.

    The messages (or collectives) wait in the port's queue. A port works at the pace of its rank.
    """

    rank: _Rank
    shared: _Shared
    queue: deque[_Item] = field(default_factory=deque)
    item: _Item | None = None  # being served, until the rank's pace has done `end`
    end: float = 0.0
    cause: Moment = BEGINNING  # began the stretch in which it has always had work
    version: int = 0
