"""Readers of the log and the timeline of a run.

The log has a line with a JSON object for every epoch; docs/use/study.md lists the keys. The
timeline has the format of Chrome's tracing. Files may come from other programs, so every value is
checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from os import fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath, open_file
from plancc.text import printable

Float64Array = npt.NDArray[np.float64]

PHASES = ("draw", "mask", "features", "pack", "wait", "spmm", "dense", "allreduce", "other")
"""Phases of a rank's epoch; their seconds add up to the seconds of the epoch."""
SPLITS = ("train", "val", "test")
SCORES = ("accuracy", "auc", "r2", "rmse")
"""Scores whose curves a report draws, by their names in a log."""
LONGEST_LINE = 1 << 20
MOST_EPOCHS = 1_000_000
LARGEST_TRACE = 1 << 28
"""Largest size of a timeline in bytes; larger files are refused."""
COLUMNS = 480
"""Columns of the picture of a timeline."""
MOST_RANKS = 48
"""Largest number of ranks in the picture of a timeline."""
SHOWN = 60
"""Largest number of characters of a wrong value in a message."""


@dataclass(frozen=True, eq=False)
class RunLog:
    """The epochs of a run.

    Attributes:
        epoch (int64[epochs]): Indices of the epochs, ascending.
        loss: float64[epochs] by split "train" and, if evaluated, "val"; NaN if an epoch has none.
        scores: float64[epochs] by name in `SCORES` and by split; NaN if not evaluated.
        phases: Seconds, mean over ranks, float64[epochs] by name in `PHASES`.
        slowest (float64[epochs]): Seconds of the slowest rank.
        words (int64[epochs]): Words that all ranks sent.
        plan: Content hash of the plan in the log; "" if the log has none.
    """

    path: str
    epoch: npt.NDArray[np.int64]
    loss: dict[str, Float64Array]
    scores: dict[str, dict[str, Float64Array]]
    phases: dict[str, Float64Array]
    slowest: Float64Array
    words: npt.NDArray[np.int64]
    plan: str = ""


def read_log(path: StrPath) -> RunLog:
    """Return the epochs in the log of a run; an InputError names the wrong line and value."""
    name = fspath(path)
    epochs: list[dict[str, Any]] = []
    plan = ""  # the first plan that a line names; earlier lines may lack it
    for number, line in _lines(name):
        where = f"{name}, line {number}"
        entry = _json(line, where, "a JSON object of one epoch")
        if not isinstance(entry, dict):
            raise InputError(f"{where}: is not a JSON object of one epoch: {_cut(line)}")
        epochs.append(_epoch(entry, where))
        if len(epochs) > 1 and epochs[-1]["epoch"] <= epochs[-2]["epoch"]:
            was, now = epochs[-2]["epoch"], epochs[-1]["epoch"]
            raise InputError(f"{where}: epoch {now} follows epoch {was}: the file mixes two runs")
        plan = plan or epochs[-1]["plan"]
        if epochs[-1]["plan"] not in (plan, ""):
            raise InputError(f"{where}: the plan differs from the plan in earlier lines")
    if not epochs:
        raise InputError(f"{name}: is empty; no epoch was logged")

    def column(get: Any) -> Float64Array:
        return np.array([get(each) for each in epochs], float)

    def present(values: Mapping[str, Float64Array]) -> dict[str, Float64Array]:
        return {key: array for key, array in values.items() if not np.isnan(array).all()}

    scores = {
        name: present({s: column(lambda e, n=name, s=s: e[n].get(s, math.nan)) for s in SPLITS})
        for name in SCORES
    }
    return RunLog(
        path=name,
        epoch=np.array([each["epoch"] for each in epochs], np.int64),
        loss={"train": column(lambda e: e["loss"])}
        | present({"val": column(lambda e: e["val_loss"])}),
        scores={name: by_split for name, by_split in scores.items() if by_split},
        phases={p: column(lambda e, p=p: e["seconds_mean"].get(p, 0.0)) for p in PHASES},
        slowest=column(lambda e: e["seconds_max"]["total"]),
        words=np.array([each["words_sent"] for each in epochs], np.int64),
        plan=plan,
    )


def _lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of every line of a file; leave out blank lines."""
    with _opened(name) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InputError(f"{name}, line {number}: is over {LONGEST_LINE:,} characters long")
            if number > MOST_EPOCHS:
                raise InputError(f"{name}: has more than {MOST_EPOCHS:,} lines")
            if line.strip():
                yield number, line


def _epoch(entry: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the checked figures of an epoch that a report shows."""
    missing = [key for key in ("epoch", "loss", "seconds_mean", "seconds_max") if key not in entry]
    if missing:
        raise InputError(f"{where}: '{missing[0]}' is missing, so this is not the log of a run")
    found: dict[str, Any] = {
        "epoch": _whole(entry["epoch"], "epoch", where),
        "words_sent": _whole(entry.get("words_sent", 0), "words_sent", where),
        "loss": _number(entry["loss"], "loss", where),  # NaN where training diverged
        "val_loss": math.nan,
        "plan": _hash(entry.get("plan", ""), where),
    }
    if entry.get("val_loss") is not None:
        found["val_loss"] = _number(entry["val_loss"], "val_loss", where)
    for key in (*SCORES, "seconds_mean", "seconds_max"):
        figures = entry.get(key, {})
        if not isinstance(figures, dict):
            raise InputError(f"{where}: {key} is {_cut(figures)}, not an object of numbers")
        found[key] = {
            name: _not_negative(value, f"{key} of '{printable(name)}'", where, key == "r2")
            for name, value in figures.items()
        }
    if "total" not in found["seconds_max"]:
        raise InputError(f"{where}: seconds_max has no 'total'")
    return found


