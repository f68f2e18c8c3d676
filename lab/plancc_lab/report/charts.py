"""Charts of a report's web page, which matplotlib draws as SVG in the colours of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc_cli.tables import count_of, duration, short
from plancc_lab.report.pictures import ramp
from plancc_lab.report.runs import NOTHING, PHASES, RunLog, Timeline

if TYPE_CHECKING:
    from plancc.plan.metrics import Traffic
    from plancc_lab.report.pictures import Density

MOST_BARS = 48
"""Largest number of parts for which each part has a bar; for more, a histogram is drawn."""
BINS = 24
"""Largest number of bars of a histogram."""
STANDS_OUT = 1.05
"""Multiple of the mean above which the largest bar is drawn in the strong colour."""
FAINT = 0.5
"""Opacity of the other bars."""
MOST_EPOCHS = 120
"""Largest number of epochs for which each epoch has a bar; for more, bars show averages."""
MOST_POINTS = 600
"""Largest number of points of a line."""
SMALL_RANGE = 0.25
"""Range of a loss, as a share of its largest value, above which the axis begins at 0."""
TITLES = {"loss": "Loss", "accuracy": "Accuracy", "auc": "ROC-AUC", "r2": "R2", "rmse": "RMSE"}
"""Titles of curves over epochs, by their names in `RunLog`."""
AT_MOST_1 = ("accuracy", "auc", "r2")
CUT = 3.0
"""Multiple of the median at which bars of epochs are cut off."""
MOST_CELLS, MOST_NUMBERS = 20, 6
"""Largest number of parts for which each pair has a cell, and for which cells have numbers."""
STEPS = [1, 2, 5, 10]
"""Distances between ticks, times a power of ten."""
NARROW, HALF, WIDE, SQUARE = 3.8, 5.6, 11.5, 3.4
"""Widths of charts in inches; the page scales charts to the width of their cards."""
COLOURS = {name: f"#fefe{place:02x}" for place, name in enumerate(("soft", "line", "card", "ink"))}
"""Placeholder colours for variables of `style.css`, which light and dark pages set."""
OF_PLANS = {name: f"#fffe{place:02x}" for place, name in enumerate("abcdef")}
"""Placeholder colours for the variables of plans."""
HUES = "f0e442 e69f00 8c6d31 009e73 d55e00 0072b2 56b4e9 cc79a7 98a2b0"
OF_PHASES = {name: f"#{hue}" for name, hue in zip(PHASES, HUES.split(), strict=True)}
DASHES = {"train": "-", "val": (0, (4, 2)), "test": ":"}
PART_LOADS = (
    ("rows", "Rows", "rows that the part owns"),
    ("nonzeros", "Nonzeros", "nonzeros: the work of a product"),
    ("sent", "Rows sent", "rows sent in one exchange"),
    ("received", "Rows received", "rows received in one exchange"),
    ("messages_sent", "Messages sent", "parts it sends to"),
    ("messages_received", "Messages received", "parts it receives from"),
)
"""Attributes of `Traffic`, with their titles, and phrases for what they count."""
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "svg.fonttype": "none",
    "text.parse_math": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), "#fefe00"),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), "#fefe01"),
    **{"axes.titlelocation": "left", "axes.titlesize": 8, "axes.facecolor": "none"},
    **{f"axes.spines.{side}": False for side in ("top", "left", "right")},
    **{"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True},
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
    **{"legend.frameon": False, "legend.handlelength": 1.5},
}


@dataclass(frozen=True)
class Chart:
    """A drawing.

    Attributes:
        svg: SVG markup, with titles that appear under the mouse pointer.
        what: Description for readers who cannot see the drawing.
        note: One sentence that says what the drawing shows.
    """

    svg: str
    what: str
    note: str


def style() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws figures in the style of the report's page."""
    from matplotlib import rc_context

    return rc_context(STYLE)


