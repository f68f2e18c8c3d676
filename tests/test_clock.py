"""Seconds without the compilation of kernels, against numba itself."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from numba import njit
from numba.core import event

from plancc import clock, jit  # noqa: F401  which has numba tell the clock
from plancc.clock import Clock, Compilation, compilation, wall_seconds


def function(x: float) -> float:
    return x + 1


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What the clock says: every kernel takes 1000 seconds to compile, nothing else takes any."""
    monkeypatch.setattr(compilation(), "_state", (0.0, 0.0, False))  # told before `Slow`
    found = [0.0]

    class Slow(event.Listener):
        def on_start(self, event: Any) -> None:
            found[0] += 1000

        def on_end(self, event: Any) -> None: ...

    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: found[0]))
    with event.install_listener("numba:compile", Slow()):
        yield found


def test_the_clock_stands_still_while_a_kernel_is_compiled(now: list[float]) -> None:
    shown, known = wall_seconds(), compilation().seconds()
    njit(function)(1.0)
    assert compilation().seconds() - known == now[0] >= 1000
    assert wall_seconds() == shown


def test_the_clock_goes_on_for_kernels_that_are_compiled(now: list[float]) -> None:
    kernel = njit(function)
    kernel(1.0)
    known, shown = compilation().seconds(), wall_seconds()
    kernel(2.0)
    now[0] += 5
    assert compilation().seconds() == known
    assert wall_seconds() - shown == 5


def test_the_clock_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though time passes at every look, and a kernel ends in another thread during one."""
    listener, ticks, during = Compilation(), count(), list[Callable[[Any], None]]()

    def look() -> float:
        now = float(next(ticks)) ** 2
        if during:
            during.pop()(None)
        return now

    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=look))
    monkeypatch.setattr(clock, "compilation", lambda: listener)
    shown = [wall_seconds()]
    listener.on_start(None)
    shown += [wall_seconds(), wall_seconds()]
    assert shown[1] == shown[2]
    during.append(listener.on_end)
    shown += [wall_seconds(), wall_seconds()]
    during.append(listener.on_start)
    shown += [wall_seconds(), wall_seconds()]
    assert shown == sorted(shown)
    assert shown[4] > shown[3]
    listener.on_end(None)


def test_phases_of_the_runtime_leave_compilation_out(now: list[float]) -> None:
    slow, phases = njit(function), Clock()
    with phases("spmm"):
        njit(lambda x: slow(x) + 1)(1.0)
        now[0] += 3
    assert now[0] > 1000
    read = phases.read()
    assert read["spmm"] == read["total"] == 3


def test_phases_of_other_threads_are_left_out() -> None:
    phases = Clock()

    def work() -> None:
        with phases("draw"):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert phases.read()["draw"] == 0


def test_kernels_inside_kernels_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 5.0])
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    listener = Compilation()
    for each in ("start", "start", "end", "end"):
        getattr(listener, f"on_{each}")(None)
    assert (listener.seconds(), listener.count) == (5.0, 1)


def test_long_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    listener = Compilation()
    listener.announce = lambda: said.append("compiling")
    monkeypatch.setattr(clock, "ANNOUNCED_AFTER", 0.0)
    for _ in range(3):  # the announcement is made in the middle of a kernel
        listener.on_start(None)
        stop = time.monotonic() + 100
        while not said and time.monotonic() < stop:
            time.sleep(0.001)
        listener.on_end(None)
    assert said == ["compiling"]


def test_short_compilation_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(clock, "ANNOUNCED_AFTER", 1000.0)
    listener = Compilation()
    listener.announce = lambda: said.append("compiling")
    listener.on_start(None)
    assert listener._timer is not None
    listener.on_end(None)
    listener._timer.join(100)  # cancelled
    assert said == []


def test_an_interrupt_that_the_compiler_swallows_comes_afterwards() -> None:
    code = """if True:
        import ctypes, signal
        from numba import njit
        from numba.extending import overload
        from plancc import jit  # which has numba tell the clock

        def answer(): ...

        @ctypes.CFUNCTYPE(None)
        def called_by_native_code():
            signal.raise_signal(signal.SIGINT)

        @overload(answer)
        def _answer():
            called_by_native_code()
            print("compiling")
            return lambda: 42

        kernel = njit(lambda: answer())
        try:
            print(kernel())
        except KeyboardInterrupt:
            print("interrupted")
        print(kernel())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.split() == ["compiling", "interrupted", "42"]