@dataclass(frozen=True, eq=False)
class Timeline:
    """The phases of all ranks in one epoch, or in the whole run.

    The epoch is cut into `COLUMNS` equal intervals. Time in no phase counts as "other"; time before
    and after a rank's epoch is `NOTHING`.

    Attributes:
        title: The epoch that is shown, such as "epoch 17", or "the whole run".
        epochs: Numbers of all epochs in the file.
        seconds: Seconds from the start of the first rank to the end of the last rank.
        all_ranks: All ranks in the file, ascending.
        ranks: The ranks that the page shows.
        strips (uint8[ranks, COLUMNS]): Position in `PHASES` of the longest phase of an interval.
        shares (float64[all ranks, phases]): Share of `seconds` that a rank spends in a phase.
        plan: Content hash of the plan in the file; "" if the file has none.
    """

    path: str
    title: str
    epochs: list[int]
    seconds: float
    all_ranks: list[int]
    ranks: list[int]
    strips: npt.NDArray[np.uint8]
    shares: Float64Array
    plan: str = ""


NOTHING = 255
"""Value of `Timeline.strips` before and after the epoch of a rank."""


def read_timeline(path: StrPath) -> Timeline:
    """Return the epoch of median length in a run's timeline; an InputError names a wrong event."""
    name = fspath(path)
    content = _json(_whole_text(name), name, "a timeline in JSON")
    events = content.get("traceEvents") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise InputError(f"{name}: the list 'traceEvents' is missing; this is not a run's timeline")
    others = content.get("otherData")
    ranks, spans = _spans(events, name)
    epochs, chosen = _epochs_of_all(spans), -1
    if epochs:
        by_length = sorted(epochs, key=lambda number: epochs[number][1] - epochs[number][0])
        chosen = by_length[(len(by_length) - 1) // 2]
        (begin, end), title = epochs[chosen], f"epoch {chosen}"
    else:
        times = np.concatenate([of_rank.times for of_rank in spans])
        begin, end, title = float(times[:, 0].min()), float(times[:, 1].max()), "the whole run"
    if not end > begin:
        raise InputError(f"{name}: {title} lasts 0 seconds")
    edges = np.linspace(begin, end, COLUMNS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    shown = np.unique(np.linspace(0, len(ranks) - 1, min(len(ranks), MOST_RANKS)).astype(int))
    strips = np.full((len(shown), COLUMNS), NOTHING, np.uint8)
    strip_of = dict(zip(shown.tolist(), strips, strict=True))
    shares = np.empty((len(ranks), len(PHASES)))
    for place, of_rank in enumerate(spans):
        spent = of_rank.phases_between(edges)
        shares[place] = spent.sum(1) / (end - begin)
        if place in strip_of:
            own_begin, own_end = of_rank.epochs().get(chosen, (begin, end))
            inside = (own_begin <= middles) & (middles <= own_end)
            strip_of[place][inside] = spent.argmax(0)[inside]
    return Timeline(
        path=name,
        title=title,
        epochs=sorted(epochs),
        seconds=(end - begin) / 1e6,
        all_ranks=ranks,
        ranks=[ranks[place] for place in shown],
        strips=strips,
        shares=shares,
        plan=_hash(others.get("plan", "") if isinstance(others, dict) else "", name),
    )


@dataclass(frozen=True, eq=False)
class _Spans:
    """Events of one rank: their names, and when they begin and end, float64[events, 2].

    Times are in microseconds.
    """

    names: list[str]
    times: Float64Array

    def epochs(self) -> dict[int, tuple[float, float]]:
        """Return, for every epoch, the times at which it begins and ends on this rank."""
        found: dict[int, tuple[float, float]] = {}
        for name, (begin, end) in zip(self.names, self.times.tolist(), strict=True):
            if match := re.fullmatch(r"epoch (\d{1,9})", name):
                number = int(match[1])
                first, last = found.get(number, (begin, end))
                found[number] = min(first, begin), max(last, end)
        return found

    def phases_between(self, edges: Float64Array) -> Float64Array:
        """Return how long each phase lasts within each interval: float64[phases, intervals].

        Overlapping events of one phase count once. Intervals lie between the ascending `edges`.
        """
        names, width = np.array(self.names), np.diff(edges)
        spent = np.zeros((len(PHASES), len(width)))
        for place, phase in enumerate(PHASES[:-1]):
            times = self.times[names == phase]
            if len(times):
                times = _united(times)
                length = times[:, 1] - times[:, 0]
                until = np.cumsum(length)
                sums = np.stack([until - length, until], 1).ravel()
                spent[place] = np.diff(np.interp(edges, times.ravel(), sums))
        spent[-1] = np.maximum(0, width - spent.sum(0))
        return spent


def _united(times: Float64Array) -> Float64Array:
    """Return the union of the intervals `times`, float64[m, 2], as disjoint intervals.

    The result is float64[intervals, 2], ascending.
    """
    times = times[np.argsort(times[:, 0])]
    begin, end = times[:, 0], np.maximum.accumulate(times[:, 1])
    apart = begin[1:] > end[:-1]
    return np.stack([begin[np.append(True, apart)], end[np.append(apart, True)]], 1)


def _spans(events: list[Any], name: str) -> tuple[list[int], list[_Spans]]:
    """Return the ranks in a file's list of events, ascending, and the events of each rank."""
    titles: dict[int, str] = {}
    names: dict[int, list[str]] = {}
    times: dict[int, list[tuple[float, float]]] = {}
    for number, event in enumerate(events):
        where = f"{name}, event {number}"
        if not isinstance(event, dict):
            raise InputError(f"{where}: {_cut(event)} is not an event")
        if event.get("ph") not in ("M", "X"):
            continue  # other programs add events of other kinds
        track = _whole(event.get("pid"), "pid", where)
        if event["ph"] == "M":
            if event.get("name") == "process_name" and isinstance(event.get("args"), dict):
                titles[track] = str(event["args"].get("name"))
            continue
        if not isinstance(event.get("name"), str):
            raise InputError(f"{where}: the name is {_cut(event.get('name'))}, not a string")
        begin = _not_negative(event.get("ts"), "ts", where, negative=True)
        length = _not_negative(event.get("dur"), "dur", where)
        names.setdefault(track, []).append(event["name"])
        times.setdefault(track, []).append((begin, begin + length))
    of_rank = {
        int(match[1]): track
        for track, title in titles.items()
        if track in names and (match := re.fullmatch(r"rank (\d{1,9})", title))
    }
    if not of_rank:
        raise InputError(f"{name}: no event belongs to a rank; this is not the timeline of a run")
    ranks = sorted(of_rank)
    return ranks, [_Spans(names[of_rank[r]], np.array(times[of_rank[r]])) for r in ranks]


def _epochs_of_all(spans: list[_Spans]) -> dict[int, tuple[float, float]]:
    """Return when the first rank begins and the last rank ends every epoch that all ranks have."""
    found: dict[int, tuple[float, float]] = {}
    ranks: dict[int, int] = {}
    for of_rank in spans:
        for number, (begin, end) in of_rank.epochs().items():
            first, last = found.get(number, (begin, end))
            found[number] = min(first, begin), max(last, end)
            ranks[number] = ranks.get(number, 0) + 1
    return {number: ends for number, ends in found.items() if ranks[number] == len(spans)}


def _opened(name: str) -> Any:
    """Open the file as text; raise InputError if it cannot be read."""
    return TextIOWrapper(open_file(name), encoding="utf-8", errors="replace")


def _whole_text(name: str) -> str:
    """Return a timeline's text, read in pieces: a file that is too large is refused early."""
    pieces, length = [], 0
    with _opened(name) as stream:
        while piece := stream.read(1 << 20):
            pieces.append(piece)
            length += len(piece)
            if length > LARGEST_TRACE:
                most = LARGEST_TRACE >> 20
                raise InputError(f"{name}: is larger than {most} MiB; trace fewer epochs")
    return "".join(pieces)


def _json(text: str, where: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: is not {what}, or is cut off: {_cut(text)}") from None


def _hash(value: Any, where: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"([0-9a-f]{64})?", value):
        raise InputError(f"{where}: plan must be a content hash, got {_cut(value)}")
    return value


def _whole(value: Any, key: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise InputError(f"{where}: {key} is {_cut(value)}, not a whole number >= 0")
    return value


def _number(value: Any, key: str, where: str) -> float:
    """Return a number, perhaps NaN or infinite, as float; raise InputError for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        if isinstance(value, float):
            return value if not math.isfinite(value) else math.nan
        raise InputError(f"{where}: {key} is {_cut(value)}, not a number")
    return float(value)


def _not_negative(value: Any, key: str, where: str, negative: bool = False) -> float:
    found = _number(value, key, where)
    if not math.isfinite(found) or (found < 0 and not negative):
        raise InputError(f"{where}: {key} is {_cut(value)}, not a finite number >= 0")
    return found


def _cut(value: Any) -> str:
    """Return a value as a string for a message, cut to `SHOWN` characters."""
    text = printable(value.strip() if isinstance(value, str) else json.dumps(value, default=str))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
