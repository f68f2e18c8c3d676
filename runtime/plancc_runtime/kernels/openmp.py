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

spare = threading.local()
"""`is_free`: function that returns whether a core beside the cores of torch's threads is idle now;
not set if there is no such core. Compiled functions may use this core, because their bits do not
depend on the number of threads. torch does not use it, because the bits of torch's products may."""


def num_threads() -> int:
    """Return the number of torch's threads, plus 1 if a core beside them is idle (`spare`)."""
    return torch.get_num_threads() + bool(getattr(spare, "is_free", bool)())


def run(function: Any, argument: int, threads: int) -> None:
    """Call `function(argument)` on `threads` threads at once, and return when all have returned.

    `function` (numba cfunc, void(pointer)) divides the work itself, for any number of threads, and
    runs without the GIL, so it must not touch Python objects. Without OpenMP, one thread is used.
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
