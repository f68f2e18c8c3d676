"""Signals such as Ctrl-C end a program soon, even while the program is in native code.

Python handles a signal between two instructions of the main thread, but a kernel may run for
minutes first. So a second thread waits for signals too. If the work does not end within `GRACE`
seconds, this thread kills child processes, removes temporary files, and ends the process. It cannot
run while native code holds Python's lock, which plancc's kernels release.

The module imports as little as possible, so that signals are handled early.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from plancc import processes
from plancc_cli import interrupts

GRACE = 0.75
"""Seconds that the work has to end tidily."""
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILLED = 0.5
"""Seconds for the system to end killed processes, and for a sentence to be printed."""
SIGNALS = ("USR1", "USR2", "HUP", "INT")
"""Names of signals that a run may listen to beside TERM."""
TWICE = 1.0
"""Seconds within which a second signal counts as the first: a batch system sends a signal to every
process of a job, and mpirun sends its own to the ranks too."""

_answers = False  # whether a thread ends the process when a signal comes
stopped = threading.Event()
"""Set when a signal interrupts the work; native code may then fail with another error."""
_ending = threading.RLock()  # held by the thread that says why the process ends, until it has ended
_code = 1


def answering(program: str, work: Callable[[], object]) -> None:
    """Run a program's `work` to its end, or until a signal; then end the process.

    `work` prints its errors, and raises SystemExit with the exit code. If streams are replaced, or
    if there are other threads or a debugger, the process also runs other code: then this function
    neither handles signals nor ends the process.
    """
    answers = _is_alone()
    begin_command(answers=answers)
    open_streams()
    if not answers:
        interrupts.let_raise()
        work()
        return
    code = 1
    try:
        _listen(program)
        code = code_of(work)
        ends_with(code)
        # threads of interrupted work may still be in libraries, which crash if they close
        if stopped.is_set():
            clean_up()
        else:
            with contextlib.suppress(Exception):
                atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    except KeyboardInterrupt:  # before the work began, or while it said how it ended
        end_now(program)
    finally:
        # not the interpreter's end: libraries may hang or crash while they unload
        os._exit(code)


def open_streams() -> None:
    """Open the null device in place of every closed standard stream.

    Otherwise native code would print into the next opened file, which gets the stream's number.
    """
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(null, True)
    os.close(null)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115  stays open
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _is_alone() -> bool:
    """Return whether this process seems to run this program only; see `answering`."""
    return (
        (sys.stdout, sys.stderr) == (sys.__stdout__, sys.__stderr__)
        and threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
        and sys.gettrace() is None
        and sys.getprofile() is None
    )


def code_of(work: Callable[[], object]) -> int:
    """Do the work, and return the exit code that the interpreter would end with."""
    try:
        work()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except Exception:
        if stopped.is_set():  # an interrupted import fails with another message
            raise KeyboardInterrupt from None
        sys.__excepthook__(*sys.exc_info())
        return 1
    return 0


def _listen(program: str) -> None:
    """Let signals interrupt the work; start a thread that ends the process if the work goes on."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(RuntimeError):  # the system has no thread left: native code delays
        threading.Thread(target=_wait, args=(program, reading), name="signals", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.excepthook, sys.unraisablehook = _printed, _unraisable
    faulthandler.enable()  # where native code crashed
    for number in STOPPING:
        # whoever started us may want a signal to be ignored; SIGTERM always counts
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Interrupt the work at the first signal; ignore all later ones.

    A terminal may send several Ctrl-C.
    """
    for each in STOPPING:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, only_wake)
    stopped.set()
    raise KeyboardInterrupt


def _printed(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught error; print nothing if an interruption caused the error."""
    if not stopped.is_set():
        sys.__excepthook__(kind, value, trace)


def _unraisable(unraisable: Any) -> None:
    """Print an error of Python code that native code called, if no signal caused the error."""
    if not stopped.is_set():
        sys.__unraisablehook__(unraisable)


def _wait(program: str, signals: int) -> NoReturn:
    """Wait, in a thread, for a signal; end the process if the work does not stop soon after."""
    while os.read(signals, 1)[0] not in STOPPING:
        pass
    processes.adopt_orphans()
    time.sleep(GRACE)  # the work cleans up meanwhile, and ends the process
    end_now(program)


def end_now(program: str) -> NoReturn:
    """End this process and its children, and remove temporary files.

    Print why, unless the interrupted work prints this itself.
    """
    code = end_code()
    clean_up()
    if code is None:
        from plancc.text import printable

        begin = "\n" * sys.stderr.isatty()  # after the terminal's ^C
        sentence = f"{begin}{program}: error: {printable(interrupted())}\n"
        # not by the stream, which the work may have locked
        if select.select([], [2], [], 0)[1]:
            os.write(2, sentence.encode(sys.stderr.encoding, "backslashreplace"))
    os._exit(1 if code is None else code)


def begin_command(*, answers: bool) -> None:
    """Begin a new list of written files, which the message of an interruption will name.

    `answers` says whether a thread ends the process when a signal comes.
    """
    global _answers
    _answers = answers
    processes.temporary.clear()
    processes.written = {}


def interrupted() -> str:
    """Return a sentence about interrupted work, with the files that the work has written."""
    files = list(processes.written or ())
    if not files:
        return "interrupted; nothing was written"
    some = ", ".join(files[:3]) + f" and {len(files) - 3} more" * (len(files) > 3)
    return f"interrupted; {some} {'was' if len(files) == 1 else 'were'} written before"


def only_wake(number: int, frame: FrameType | None) -> None:
    """Do nothing: the handler for signals that a thread reads from `signal.set_wakeup_fd`.

    With SIG_IGN, the thread would not get the signal, and child processes would inherit SIG_IGN.
    """


def ends_with(code: int) -> None:
    """Record the exit code, and ignore signals from now on.

    A command calls this function before it prints why it ends. If another thread calls it later,
    that thread waits until the process has ended.
    """
    global _code
    if not _answers:
        return
    for number in STOPPING:
        with contextlib.suppress(ValueError):  # not in the main thread
            if callable(signal.getsignal(number)):
                signal.signal(number, only_wake)
    _ending.acquire()
    _code = code


def end_code() -> int | None:
    """Return the exit code if another thread has called `ends_with`; else None."""
    return None if _ending.acquire(timeout=KILLED) else _code


def clean_up() -> None:
    """Kill all processes that this command has started, and remove its temporary files."""
    if not _answers:  # the process is somebody else's, or a launcher ends it
        return
    end = time.monotonic() + KILLED
    while (living := processes.descendants(os.getpid())) and time.monotonic() < end:
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)  # the system ends them soon
    while processes.temporary:
        path = processes.temporary.pop()
        with contextlib.suppress(OSError):
            if not os.path.isdir(path) or os.path.islink(path):
                os.unlink(path)
                continue
            import shutil

            shutil.rmtree(path, ignore_errors=True)


class StopSignals:
    """A context manager: SIGTERM and other signals are recorded, and do not interrupt.

        with StopSignals(["USR1"], end) as stop:
            ...             # stop() is "" until the signal comes, then "SIGUSR1"

    Signals are recorded even while Python waits for native code. Enter the context in the main
    thread. If a signal has come, signals after the context do nothing: the process should end soon.

    Parameters:
        names: Some of `SIGNALS`; SIGTERM is always recorded.
        end: Ends the process at another signal, more than `TWICE` seconds after the first.
        heard: Called with the name of the first signal, in the thread that waits for signals.
    """

    def __init__(
        self, names: Sequence[str], end: Callable[[], object], heard: Callable[[str], object] = str
    ) -> None:
        self._numbers = {signal.Signals[f"SIG{name}"] for name in ("TERM", *names)}
        self._end, self._heard = end, heard
        self._name, self._since = "", 0.0
        self._before: dict[signal.Signals, Any] = {}
        self._reading, self._writing = -1, -1
        self._outer = -1

    def __call__(self) -> str:
        """Return the name of the first signal that came; "" if no signal came."""
        return self._name

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        threading.Thread(target=self._listen, name="signals", daemon=True).start()
        self._outer = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in self._numbers:
            self._before[number] = signal.signal(number, only_wake)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._outer)
        for number, handler in self._before.items() if not self._name else ():
            signal.signal(number, handler)
        os.close(self._writing)  # which ends the thread

    def _listen(self) -> None:
        while numbers := os.read(self._reading, 256):
            for number in numbers:
                if number not in self._numbers:
                    if self._outer >= 0:
                        os.write(self._outer, bytes([number]))
                elif not self._name:
                    self._name, self._since = signal.Signals(number).name, time.monotonic()
                    self._heard(self._name)
                elif time.monotonic() - self._since > TWICE:
                    self._end()
        os.close(self._reading)
