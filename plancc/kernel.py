"""`njit` for all kernels, which imports numba when the first kernel needs it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

PLAIN = 50_000
"""Largest number of elements in the arguments for which a plain kernel runs in Python, if numba
is not imported yet. This takes about 0.1 s; loading numba and the kernel takes 0.4 s, and
compiling takes seconds."""
_LOADING = threading.RLock()


class LazyKernel:
    """A kernel that `plancc.jit` loads or compiles at its first call.

    If `plain` is true, the Python function may run instead, for arguments with few elements
    (`PLAIN`).
    """

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], plain: bool, options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._plain, self._options = plain, options
        self._loaded: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the kernel; load or compile it first if necessary."""
        if self._loaded is not None:
            return self._loaded(*arguments, **named)
        without = self._plain and "plancc.jit" not in sys.modules
        if without and _elements(arguments) <= PLAIN:
            return self.in_python(*arguments, **named)
        return self.load()(*arguments, **named)

    def in_python(self, *arguments: Any, **named: Any) -> Any:
        """Run the Python function; integers overflow silently, as in a kernel."""
        import numpy as np

        with np.errstate(over="ignore"):
            return self.__wrapped__(*arguments, **named)

    @property
    def _numba_type_(self) -> Any:
        """The type that numba uses for the kernel in other kernels: the type of its dispatcher."""
        return self.load()._numba_type_

    def load(self) -> Any:
        """Return numba's dispatcher, the same at each call; several threads may call this."""
        with _LOADING:
            if self._loaded is None:
                from plancc import jit

                self._loaded = jit.dispatcher(self.__wrapped__, self._options)
            return self._loaded


def njit(*functions: Any, plain: bool = False, **options: Any) -> Any:
    """Decorate a function like `numba.njit`, but return a `LazyKernel`.

    ``cache=True`` means the cache of `plancc.jit`. Kernels release the interpreter lock.
    """
    options = {"nogil": True} | options
    if functions:
        return LazyKernel(functions[0], plain, options)
    return lambda function: LazyKernel(function, plain, options)


def _elements(values: Iterable[Any]) -> int:
    return sum(
        _elements(each) if isinstance(each, tuple) else getattr(each, "size", 1) for each in values
    )
