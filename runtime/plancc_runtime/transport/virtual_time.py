"""Virtual time: when ranks compute and wait, and when messages arrive. Knows ranks, times, bytes;
must not know buffers, threads or what is computed.

A discrete-event simulation. A rank that goes on says at once all that it does until it waits again,
its *script*: so many seconds of computing, then a call, and so on (`compute`, `do`, `block`). The
script is played in virtual time: computing takes as long as the rank needs with its share of the
cores, and calls happen when it gets there. `next` plays on until a rank can go on.

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
    waited : callable of int
        Called when a rank has played its script and waits; it may call `resume`.

    Attributes
    ----------
    now : float
        The present time in seconds.
    waits : list of list of Wait
        What every rank waited for, in order.
    marks : list of list of (float, float)
        By rank, where ranks may share cores: what every `mark` returned, and what the time was when
        the rank got there. Both never fall.
    """

    def __init__(self, links: Links, waited: Callable[[int], None]) -> None:
        num_ranks, per_node = len(links.slowness), links.ranks_per_node
        num_nodes = -(-num_ranks // per_node)
        self.links, self.now, self._waited = links, 0.0, waited
        self.waits: list[list[Wait]] = [[] for _ in range(num_ranks)]
        self.marks: list[list[tuple[float, float]]] = [[] for _ in range(num_ranks)]
        self._ranks = [_Rank(rank, slow, links.overlap) for rank, slow in enumerate(links.slowness)]
        self._cores = [_Cores(links.cores) for _ in range(num_nodes)]
        self._out: list[_Port] = []
        self._in: list[_Port] = []
        for ports in (self._out, self._in):
            nodes = [_Shared() for _ in range(num_nodes)]
            ports += [_Port(rank, nodes[rank.number // per_node]) for rank in self._ranks]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = 0
        self._ready = deque(range(num_ranks))  # ranks that can go on

    # -- what a rank that goes on says ---------------------------------------------------------

    def compute(self, rank: int, seconds: float) -> None:
        """It computes what takes this computer's thread so long."""
        mine = self._ranks[rank]
        mine.script.append(seconds * mine.slowness)
        mine.own += seconds * mine.slowness

    def do(self, rank: int, call: Callable[[], None]) -> None:
        """It does something that takes no time, when it has come there."""
        self._ranks[rank].script.append(call)

    def mark(self, rank: int) -> float:
        """Its time as far as it knows: if it had a core of its own since it last went on."""
        own = self._ranks[rank].own
        if self.links.cores < self.links.ranks_per_node:
            self.do(rank, lambda: self.marks[rank].append((own, self.now)))
        return own

    def block(self, rank: int) -> None:
        """Then it waits, until `resume` or for good."""
        self._play(self._ranks[rank])

    # -- what happens --------------------------------------------------------------------------

    def time_of(self, rank: int) -> float:
        """What `mark` would return."""
        return self._ranks[rank].own

    def resume(self, rank: int, cause: Moment) -> None:
        """Let a rank that waits go on now."""
        mine = self._ranks[rank]
        if mine.waits:
            if self.now > mine.since:
                self.waits[rank].append(Wait(mine.since, self.now, cause))
            self._turn(mine, False)
        mine.own = self.now
        self._ready.append(rank)

    def is_waiting(self, rank: int) -> bool:
        """Whether a rank has played its script, and waits."""
        return self._ranks[rank].waits

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
        self._enter(self._out[a], item)
        self._enter(self._in[b], item)

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
        for rank, _, _ in joined:
            item = _Item(seconds, 2, cause, partial(done, rank))
            self._enter(self._out[rank], item)
            self._enter(self._in[rank], item)

    def next(self) -> int | None:
        """The rank that goes on next; None if all that there are wait for good."""
        while self._events and not self._ready:
            self.now, _, call = heapq.heappop(self._events)
            call()
        return self._ready.popleft() if self._ready else None

    def _at(self, time: float, call: Callable[[], None]) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (time, self._num_events, call))

    # -- computing -----------------------------------------------------------------------------

    def _play(self, rank: _Rank) -> None:
        """Play the script up to its next computing, or to its end."""
        while rank.script:
            entry = rank.script.popleft()
            if callable(entry):
                entry()
            elif entry > 0:
                self._compute(rank, entry)
                return
        self._turn(rank, True)
        self._waited(rank.number)

    def _compute(self, rank: _Rank, seconds: float) -> None:
        cores = self._cores[rank.number // self.links.ranks_per_node]
        if cores.number >= self.links.ranks_per_node:
            self._at(self.now + seconds, partial(self._play, rank))
            return
        cores.pass_time(self.now)
        cores.left[rank.number] = seconds
        self._share(cores)

    def _share(self, cores: _Cores) -> None:
        """Set the time at which the next of the ranks that share cores has computed."""
        cores.version += 1
        if cores.left:
            first, version = min(cores.left, key=lambda rank: cores.left[rank]), cores.version

            def happen() -> None:
                if cores.version == version:
                    cores.pass_time(self.now)
                    del cores.left[first]
                    self._share(cores)
                    self._play(self._ranks[first])

            self._at(self.now + cores.left[first] / cores.rate, happen)

    def _turn(self, rank: _Rank, waits: bool) -> None:
        """Let a rank wait from now on, or compute."""
        rank.turn(self.now, waits)
        for ports in (self._out, self._in):
            port = ports[rank.number]
            if port.item is None:
                self._begin(port, fresh=True)
            else:
                self._plan(port)

    # -- messages ------------------------------------------------------------------------------

    def _enter(self, port: _Port, item: _Item) -> None:
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
    """A rank's script, and how much time its ports have had.

    Attributes
    ----------
    own : float
        Its time as far as it knows.
    waits : bool
        Whether it has played its script.
    since : float
        When it began to wait, or to compute.
    """

    def __init__(self, number: int, slowness: float, overlap: float) -> None:
        self.number, self.slowness, self.overlap = number, slowness, overlap
        self.script: deque[float | Callable[[], None]] = deque()
        self.own = self.since = 0.0
        self.waits = False
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


class _Cores:
    """The cores of a node, and the ranks that compute on them.

    Attributes
    ----------
    left : dict of int to float
        Seconds that each of these ranks would compute yet with a core of its own.
    """

    def __init__(self, number: int) -> None:
        self.number, self.version = number, 0
        self.left: dict[int, float] = {}
        self._since = 0.0

    @property
    def rate(self) -> float:
        """Share of a core that each of them has."""
        return min(1.0, self.number / len(self.left)) if self.left else 1.0

    def pass_time(self, time: float) -> None:
        """Let them compute until this time."""
        done = (time - self._since) * self.rate
        for rank in self.left:
            self.left[rank] -= done
        self._since = time


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
