"""Work on a CUDA device that is the same every time, recorded and started as one piece.

On small graphs kernels take less time than their starts. A CUDA graph starts all kernels of a pass
at once, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

RECORDED = 3
"""Number of the call that is recorded; earlier calls set up libraries and make layouts."""

Result = TypeVar("Result")


class Repeated(Generic[Result]):
    """Work that reads and writes the same tensors every time.

    Parameters:
        work: Function that reads and returns the same tensors in every call. If it waits for the
            device, or CUDA cannot record it for another reason, its kernels are started one by one.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._left = work, RECORDED
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result

    def __call__(self) -> Result:
        """Do the work. The result replaces the last call's result."""
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
