"""Runs compiled functions on the OpenMP threads of torch.

A second pool, such as numba's layer "omp", would compete with torch's threads, which spin after
each operator: a sparse product after a dense product took 4.9 ms instead of 2.8 ms. Two threads
must not use numba's layer "workqueue" at once.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from pathlib import Path
from typing import Any

import torch

class SecondThread:
    """A Python thread on a core of its own, which helps a training step while it has no own work.

    Compiled functions may use its core, because their bits do not depend on the number of threads.
    torch does not use it, because the bits of torch's products may.

    Attributes:
        is_idle (bool): Whether the thread has no own work now.
        call (tuple or None): Compiled function that the step runs now, and its argument.
    """

    def __init__(self) -> None:
        self.is_idle, self.call = True, None
        self._helps = threading.Lock()

    def help(self) -> None:
        """Join the call that the step runs now, if there is one; the second thread does this."""
        with self._helps:  # before `call` is read: `end_call` then waits for this thread
            if self.call is not None:
                function, argument = self.call
                _CALL(function.address)(argument)

    def end_call(self) -> None:
        """Forget the call, which has returned, and wait until the second thread has left it."""
        self.call = None
        with self._helps:
            pass


of_step = threading.local()
"""`second`: the `SecondThread` that helps the steps of this thread; not set if there is none."""


def num_threads() -> int:
    """Return the number of threads for a compiled function: torch's, and an idle `SecondThread`."""
    second = getattr(of_step, "second", None)
    return torch.get_num_threads() + (second is not None and second.is_idle)


def run(function: Any, argument: int, threads: int) -> None:
    """Call `function(argument)` on `threads` threads at once, and return when all have returned.

    Several Python threads may do this at the same time; each gets separate threads. A
    `SecondThread` that becomes idle meanwhile joins the call.

    Parameters:
        function (numba cfunc, void(pointer)): Divides the work itself, on any number of threads,
            which may begin late. Runs without the GIL, so it must not touch Python objects.
        argument: Address that is passed to `function`; it must be valid until `run` returns.
        threads: Number of threads, at least 1. One thread is used if torch has no OpenMP.
    """
    parallel = _parallel() if threads > 1 else None
    second = getattr(of_step, "second", None)
    if second is not None and not second.is_idle:
        second.call = function, argument
    if parallel is None:
        _CALL(function.address)(argument)
    else:
        parallel(function.address, argument, threads, 0)
    if second is not None:
        second.end_call()


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
