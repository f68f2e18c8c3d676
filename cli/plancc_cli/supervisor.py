"""A program as two processes: one works, the other stays able to answer signals.

Python answers a signal between two of its own instructions. Native code that holds the interpreter
(a kernel, a sort, HDF5 in a damaged file, a compiler) may take minutes, or never end. Therefore the
work is done in a child. This process passes signals on, and kills the child if that does not end
tidily within `GRACE` seconds. Then it removes the temporary files that the child told of
(`plancc.processes`), and says the sentence and gives the exit code in its place.

The module imports as little as possible: what is not yet supervised are the milliseconds before it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn

from plancc import processes
from plancc_cli import interrupts

GRACE = 1.0
"""Seconds for the work to end tidily."""
KILLED = 0.5
"""Seconds for the system to end what was killed."""
AGAIN = 0.01
"""Seconds after which an interrupt that native code swallowed is raised again."""
ADVICE: dict[int, str] = {
    signal.SIGKILL: "",
    signal.SIGBUS: ": a file that it had mapped into memory became shorter, or the disk failed",
}
"""What follows the name of the signal that ended the work."""
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGTSTP)


def supervise(program: str, work: Callable[[], object]) -> None:
    """Do the work of a console entry point, so that signals end it whatever it does.

    SystemExit carries the exit code, unless that is 0. The work is done in this very process if
    somebody else's code calls the entry point: with other streams, threads, a debugger.

    Parameters:
        program: Its name, for messages.
        work: Prints its own errors, and raises SystemExit with the exit code.
    """
    processes.report_to(None)
    open_streams()
    if not _may_fork():
        interrupts.let_raise()
        work()
        return
    supervisor = os.getpid()
    reports, reporting = os.pipe()
    watched: set[int] = {number for number in STOPPING + PASSED_ON if not _ignored(number)}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        worker = os.fork()
    except OSError:  # no more processes for this user
        interrupts.let_raise()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        work()
        return
    if worker == 0:
        os.close(reports)
        _work(work, supervisor, reporting, watched)
    os.close(reporting)
    code = _Supervisor(program, worker, reports, watched).run()
    if code:
        sys.exit(code)


def open_streams() -> None:
    """Open the null device as each standard stream that whoever started us has closed.

    Else the next file that is opened takes its number, and what native code prints goes there.
    """
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(null, True)
    os.close(null)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _may_fork() -> bool:
    """Whether this process is the program's own."""
    return (
        hasattr(os, "fork")
        and (sys.stdout, sys.stderr) == (sys.__stdout__, sys.__stderr__)
        and threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
        and sys.gettrace() is None
        and sys.getprofile() is None
    )


def _ignored(number: int) -> bool:
    """Whether whoever started us wants this signal to be ignored; SIGTERM always counts."""
    return number != signal.SIGTERM and signal.getsignal(number) is signal.SIG_IGN


# -- the process that works ------------------------------------------------------------------------


def _work(work: Callable[[], object], supervisor: int, reports: int, watched: set[int]) -> NoReturn:
    """Do the work, and end this process."""
    code = 1
    try:
        interruptible = watched.intersection(STOPPING)
        for number in watched:
            signal.signal(number, _interrupt if number in interruptible else signal.SIG_DFL)
        signal.signal(signal.SIGALRM, _raise)
        sys.excepthook, sys.unraisablehook = _printed, _unraisable
        processes.report_to(reports)
        processes.die_with_parent(supervisor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        code = code_of(work)
        processes.ends_with(code)
        with contextlib.suppress(Exception):
            import atexit

            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    except KeyboardInterrupt:  # before the work began, or while it said how it ended
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        # not the interpreter's end: libraries may hang or crash while they unload
        os._exit(code)


def code_of(work: Callable[[], object]) -> int:
    """The exit code that the interpreter would end with."""
    try:
        work()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except Exception:
        sys.__excepthook__(*sys.exc_info())
        return 1
    return 0


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Interrupt the work, once: the terminal and the supervisor both send a Ctrl-C."""
    for each in STOPPING:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, processes.only_wake)
    processes.begin_to_stop()
    raise KeyboardInterrupt


def _raise(number: int, frame: FrameType | None) -> None:
    """Interrupt the work, but not here: what `_unraisable` raises is swallowed too."""
    if frame is None or frame.f_code not in (_unraisable.__code__, _raise.__code__):
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise KeyboardInterrupt


def _printed(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Native code prints an error that it cannot raise, which an interruption may have caused."""
    if not processes.is_stopping():
        sys.__excepthook__(kind, value, trace)


def _unraisable(unraisable: Any) -> None:
    """Native code called Python, which was interrupted; it cannot pass that on."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
    elif not processes.is_stopping():
        sys.__unraisablehook__(unraisable)


# -- the process that supervises -------------------------------------------------------------------


class _Supervisor:
    """Waits for the worker, and ends it."""

    def __init__(self, program: str, worker: int, reports: int, watched: set[int]) -> None:
        self.program, self.worker, self.reports = program, worker, reports
        self.status: int | None = None  # as `os.waitpid` gives it
        self.deadline: float | None = None
        self.asked = 0.0  # when the work was first sent a signal that it answers by itself
        self.stopped_by = 0
        self.temporary: set[bytes] = set()
        self.written: dict[str, None] = {}  # in this order
        self.sentence = ""
        self.code: int | None = None
        self.handled: set[int] = set()
        self._rest = b""
        os.set_blocking(reports, False)
        self.signals, signalled = os.pipe()
        os.set_blocking(self.signals, False)
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        for number in (*watched, signal.SIGCHLD):
            signal.signal(number, processes.only_wake)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)

    def run(self) -> int:
        """The exit code."""
        self._watch()
        if self.status is None or self.stopped_by:
            self._kill()
        self._listen()
        for path in self.temporary:
            _remove(path)
        code = self._judge()
        by_hangup = self.stopped_by == signal.SIGHUP and signal.SIGHUP not in self.handled
        if code and by_hangup:  # it kills, as ever
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGHUP)
        return code

    def _judge(self) -> int:
        """The exit code; says why where the worker could not."""
        if self.status is not None and os.WIFEXITED(self.status):
            return os.WEXITSTATUS(self.status)
        if self.code is not None:  # the work was done
            return self.code
        number = 0 if self.status is None else os.WTERMSIG(self.status)
        if self.stopped_by or number in STOPPING:
            self._say(self.sentence or processes.interrupted(self.written), after_terminal=True)
        else:
            self._say(processes.fate(-number) + ADVICE.get(number, "; please report it"))
        return 1

    def _watch(self) -> None:
        """Pass signals on until the worker ends, or its time is over."""
        poll = select.poll()
        poll.register(self.reports, select.POLLIN)
        poll.register(self.signals, select.POLLIN)
        while True:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            for source, _ in poll.poll(None if left is None else 1e3 * left):
                if source == self.signals:
                    for number in os.read(self.signals, 256):
                        self._on_signal(number)
                elif not self._listen():
                    poll.unregister(source)
            self._reap()
            if self.status is not None:
                return

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD or self.status is not None:
            return
        if number in STOPPING:
            now = time.monotonic()
            if number in self.handled and now <= (self.asked or now) + processes.TWICE:
                self.asked = self.asked or now  # the work answers by itself, in its own time
            elif self.deadline is None:
                self.deadline = now + GRACE
            if not self.stopped_by:
                processes.adopt_orphans()
            self.stopped_by = number
        self._send(number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.worker, number)

    def _reap(self) -> None:
        """Take note of children that have ended; the worker's status counts."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.worker:
                    self.status = ended[1]

    def _kill(self) -> None:
        """End all that the worker has started, and the worker itself."""
        end = time.monotonic() + KILLED
        while living := processes.descendants(os.getpid()):
            for pid in living:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > end:  # in the middle of a call to a file server, for instance
                break
            time.sleep(0.002)
            self._reap()
        self._reap()

    def _listen(self) -> bool:
        """Take note of what the worker tells; False at the end."""
        while True:
            try:
                got = os.read(self.reports, 1 << 16)
            except BlockingIOError:
                return True
            *told, self._rest = (self._rest + got).split(b"\0")
            for each in told:
                self._note(each[:1], each[1:])
            if not got:
                return False

    def _note(self, what: bytes, value: bytes) -> None:
        if what == processes.BEGUN:
            self.temporary.add(value)
        elif what == processes.GONE:
            self.temporary.discard(value)
        elif what == processes.WRITTEN:
            self.written[os.fsdecode(value)] = None
        elif what == processes.SENTENCE:
            self.sentence = os.fsdecode(value)
        elif what == processes.HANDLED:
            number = int(value)
            self.handled = self.handled - {-number} if number < 0 else self.handled | {number}
        elif what == processes.CODE:
            self.code = int(value)
            if self.deadline is not None:  # time to say why
                self.deadline += KILLED

    def _say(self, sentence: str, after_terminal: bool = False) -> None:
        """One line on stderr."""
        from plancc.text import printable

        begin = ""
        if after_terminal and sys.stderr.isatty():  # after ^C; a line of progress hid the cursor
            begin = "\n" if os.environ.get("TERM", "dumb") == "dumb" else "\x1b[?25h\n"
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{begin}{self.program}: error: {printable(sentence)}\n")
            sys.stderr.flush()


def _remove(path: bytes) -> None:
    """Remove a temporary file or folder, if it is there."""
    with contextlib.suppress(OSError):
        if not os.path.isdir(path) or os.path.islink(path):
            os.unlink(path)
            return
        import shutil

        shutil.rmtree(path, ignore_errors=True)
