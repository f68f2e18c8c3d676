"""A run of many ranks, rehearsed on this machine: executed rank by rank, with virtual clocks.

The ranks are threads that take turns (`transport.virtual`), so that every product is made on the
real slice by the real kernel. Every epoch is executed three times from the same weights:

    1. once for real, with all messages kept
    2. `REPEATS` times by every rank alone, with those messages: what every step of it computes
       takes the median of these times, after one that does not count. So a rank finds its own data
       in the caches, as it would on a processor of its own, and not those of the rank before it
    3. once more for real: every step takes that long, messages take the time of a machine

Where all epochs do the same, the last one is executed once more, with the medians over all epochs:
what disturbed this computer for a moment then matters least.

Knows runs and their clocks; must not know machines, nor how times are printed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor

from plancc_runtime.options import TrainOptions
from plancc_runtime.results import Measure, TrainResult
from plancc_runtime.run import Run
from plancc_runtime.timelines import EpochTimeline, Timeline, between, in_time
from plancc_runtime.trace import Track, write_tracks
from plancc_runtime.train import prepared
from plancc_runtime.transport.links import Links
from plancc_runtime.transport.virtual import VirtualTransport, run_virtual_ranks

REPEATS = 5
"""Times that a rank executes an epoch alone, after one that does not count."""


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsed run.

    Attributes
    ----------
    result : TrainResult
        Of the run; losses and counts are those of the real one.
    epochs : list of EpochTimeline
    typical : EpochTimeline
        The epoch with medians over all of them, or, where epochs differ, the one whose time is the
        median, or next below it.
    measured_alone : bool
        Whether every rank executed every epoch alone too; if not, a rank began every step with the
        data of another rank in the caches.
    content : str
        Content hash of the plan; "": not known.
    """

    result: TrainResult
    epochs: list[EpochTimeline]
    typical: EpochTimeline
    measured_alone: bool
    content: str = ""

    @property
    def seconds(self) -> float:
        """Time of an epoch."""
        return self.typical.seconds

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write the epochs and the typical one as a timeline, with its critical path below.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        shown = {f"epoch {number}": epoch for number, epoch in enumerate(self.epochs)}
        shown["typical epoch"] = self.typical
        tracks: list[list[tuple[str, float, float]]] = [[] for _ in self.typical.ranks]
        zero = 0.0
        for title, epoch in shown.items():
            for rank, track in zip(epoch.ranks, tracks, strict=True):
                for name, begin, end in [
                    (title, epoch.begin, epoch.end),
                    *rank.stages,
                    *rank.phases,
                ]:
                    track.append((name, zero + begin - epoch.begin, zero + end - epoch.begin))
            zero += epoch.seconds
        before = zero - self.typical.seconds - self.typical.begin
        path_track = [
            (f"rank {each.rank}: {each.what}", before + each.begin, before + each.end)
            for each in self.typical.critical_path()
        ]
        titles = [*(f"rank {rank}" for rank in range(len(tracks))), "critical path"]
        write_tracks(
            path,
            [
                Track(title, [name for name, _, _ in track], np.array([e[1:] for e in track]))
                for title, track in zip(titles, [*tracks, path_track], strict=True)
            ],
            self.content,
        )


def rehearse(
    plan: str | PathLike[str],
    options: TrainOptions,
    links: Links,
    report: Callable[[Measure], None] | None = None,
    cpu: Callable[[], float] = time.thread_time,
) -> Rehearsal:
    """Rehearse a run; the ranks are as many as `links` has.

    Parameters
    ----------
    plan : path
    options : TrainOptions
        Ranks have one thread each, on the CPU, and evaluate nothing between epochs.
    links : Links
    report : callable, optional
        Called after every epoch with rank 0's measure.
    cpu : callable
        As `run_virtual_ranks` has it.

    Raises
    ------
    As `train` and `run_virtual_ranks`.
    """
    options = replace(options, eval_every=0, threads=1, device="cpu")

    def work(transport: VirtualTransport) -> tuple[TrainResult, _RehearsedRun]:
        run = prepared(plan, options, transport, _RehearsedRun)
        assert isinstance(run, _RehearsedRun)
        run.loop(report if transport.rank == 0 else None)
        return run.finish(), run

    with _no_collection():
        done = run_virtual_ranks(links, work, cpu)
    result, first = done[0]
    found = [
        EpochTimeline(begin, end, [run.timeline(begin, end) for _, run in done])
        for begin, end in first.spans
    ]
    epochs = found[: options.epochs]
    if len(found) > len(epochs):
        typical = found[-1]
    else:
        typical = sorted(epochs, key=lambda epoch: epoch.seconds)[(len(epochs) - 1) // 2]
    return Rehearsal(result, epochs, typical, first.measured_alone, first.content)


class _RehearsedRun(Run):
    """One rank's run, with epochs in virtual time.

    Attributes
    ----------
    spans : list of (float, float)
        Begin and end of every epoch, in virtual seconds; the same on all ranks. The last is that of
        the medians over all epochs, where these are alike.
    """

    transport: VirtualTransport

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.spans: list[tuple[float, float]] = []
        self._taken: list[list[float]] = []  # seconds of every step, as far as they matter

    @property
    def measured_alone(self) -> bool:
        """Whether ranks execute epochs alone too."""
        return self._execution.repeats

    def epoch(self, epoch: int) -> Measure:
        transport, learner, execution = self.transport, self._learner, self._execution
        with transport.outside:
            before = learner.state()
            if execution.repeats:
                self._measure_alone(epoch, before)
        measure = self._paced(epoch, self._taken[-REPEATS:])
        if execution.alike and execution.repeats and epoch + 1 == self.options.epochs:
            with transport.outside:
                after = learner.state()
                learner.restore(before)
            self._paced(epoch, self._taken)
            with transport.outside:
                learner.restore(after)
        return measure

    def _paced(self, epoch: int, taken: Sequence[Sequence[float]]) -> Measure:
        """An epoch in virtual time; its steps take the medians of those `taken`. Collective."""
        transport = self.transport
        with transport.outside:
            begin = self._together()
            transport.pace(_medians(taken))
        measure = super().epoch(epoch)
        with transport.outside:
            self.spans.append((begin, self._together()))
        return measure

    def timeline(self, begin: float, end: float) -> Timeline:
        """What this rank did from one time to another."""
        [clock], time, rank = self.transport.clocks, self.transport.time, self.transport.rank
        spans = (in_time(each, time.marks[rank]) for each in (clock.events or [], clock.stages))
        return Timeline(
            between(time.waits[rank], begin, end, 0),
            *(between(each, begin, end, 1) for each in spans),
        )

    def _measure_alone(self, epoch: int, before: list[Tensor]) -> None:
        """Take the seconds of every step of an epoch that this rank computes. Collective.

        The learner goes back to the state `before`.
        """
        transport, learner = self.transport, self._learner
        with self._forgotten(), transport.on_tape():
            super().epoch(epoch)
        if not self._execution.alike:
            self._taken.clear()
        for repeat in range(1 + REPEATS):
            learner.restore(before)
            with self._forgotten(), transport.alone() as steps:
                super().epoch(epoch)
            if repeat:
                self._taken.append(steps)
        learner.restore(before)
        transport.tape.clear()

    @contextmanager
    def _forgotten(self) -> Iterator[None]:
        """A block of which nothing remains but its changes of the learner."""
        [clock] = self.transport.clocks
        kept = len(clock.events or []), len(clock.stages), len(self._steps)
        yield
        for found, size in zip((clock.events, clock.stages, self._steps), kept, strict=True):
            del (found or [])[size:]

    def _together(self) -> float:
        """The time at which all ranks have come here, which none may leave before. Collective."""
        self.transport.gather(None)
        if self.transport.rank == 0:
            gc.collect(1)  # what an epoch left behind; older objects stay
        return self.transport.time.time_of(self.transport.rank)


def _medians(taken: Sequence[Sequence[float]]) -> list[float]:
    """The median of every step, over all that have as many steps as the last."""
    alike = [steps for steps in taken if len(steps) == len(taken[-1])]
    medians: list[float] = np.median(alike, axis=0).tolist() if alike else []
    return medians


@contextmanager
def _no_collection() -> Iterator[None]:
    """A block in which Python looks for garbage only where it is told to."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
