"""Timelines of the ranks in an epoch, and its critical path.

The *critical path* is found backward from the end of the epoch. Where the path meets a rank that
waited, it continues at what ended the wait: at the rank that sent a message, or at the last rank
that joined a collective. Between this cause and the end of the wait, only the network worked, so
the path fills the epoch without a gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc_lab.rehearse.replay import Wait

Float64Array = npt.NDArray[np.float64]
Spans = Sequence[tuple[str, float, float]]

REST = "rest"
"""Name of the time outside all stages or phases."""


@dataclass(frozen=True)
class RankTimeline:
    """The timeline of one rank in an epoch; all intervals are in the order of time.

    The rank computed whenever it did not wait. `phases` and `stages`: see `recorded.RecordedClock`.
    """

    waits: Sequence[Wait]
    phases: Spans
    stages: Spans


class Stretch(NamedTuple):
    """A piece of the critical path, with begin and end in seconds.

    Attributes:
        rank: Rank that computed, or that waited for the network.
        what: "compute", or the work of the network: "message", "allreduce", ...
    """

    rank: int
    begin: float
    end: float
    what: str

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass
class PathStage:
    """What ranks and network do on the critical path in one stage of an epoch.

    Attributes:
        compute: Seconds of computing, by rank on the path.
        network: Seconds of messages and collectives.
    """

    stage: str
    compute: dict[int, float] = field(default_factory=dict)
    network: float = 0.0

    @property
    def seconds(self) -> float:
        return self.network + sum(self.compute.values())

    @property
    def rank(self) -> int | None:
        """The rank that computed longest on the path in this stage; None if no rank computed."""
        return max(self.compute, key=lambda rank: self.compute[rank], default=None)


@dataclass(frozen=True)
class EpochTimeline:
    """One epoch of all ranks, which begin and end it together.

    Attributes:
        begin, end: Seconds.
    """

    begin: float
    end: float
    ranks: Sequence[RankTimeline]

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    @property
    def computed(self) -> Float64Array:
        """Seconds in which every rank computed, that is, did not wait: float64[num_ranks]."""
        waited = [sum(wait.end - wait.begin for wait in rank.waits) for rank in self.ranks]
        return self.seconds - np.array(waited)

    @property
    def networked(self) -> Float64Array:
        """The seconds that every rank waited while its messages were in flight."""
        return np.array(
            [
                sum(wait.end - max(wait.begin, wait.cause.time) for wait in r.waits)
                for r in self.ranks
            ]
        )

    @property
    def waited(self) -> Float64Array:
        """The seconds that every rank waited for late ranks."""
        return self.seconds - self.computed - self.networked

    def phases(self) -> dict[str, Float64Array]:
        """Return the seconds that every rank computed in each phase: float64[num_ranks] each."""
        return self._computed_in([rank.phases for rank in self.ranks])

    def stages(self) -> dict[str, Float64Array]:
        """Return the seconds that every rank computed in each stage: float64[num_ranks] each."""
        return self._computed_in([rank.stages for rank in self.ranks])

    def _computed_in(self, spans: Sequence[Spans]) -> dict[str, Float64Array]:
        found: dict[str, Float64Array] = defaultdict(lambda: np.zeros(len(self.ranks)))
        for rank, own in enumerate(spans):
            for begin, end in self._computing(rank):
                for name, seconds in _shares(own, begin, end):
                    found[name][rank] += seconds
        return dict(found)

    def critical_path(self) -> list[Stretch]:
        """Return the pieces of the critical path, from the beginning to the end of the epoch."""
        ends = [[wait.end for wait in rank.waits] for rank in self.ranks]
        path: list[Stretch] = []
        rank, time = 0, self.end
        while time > self.begin:
            waits = self.ranks[rank].waits
            # the first that ends now or later; if it begins later, the one before
            at = bisect_left(ends[rank], time)
            if at < len(waits) and waits[at].begin < time:
                begin = max(waits[at].cause.time, self.begin)
                if begin < time:
                    path.append(Stretch(rank, begin, time, waits[at].cause.what))
                rank, time = waits[at].cause.rank, min(begin, time)
                continue
            begin = max(ends[rank][at - 1], self.begin) if at else self.begin
            path.append(Stretch(rank, begin, time, "compute"))
            time = begin
        return path[::-1]

    def path_stages(self) -> list[PathStage]:
        """Return the critical path by stages, in the order in which the path reaches the stages."""
        found: dict[str, PathStage] = {}
        for stretch in self.critical_path():
            stages = self.ranks[stretch.rank].stages
            for name, seconds in _shares(stages, stretch.begin, stretch.end):
                stage = found.setdefault(name, PathStage(name))
                if stretch.what == "compute":
                    before = stage.compute.get(stretch.rank, 0.0)
                    stage.compute[stretch.rank] = before + seconds
                else:
                    stage.network += seconds
        return list(found.values())

    def _computing(self, rank: int) -> Iterator[tuple[float, float]]:
        """Yield the intervals in which a rank computed."""
        begin = self.begin
        for wait in self.ranks[rank].waits:
            if wait.begin > begin:
                yield begin, wait.begin
            begin = wait.end
        if begin < self.end:
            yield begin, self.end

    def as_dict(self) -> dict[str, Any]:
        """Return the epoch as values for JSON; times are seconds since the epoch began."""
        return {
            "seconds": self.seconds,
            "ranks": {
                "compute": self.computed.tolist(),
                "messages": self.networked.tolist(),
                "waiting": self.waited.tolist(),
                "phases": {name: s.tolist() for name, s in self.phases().items()},
                "stages": {name: s.tolist() for name, s in self.stages().items()},
            },
            "critical_path": [
                {
                    "rank": stretch.rank,
                    "begin": stretch.begin - self.begin,
                    "end": stretch.end - self.begin,
                    "what": stretch.what,
                }
                for stretch in self.critical_path()
            ],
        }


def _shares(spans: Spans, begin: float, end: float) -> Iterator[tuple[str, float]]:
    """Yield each span's name and seconds in an interval; last, `REST` and the seconds left."""
    left = end - begin
    at = bisect_left(spans, begin, key=lambda span: span[2])
    while at < len(spans) and spans[at][1] < end:
        name, first, last = spans[at]
        seconds = min(last, end) - max(first, begin)
        if seconds > 0:
            yield name, seconds
            left -= seconds
        at += 1
    if left > 1e-12 * (end - begin):
        yield REST, left
