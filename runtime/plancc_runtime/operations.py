"""Operations that a profile times: kernels of our own say what one takes.

Operations of torch need nothing of this: torch itself tells a profile of each (`profile.Recorder`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Cost(NamedTuple):
    """What an operation takes at least.

    Attributes:
        num_bytes: Bytes that it reads and writes, each operand once.
        flops: Additions and multiplications of floating-point numbers.
    """

    num_bytes: int
    flops: int = 0


class Listener(Protocol):
    """Who hears of the operations of a thread."""

    def timed(self, name: str, function: Callable[[], R], cost: Callable[[R], Cost]) -> R:
        """What the function returns; `cost` is what it took, asked for afterwards."""
        ...


class _ThreadState(threading.local):
    listener: Listener | None = None


_local = _ThreadState()


def listen(listener: Listener | None) -> None:
    """Let somebody hear of all operations of this thread from now on; None: nobody."""
    _local.listener = listener


def operation(name: str, cost: Callable[..., Cost]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of kernels: the operation `name`, whose cost is ``cost(result, *arguments)``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            listener = _local.listener
            if listener is None:
                return function(*args, **kwargs)
            return listener.timed(
                name,
                lambda: function(*args, **kwargs),
                lambda result: cost(result, *args, **kwargs),
            )

        return called

    return decorate


def size_of(*arrays: Any) -> int:
    """Bytes of those tensors that are there, each counted once."""
    there = {id(array): array for array in arrays if array is not None}
    return sum(array.numel() * array.element_size() for array in there.values())
