"""Seconds without the compilation of kernels, against numba itself."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from numba import njit

from plancc import clock
from plancc.clock import Compilation, compilation, wall_seconds
from plancc_runtime.clock import Clock


def slow_to_compile(x: float) -> float:
    total = 0.0
    for k in range(10):
        total += (x + k) ** 0.5
    return total


def test_the_clock_stands_still_while_a_kernel_is_compiled() -> None:
    wall_seconds()
    real, shown, known = time.perf_counter(), wall_seconds(), compilation().seconds()
    njit(slow_to_compile)(1.0)
    real, shown = time.perf_counter() - real, wall_seconds() - shown
    compiled = compilation().seconds() - known
    assert 0.01 < compiled < real
    assert shown < real / 2  # nearly all of it is compilation


def test_the_clock_goes_on_for_kernels_that_are_compiled() -> None:
    kernel = njit(slow_to_compile)
    kernel(1.0)
    known, shown = compilation().seconds(), wall_seconds()
    kernel(2.0)
    time.sleep(0.05)
    assert compilation().seconds() == known
    assert wall_seconds() - shown >= 0.05


def test_kernels_inside_kernels_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 5.0])
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(ticks))
    listener = Compilation()
    for event in ("start", "start", "end", "end"):
        getattr(listener, f"on_{event}")(None)
    assert listener.seconds() == 5.0


def test_long_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    listener = Compilation()
    listener.announce = lambda: said.append("compiling")
    monkeypatch.setattr(clock, "ANNOUNCED_AFTER", 0.0)
    for _ in range(3):  # the announcement is made in the middle of a kernel
        listener.on_start(None)
        stop = time.monotonic() + 20
        while not said and time.monotonic() < stop:
            time.sleep(0.001)
        listener.on_end(None)
    assert said == ["compiling"]


def test_short_compilation_is_not_announced() -> None:
    said: list[str] = []
    listener = Compilation()
    listener.announce = lambda: said.append("compiling")
    listener.on_start(None)
    assert listener._timer is not None
    listener.on_end(None)
    listener._timer.join(20)  # cancelled
    assert said == []


def test_phases_of_the_runtime_leave_compilation_out() -> None:
    slow = njit(slow_to_compile)
    phases = Clock()
    begin = time.perf_counter()
    with phases("spmm"):
        njit(lambda x: slow(x) + 1)(1.0)
    taken, read = time.perf_counter() - begin, phases.read()
    assert taken > 0.02
    assert read["spmm"] < taken / 2
    assert read["total"] < taken / 2


def test_an_interrupt_that_the_compiler_swallows_comes_afterwards() -> None:
    code = """if True:
        import ctypes, signal
        from numba import njit
        from numba.extending import overload
        from plancc.clock import compilation

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
        compilation()
        try:
            print(kernel())
        except KeyboardInterrupt:
            print("interrupted")
        print(kernel())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split() == ["compiling", "interrupted", "42"]
