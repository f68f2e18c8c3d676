"""Tables that compare several plans, for full batches and for mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from plancc.report.table import Table
from plancc_cli.render import figure_of
from plancc_cli.render_epochs import basis_words, payoff_words, why_none
from plancc_cli.render_figures import NO_RATIO, figures, training_rows
from plancc_cli.tables import duration, number, print_table, ratio, say

if TYPE_CHECKING:
    from plancc.cost.batches import Estimate
    from plancc.report.batches import BatchReport
    from plancc.report.passes import PassCost
    from plancc.report.plans import Report


def print_comparison(reports: Sequence[Report], baseline: str | None = None) -> None:
    """Print a table with a column for each plan.

    Ratios are to the plan whose path is `baseline`, or to an even random partition.
    """
    base = next((report for report in reports if report.path == baseline), None)
    print_table(comparison_table(reports, base))
    say(f"predicted times: {basis_words(reports[0].epoch.basis)}")
    for report in reports:
        if report.epoch.why:
            say(f"{report.path}: no predicted time: {why_none(report.epoch)}")


def print_on_batches(report: Report, batches: BatchReport) -> None:
    """Print a table of figures per mini-batch, beside the same figures of a full batch."""
    of, full, times = batches.estimates, report.metrics, batches.num_blocks
    exchange = "exchange" if times == 1 else f"{times} exchanges"
    table = Table(("", "per batch", "95% interval", "full batch"), _on_which(batches))

    def add(words: str, figure: Estimate, of_all: float) -> None:
        table.add_row(words, number(figure.mean), interval(figure), number(of_all))

    add("vertices", of["vertices"], report.header.num_vertices)
    add("nonzeros", of["nonzeros"], times * report.header.num_nonzeros)
    add(f"volume: rows moved per {exchange}", of["volume"], times * full.volume)
    if batches.expected_volume is not None:
        table.add_row("  exact expectation", number(batches.expected_volume))
    add("  busiest part, larger of the two", of["max_volume"], times * full.max_volume)
    add(f"messages per {exchange}", of["messages"], times * full.messages)
    add("imbalance of nonzeros (max/mean - 1)", of["work_imbalance"], full.nonzero_imbalance)
    print_table(table)


def print_batch_comparison(reports: Sequence[BatchReport]) -> None:
    """Print a table of figures of several plans on the same mini-batches, one row for each plan."""
    table = Table(
        ("", "volume per batch", "ratio to the first", "busiest part", "messages"),
        f"{_on_which(reports[0])}, for all plans",
        "in brackets: 95% intervals; that of the ratio is paired",
    )
    for each in reports:
        of = each.estimates
        volume, beside = f"{number(of['volume'].mean)} ({interval(of['volume'])})", "-"
        if each.ratio is not None:
            beside = f"{each.ratio.mean:.3f} ({interval(each.ratio, '.3f')})"
        others = (number(of[name].mean) for name in ("max_volume", "messages"))
        table.add_row(each.path, volume, beside, *others)
    print_table(table)


def _on_which(batches: BatchReport) -> str:
    count = "1 fresh batch" if batches.number == 1 else f"{batches.number:,} fresh batches"
    return f"{count} by {batches.sampler}, seed {batches.seed}"


def interval(figure: Estimate, digits: str = "") -> str:
    """Return a 95% interval, such as ``3.1000 to 3.4000``; "-" if one mini-batch was measured."""
    if figure.low is None or figure.high is None:
        return "-"
    ends = (figure.low, figure.high)
    return " to ".join(format(end, digits) if digits else number(end) for end in ends)


def comparison_table(reports: Sequence[Report], baseline: Report | None = None) -> Table:
    """Return a table with a column for every plan.

    Every figure except imbalances has a ratio to `baseline`, or to an even random partition.
    """
    paths = (report.path for report in reports)
    to = "an even random partition" if baseline is None else baseline.path
    table = Table(("", *paths), f"figure (ratio to {to})")

    def add(words: str, cells: Iterable[str]) -> None:
        table.add_row(words, *cells)

    for name in ("model", "partitioner", "preset", "effort", "objective", "seed", "sampler"):
        values = [report.provenance.get(name) for report in reports]
        if any(value not in (None, "") for value in values):
            add(name, ("-" if value in (None, "") else str(value) for value in values))
    add("parts", (number(report.header.num_parts) for report in reports))
    if any(report.header.grid is not None for report in reports):
        add("grid", (str(report.header.grid or "-") for report in reports))
        add("ranks", (number(report.header.num_ranks) for report in reports))
    if any("expected_volume" in report.provenance for report in reports):
        add("rows expected of a mini-batch", (_of_batch(each, baseline) for each in reports))
    for name, words in figures(reports):
        cells = []
        for report in reports:
            beside = report.random if baseline is None else baseline.metrics
            value, base = getattr(report.metrics, name), getattr(beside, name)
            cells.append(number(value) + ("" if name in NO_RATIO else f" ({ratio(value, base)})"))
        add(words, cells)
    add("predicted time of an epoch", (_epoch(report, baseline) for report in reports))
    add("  over the bound", map(_over_bound, reports))
    searches = [report.spending.search for report in reports]
    add("time of the search", ("-" if each is None else duration(each) for each in searches))
    add(
        "epochs that repay the search, against random",
        (payoff_words(each.pays_over()) for each in reports),
    )
    for rival in [baseline] if baseline else reports if len(reports) > 1 else []:
        over = (None if each is rival else each.pays_over(rival) for each in reports)
        add(f"  over {rival.path}", map(payoff_words, over))
    if all(report.training is not None for report in reports):
        for words, get, show in training_rows():
            cells = []
            for report in reports:
                other = report.random_training if baseline is None else baseline.training
                value, base = get(report.training), get(other)
                cells.append(f"{show(value)} ({ratio(value, base)})")
            add(words, cells)
    elif all(map(_passes_of, reports)):
        epochs = [_passes_of(report) for report in reports]
        add("words of an epoch, all passes", (number(costs[-1].words) for costs in epochs))
        add("messages of an epoch", (number(costs[-1].messages) for costs in epochs))
    return table


def _epoch(report: Report, baseline: Report | None) -> str:
    """Return the predicted time of an epoch, as text, if possible with a ratio.

    The ratio is to the time of `baseline` or, without it, of a random partition.
    """
    times = report.epoch
    if times.seconds is None:
        return "-"
    base = times.random if baseline is None else baseline.epoch.seconds
    return duration(times.seconds) + ("" if base is None else f" ({ratio(times.seconds, base)})")


def _of_batch(report: Report, baseline: Report | None) -> str:
    """Return the expected number of rows that a mini-batch moves, with a ratio in brackets.

    The ratio is to a random partition, or to the baseline if both plans have the same sampler.
    """
    of = report.provenance
    base, name = (of, "expected_volume_random")
    if baseline is not None:
        base, name = baseline.provenance, "expected_volume"
    value, beside = figure_of(of, "expected_volume"), figure_of(base, name)
    if value is None:
        return "-"
    if beside is None or base.get("sampler") != of.get("sampler"):
        return f"{value:,.1f}"
    return f"{value:,.1f} ({ratio(value, beside)})"


def _over_bound(report: Report) -> str:
    times = report.epoch
    return "-" if times.seconds is None else ratio(times.seconds, times.bound or 0.0)


def _passes_of(report: Report) -> list[PassCost]:
    """Return an epoch's costs with no pass, with one pass and so on; [] if widths are unknown."""
    return report.on_grid if report.training is None else report.training.passes
