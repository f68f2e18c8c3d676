"""Tables of a plan's figures, costs and search, for `plancc inspect` and `plancc report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plancc.report.table import Table
from plancc.text import shown
from plancc_cli.render_epochs import epoch_table, of_provenance
from plancc_cli.render_routes import route_tables
from plancc_cli.tables import amount, duration, number, objective_words, ratio, size

if TYPE_CHECKING:
    from plancc.report.costs import TrainingCost
    from plancc.report.grid_traffic import ProductTraffic
    from plancc.report.passes import PassCost, SampledCost
    from plancc.report.plans import Report

MOST_TRIED = 20
"""Largest number of steps that are all shown."""
BESIDE_RANDOM = ("", "this plan", "random", "ratio")
"""Heads of tables with figures of this plan and of a random partition."""
FIGURES = (
    ("volume", "volume: rows moved per exchange"),
    ("expand_volume", "  by the expand"),
    ("fold_volume", "  by the fold"),
    ("average_volume", "  average sent per part"),
    ("max_sent", "  most sent by one part"),
    ("max_received", "  most received by one part"),
    ("max_volume", "  busiest part, larger of the two"),
    ("max_exchanged", "  busiest part, sent + received"),
    ("messages", "messages per exchange"),
    ("expand_messages", "  of the expand"),
    ("fold_messages", "  of the fold"),
    ("average_messages", "  average sent per part"),
    ("max_messages_sent", "  most sent by one part"),
    ("max_messages_received", "  most received by one part"),
    ("nonzero_imbalance", "imbalance of nonzeros (max/mean - 1)"),
    ("row_imbalance", "imbalance of rows (max/mean - 1)"),
    ("boundary_ratio", "halo rows per own row"),
    ("max_boundary_ratio", "  at the worst part"),
    ("replication_factor", "copies per vertex (replication factor)"),
)
"""Names of metrics, with a label for each."""
NO_RATIO = ("nonzero_imbalance", "row_imbalance")
"""Metrics without a ratio, since they are relative to the ideal already."""
PRODUCT = (
    ("rows", "rows of H sent"),
    ("sums", "sums sent to where they belong"),
    ("swapped", "sent to turn rows into slices of columns and back"),
    ("reduced", "sums put into all-reductions"),
    ("matrix", "blocks of A sent"),
)
"""Attributes of `ProductTraffic`, with a label for each."""
OF_EDGE_PLANS = ("expand_volume", "fold_volume", "expand_messages", "fold_messages")
"""Metrics that row plans do not have."""


def figures(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """Return the figures to show as pairs (attribute, label); fewer if no plan is an edge plan."""
    edges = any(report.header.layout == "edge" for report in reports)
    return [(name, words) for name, words in FIGURES if edges or name not in OF_EDGE_PLANS]


def report_tables(report: Report, per_part: bool, every: bool = True) -> Iterator[Table | str]:
    """Yield the tables that follow the summary of a report; a sentence replaces an empty table.

    `per_part` adds a line for every part. `every` adds the tables that need no option.
    """
    header = report.header
    tried = report.provenance.get("tried")
    candidates = report.provenance.get("candidates")
    if every and isinstance(candidates, list):
        yield _candidates(candidates, report.provenance)
    if every and isinstance(tried, list):
        yield _tried(tried, report.provenance)
    if every:
        yield _figures(report)
        yield epoch_table(report.epoch)
    if every and report.product is not None:
        yield _product(report.product)
    if report.on_grid:
        yield _passes(report.on_grid, header.layout, in_hops=False)
    yield from route_tables(report)
    if report.training is not None and report.random_training is not None:
        yield _training(report.training, report.random_training)
        yield _passes(report.training.passes, header.layout, report.training.in_hops)
        if report.sampled:
            yield _sampled(report.sampled)
    if report.types:
        yield _types(report)
        yield _relations(report)
    if per_part:
        yield _per_part(report)


def _types(report: Report) -> Table:
    table = Table(("type", "vertices", "imbalance", "rows moved"), title="Types")
    for each in report.types:
        cells = f"{each.vertices:,}", f"{each.row_imbalance:.1%}", f"{each.volume:,}"
        table.add_row(shown(each.name, 40), *cells)
    return table


def _relations(report: Report) -> Table:
    heads = "relation", "nonzeros", "rows moved", "messages"
    caption = "rows that the product of the relation alone moves"
    table = Table(heads, title="Relations", caption=caption)
    for each in report.relations:
        numbers = (f"{figure:,}" for figure in (each.nonzeros, each.volume, each.messages))
        table.add_row(shown(" ".join(each.relation), 60), *numbers)
    return table


def _figures(report: Report) -> Table:
    table = Table(BESIDE_RANDOM, "communication and balance")
    for name, words in figures([report]):
        value, base = getattr(report.metrics, name), getattr(report.random, name)
        beside = "" if name in NO_RATIO else ratio(value, base)
        table.add_row(words, number(value), number(base), beside)
    if report.header.grid is not None:
        inside = "figures of the row plan inside"
        table.caption = f"{inside}: rows that blocks of rows need of each other"
    return table


def _product(product: ProductTraffic) -> Table:
    """Return the table of the words that the ranks of a grid send in one forward product."""
    columns = (f"H of {number(product.width)} columns", "words of all ranks")
    table = Table(columns, "one product on the grid, forward")
    for name, words in PRODUCT:
        value = getattr(product, name)
        if value or name == "rows":
            table.add_row(words, number(value))
    return table


def training_rows() -> list[tuple[str, Any, Any]]:
    memory = ("plan", "matrix", "halo", "features", "activations", "total")
    fullest = "memory of the fullest rank"
    return [
        ("words sent per epoch", lambda t: t.words, number),
        ("bytes sent per epoch (float32)", lambda t: 4 * t.words, size),
        ("  most by one rank", lambda t: 4 * t.max_words_sent, size),
        ("messages sent per epoch", lambda t: t.messages, number),
        ("  most by one rank", lambda t: t.max_messages_sent, number),
        *((f"{fullest}: {name}", lambda t, n=name: t.max_memory[n], size) for name in memory),
        ("  total with --recompute", lambda t: t.recomputed_memory, size),
    ]


def _training(training: TrainingCost, random: TrainingCost) -> Table:
    dims = " x ".join(map(str, training.dims))
    table = Table(BESIDE_RANDOM, f"training a GCN of {dims}")
    for words, get, show in training_rows():
        value, base = get(training), get(random)
        table.add_row(words, show(value), show(base), ratio(value, base))
    return table


def _passes(costs: Sequence[PassCost], layout: str, in_hops: bool) -> Table:
    """Return a table of words and messages of an epoch; every row adds a pass to the row above."""
    caption = "exact, per epoch, without dropout of the features; plancc-run has all passes on"
    caption += "; dead-rows needs a row plan" * (layout != "row")
    caption += "; rows with node-aware exchange" * in_hops
    heads = ("execution", "words", "saved", "most by one", "messages")
    table = Table(heads, "words with passes, each added to those before", caption)
    for cost in costs:
        name = f"+ {cost.passes[-1]}" if cost.passes else "plain"
        moved = f"{cost.saved:.1%}", number(cost.max_words_sent), number(cost.messages)
        table.add_row(name, number(cost.words), *moved)
    return table


def _sampled(costs: Sequence[SampledCost]) -> Table:
    table = Table(
        ("rate", "words", "messages", "memory, fullest", "mean"),
        "boundary sampling (BNS-GCN)",
        "expected per epoch, with all passes; memory by Equation 4 of the paper",
        left=0,
    )
    for cost in costs:
        moved = f"{cost.rate:g}", f"{cost.words:,.0f}", f"{cost.messages:,.1f}"
        table.add_row(*moved, size(cost.max_memory), size(cost.mean_memory))
    return table


def _candidates(candidates: Sequence[dict[str, Any]], provenance: Mapping[str, Any]) -> Table:
    """Return a table of the models that "auto" compared; an asterisk marks the chosen model."""
    failed = [f"{each['model']}: {each['failed']}" for each in candidates if each["failed"]]
    table = Table(
        (
            *("model", "volume", "messages", "busiest part", "imb. nonzeros", "imb. rows"),
            *("epoch", "memory", "seconds", "chosen"),
        ),
        f"candidates, the best by {provenance.get('chosen_by', '-')}",
        "\n".join([f"epoch: predicted, {of_provenance(provenance)}", *failed]),
    )
    for each in candidates:
        figures = ["left out", *["-"] * 6]
        if not each["failed"]:
            moved = (amount(each.get(name)) for name in ("volume", "messages", "max_volume"))
            uneven = (number(each.get(name)) for name in NO_RATIO)
            memory = size(each["memory"]) if each.get("memory") else "-"
            figures = [*moved, *uneven, duration(each.get("epoch_seconds") or 0.0), memory]
        seconds = f"{each.get('seconds') or 0:.1f}"
        table.add_row(each["model"], *figures, seconds, "*" * bool(each.get("chosen")))
    return table


def _tried(tried: Sequence[dict[str, Any]], provenance: Mapping[str, Any]) -> Table:
    """Return a table of the steps of a search; an asterisk marks a step that improved the result.

    If there are many steps, only marked steps are shown.
    """
    objective = str(provenance.get("objective", "volume"))
    others = objective not in ("volume", "cut")  # of a cut is told what travels
    over = any(each.get("overload") for each in tried)
    value = {"time": "predicted epoch", "max-volume": "busiest part"}.get(objective, objective)
    columns = ("step", "seconds", *[value] * others, "rows moved", *["overload"] * over, "best")
    table = Table(columns, "steps of the search")
    shown = tried if len(tried) <= MOST_TRIED else [each for each in tried if each.get("best")]
    for each in shown:
        seconds = each.get("seconds")
        table.add_row(
            each["step"],
            "-" if seconds is None else f"{seconds:.2f}",
            *[objective_words(objective, each.get("value"))] * others,
            amount(each.get("volume")),
            *[number(each.get("overload"))] * over,
            "*" * bool(each.get("best")),
        )
    notes = []
    if objective == "time":
        notes.append(f"predicted epoch: {of_provenance(provenance)}")
    if over:
        notes.append("overload: weight above the limits of all parts, in average parts")
    if len(shown) < len(tried):
        notes.append(f"{len(tried) - len(shown)} other steps were no better")
    table.caption = "\n".join(notes)
    return table


def _per_part(report: Report) -> Table:
    from plancc.report.plans import PART_FIGURES

    columns = {name: getattr(report.parts, name) for name in PART_FIGURES}
    if report.parts.fold is not None and report.parts.copies is not None:
        columns |= {"folded": report.parts.fold.sent, "copies": report.parts.copies}
    names = [name.replace("_", " ") for name in ("part", *columns)]
    table = Table(names, "per part", left=0)
    of_parts = zip(*(column.tolist() for column in columns.values()), strict=True)
    for part, values in enumerate(of_parts):
        table.add_row(str(part), *(number(value) for value in values))
    return table
