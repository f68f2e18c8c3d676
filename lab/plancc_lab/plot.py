"""Charts of sweeps (tables of predicted epochs) and of studies (tables of compiled plans)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError
from plancc.files import atomic_write, check_target
from plancc_cli.missing import require
from plancc_cli.tables import short

if TYPE_CHECKING:
    from plancc_lab.simulate.scaling import Sweep
    from plancc_lab.study.study import Study

FORMATS = (".png", ".pdf", ".svg")
MOST_BARS = 9
"""Largest number of groups of bars; there is a group for every number of ranks."""
HIGHEST_BAR = 10
"""Height at which bars are cut off, as a multiple of the fastest model's seconds."""
WIDE = 8
"""Ratio of largest to smallest value from which the axis of ratios is logarithmic."""
COLOURS = {
    "multiply": "#4477aa",
    "dense": "#88ccee",
    "expand": "#cc6677",
    "fold": "#ddcc77",
    "collectives": "#aa4499",
    "all-reduce": "#999933",
}
"""Colours of the steps of an epoch, from the bottom of a bar upward."""
OF_MODELS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can tell apart."""


def check_plot(path: str) -> None:
    """Raise an error if a figure cannot be drawn, or cannot be written to this file."""
    if os.path.splitext(path)[1].lower() not in FORMATS:
        raise InputError(f"--plot {path}: choose a name that ends in {', '.join(FORMATS)}")
    check_target(path)
    require("--plot", "matplotlib", advice=", or leave --plot out")


def plot_sweep(sweep: Sweep, path: str) -> None:
    """Draw seconds over ranks on logarithmic axes, and below it the steps of an epoch as bars.

    The charts are like Figure 3 of Demirci et al. 2022, and Figure 1 of Tripathy et al. 2020.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 9), layout="constrained")
    above, below = figure.subplots(2, 1)
    _lines(above, sweep)
    _bars(below, sweep)
    figure.suptitle(
        f"{sweep.name}: {sweep.vertices:,} vertices, {sweep.nonzeros:,} nonzeros, dims "
        f"{','.join(map(str, sweep.dims))}\npredicted for {sweep.machine.title}",
        fontsize=10,
    )
    _save(figure, path)


def plot_study(study: Study, path: str) -> None:
    """Draw charts of the volume and of the predicted epoch, over the number of parts.

    Values are means over seeds; if there is a baseline, they are ratios to the baseline. Every
    model is a line or, if there is only one number of parts, a bar. Several graphs have a column of
    charts each.
    """
    from matplotlib.figure import Figure

    study = study.over_seeds()
    graphs, figures = study.graphs, {"volume": "rows moved", "epoch_seconds": "epoch, ms"}
    several = len(graphs) > 1
    shape = (len(figures), len(graphs)) if several else (1, len(figures))
    figure = Figure(figsize=(max(6.4, 2.6 * shape[1]), 2.7 * shape[0]), layout="constrained")
    alike = several and (study.baseline is not None or len(study.parts) > 1)
    panels = figure.subplots(
        *shape, squeeze=False, sharex=several, sharey="row" if alike else "none"
    )
    over = "" if study.baseline is None else f", over {study.baseline}"
    for column, graph in enumerate(graphs):
        for row, (name, words) in enumerate(figures.items()):
            axes = panels[row][column] if several else panels[0][row]
            _draw_study(axes, study, graph, name)
            words = words.partition(",")[0] if over else words
            if several and column == 0:
                axes.set_ylabel(words + over, fontsize=8)
            if not several or row == 0:
                axes.set_title(_name(graph) if several else words + over, fontsize=9)
            if not several or row == len(figures) - 1:
                one = len(study.parts) == 1
                axes.set_xlabel(f"{study.parts[0]} parts" if one else "parts", fontsize=8)
    for axes in panels[:, 0] if alike else panels.flat:
        _scale(axes, study)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    title = f"epochs predicted for {study.machine}, dims {','.join(map(str, study.dims))}"
    figure.suptitle(title if several else f"{_name(graphs[0])}; {title}", fontsize=9)
    _save(figure, path)


def _name(graph: str) -> str:
    return graph.split(".")[0]


def _draw_study(axes: Any, study: Study, graph: str, name: str) -> None:
    """Draw the figure `name`, such as the volume, for one graph: a line or a bar for each model."""
    axes.set_prop_cycle(color=OF_MODELS)
    axes.set_axisbelow(True)
    of_baseline = study.baseline is not None
    labels = [label for label in study.labels if label != study.baseline]
    for place, label in enumerate(labels):
        points = [_mean_of(study, graph, label, parts, name) for parts in study.parts]
        known = [(p, y) for p, y in zip(study.parts, points, strict=True) if y is not None]
        if len(study.parts) == 1:
            axes.bar(place, points[0] or 0, 0.7)  # the bar's name is below it
        else:
            axes.plot(*zip(*known, strict=True) if known else ((), ()), "o-", label=label, ms=4)
    if of_baseline:
        axes.axhline(1, color="0.5", lw=1, ls="--", label=str(study.baseline))
    if len(study.parts) == 1:
        axes.set_xticks(range(len(labels)), labels)
    else:
        axes.set_xscale("log", base=2)
        axes.set_xticks(study.parts, [str(number) for number in study.parts])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", axis="y", alpha=0.3)
    axes.tick_params(labelsize=7)


def _scale(axes: Any, study: Study) -> None:
    """Set the scale of the y axis, and of all axes that share it.

    The scale is logarithmic if values for several numbers of parts differ by more than a factor
    `WIDE`; but it is linear for ratios to a baseline that are all below `WIDE`.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    panels = axes.get_shared_y_axes().get_siblings(axes)
    lines = [line for each in panels for line in each.get_lines()]
    values = [float(y) for line in lines for y in line.get_ydata() if y > 0]
    wide = len(study.parts) > 1 and bool(values) and max(values) > WIDE * min(values)
    steps = [1, 2, 5, 10]
    if wide and not (study.baseline is not None and axes.get_ylim()[1] < WIDE):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=steps[:3]))
    else:
        axes.set_ylim(0, 1.04 * axes.get_ylim()[1])
        axes.yaxis.set_major_locator(MaxNLocator(8, steps=steps))
    axes.yaxis.set_major_formatter(lambda value, _: short(value))
    for each in panels:
        each.minorticks_off()


def _mean_of(study: Study, graph: str, label: str, parts: int, name: str) -> float | None:
    """Return the mean of a figure over seeds, divided by the baseline's; None if it is unknown.

    Without a baseline, "epoch_seconds" is in ms. `study` is a result of `Study.over_seeds`.
    """
    key = (graph, label, parts)
    (row,) = [row for row in study.rows if (row.graph, row.label, row.parts) == key]
    if study.baseline is not None:
        return study.ratio(row, name)
    value = row.figures.get(name)
    return 1e3 * value if value is not None and name == "epoch_seconds" else value


def _save(figure: Any, path: str) -> None:
    """Write a figure, with equal bytes for equal figures; if this fails, no file is left."""
    from matplotlib import rc_context

    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    same: Any = {"svg.fonttype": "none", "svg.hashsalt": "plancc"}
    with atomic_write(path) as temporary, rc_context(same):
        metadata = dates.get(os.path.splitext(path)[1].lower(), {})
        figure.savefig(temporary, dpi=120, metadata=metadata)


def _lines(axes: Any, sweep: Sweep) -> None:
    for label in sweep.labels:
        cells = [cell for cell in sweep.cells if cell.label == label and cell.seconds]
        ranks, seconds = [c.num_ranks for c in cells], [c.seconds for c in cells]
        (line,) = axes.plot(ranks, seconds, marker="o", markersize=4, label=label)
        beyond = [(c.num_ranks, c.seconds) for c in cells if not c.fits]
        if beyond:
            axes.plot(*zip(*beyond, strict=True), "x", markersize=9, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sweep.ranks, [str(number) for number in sweep.ranks])
    full = any(not cell.fits for cell in sweep.cells)
    axes.set_xlabel("ranks (x: out of memory)" if full else "ranks")
    axes.set_ylabel("seconds per epoch")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)


def _bars(axes: Any, sweep: Sweep) -> None:
    """Draw a bar for every model and number of ranks, divided into the steps of an epoch.

    Heights are seconds relative to the fastest model on the same number of ranks.
    """
    step = max(1, -(-len(sweep.ranks) // MOST_BARS))
    ranks = sweep.ranks[::step]
    width = 0.8 / len(sweep.labels)
    highest, used = 1.0, set()
    for group, num_ranks in enumerate(ranks):
        cells = [sweep.cell(label, num_ranks) for label in sweep.labels]
        base = min((cell.seconds for cell in cells if cell.seconds), default=1.0)
        for bar, (label, cell) in enumerate(zip(sweep.labels, cells, strict=True)):
            bottom = 0.0
            x = group + (bar - (len(sweep.labels) - 1) / 2) * width
            for name, colour in COLOURS.items():
                height = cell.steps.get(name, 0.0) / base
                if height:
                    used.add(name)
                    axes.bar(x, height, width * 0.9, bottom=bottom, color=colour)
                    bottom += height
            highest = max(highest, bottom)
            if cell.seconds is None:
                axes.text(x, 0, "-", ha="center", va="bottom", fontsize=7)
            axes.text(
                x,
                -0.02,
                label,
                transform=axes.get_xaxis_transform(),
                rotation=90,
                ha="center",
                va="top",
                fontsize=6,
            )
    axes.set_ylim(0, 1.05 * min(highest, HIGHEST_BAR))
    axes.set_xticks(range(len(ranks)), [f"{number} ranks" for number in ranks])
    axes.tick_params(axis="x", length=0, pad=60, labelsize=8)
    cut = f" (cut at {HIGHEST_BAR})" if highest > HIGHEST_BAR else ""
    axes.set_ylabel(f"seconds / seconds of the fastest model{cut}")
    for name in [name for name in COLOURS if name in used]:
        axes.bar(0, 0, color=COLOURS[name], label=name)
    axes.legend(fontsize=8, ncols=6)
