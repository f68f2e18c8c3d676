"""A timeline of all ranks in the format of Chrome's tracing and Perfetto. Knows clocks.

The ranks leave one all-reduce at about the same moment, which is the timeline's zero; their own
clocks need not agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from time import perf_counter
from typing import Any

import numpy as np

from plancc.files import atomic_write
from plancc_runtime.clock import Clock
from plancc_runtime.transport.base import Transport

MICRO = 1e6


class Trace:
    """Records what a clock measures from now on. Collective.

    Parameters
    ----------
    clock : Clock
    transport : Transport
    """

    def __init__(self, clock: Clock, transport: Transport) -> None:
        self._clock, self._transport = clock, transport
        self._spans: list[tuple[str, float, float]] = []
        transport.allreduce_max(np.zeros(1))
        self._zero = perf_counter()
        clock.record()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Record the block as an event around the phases within it."""
        begin = perf_counter()
        yield
        self._spans.append((name, begin, perf_counter()))

    def write(self, path: str | PathLike[str]) -> None:
        """Gather the events of all ranks and write them, on rank 0. Collective.

        Raises
        ------
        OutputError
            On all ranks, if the file cannot be written.
        """
        events = np.array([(b, e) for _, b, e in self._all()]).reshape(-1, 2) - self._zero
        names = [name for name, _, _ in self._all()]
        gathered = self._transport.gather((names, np.round(MICRO * events, 3)))
        with self._transport.agreement():
            if self._transport.rank == 0:
                entries = [
                    entry for rank, own in enumerate(gathered) for entry in _entries(rank, *own)
                ]
                with atomic_write(path) as temporary:
                    text = json.dumps({"traceEvents": entries, "displayTimeUnit": "ms"})
                    temporary.write_text(text, encoding="utf-8")

    def _all(self) -> list[tuple[str, float, float]]:
        return [*self._spans, *(self._clock.events or [])]


def _entries(rank: int, names: list[str], times: np.ndarray) -> Iterator[dict[str, Any]]:
    """The events of one rank: a process with one thread."""
    yield {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
    yield {"name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank}}
    for name, (begin, end) in zip(names, times.tolist(), strict=True):
        yield {
            "name": name,
            "ph": "X",
            "pid": rank,
            "tid": 0,
            "ts": begin,
            "dur": round(end - begin, 3),
        }
