"""Record a function's work on a CUDA device, and replay it with one start of all its kernels.

On small graphs, a kernel takes less time than its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

RECORDED = 3
"""Number of the call that is recorded; earlier calls set up libraries and make layouts."""

Result = TypeVar("Result")


class Repeated(Generic[Result]):
    """Function that is recorded as a CUDA graph, and then replayed in every call.

    `work` must run the same kernels on the same tensors in every call. If CUDA cannot record
    `work`, every call runs `work`.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._left = work, RECORDED
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result

    def __call__(self) -> Result:
        """Do the work and return its result, whose tensors the next call overwrites."""
        if self._graph is None:
            self._left -= 1
            if self._left or not self._record():
                return self._work()
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def _record(self) -> bool:
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._result = self._work()
        except RuntimeError:
            return False
        self._graph = graph
        return True
