"""`njit` as all kernels use it: numba is imported when the first of them is called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

_LOADING = threading.RLock()


class LazyKernel:
    """A kernel that `plancc.jit` loads or compiles at its first call.

    Parameters
    ----------
    function : function
        The kernel as Python has it.
    options : dict
        Options of `numba.njit`. ``cache=True``: compiled versions are kept as `plancc.jit` says.
    """

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._options = options
        self._loaded: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run it."""
        return (self._loaded or self.load())(*arguments, **named)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes a value for: a kernel that calls another one sees its dispatcher."""
        return self.load()._numba_type_

    def load(self) -> Any:
        """numba's dispatcher, the same at each call; several threads may ask for it at once."""
        with _LOADING:
            if self._loaded is None:
                from plancc import jit

                self._loaded = jit.dispatcher(self.__wrapped__, self._options)
            return self._loaded


def njit(*functions: Any, **options: Any) -> Any:
    """`numba.njit`, whose ``cache=True`` is the cache of `plancc.jit`."""
    if functions:
        return LazyKernel(functions[0], options)
    return lambda function: LazyKernel(function, options)
