"""A run of many ranks, rehearsed on this machine.

The ranks are threads, which first execute every epoch together. Then every rank repeats the epoch
alone, from the same weights: once to fill the caches with its data, and `REPEATS` times while its
steps are measured. The steps of all ranks, with median times, are replayed on the links of a
machine.

If all epochs do the same work, the last epoch is replayed once more, with medians over all epochs,
on which short disturbances of this computer have the least effect.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.files import StrPath
from plancc_lab.rehearse.links import Links
from plancc_lab.rehearse.recorded import RecordedClock, RecordingThreads, RecordingTransport
from plancc_lab.rehearse.replay import Replay
from plancc_lab.rehearse.timelines import EpochTimeline, RankTimeline, Spans
from plancc_lab.rehearse.tracks import Track, write_tracks
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import Measure, TrainResult
from plancc_runtime.run import Run
from plancc_runtime.train import prepared
from plancc_runtime.transport.local import run_threads

Float64Array = npt.NDArray[np.float64]

REPEATS = 5
"""Number of measured times that a rank executes an epoch alone."""


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsed run.

    Attributes:
        result: Result of the run on threads; its times have no meaning.
        epochs: The epochs, replayed on the machine's network.
        typical: If all epochs do the same work, a replay in which each step takes its median time
            over all epochs; else the epoch whose time is the median.
        measured_alone: Whether ranks also executed epochs alone, with their data in the caches.
        content: Content hash of the plan; "" if not known.
    """

    result: TrainResult
    epochs: list[EpochTimeline]
    typical: EpochTimeline
    measured_alone: bool
    content: str = ""

    @property
    def seconds(self) -> float:
        """Seconds that the epoch `typical` takes on the machine."""
        return self.typical.seconds

    def write_trace(self, path: StrPath) -> None:
        """Write a timeline of all epochs and of the typical epoch, with its critical path."""
        critical = [
            (f"rank {each.rank}: {each.what}", each.begin, each.end)
            for each in self.typical.critical_path()
        ]
        titles = [*(f"rank {rank}" for rank in range(len(self.typical.ranks))), "critical path"]
        names: list[list[str]] = [[] for _ in titles]
        times: list[list[tuple[float, float]]] = [[] for _ in titles]
        zero = 0.0
        for number, epoch in enumerate([*self.epochs, self.typical]):
            last = number == len(self.epochs)
            whole = "typical epoch" if last else f"epoch {number}", epoch.begin, epoch.end
            spans = [[whole, *rank.stages, *rank.phases] for rank in epoch.ranks]
            for track, own in enumerate([*spans, critical if last else []]):
                names[track] += [name for name, _, _ in own]
                times[track] += [
                    (zero + a - epoch.begin, zero + b - epoch.begin) for _, a, b in own
                ]
            zero += epoch.seconds
        each = zip(titles, names, map(np.array, times), strict=True)
        write_tracks(path, [Track(*track) for track in each], self.content)


def rehearse(
    plan: StrPath,
    options: TrainOptions,
    links: Links,
    report: Callable[[Measure], None] | None = None,
    cpu: Callable[[], float] = time.thread_time,
) -> Rehearsal:
    """Rehearse a run on the ranks of `links`, and return the rehearsal.

    Ranks have one thread each, on the CPU, and do not evaluate. After every epoch of rank 0,
    `report` is called with the epoch's cost. `cpu` returns the CPU seconds of the calling thread.
    """
    options = replace(options, eval_every=0, threads=1, device="cpu")
    group = RecordingThreads(len(links.slowness), links.ranks_per_node, cpu)

    def work(transport: RecordingTransport) -> tuple[TrainResult, _RehearsedRun]:
        run = prepared(plan, options, transport, _RehearsedRun)
        assert isinstance(run, _RehearsedRun)
        run.loop(report if transport.rank == 0 else None)
        return run.finish(), run

    enabled = gc.isenabled()
    gc.disable()  # no garbage is collected while ranks are measured
    try:
        done = run_threads(group, lambda rank: RecordingTransport(group, rank), work)
    finally:
        if enabled:
            gc.enable()
    result, first = done[0]
    replay = Replay(links)
    found = [_replayed(replay, each) for each in zip(*(run.taken for _, run in done), strict=True)]
    if len(found) > options.epochs:
        typical = found.pop()
    else:
        typical = sorted(found, key=lambda epoch: epoch.seconds)[(len(found) - 1) // 2]
    return Rehearsal(result, found, typical, first.measured_alone, first.content)


@dataclass(frozen=True)
class Recording:
    """One rank's epoch: its steps, and its phases and stages as (name, first step, last step)."""

    seconds: Float64Array
    events: Sequence[tuple[Any, ...]]
    phases: Spans
    stages: Spans

    def paced(self, every: Sequence[Float64Array]) -> Recording:
        """Return a copy of the recording in which each step takes its median seconds in `every`.

        Arrays that do not have as many steps as this recording are ignored.
        """
        alike = [seconds for seconds in every if len(seconds) == len(self.seconds)]
        return replace(self, seconds=np.median(alike, axis=0))


def _replayed(replay: Replay, recordings: Sequence[Recording]) -> EpochTimeline:
    """Return the replayed epoch of all ranks, which begins when the previous epoch ended."""
    begin, timelines = replay.now, []
    steps = [[*zip(own.seconds.tolist(), own.events, strict=True)] for own in recordings]
    for own, (times, waits) in zip(recordings, replay.play(steps), strict=True):
        phases, stages = (
            [(name, times[int(first)], times[int(last)]) for name, first, last in spans]
            for spans in (own.phases, own.stages)
        )
        timelines.append(RankTimeline(waits, phases, stages))
    return EpochTimeline(begin, replay.now, timelines)


class _RehearsedRun(Run):
    """The run of one rank, which records its epochs.

    Attributes:
        taken (list of Recording): The epochs; if all are alike, a single one with median times.
    """

    transport: RecordingTransport

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        clock = self._resources.clock
        assert isinstance(clock, RecordedClock)
        self._clock, self._learner.network.entered = clock, clock.enter
        self.taken: list[Recording] = []
        self._seconds: list[Float64Array] = []  # of the repeats of all epochs

    @property
    def measured_alone(self) -> bool:
        """Whether each rank also executes epochs while no other rank computes."""
        return self._execution.repeats

    def epoch(self, epoch: int) -> Measure:
        if not self.measured_alone:
            measure, recording = self._recorded(epoch, moves=True)
            self.taken.append(recording)
            return measure
        learner = self._learner
        before = learner.state()
        self.transport.kept.clear()
        measure = super().epoch(epoch)
        after, num_steps = learner.state(), len(self._steps)
        with self.transport.alone():
            gc.collect(1)  # frees objects of an epoch; older objects stay
            for _ in range(1 + REPEATS):
                learner.restore(before)
                recording = self._recorded(epoch, moves=False)[1]
                self._seconds.append(recording.seconds)
        learner.restore(after)
        del self._steps[num_steps:], self._seconds[-1 - REPEATS]
        self.taken.append(recording.paced(self._seconds[-REPEATS:]))
        if self._execution.alike and epoch + 1 == self.options.epochs:
            self.taken.append(recording.paced(self._seconds))
        return measure

    def _recorded(self, epoch: int, moves: bool) -> tuple[Measure, Recording]:
        """Return measure and recording of an epoch. Collective if messages are sent (`moves`)."""
        clock = self._clock
        with clock.recording(), self.transport.recorded(moves) as steps:
            measure = super().epoch(epoch)
            phases, stages = clock.events, clock.stages
        seconds = np.array([step[0] for step in steps])
        for name, first, last in phases:
            if name == "wait":  # the time of the network, not that of calls of Python
                seconds[int(first) + 1 : int(last) + 1] = 0
        return measure, Recording(seconds, [event for _, event in steps], phases, stages)
