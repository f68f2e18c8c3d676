"""The work of a program, which signals end soon, whatever it does.

Python answers a signal between two of its own instructions, in the main thread, where the work is
done: it is interrupted, and cleans up. A kernel or a library that is called there may take minutes.
Therefore a thread waits for signals too. If the work does not end within `GRACE` seconds, the
thread ends what the process has started, removes its temporary files, and ends the process. Native
code that holds the interpreter keeps the thread waiting; kernels do not hold it.

The module imports as little as possible: signals are answered from its first lines on.
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
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn

from plancc.processes import adopt_orphans
from plancc_cli import ending, interrupts

GRACE = 0.75
"""Seconds for the work to end tidily."""
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def answering(program: str, work: Callable[[], object]) -> None:
    """Do the work of a console entry point, so that signals end it; ends the process.

    If somebody else's code calls the entry point (with other streams, threads, a debugger), this
    returns, or raises SystemExit with the exit code, and signals are left to that code.

    Parameters:
        program: Its name, for messages.
        work: Prints its own errors, and raises SystemExit with the exit code.
    """
    answers = _is_alone()
    ending.begin_command(answers=answers)
    open_streams()
    if not answers:
        interrupts.let_raise()
        work()
        return
    code = 1
    try:
        _listen(program)
        code = code_of(work)
        ending.ends_with(code)
        # threads of interrupted work may still be in libraries, which crash if they close
        if ending.stopped.is_set():
            ending.clean_up()
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
    """Open the null device as each standard stream that whoever started us has closed.

    Else the next file that is opened takes its number, and what native code prints goes there.
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
    """Whether this process is the program's own."""
    return (
        (sys.stdout, sys.stderr) == (sys.__stdout__, sys.__stderr__)
        and threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
        and sys.gettrace() is None
        and sys.getprofile() is None
    )


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
        if ending.stopped.is_set():  # an interrupted import fails in words of its own
            raise KeyboardInterrupt from None
        sys.__excepthook__(*sys.exc_info())
        return 1
    return 0


def _listen(program: str) -> None:
    """Let signals interrupt the work, and start the thread that ends it if it goes on."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(RuntimeError):  # no more threads for this user
        threading.Thread(target=_wait, args=(program, reading), name="signals", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.excepthook, sys.unraisablehook = _printed, _unraisable
    faulthandler.enable()  # where native code crashed
    for number in STOPPING:
        # whoever started us may want a signal to be ignored; SIGTERM always counts
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Interrupt the work, once: a terminal's Ctrl-C may be followed by others."""
    for each in STOPPING:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, ending.only_wake)
    ending.stopped.set()
    raise KeyboardInterrupt


def _printed(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Native code prints an error that it cannot raise, which an interruption may have caused."""
    if not ending.stopped.is_set():
        sys.__excepthook__(kind, value, trace)


def _unraisable(unraisable: Any) -> None:
    """Native code called Python, which failed; it cannot pass that on."""
    if not ending.stopped.is_set():
        sys.__unraisablehook__(unraisable)


def _wait(program: str, signals: int) -> NoReturn:
    """Wait for the first signal that is to end the work, and for the end; in a thread."""
    while os.read(signals, 1)[0] not in STOPPING:
        pass
    adopt_orphans()
    time.sleep(GRACE)  # the work cleans up meanwhile, and ends the process
    end_now(program)


def end_now(program: str) -> NoReturn:
    """End the process, with its children and temporary files; says why, unless the work does."""
    code = ending.end_code()
    ending.clean_up()
    if code is None:
        from plancc.text import printable

        begin = ""
        if sys.stderr.isatty():  # after ^C; a line of progress hid the cursor
            begin = "\n" if os.environ.get("TERM", "dumb") == "dumb" else "\x1b[?25h\n"
        sentence = f"{begin}{program}: error: {printable(ending.interrupted())}\n"
        # not by the stream, which the work may have locked
        if select.select([], [2], [], 0)[1]:
            os.write(2, sentence.encode(sys.stderr.encoding, "backslashreplace"))
    os._exit(1 if code is None else code)
