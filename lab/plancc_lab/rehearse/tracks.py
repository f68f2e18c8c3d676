"""A timeline of all ranks in the format of Chrome's tracing and Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plancc.files import StrPath, atomic_write

MICRO = 1e6


class Track(NamedTuple):
    """A line of a timeline; two events are nested or disjoint.

    Attributes:
        times (float64[events, 2]): Begin and end of the events in seconds.
    """

    title: str
    names: Sequence[str]
    times: np.ndarray


def write_tracks(path: StrPath, tracks: Iterable[Track], plan: str) -> None:
    """Write a timeline as trace events in JSON. Each track becomes a process of the trace.

    `plan` is the plan's content hash; the file has it as otherData/plan.
    """
    entries = [entry for number, track in enumerate(tracks) for entry in _entries(number, track)]
    content = {"traceEvents": entries, "displayTimeUnit": "ms", "otherData": {"plan": plan}}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


def _entries(number: int, track: Track) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": track.title}}
    yield {"name": "process_sort_index", "ph": "M", "pid": number, "args": {"sort_index": number}}
    times = np.round(MICRO * track.times.reshape(-1, 2), 3)
    for name, (begin, end) in zip(track.names, times.tolist(), strict=True):
        event = {"name": name, "ph": "X", "pid": number, "tid": 0}
        yield event | {"ts": begin, "dur": round(end - begin, 3)}
