"""Which ranks are late: a rank that has waited too long asks the others what they do.

Ranks of one machine answer over Unix datagrams, in a thread of their own: before there are
connections, and while their main thread waits in native code. Who is stopped, has ended, or holds
Python's lock does not answer; the system says which (`transport.siblings`).

One rank speaks for all: the first to ask. It tells the others that the job is over, and kills
ranks that would not hear it where the launcher would wait for them.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from plancc_runtime.transport import siblings
from plancc_runtime.transport.messages import name_ranks

ANSWERED = 1.0
"""Seconds that a rank has to answer."""
LAST_WORDS = 0.7
"""Seconds from the end of a job, for what is printed on its way through the launcher."""
MOST_TEXT = 300
"""Characters of what a rank waits for."""
MOST_WAITS = 4
"""What other ranks wait for, in one sentence."""
DATAGRAM = 65536
ASK, LOOK, HERE, OVER, STOP = "ask", "look", "here", "over", "stop"
NATIVE, STOPPED = "busy in native code", "stopped"
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of the sender, from the system


class RankPlace(NamedTuple):
    """A rank among those of its job.

    Attributes:
        local_size: Ranks on this machine; None: not known.
        variable: The variable of the environment in which the launcher numbers the ranks.
        patient: Whether the launcher waits long for a rank that does not end by itself.
    """

    rank: int
    size: int
    local_size: int | None
    variable: str
    patient: bool


class Answers(NamedTuple):
    """What the ranks of this machine say.

    Attributes:
        waiting: What ranks wait for; "" for nothing.
        missing: Why ranks do not answer.
        elsewhere: Ranks that are not on this machine, or not known to be.
    """

    waiting: dict[int, str]
    missing: dict[int, str]
    elsewhere: list[int]

    @property
    def late(self) -> list[int]:
        """Ranks for which others wait, as far as they are here."""
        return sorted([*self.missing, *(rank for rank, what in self.waiting.items() if not what)])

    @property
    def one_computes(self) -> bool:
        """Whether nobody is stopped or gone, and somebody does not wait, or cannot be asked."""
        if set(self.missing.values()) - {NATIVE}:
            return False
        return bool(self.missing or self.elsewhere) or "" in self.waiting.values()

    def sentence(self, own: str) -> str:
        """What others wait for, but for what this rank waits for itself, and who is late."""
        ranks_of: dict[str, list[int]] = {}
        for rank, what in sorted(self.waiting.items()):
            if what and what != own:
                ranks_of.setdefault(what, []).append(rank)
        waits = [f"{name_ranks(ranks)} for {what}" for what, ranks in ranks_of.items()]
        late: dict[str, list[int]] = {}
        for rank in self.late:
            late.setdefault(self.missing.get(rank, "busy, waits for no rank"), []).append(rank)
        said = f" ({', '.join(waits[:MOST_WAITS])})" if waits else ""
        if late:
            who = ", ".join(f"{name_ranks(ranks)} ({why})" for why, ranks in late.items())
            return f"{said}; late: {who}"
        if self.elsewhere:
            return f"{said}; late: one of the other machines' ({name_ranks(self.elsewhere)})"
        return f"{said}; every rank waits"


class RollCall:
    """A rank's end of the roll call, for as long as the process lives.

    Attributes:
        waits (callable): Says what this rank waits for now, "" for nothing; called by the thread
            that answers.

    Raises:
        OSError: If the system has no such sockets, or another process has this rank's.
    """

    def __init__(self, place: RankPlace) -> None:
        self.place = place
        self.waits: Callable[[], str] = str
        launcher = siblings.launcher_of(place.variable)
        if sys.platform != "linux" or launcher is None:
            raise OSError("no sockets without a name in the file system")
        self._job = f"\0plancc-{os.getuid()}-{launcher.pid}-"
        self._asked: set[int] = set()  # ranks that have called the roll
        self._socket = self._open(self._address(place.rank))
        self._thread = threading.Thread(target=self._answer, name="roll call", daemon=True)
        self._thread.start()

    def _address(self, rank: int) -> str:
        return f"{self._job}{rank}"

    @staticmethod
    def _open(address: str) -> socket.socket:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            found.bind(address)
        except OSError:
            found.close()
            raise
        return found

    def _answer(self) -> None:
        while True:
            kind, rank, back = _received(self._socket)
            if kind in (ASK, LOOK):
                if kind == ASK:
                    self._asked.add(rank)
                what = self.waits()[:MOST_TEXT]
                with suppress(OSError):
                    self._socket.sendto(_datagram(HERE, self.place.rank, what), back)
            elif kind == OVER:
                time.sleep(LAST_WORDS)
                os._exit(1)
            elif kind == STOP:
                return

    def stop(self) -> None:
        """End the thread: one that wakes while Python shuts down may abort the process."""
        with suppress(OSError):
            self._socket.sendto(_datagram(STOP, self.place.rank), self._address(self.place.rank))
            self._thread.join(ANSWERED)
            self._socket.close()

    def call(self) -> Answers | None:
        """Ask all ranks what they do; None if another rank has begun to ask, and speaks."""
        if self._asked:
            return None
        answers = self.look(ASK)
        if any(rank < self.place.rank for rank in self._asked):  # both began at once
            return None
        return answers

    def look(self, kind: str = LOOK) -> Answers:
        """Ask all ranks what they do, for which nobody has to end."""
        own = self.place.rank
        left = set(range(self.place.size)) - {own}
        unsent, refused, waiting = set(left), set[int](), {}
        deadline = time.monotonic() + ANSWERED
        with self._open("") as asking:
            asking.setblocking(False)
            while left - refused and time.monotonic() < deadline:
                for rank in sorted(unsent):
                    try:
                        asking.sendto(_datagram(kind, own), self._address(rank))
                    except BlockingIOError:  # its queue is full
                        continue
                    except OSError:
                        refused.add(rank)
                    unsent.discard(rank)
                try:
                    reply, rank, what = _received(asking)
                except BlockingIOError:
                    time.sleep(0.01)
                    continue
                if reply == HERE and rank in left:
                    waiting[rank] = what
                    left.discard(rank)
        return self._answers(waiting, left, refused)

    def _answers(self, waiting: dict[int, str], left: set[int], refused: set[int]) -> Answers:
        here = siblings.ranks_here(self.place.variable)
        all_here = self.place.local_size == self.place.size
        missing, elsewhere = {}, []
        for rank in sorted(left):
            found = here.get(rank, [])
            if any(map(siblings.is_stopped, found)):
                missing[rank] = STOPPED
            elif found:
                missing[rank] = "not started" if rank in refused else NATIVE
            elif all_here or rank not in refused:
                missing[rank] = "has ended"
            else:
                elsewhere.append(rank)
        return Answers(waiting, missing, elsewhere)

    def end_job(self, late: Iterable[int]) -> None:
        """Tell all ranks of this machine that the job is over.

        Late ones are killed if the launcher is patient: it would wait for them before it ends.
        Stopped ones always are: prterun continues them before it ends them, and may wait for ever
        if they connect to it then (Open MPI 5.0).
        """
        with self._open("") as telling:
            telling.setblocking(False)
            for rank in range(self.place.size):
                if rank != self.place.rank:
                    with suppress(OSError):
                        telling.sendto(_datagram(OVER, self.place.rank), self._address(rank))
        here = siblings.ranks_here(self.place.variable)
        for rank in set(late) - {self.place.rank}:
            for each in here.get(rank, []):
                if self.place.patient or siblings.is_stopped(each):
                    siblings.kill(each)


def _datagram(kind: str, rank: int, what: str = "") -> bytes:
    return json.dumps([kind, rank, what]).encode()


def _received(end: socket.socket) -> tuple[str, int, Any]:
    """The next datagram of this user: its kind, its sender's rank, and its text or, of one that
    asks, where the answer goes."""
    while True:
        data, extra, _, address = end.recvmsg(DATAGRAM, socket.CMSG_SPACE(CREDENTIALS.size))
        users = [CREDENTIALS.unpack(c)[1] for _, t, c in extra if t == socket.SCM_CREDENTIALS]
        with suppress(ValueError):
            kind, rank, what = json.loads(data)
            if users == [os.getuid()] and isinstance(rank, int) and isinstance(what, str):
                return kind, rank, address if kind in (ASK, LOOK) else what