def panels_of(width: float, height: float, rows: int = 1, **shared: Any) -> list[Any]:
    """Return `rows` axes of a new figure, one below the other; sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained", facecolor="none")
    return list(figure.subplots(rows, squeeze=False, **shared)[:, 0])


def chart_of(axes: Any, name: str, what: str, note: str) -> Chart:
    """Return the figure of these axes as a chart; `name` must be unique on the page.

    In the SVG, the ids that `entitle` has set become titles, most other ids are removed, and
    placeholder colours become CSS variables.
    """
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": name}), io.StringIO() as file:
        axes.figure.savefig(file, format="svg")
        svg = file.getvalue()
    found = re.search(r'(viewBox="[^"]*").*?</metadata>.*?</style>\s*</defs>(.*)', svg, re.S)
    assert found
    text = re.sub(r' id="(?![mp][0-9a-f]{10}")(?!=)[^"]*"| font-family: [^;"]*;?', "", found[2])
    text = re.sub(r'<g id="=([^"]*)">', r"<g><title>\1</title>", text)
    for name, colour in (COLOURS | OF_PLANS).items():
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r"\s*\n\s*", " ", text)
    return Chart(f"<svg {found[1]}>{text}", what, note)


def entitle(artists: Iterable[Any], titles: Iterable[str]) -> None:
    """Set a title for every shape; the page shows the title when the mouse pointer is over it."""
    for artist, title in zip(artists, titles, strict=True):
        artist.set_gid(f"={title}")


def colour_of(letter: str) -> str:
    """Return the colour of the plan with this letter."""
    return list(OF_PLANS.values())[(ord(letter) - ord("A")) % len(OF_PLANS)]


def round_ticks(axis: Any, whole: bool = True) -> None:
    """Set ticks of an axis at round numbers, with short labels."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=STEPS, integer=whole, min_n_ticks=1))
    axis.set_major_formatter(lambda value, _: short(value, 6))


def _seconds(top: float) -> tuple[str, float]:
    """Return a unit of time that suits values up to `top` seconds, and its length in seconds."""
    return next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3)) if top >= s), ("us", 1e-6))


# -- loads of parts --------------------------------------------------------------------------------


def measures(plans: Sequence[tuple[str, Traffic]]) -> list[tuple[str, Chart]]:
    """Return a pair (title, chart) for every kind of load of the parts, such as rows sent."""
    return [
        (title, _loads([(letter, getattr(parts, name)) for letter, parts in plans], title, what))
        for name, title, what in PART_LOADS
    ]


