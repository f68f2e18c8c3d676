"""Recording of work on a CUDA device, so that all its kernels are started at once.

On small graphs, kernels take less time than their starts. A CUDA graph starts all kernels of the
work at once, with the same results.
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

    Parameters:
        work: Function that runs the same kernels on the same tensors in every call. If CUDA cannot
            record it, for instance because it waits for the device, every call runs it anew.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._left = work, RECORDED
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result

    def __call__(self) -> Result:
        """Do the work and return its result. The tensors of an earlier result are overwritten."""
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
