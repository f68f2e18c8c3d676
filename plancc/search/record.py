"""What a search tried, and the best that it found so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from threading import Lock

import numpy as np

from plancc.clock import wall_seconds
from plancc.graph.owners import Owners


@dataclass(frozen=True)
class Trial:
    """One step of a search.

    Attributes
    ----------
    step : str
        What was done, in a few words.
    seconds : float
        Wall-clock time of this step.
    value, volume : float, int
        Of the step's owners: the objective, and rows moved.
    overload : float
        Weight of all parts above the limit, over that of an average part; every constraint.
    best : bool
        Whether they were the best so far: by overload, value, volume.
    """

    step: str
    seconds: float
    value: float
    volume: int
    overload: float
    best: bool


@dataclass(frozen=True)
class SearchResult:
    """The best owners of a search, and how they were found.

    Attributes
    ----------
    owners : Owners
    value, volume : float, int
        The objective, and rows moved.
    tried : list of Trial
        In the order in which the steps ended.
    warnings : list of str
    seconds : float
        Of the whole search.
    """

    owners: Owners
    value: float
    volume: int
    tried: list[Trial]
    warnings: list[str]
    seconds: float

    def tried_json(self) -> str:
        """The trials as JSON, for a plan's provenance."""
        return json.dumps([asdict(trial) for trial in self.tried])


@dataclass
class Record:
    """The trials of a search as they end; threads may add to it.

    Attributes
    ----------
    report : callable
        Called with every trial.
    """

    report: Callable[[Trial], None] | None = None
    trials: list[Trial] = field(default_factory=list)
    best: tuple[float, float, int] = (np.inf, np.inf, 0)
    owners: Owners | None = None
    start: float = field(default_factory=wall_seconds)
    _lock: Lock = field(default_factory=Lock)

    def add(
        self,
        step: str,
        seconds: float,
        owners: Owners,
        overload: float,
        value: float,
        volume: int,
    ) -> None:
        """Note a step; its owners are kept if they are better: by overload, value, volume.

        Of equally good ones those are kept whose bytes come first, so that it does not matter which
        of several threads is the first to end.
        """
        with self._lock:
            reached = (overload, value, volume)
            better = self.owners is None or reached < self.best
            if self.owners is None or better:
                self.owners, self.best = owners, reached
            elif reached == self.best and _bytes(owners) < _bytes(self.owners):
                self.owners = owners
            trial = Trial(step, seconds, value, volume, overload, better)
            self.trials.append(trial)
            if self.report is not None:
                self.report(trial)

    @property
    def least_volume(self) -> int:
        """Least volume of all steps, whatever their balance."""
        return min(trial.volume for trial in self.trials)

    def result(self, warnings: list[str]) -> SearchResult:
        """What was found; at least one step must have been noted."""
        assert self.owners is not None
        seconds = wall_seconds() - self.start
        _, value, volume = self.best
        return SearchResult(self.owners, value, volume, self.trials, warnings, seconds)


def _bytes(owners: Owners) -> tuple[bytes, bytes]:
    nonzeros = owners.nonzeros
    return owners.rows.tobytes(), b"" if nonzeros is None else nonzeros.tobytes()