def _loads(loads: Sequence[tuple[str, np.ndarray]], title: str, what: str) -> Chart:
    """Return a chart of a load, with a bar for every part, or a histogram for many parts."""
    many = max(len(values) for _, values in loads) > MOST_BARS
    rows = panels_of(NARROW, 0.4 + 1.1 * len(loads), len(loads), sharey=True, sharex=many)
    edges = bins(np.concatenate([values for _, values in loads]))
    spans = [f"{a:,} to {b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in pairwise(edges)]
    for axes, (letter, values) in zip(rows, loads, strict=True):
        heights, firsts, width = values, np.arange(len(values)) - 0.5, 1
        titles = [f"part {part}: {value:,}" for part, value in enumerate(values.tolist())]
        has_most = values == values.max()
        if many:
            heights, _ = np.histogram(values, edges)
            firsts, width = np.array(edges[:-1]), edges[1] - edges[0]
            titles = [
                f"{count_of(n, 'part')}: {s}" for n, s in zip(heights.tolist(), spans, strict=True)
            ]
            has_most = (firsts <= values.max()) & (values.max() < firsts + width)
        bars = axes.bar(firsts + 0.1 * width, heights, 0.8 * width, align="edge")
        entitle(bars, titles)
        stands_out = has_most & (values.max() > STANDS_OUT * values.mean())
        for bar, strong in zip(bars, stands_out.tolist(), strict=True):
            bar.set(color=colour_of(letter), alpha=None if strong else FAINT)
        mark = axes.axvline if many else axes.axhline
        mark(values.mean(), color=COLOURS["soft"], ls="--", lw=1)
        axes.set(title=_spread(values, letter * (len(loads) > 1)), ylabel="parts" * many)
        round_ticks(axes.xaxis)
        round_ticks(axes.yaxis)
    rows[-1].set_xlabel(what if many else "part")
    how = "how many parts have how many" if many else "a bar for every part"
    note = "; ".join(axes.get_title() for axes in rows)
    return chart_of(rows[0], title, f"{what}, {how}", note)


def _spread(values: np.ndarray, letter: str) -> str:
    """Return a phrase such as "A: most 455 (part 2), 1.01x the mean; least 441"."""
    most, least = int(values.max()), int(values.min())
    text = f"{letter}: " if letter else ""
    if most == least:
        return f"{text}{most:,} at every part"
    over = f"{most / values.mean():.2f}x the mean"
    return f"{text}most {most:,} (part {int(values.argmax())}), {over}; least {least:,}"


def bins(values: np.ndarray) -> list[int]:
    """Return round numbers that bound about `BINS` bins or fewer; the last is above all values."""
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(BINS, steps=STEPS, integer=True)
    return [int(edge) for edge in locator.tick_values(int(values.min()), int(values.max()) + 1)]


# -- matrices --------------------------------------------------------------------------------------


def span_of(densities: Sequence[Density]) -> tuple[float, float]:
    """Return the least and the greatest value of all pixels of `densities` that are not 0."""
    there = np.concatenate([each.counts[each.counts > 0] for each in densities])
    return (float(there.min()), float(there.max())) if len(there) else (1.0, 1.0)


def matrix(
    density: Density, name: str, texts: tuple[str, str], borders: Sequence[int] = ()
) -> Chart:
    """Return a picture of the nonzeros of a matrix.

    `texts` are `what` and `note` of the chart. A line is drawn before each row, and before each
    column, whose index is in `borders`.
    """
    (axes,) = panels_of(SQUARE, SQUARE + 0.4)
    _pixels(axes, density, span_of([density]), "a pixel")
    for line in (axes.axhline, axes.axvline):
        for at in borders:
            line(at - 0.5, color=COLOURS["soft"], lw=0.5, alpha=0.45)
    axes.set(xticks=[], yticks=[])
    return chart_of(axes, name, *texts)


def volume(density: Density, name: str, note: str, span: tuple[float, float]) -> Chart:
    """Return a chart of the rows that parts send each other; its colours cover the range `span`."""
    (axes,) = panels_of(SQUARE, SQUARE + 0.6)
    picture = _pixels(axes, density, span, "rows")
    if density.size <= MOST_CELLS:
        picture.set_visible(False)
        _cells(axes, picture, density.counts)
    axes.xaxis.set_label_position("top")
    axes.tick_params(labeltop=True, labelbottom=False)
    axes.set(xlabel="to part →", ylabel="← from part")
    round_ticks(axes.xaxis)
    round_ticks(axes.yaxis)
    return chart_of(
        axes, name, f"Rows that each of {density.size:,} parts sends to each other part", note
    )


def _pixels(axes: Any, density: Density, span: tuple[float, float], unit: str) -> Any:
    """Draw a matrix in colours on a logarithmic scale over the range `span`; return the image."""
    from matplotlib.colors import LogNorm

    low, high = span
    most = density.per_pixel * len(density.counts)
    picture = axes.imshow(
        np.ma.masked_equal(density.counts, 0),
        norm=LogNorm(low if low < high else high / 2, high),
        cmap=ramp(),
        interpolation="none",
        extent=(-0.5, most - 0.5, most - 0.5, -0.5),
    )
    axes.set(xlim=(-0.5, density.size - 0.5), ylim=(density.size - 0.5, -0.5))
    axes.grid(False)
    axes.spines[:].set_visible(True)
    bar = axes.figure.colorbar(picture, orientation="horizontal", shrink=0.5, aspect=25)
    bar.set_ticks(sorted({low, high}), labels=[f"{end:,.0f}" for end in sorted({low, high})])
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.set_label(f"{unit} (logarithmic)")
    return picture


def _cells(axes: Any, picture: Any, counts: np.ndarray) -> None:
    """Draw cells in place of pixels, each with a title, and with a number if there are few."""
    from matplotlib.patches import Rectangle

    for sender, receiver in np.argwhere(counts).tolist():
        rows = float(counts[sender, receiver])
        colour = picture.cmap(picture.norm(rows))
        cell = axes.add_patch(Rectangle((receiver - 0.48, sender - 0.48), 0.96, 0.96, fc=colour))
        entitle([cell], [f"part {sender} sends {int(rows):,} rows to part {receiver}"])
        if len(counts) <= MOST_NUMBERS:
            ink = "#ffffff" if colour[3] > 0.9 else COLOURS["ink"]
            axes.text(receiver, sender, short(rows), ha="center", va="center", color=ink)


# -- runs ------------------------------------------------------------------------------------------


def convergence(logs: Sequence[tuple[str, RunLog]]) -> list[tuple[str, Chart]]:
    """Return pairs (title, chart): a chart of the loss, and a chart for every score."""
    notes: dict[str, list[str]] = {name: [] for name in TITLES}
    for letter, log in logs:
        loss = log.loss["train"]
        who = f"plan {letter}: " if len(logs) > 1 else ""
        notes["loss"].append(f"{who}training loss {loss[0]:.4g} → {loss[-1]:.4g}")
        for name, by_split in log.scores.items():
            form, find = ".1%" if name == "accuracy" else ".4g", np.nanargmax
            if name == "rmse":
                find = np.nanargmin
            at = {split: int(find(values)) for split, values in by_split.items()}
            best = (f"{s} {by_split[s][k]:{form}} (epoch {log.epoch[k]})" for s, k in at.items())
            notes[name].append(f"{who}best {', '.join(best)}")
    charts = ((TITLES[name], _curves(logs, name, "; ".join(each))) for name, each in notes.items())
    return [(title, chart) for title, chart in charts if chart is not None]


def _curves(logs: Sequence[tuple[str, RunLog]], which: str, note: str) -> Chart | None:
    """Return a chart of "loss" or of a score, for all runs over epochs; None if no run has it."""
    (axes,) = panels_of(HALF, 2.6)
    for letter, log in logs:
        for split, values in (log.scores | {"loss": log.loss}).get(which, {}).items():
            there = np.flatnonzero(np.isfinite(values))
            label = split + f", plan {letter}" * (len(logs) > 1)
            shown = there[:: max(1, -(-len(there) // MOST_POINTS))]
            points, line = (log.epoch[shown], values[shown]), {"ls": DASHES[split]}
            if len(shown) == 1:
                line["marker"] = "o"
            if len(shown):
                entitle(axes.plot(*points, c=colour_of(letter), label=label, **line), [label])
    if not axes.lines:
        return None
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    least, spread = float(values.min()), float(np.ptp(values))
    if which in AT_MOST_1:
        axes.set_ylim(max(min(0.0, least), -1.0), 1.0)
        note += "; values below -1 are not shown" * (least < -1)
    elif spread and spread < SMALL_RANGE * np.abs(values).max():
        note += "; the axis does not begin at 0"
    else:
        axes.update_datalim([(axes.lines[0].get_xdata()[0], 0.0)])
        axes.autoscale_view()
    round_ticks(axes.yaxis, whole=False)
    _epochs(axes)
    return chart_of(axes, which, f"{which} over epochs", note)


def _epochs(axes: Any) -> None:
    """Label the x axis "epoch", put its ticks at round numbers, and add a legend to the figure."""
    round_ticks(axes.xaxis)
    axes.set_xlabel("epoch")
    axes.figure.legend(loc="outside upper left", ncols=len(PHASES))


def epoch_times(letter: str, log: RunLog) -> Chart:
    """Return a chart with a bar for every epoch, stacked by phase.

    Predicted times are not shown: the run may differ in ranks, widths and machine.
    """
    count = len(log.epoch)
    size = max(1, -(-count // MOST_EPOCHS))
    starts = np.arange(0, count, size)
    ends = np.append(starts[1:], count)
    phases = {n: np.add.reduceat(v, starts) / (ends - starts) for n, v in log.phases.items()}
    total = sum(phases.values(), np.zeros(len(starts)))
    top = min(float(total.max()), CUT * float(np.median(total)))
    first, last = log.epoch[starts], log.epoch[ends - 1]
    which = [
        f"epoch {a}" if a == b else f"epochs {a} to {b}, mean"
        for a, b in zip(first.tolist(), last.tolist(), strict=True)
    ]
    (axes,) = panels_of(WIDE, 2.8)
    unit, length = _seconds(top)
    width, under = 0.9 * float(np.diff(first).min(initial=size)), np.zeros(len(starts))
    for name, seconds in phases.items():
        if not seconds.any():
            continue
        look = {"color": OF_PHASES[name], "label": name}
        bars = axes.bar(first, seconds / length, width, under / length, **look)
        times = zip(which, seconds.tolist(), total.tolist(), strict=True)
        entitle(bars, [f"{of}: {name} {duration(s)} of {duration(all_)}" for of, s, all_ in times])
        under += seconds
    axes.set(ylim=(0, 1.08 * top / length or 1.0), ylabel=unit)
    round_ticks(axes.yaxis, whole=False)
    _epochs(axes)
    notes = [f"median epoch {duration(float(np.median(log.slowest)))} (the slowest rank's)"]
    if size > 1:
        notes.append(f"a bar is the mean of {size} epochs")
    if cut := int((total > top).sum()):
        worst = duration(float(total.max()))
        notes.append(f"{cut} bar{'s' * (cut != 1)} cut, the longest of {worst}")
    what = "Seconds of every epoch by phase, mean over ranks"
    return chart_of(axes, f"times {letter}", what, "; ".join(notes))


def strips(letter: str, timeline: Timeline) -> Chart:
    """Return a chart of what every rank did over time, with a note on the ranks that wait most."""
    from matplotlib.colors import to_rgba_array

    (axes,) = panels_of(WIDE, 0.9 + 0.22 * len(timeline.ranks))
    unit, length = _seconds(timeline.seconds)
    count = len(timeline.ranks)
    colours = np.zeros((NOTHING + 1, 4))
    colours[: len(PHASES)] = to_rgba_array(list(OF_PHASES.values()))
    end = timeline.seconds / length, count - 0.5
    picture = {"extent": (0, *end, -0.5), "aspect": "auto", "interpolation": "none"}
    axes.imshow(colours[timeline.strips], **picture)
    axes.hlines(np.arange(count - 1) + 0.5, 0, end[0], color=COLOURS["card"], lw=2)
    for (name, colour), share in zip(OF_PHASES.items(), timeline.shares.mean(0), strict=True):
        if share > 0:
            axes.fill_between([], [], color=colour, label=f"{name} {share:.0%}")
    axes.grid(False)
    axes.set_yticks(range(count), list(map(str, timeline.ranks)))
    axes.set_xlabel(unit)
    round_ticks(axes.xaxis, whole=False)
    axes.figure.legend(loc="outside upper left", ncols=len(PHASES))
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
    if count < len(timeline.all_ranks):
        note += f"; {count} of {len(timeline.all_ranks):,} ranks, evenly chosen"
    return chart_of(axes, f"timeline {letter}", f"What {count} ranks did over time", note)
