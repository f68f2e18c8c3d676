"""Runs compiled functions on the OpenMP threads of torch.

A second pool of threads would compete for the cores with torch's threads, which spin for some
milliseconds after each operator of torch. On two cores, a sparse product after a dense product took
4.9 ms with a second pool, 2.8 ms with torch's threads, and 5.4 ms on one thread. The threading
layers of numba do not solve this. If torch has its own copy of libgomp, the layer "omp" starts a
second pool. Two threads must not use the layer "workqueue" at the same time. Moreover, the choice
of a layer would affect the whole process, including the user's own numba code.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from pathlib import Path
from typing import Any

import torch

spare = threading.local()
"""`is_free`: function that returns whether a core beside the cores of torch's threads is idle now;
not set if there is no such core. Compiled functions may use this core, because their bits do not
depend on the number of threads. torch does not use it, because the bits of torch's products may."""


def num_threads() -> int:
    """Return the number of threads for a compiled function.

    These are torch's threads, and one more if a core beside them is idle (`spare`).
    """
    return torch.get_num_threads() + bool(getattr(spare, "is_free", bool)())


def run(function: Any, argument: int, threads: int) -> None:
    """Call `function(argument)` on `threads` threads at once, and return when all have returned.

    Several Python threads may do this at the same time; each gets separate threads.

    Parameters:
        function (numba cfunc, void(pointer)): Compiled function. It divides the work itself, and
            must give the right result on any number of threads. It runs without the GIL, so it must
            not touch Python objects.
        argument: Address that is passed to `function`; it must be valid until `run` returns.
        threads: Number of threads, at least 1. One thread is used if torch has no OpenMP.
    """
    parallel = _parallel() if threads > 1 else None
    if parallel is None:
        _CALL(function.address)(argument)
    else:
        parallel(function.address, argument, threads, 0)


_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # releases the GIL during the call


@cache
def _parallel() -> Any:
    """Return the function GOMP_parallel of torch's OpenMP, or None if torch has no OpenMP.

    GNU's, LLVM's and Intel's OpenMP all have this function. It is looked up in libtorch_cpu, which
    depends on OpenMP, so the file name of OpenMP is not needed.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        parallel = library.GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel
