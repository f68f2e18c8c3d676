"""Charts of a report as geometry in percent of a plot's width and height.

A plot is stretched to the width of the screen, and the text of its axes is not: what is drawn here
are boxes and lines; ticks are text at a place.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from plancc.plan.metrics import Traffic
from plancc.report.runs import PHASES, RunLog, Timeline
from plancc_cli.tables import count_of, duration, short

MOST_BARS = 48
"""Parts up to which each has a bar of its own; more are counted in a histogram."""
BINS = 24
"""Bars of a histogram, at most."""
INTERVALS = 5
"""Most intervals between the ticks of an axis."""
STANDS_OUT = 1.05
"""Multiple of the mean from which the part with the most has the strong colour."""
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
    y_title: str = ""
    mark: float | None = None
    mark_across: bool = True


def percent(value: float, top: float) -> float:
    """Percent of `top`, rounded to what can be seen."""
    return round(100 * value / top, 3) if top else 0.0


def round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not less than `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))


def steps(top: float, low: float = 0.0, whole: bool = False) -> list[float]:
    """The multiples of a `round_step` from `low` to `top`: two to six, or fewer whole numbers.

    The number nearest to 0 alone if there is nothing in between that can be told apart.
    """
    rough = (top - low) / INTERVALS
    if not rough >= sys.float_info.min or not math.isfinite(rough):
        return [float(min(max(low, 0.0), top))]
    step = round_step(max(rough, 1.0) if whole else rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(top / step + 1e-9)
    return [step * k for k in range(first, last + 1)]


def ticks(top: float, low: float = 0.0, whole: bool = False) -> list[Tick]:
    """Round numbers on an axis from `low` to `top`, in as many digits as tell them apart."""
    values = steps(top, low, whole)
    digits, size = 3, max(map(abs, values), default=0.0)
    if len(values) > 1:
        apart = math.log10(size) - math.log10(values[1] - values[0])
        digits = max(3, math.ceil(apart) + 1)
    return [Tick(percent(value - low, top - low), short(value, digits)) for value in values]


def ticks_of_cells(count: int) -> list[Tick]:
    """Round numbers of cells side by side, such as parts, at the middles of these."""
    places = map(int, steps(count - 1, whole=True))
    return [Tick(percent(place + 0.5, count), str(place)) for place in places]


def seconds_axis(top: float) -> tuple[str, list[Tick]]:
    """Unit and ticks of an axis from 0 to some seconds."""
    unit, length = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3)) if top >= s), ("us", 1e-6))
    return unit, ticks(top / length)


# -- loads of parts --------------------------------------------------------------------------------


def measures(plans: Sequence[tuple[str, Traffic]]) -> list[tuple[str, list[Chart]]]:
    """Titles of loads of the parts, and for each a chart per plan, with its letter, on one axis."""
    found = []
    for name, title, what in PART_LOADS:
        loads = [(letter, getattr(parts, name)) for letter, parts in plans]
        if max(len(values) for _, values in loads) <= MOST_BARS:
            charts = _bars_of_parts(loads, what)
        else:
            charts = _histograms(loads, what)
        found.append((title, charts))
    return found


def _spread(values: np.ndarray) -> str:
    """Such as "most 455 (part 2), 1.01x the mean; least 441"."""
    most, least = int(values.max()), int(values.min())
    if most == least:
        return f"{most:,} at every part"
    over = f"{most / values.mean():.2f}x the mean"
    return f"most {most:,} (part {int(values.argmax())}), {over}; least {least:,}"


def _bars(
    heights: Sequence[int], top: float, has_most: Sequence[bool], titles: Sequence[str]
) -> list[Box]:
    """Bars side by side, those of the part with the most in the strong colour."""
    width = 100 / len(heights)
    return [
        Box(
            round((place + 0.1) * width, 3),
            100 - percent(height, top),
            round(0.8 * width, 3),
            percent(height, top),
            "most" if most else "plain",
            title,
        )
        for place, (height, most, title) in enumerate(zip(heights, has_most, titles, strict=True))
    ]


def _stands_out(values: np.ndarray) -> bool:
    return bool(values.max() > STANDS_OUT * values.mean())


def _bars_of_parts(loads: Sequence[tuple[str, np.ndarray]], what: str) -> list[Chart]:
    top = max(1.0, 1.05 * max(float(values.max()) for _, values in loads))
    charts = []
    for letter, values in loads:
        spread, heights = _spread(values), values.tolist()
        strong = [_stands_out(values) and value == max(heights) for value in heights]
        titles = [f"part {part}: {value:,}" for part, value in enumerate(heights)]
        charts.append(
            Chart(
                alt=f"{what}, a bar for every part: {spread}",
                note=spread,
                letter=letter,
                boxes=_bars(heights, top, strong, titles),
                x_ticks=ticks_of_cells(len(values)),
                y_ticks=ticks(top, whole=True),
                x_title="part",
                mark=percent(float(values.mean()), top),
            )
        )
    return charts


def _histograms(loads: Sequence[tuple[str, np.ndarray]], what: str) -> list[Chart]:
    low = min(int(values.min()) for _, values in loads)
    high = max(int(values.max()) for _, values in loads)
    size = int(round_step(max(1.0, (high - low + 1) / BINS)))
    low -= low % size
    firsts = range(low, high + 1, size)
    spans = [f"{v:,} to {v + size - 1:,}" if size > 1 else f"{v:,}" for v in firsts]
    counted = [np.bincount((v - low) // size, minlength=len(firsts)).tolist() for _, v in loads]
    top = max(1.0, 1.05 * max(map(max, counted)))
    middle, end = 0.5 * (size == 1), firsts[-1] + size * (size > 1)
    charts = []
    for (letter, values), counts in zip(loads, counted, strict=True):
        spread, most = _spread(values), int(values.max())
        strong = [_stands_out(values) and v <= most < v + size for v in firsts]
        titles = [f"{count_of(n, 'part')}: {span}" for n, span in zip(counts, spans, strict=True)]

        def at(value: float) -> float:
            return 100 * ((value - low) / size + middle) / len(firsts)

        charts.append(
            Chart(
                alt=f"{what}, how many parts have how many: {spread}",
                note=spread,
                letter=letter,
                boxes=_bars(counts, top, strong, titles),
                x_ticks=[Tick(at(v), short(v)) for v in steps(end, low, whole=True)],
                y_ticks=ticks(top, whole=True),
                x_title=what,
                y_title="parts",
                mark=at(float(values.mean())),
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


def _curves(
    logs: Sequence[tuple[str, RunLog]], which: str, limit: float | None, note: str
) -> Chart | None:
    """Lines of all runs: `loss` or `accuracy` by split over epochs."""
    every = [
        (letter, log, split, values)
        for letter, log in logs
        for split, values in getattr(log, which).items()
    ]
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
        x_ticks=ticks(last, first, whole=True),
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
    else:
        low, top = 1.05 * min(0.0, least), limit or 1.05 * max(0.0, most)
    if not top > low:
        top = 1.0
    return (low, top), ticks(top, low)


def convergence(logs: Sequence[tuple[str, RunLog]]) -> list[tuple[str, Chart]]:
    """Titles and charts of loss and accuracy of all runs, each with its plan's letter."""
    notes, scores = [], []
    for letter, log in logs:
        loss = log.loss["train"]
        who = f"plan {letter}: " if len(logs) > 1 else ""
        notes.append(f"{who}training loss {loss[0]:.4g} → {loss[-1]:.4g}")
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
    unit, y_ticks = seconds_axis(top)
    return Chart(
        alt=f"Seconds of every epoch by phase, mean over ranks: {'; '.join(notes)}",
        note="; ".join(notes),
        letter=letter,
        boxes=boxes,
        x_ticks=[
            Tick((tick.at * (len(edges) - 1) / 100 + 0.5) * width, tick.text)
            for tick in ticks(int(log.epoch[-1]), int(log.epoch[0]), whole=True)
        ],
        y_ticks=y_ticks,
        x_title="epoch",
        y_title=unit,
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
    x_title: str


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
    unit, x_ticks = seconds_axis(timeline.seconds)
    return Strips(
        letter=letter,
        title=timeline.title,
        alt=f"What {len(timeline.ranks)} ranks did over time: {note}",
        note=note,
        columns=values.shape[1],
        labels=[str(rank) for rank in timeline.ranks],
        paths=[each for each in paths if each[1] or each[2] > 0],
        x_ticks=x_ticks,
        x_title=unit,
    )


def _runs(where: np.ndarray) -> Iterable[str]:
    """Rectangles of the stretches of every row in which it is true, as a path."""
    for row, here in enumerate(where):
        turns = np.flatnonzero(np.diff(np.concatenate([[False], here, [False]]).astype(np.int8)))
        for begin, end in turns.reshape(-1, 2).tolist():
            yield f"M{begin} {row + 0.1:g}h{end - begin}v.8h{begin - end}z"
