"""Compiled functions on the OpenMP threads that torch already has.

A second pool would share the cores with torch's threads, which spin for some milliseconds after
each of torch's operators: on two cores a product after a dense one took 4.9 ms with threads of its
own, 2.8 ms with torch's, 5.4 ms on one thread. numba's "omp" layer is such a second pool where
torch brings its own libgomp, and two threads must not enter its "workqueue" layer; the choice of
either holds for the whole process, which may be the user's.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch


def run(function: Any, argument: int, threads: int) -> None:
    """Call `function(argument)` on `threads` threads at once, and return when all have returned.

    Any number of Python threads may do so at the same time, each with a separate team.

    Parameters:
        function (numba cfunc, void(pointer)): It divides the work itself, and must be right with
            any number of threads. Not holding the GIL, it must not touch Python objects.
        argument: Address, valid until this returns.
        threads: At least 1. Where torch was built without OpenMP, one thread is used.
    """
    parallel = _parallel() if threads > 1 else None
    if parallel is None:
        _CALL(function.address)(argument)
    else:
        parallel(function.address, argument, threads, 0)


_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # without the GIL


@cache
def _parallel() -> Any:
    """GOMP_parallel of torch's OpenMP (LLVM's and Intel's libraries have it too), or None.

    Looked up through the library that depends on it, under any file name.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        parallel = library.GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel
