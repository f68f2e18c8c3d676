"""Charts of a report as geometry in percent of a plot's width and height. Knows no markup.

A plot is stretched to the width of the screen, and the text of its axes is not: what is drawn here
are boxes and lines; ticks are text at a place.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plancc.plan.metrics import Traffic
from plancc.report.runs import PHASES, RunLog, Timeline
from plancc_cli.tables import duration

MOST_BARS = 48
"""Parts up to which each has a bar of its own; more are counted in a histogram."""
BINS = 24
"""Bars of a histogram, at most."""
MOST_EPOCHS = 120
"""Epochs up to which each has a bar of its own; more are averaged."""
MOST_POINTS = 600
"""Points of a line, at most."""
SMALL_RANGE = 0.25, 1e-5
"""A loss whose range is between these shares of its largest value has an axis that begins near it:
above the first a line from 0 shows how it falls, below the second ticks would need too many digits.
"""
CUT = 3.0
"""Bars of epochs are cut at this multiple of the median."""
PART_LOADS = (
    ("rows", "Rows", "rows that the part owns"),
    ("nonzeros", "Nonzeros", "nonzeros: the work of a product"),
    ("sent", "Rows sent", "rows sent in one exchange"),
    ("received", "Rows received", "rows received in one exchange"),
    ("messages_sent", "Messages sent", "parts it sends to"),
    ("messages_received", "Messages received", "parts it receives from"),
)
"""Attributes of `Traffic`, titles, and what is counted."""


@dataclass(frozen=True)
class Tick:
    """A text at a place of an axis, in percent from left or from below."""

    at: float
    text: str


@dataclass(frozen=True)
class Box:
    """A rectangle in percent or cells, y from above.

    Attributes
    ----------
    kind : str
        Says its colour.
    share : float
        Its opacity.
    text : str
        What stands in it.
    """

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""
    share: float = 1.0
    text: str = ""


@dataclass(frozen=True)
class Line:
    """A line through points "x,y x,y", in percent, y from above; `kind` says colour and dashes.

    With `dot` all points are one place, which is drawn as a dot.
    """

    points: str
    kind: str
    title: str
    dot: bool = False


@dataclass(frozen=True)
class Chart:
    """What a plot shows.

    Attributes
    ----------
    alt : str
        What a reader hears who does not see it.
    note : str
        The finding, in a sentence.
    mark : float or None
        Where a dashed line stands: from below if `mark_across`, from the left else.
    """

    alt: str
    note: str = ""
    letter: str = ""
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    x_title: str = ""
    mark: float | None = None
    mark_across: bool = True


@dataclass(frozen=True)
class Measure:
    """A per-part metric, one chart per plan on common axes."""

    title: str
    what: str
    charts: list[Chart]


def percent(value: float, top: float) -> float:
    """Percent of `top`, rounded to what can be seen."""
    return round(100 * value / top, 3) if top else 0.0


def short(value: float, digits: int = 3) -> str:
    """1234567 -> 1.23M, for ticks."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.{digits}g}{unit}"
    return f"{value:.{digits}g}"


def steps(top: float, at_most: int = 4) -> list[float]:
    """Round numbers 0, s, 2 s, ... up to `top`; s is 1, 2 or 5 times a power of ten.

    Zero alone if `top` is not positive, not finite, or too small for such numbers.
    """
    rough = top / at_most
    if not rough >= sys.float_info.min or not math.isfinite(top):
        return [0.0]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    return [step * k for k in range(int(top / step + 1e-9) + 1)]


# -- loads of parts --------------------------------------------------------------------------------


def measures(plans: Sequence[tuple[str, Traffic]]) -> list[Measure]:
    """Loads of the parts of all plans, each with its letter."""
    found = []
    for name, title, what in PART_LOADS:
        loads = [(letter, getattr(parts, name)) for letter, parts in plans]
        if max(len(values) for _, values in loads) <= MOST_BARS:
            charts = _bars_of_parts(loads, what)
        else:
            charts = _histograms(loads, what)
        found.append(Measure(title, what, charts))
    return found


def _spread(values: np.ndarray) -> str:
    """Such as "most 455 (part 2), 1.01x the mean of 449; least 441"."""
    mean, most = float(values.mean()), int(values.max())
    if most == int(values.min()):
        return f"{most:,} at every part"
    shown = f"{mean:,.0f}" if mean >= 100 else f"{mean:.3g}"
    return (
        f"most {most:,} (part {int(values.argmax())}), {most / mean:.2f}x the mean of {shown}; "
        f"least {int(values.min()):,}"
    )


def _bars_of_parts(loads: Sequence[tuple[str, np.ndarray]], what: str) -> list[Chart]:
    top = max(1.0, 1.08 * max(float(values.max()) for _, values in loads))
    charts = []
    for letter, values in loads:
        width, spread = 100 / len(values), _spread(values)
        boxes = [
            Box(
                round((part + 0.1) * width, 3),
                100 - percent(value, top),
                round(0.8 * width, 3),
                percent(value, top),
                "most" if value == values.max() > values.min() else "plain",
                f"part {part}: {value:,}",
            )
            for part, value in enumerate(values.tolist())
        ]
        every = max(1, -(-len(values) // 8))
        charts.append(
            Chart(
                alt=f"{what}, a bar for every part: {spread}",
                note=spread,
                letter=letter,
                boxes=boxes,
                x_ticks=[
                    Tick((part + 0.5) * width, str(part)) for part in range(0, len(values), every)
                ],
                y_ticks=[Tick(percent(value, top), short(value)) for value in steps(top, 3)],
                x_title="part",
                mark=percent(float(values.mean()), top),
            )
        )
    return charts


def _histograms(loads: Sequence[tuple[str, np.ndarray]], what: str) -> list[Chart]:
    low = min(int(values.min()) for _, values in loads)
    high = max(int(values.max()) for _, values in loads)
    size = max(1, -(-(high - low + 1) // BINS))
    bins = -(-(high - low + 1) // size)
    counted = [(each, np.bincount((each[1] - low) // size, minlength=bins)) for each in loads]
    top = max(1.0, 1.08 * max(int(counts.max()) for _, counts in counted))
    width = 100 / bins
    charts = []
    for (letter, values), counts in counted:
        spread, boxes = _spread(values), []
        for place, count in enumerate(counts.tolist()):
            if count:
                first, last = low + place * size, low + (place + 1) * size - 1
                span = f"{first:,}" if first == last else f"{first:,} to {last:,}"
                boxes.append(
                    Box(
                        round((place + 0.04) * width, 3),
                        100 - percent(count, top),
                        round(0.92 * width, 3),
                        percent(count, top),
                        "most" if first <= values.max() <= last and low < high else "plain",
                        f"{count:,} part{'s' * (count != 1)}: {span}",
                    )
                )
        ends = [(place * width, low + place * size) for place in range(0, bins, -(-bins // 4))]
        charts.append(
            Chart(
                alt=f"{what}, how many parts have how many: {spread}",
                note=spread,
                letter=letter,
                boxes=boxes,
                x_ticks=[Tick(at + width / 2, short(value)) for at, value in ends],
                y_ticks=[Tick(percent(value, top), short(value)) for value in steps(top, 3)],
                x_title=f"{what}; height: parts",
                mark=(float(values.mean()) - low + 0.5) / size * width,
                mark_across=False,
            )
        )
    return charts


# -- runs ------------------------------------------------------------------------------------------


def _line(
    epoch: np.ndarray, values: np.ndarray, span: tuple[int, int], ends: tuple[float, float]
) -> str:
    """Points of a line; where there is no value the neighbours are joined.

    `span` is the first and last epoch of the axis, `ends` the values at its foot and top.
    """
    there = np.flatnonzero(np.isfinite(values))
    there = there[:: max(1, -(-len(there) // MOST_POINTS))]
    (first, last), (low, top) = span, ends
    x = 100 * (epoch[there] - first) / max(1, last - first)
    y = 100 - 100 * np.clip((values[there] - low) / (top - low), 0, 1)
    return " ".join(f"{a:.2f},{b:.2f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _epoch_ticks(first: int, last: int) -> list[Tick]:
    if first == last:
        return [Tick(0, str(first))]
    inner = [int(v) for v in steps(last, 5) if first <= v <= last and v == int(v)]
    return [Tick(100 * (v - first) / (last - first), f"{v:,}") for v in inner]


def _curves(
    logs: Sequence[tuple[str, RunLog]], which: str, limit: float | None, note: str
) -> Chart | None:
    """Lines of all runs: `loss` or `accuracy` by split over epochs."""
    every = [(letter, log, split, v) for letter, log in logs for split, v in _of(log, which)]
    finite = [v[np.isfinite(v)] for *_, v in every]
    if not sum(map(len, finite)):
        return None
    (low, top), y_ticks = _value_axis(np.concatenate(finite), limit)
    if low > 0 or top < 0:
        note += "; the axis does not begin at 0"
    first = min(int(log.epoch[0]) for _, log in logs)
    last = max(int(log.epoch[-1]) for _, log in logs)
    lines = []
    for letter, log, split, values in every:
        points = _line(log.epoch, values, (first, last), (low, top))
        dot = len(points.split()) == 1
        lines.append(
            Line(
                f"{points} {points}" if dot else points,
                f"plan-{letter} {split}",
                f"{split}{f', plan {letter}' if len(logs) > 1 else ''}",
                dot,
            )
        )
    return Chart(
        alt=f"{which} over epochs {first} to {last}: {note}",
        note=note,
        lines=lines,
        x_ticks=_epoch_ticks(first, last),
        y_ticks=y_ticks,
        x_title="epoch",
    )


def _value_axis(values: np.ndarray, limit: float | None) -> tuple[tuple[float, float], list[Tick]]:
    """Foot and top of the axis for some finite values, and its ticks.

    It has 0, but for values that are close together; it goes up to `limit` if there is one.
    """
    least, most = float(values.min()), float(values.max())
    spread, size = most - least, max(abs(least), abs(most))
    wide, narrow = SMALL_RANGE
    if limit is None and narrow * size <= spread <= wide * size and len(steps(spread)) > 1:
        low, top = least - 0.06 * spread, most + 0.06 * spread
        step = steps(top - low)[1]
        digits = max(3, math.floor(math.log10(size)) - math.floor(math.log10(step)) + 1)
        at = [step * k for k in range(math.ceil(low / step), math.floor(top / step) + 1)]
        return (low, top), [Tick(percent(v - low, top - low), short(v, digits)) for v in at]
    low, top = 1.05 * min(0.0, least), limit or 1.05 * max(0.0, most)
    if not top > low:
        top = 1.0
    round_values = steps(max(top, -low))
    at = [-v for v in round_values if 0 < v <= -low]
    at += [v for v in round_values if v <= top]
    return (low, top), [Tick(percent(v - low, top - low), short(v)) for v in at]


def _of(log: RunLog, which: str) -> Iterable[tuple[str, np.ndarray]]:
    found: Mapping[str, np.ndarray] = getattr(log, which)
    return found.items()


def convergence(logs: Sequence[tuple[str, RunLog]]) -> list[tuple[str, Chart]]:
    """Titles and charts of loss and accuracy of all runs, each with its plan's letter."""
    notes = []
    for letter, log in logs:
        loss = log.loss["train"]
        who = f"plan {letter}: " if len(logs) > 1 else ""
        notes.append(f"{who}training loss {loss[0]:.4g} → {loss[-1]:.4g}")
    scores = []
    for letter, log in logs:
        who = f"plan {letter}: " if len(logs) > 1 else ""
        best = [
            f"{split} {np.nanmax(values):.1%} (epoch {log.epoch[np.nanargmax(values)]})"
            for split, values in log.accuracy.items()
        ]
        if best:
            scores.append(f"{who}best {', '.join(best)}")
    charts = (
        ("Loss", _curves(logs, "loss", None, "; ".join(notes))),
        ("Accuracy", _curves(logs, "accuracy", 1.0, "; ".join(scores))),
    )
    return [(title, chart) for title, chart in charts if chart is not None]


def epoch_times(letter: str, log: RunLog) -> Chart:
    """Bars of epochs, stacked by phase.

    The predicted time is not beside them: a run may have other ranks, widths and another machine.
    """
    count = len(log.epoch)
    size = max(1, -(-count // MOST_EPOCHS))
    edges = np.arange(0, count, size)
    lengths = np.diff([*edges, count])
    phases = {name: np.add.reduceat(v, edges) / lengths for name, v in log.phases.items()}
    total = sum(phases.values(), np.zeros(len(edges)))
    median = float(np.median(total))
    top = min(float(total.max()), CUT * median) * 1.08 or 1.0
    cut = int((total > top).sum())
    width, boxes = 100 / len(edges), []
    for place in range(len(edges)):
        under = 0.0
        first, last = log.epoch[edges[place]], log.epoch[edges[place] + lengths[place] - 1]
        which = f"epoch {first}" if first == last else f"epochs {first} to {last}, mean"
        for name in PHASES:
            seconds = float(phases[name][place])
            height = min(seconds, max(0.0, top - under))
            if height > 0:
                boxes.append(
                    Box(
                        round((place + 0.05) * width, 3),
                        100 - percent(under + height, top),
                        round(0.9 * width, 3),
                        percent(height, top),
                        name,
                        f"{which}: {name} {duration(seconds)} of {duration(float(total[place]))}",
                    )
                )
            under += seconds
    note = f"median epoch {duration(float(np.median(log.slowest)))} (the slowest rank's)"
    notes = [note]
    if size > 1:
        notes.append(f"a bar is the mean of {size} epochs")
    if cut:
        worst = duration(float(total.max()))
        notes.append(f"{cut} bar{'s' * (cut != 1)} cut, the longest of {worst}")
    ticks = [Tick(percent(value, top), duration(value) if value else "0") for value in steps(top)]
    ticks_of_epochs = _epoch_ticks(int(log.epoch[0]), int(log.epoch[-1]))
    return Chart(
        alt=f"Seconds of every epoch by phase, mean over ranks: {'; '.join(notes)}",
        note="; ".join(notes),
        letter=letter,
        boxes=boxes,
        x_ticks=[
            Tick((tick.at * (len(edges) - 1) / 100 + 0.5) * width, tick.text)
            for tick in ticks_of_epochs
        ],
        y_ticks=ticks,
        x_title="epoch",
    )


@dataclass(frozen=True)
class Strips:
    """A timeline: for every phase one path in a picture of columns x ranks.

    Attributes
    ----------
    paths : list of (phase, path, share)
        The share of the epoch, mean over ranks.
    """

    letter: str
    title: str
    alt: str
    note: str
    columns: int
    labels: list[str]
    paths: list[tuple[str, str, float]]
    x_ticks: list[Tick]


def strips(letter: str, timeline: Timeline) -> Strips:
    """The picture of a timeline, and who waits."""
    values = timeline.strips
    paths, mean = [], timeline.shares.mean(0)
    for place, name in enumerate(PHASES):
        path = "".join(_runs(values == place))
        paths.append((name, path, float(mean[place])))
    waits = timeline.shares[:, PHASES.index("wait")]
    took = duration(timeline.seconds)
    note = f"{timeline.title} took {took}; ranks wait {waits.mean():.0%} of it"
    if len(waits) > 1:
        least, most = int(waits.argmin()), int(waits.argmax())
        note += (
            f", from {waits[least]:.0%} (rank {timeline.all_ranks[least]}) to {waits[most]:.0%} "
            f"(rank {timeline.all_ranks[most]})"
        )
    if len(timeline.epochs) > 1:
        note += f"; the median of {len(timeline.epochs):,} epochs"
    if len(timeline.ranks) < len(timeline.all_ranks):
        note += f"; {len(timeline.ranks)} of {len(timeline.all_ranks):,} ranks, evenly chosen"
    top = timeline.seconds
    return Strips(
        letter=letter,
        title=timeline.title,
        alt=f"What {len(timeline.ranks)} ranks did over time: {note}",
        note=note,
        columns=values.shape[1],
        labels=[str(rank) for rank in timeline.ranks],
        paths=[each for each in paths if each[1] or each[2] > 0],
        x_ticks=[
            Tick(percent(value, top), duration(value) if value else "0") for value in steps(top, 4)
        ],
    )


def _runs(where: np.ndarray) -> Iterable[str]:
    """Rectangles of the stretches of every row in which it is true, as a path."""
    for row, here in enumerate(where):
        turns = np.flatnonzero(np.diff(np.concatenate([[False], here, [False]]).astype(np.int8)))
        for begin, end in turns.reshape(-1, 2).tolist():
            yield f"M{begin} {row + 0.1:g}h{end - begin}v.8h{begin - end}z"
