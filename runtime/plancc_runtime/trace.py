"""A timeline of all ranks in the format of Chrome's tracing and Perfetto.

The ranks leave one all-reduce at about the same moment, which is the timeline's zero; their own
clocks need not agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from plancc.files import atomic_write
from plancc_runtime.clock import Clock
from plancc_runtime.transport.base import Transport

MICRO = 1e6


class Trace:
    """Records what a clock measures from now on. Collective."""

    def __init__(self, clock: Clock, transport: Transport) -> None:
        self._clock, self._transport = clock, transport
        self._spans: list[tuple[str, float, float]] = []
        transport.allreduce_max(np.zeros(1))
        self._zero = self._clock.now()
        clock.record()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Record the block as an event around the stages and phases within it."""
        begin = self._clock.now()
        yield
        self._spans.append((name, begin, self._clock.now()))

    def write(self, path: str | PathLike[str], plan: str = "") -> None:
        """Gather the events of all ranks and write them, on rank 0. Collective.

        Parameters:
            path, plan: As of `write_tracks`.

        Raises:
            OutputError: On all ranks, if the file cannot be written.
        """
        events = np.array([(b, e) for _, b, e in self._all()]).reshape(-1, 2) - self._zero
        names = [name for name, _, _ in self._all()]
        gathered = self._transport.gather((names, events))
        with self._transport.agreement():
            if self._transport.rank == 0:
                tracks = [Track(f"rank {r}", *own) for r, own in enumerate(gathered)]
                write_tracks(path, tracks, plan)

    def _all(self) -> list[tuple[str, float, float]]:
        return [*self._spans, *self._clock.stages, *(self._clock.events or [])]


class Track(NamedTuple):
    """A line of a timeline.

    Attributes:
        names: Names of its events, which lie within each other or one after the other.
        times (float64[events, 2]): Begin and end in seconds.
    """

    title: str
    names: Sequence[str]
    times: np.ndarray


def write_tracks(path: str | PathLike[str], tracks: Iterable[Track], plan: str = "") -> None:
    """Write a timeline: a process with one thread for every track.

    Parameters:
        plan: Content hash of the plan, which the file then names (otherData/plan); "": not known.

    Raises:
        OutputError: If the file cannot be written.
    """
    entries = [entry for number, track in enumerate(tracks) for entry in _entries(number, track)]
    content: dict[str, Any] = {"traceEvents": entries, "displayTimeUnit": "ms"}
    if plan:
        content["otherData"] = {"plan": plan}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


def _entries(number: int, track: Track) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": track.title}}
    yield {"name": "process_sort_index", "ph": "M", "pid": number, "args": {"sort_index": number}}
    times = np.round(MICRO * track.times.reshape(-1, 2), 3)
    for name, (begin, end) in zip(track.names, times.tolist(), strict=True):
        yield {
            "name": name,
            "ph": "X",
            "pid": number,
            "tid": 0,
            "ts": begin,
            "dur": round(end - begin, 3),
        }
