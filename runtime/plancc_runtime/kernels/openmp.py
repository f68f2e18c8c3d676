"""Runs compiled functions on the OpenMP threads of torch.

A second pool, such as numba's layer "omp", would compete with torch's threads, which spin after
each operator: a sparse product after a dense product took 4.9 ms instead of 2.8 ms. Two threads
must not use numba's layer "workqueue" at once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch


class SecondThread:
    """A Python thread that helps the steps of another thread while it has no work of its own.

    It has a core beside the cores of torch's threads. Compiled functions may use this core, because
    their bits do not depend on the number of threads. torch does not use it, because the bits of
    torch's products may.

    Attributes:
        is_idle (bool): Whether the thread has no work of its own now.
        call (callable or None): Runs the compiled function that the step runs now.
    """

    def __init__(self) -> None:
        self.is_idle, self._helps = True, threading.Lock()
        self.call: Callable[[], object] | None = None

    def help(self) -> None:
        """Help with the compiled function that the step runs, if any; the second thread does this.

        The lock is taken before `call` is read, so `wait` waits for a thread that helps.
        """
        with self._helps:
            (self.call or int)()  # one read: the step may set None meanwhile

    def wait(self) -> None:
        """Wait until the second thread has left the function; the step has set `call` to None."""
        try:
            with self._helps:
                pass
        except BaseException:  # a signal: the caller would free memory that the function uses
            self.wait()
            raise


of_step = threading.local()
"""`second`: the `SecondThread` that helps the steps of this thread, or None; perhaps not set."""


def num_threads() -> int:
    """Return the number of threads for a compiled function: torch's, and an idle `SecondThread`."""
    second = getattr(of_step, "second", None)
    return torch.get_num_threads() + (second is not None and second.is_idle)


def run(function: Any, argument: int, threads: int) -> None:
    """Call `function(argument)` on `threads` threads at once, and return when all have returned.

    `function` (numba cfunc, void(pointer)) divides the work itself, for any number of threads, of
    which some may begin late: a `SecondThread` that becomes idle meanwhile joins. It runs without
    the GIL, so it must not touch Python objects. Without OpenMP, one thread is used.
    """
    parallel, second = _parallel() if threads > 1 else None, getattr(of_step, "second", None)
    try:
        if second is not None and not second.is_idle:
            second.call = partial(_CALL(function.address), argument)
        if parallel is None:
            _CALL(function.address)(argument)
        else:
            parallel(function.address, argument, threads, 0)
    finally:
        if second is not None:
            second.call = None
            second.wait()


_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # releases the GIL during the call


@cache
def _parallel() -> Any:
    """Return the function GOMP_parallel of torch's OpenMP, or None if torch has no OpenMP.

    Looked up in libtorch_cpu, which depends on OpenMP: OpenMP's file name is not needed.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        parallel = library.GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel
