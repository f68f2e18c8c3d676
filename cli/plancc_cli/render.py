"""Sentences and tables about a plan, for `compile`, `refine`, `patch` and `inspect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import click

from plancc.report.table import Table
from plancc.text import shown
from plancc_cli.render_epochs import basis_words, epoch_words
from plancc_cli.render_figures import FIGURES, NO_RATIO, PRODUCT, report_tables
from plancc_cli.tables import (
    count_of,
    duration,
    number,
    objective_words,
    print_table,
    ratio,
    say,
    size,
)
from plancc_cli.words import in_flags

if TYPE_CHECKING:
    from plancc.plan.metrics import Metrics
    from plancc.plan.plan import Plan
    from plancc.plan.values import Header
    from plancc.report.grid_traffic import ProductTraffic
    from plancc.report.plans import Report

SAID = (
    *("epoch_seconds", "random_epoch_seconds", "bound_seconds"),
    *("expected_volume", "expected_volume_random"),
    *("warnings", "sampler", "source_weights", "source_counts"),
)
"""Entries of a provenance that other lines show."""
NAMES = {
    "numbered_for": "ranks numbered for machine",
    "balance_imbalance": "imbalance reached",
    "predicted_memory": "memory predicted for the compile",
    "dims": "widths of the layers (dims)",
    "hoeffding_nets": "nets to draw by Hoeffding's bound",
    "hoeffding_batches": "batches to draw by Hoeffding's bound",
    "nets_per_batch": "nets in a batch, on average",
}
"""Words for entries of a provenance whose names are not clear."""
NOTHING_MOVED = "rows moved 0, by a random partition too"
WITHOUT_LINKS = "links not counted: "
"""Phrase before figures that leave out the messages of link prediction. `NOTHING_MOVED` replaces
ratios to zero, such as the ratios of a plan with one part."""


def print_summary(plan: Plan, output: str, digest: str, seconds: float, quiet: bool) -> None:
    """Print a few lines about a new plan; if `quiet`, only the content hash `digest`."""
    from plancc.graph.links import KINDS
    from plancc.graph.named_ids import are_names
    from plancc.report.costs import product_of
    from plancc.report.epochs import EpochTimes
    from plancc.report.provenance import read_candidates

    if quiet:
        say(f"{output}: content {digest}")
        return
    metrics, random = plan.metrics(), plan.baseline
    assert random is not None
    header, provenance = plan.header, plan.provenance
    say(f"{output}: {sizes_of(header)}, {origin(provenance)}, {seconds:.1f} s")
    product = product_of(plan)
    inside = ""
    if product is not None:
        ranks = count_of(header.num_ranks, "rank")
        inside = f"runs on exactly {ranks}; a product of {product.width} columns, in words: "
        inside += f"{_moved_on_grid(product)}; row plan inside: "
    batches = _expectation(provenance)
    if batches:
        say(batches)
    full = "full batch: " * bool(batches)
    say(f"{full}{inside}{moved_words(metrics, random, provenance)}")
    full += WITHOUT_LINKS * (plan.links is not None)
    say(f"{full}{epoch_words(EpochTimes.of_plan(plan))}")
    sizes = _data(plan.vertex_data.sizes())
    for name in plan.read_columns:
        sizes += f"; {name.replace('_', ' ')} {prod(plan.columns[name].shape[1:]):,}"
    say(f"matrix: {how_read(header, provenance)}; vertex data: {sizes}")
    if plan.links is not None:
        kinds = plan.links.kind
        say(words_of_links({name: int((kinds == k).sum()) for k, name in enumerate(KINDS)}))
    if are_names(plan.original_id):
        say(_of_names(header, provenance))
    candidates = read_candidates(provenance)
    if candidates:
        say(f"model auto, by {provenance.get('chosen_by', '-')}: {_outcomes(candidates)}")
    begins = ("bandwidth", "granularity", "stages")
    of_model = [name for name in provenance if name.startswith(begins)]
    if of_model:
        say(", ".join(f"{name.replace('_', ' ')}: {provenance[name]}" for name in of_model))
    say(f"content {digest}")


def _of_names(header: Header, provenance: Mapping[str, Any]) -> str:
    """Return a sentence about a plan whose ids are names: how its vertices are numbered."""
    listed = provenance.get("source_format") in ("edgelist", "parquet")
    order = "the order of the names" if listed else "the source's order"
    return f"ids are names: {header.num_vertices:,} vertices, numbered in {order}"


def words_of_links(sizes: Mapping[str, int]) -> str:
    """Return a sentence with the number of links of each kind, such as training links."""
    words = (f"{kind.replace('_', ' ')} {count:,}" for kind, count in sizes.items())
    return f"links: {', '.join(words)}"


def _data(sizes: Mapping[str, int]) -> str:
    """Return a phrase that lists the vertex data of a plan with their sizes."""
    words = [f"{name.replace('_', ' ')} {size:,}" for name, size in sizes.items()]
    many = " (a vertex may be of any number of classes: sigmoid, F1)" * ("targets" in sizes)
    real = " (real numbers to learn: mean squared error, RMSE)" * ("real_targets" in sizes)
    return (", ".join(words) or "none") + many + real


def _outcomes(candidates: Sequence[Mapping[str, Any]]) -> str:
    """Return a phrase with every candidate of model "auto" and the predicted time of an epoch.

    The chosen candidate comes first.
    """
    words = []
    for each in sorted(candidates, key=lambda each: not each.get("chosen")):
        seconds = each.get("epoch_seconds")
        found = "left out" if each["failed"] else duration(seconds) if seconds else "-"
        words.append(f"{each['model']} {found}{' (chosen)' * bool(each.get('chosen'))}")
    return ", ".join(words)


def _expectation(provenance: Mapping[str, Any]) -> str:
    """Return a sentence about the rows that a mini-batch moves on average; "" if unknown."""
    value, random, seen = (
        figure_of(provenance, name)
        for name in ("expected_volume", "expected_volume_random", "nonzeros_seen")
    )
    if value is None:
        return ""
    beside = f" ({ratio(value, random)} of a random partition's)" if random else ""
    batches = provenance.get("batches")
    how = "exact, from the sampler's probabilities"
    if batches != "exact":
        drawn = _batches(int(figure_of(provenance, "batches") or 0))
        most = "" if seen is None else f", in which {seen:.1%} of the nonzeros occur"
        how = f"the search drew {drawn}{most}"
    sampler = provenance.get("sampler")
    return f"mini-batches of {sampler}: {value:,.1f} rows expected{beside}; {how}"


def figure_of(provenance: Mapping[str, Any], name: str) -> float | None:
    """Return the number that a provenance has under a name; None if it has no such number."""
    value = provenance.get(name)
    return value if isinstance(value, int | float) else None


def _batches(number: int) -> str:
    return f"{number:,} batch{'es' if number != 1 else ''}"


def moved_words(metrics: Metrics, random: Metrics, provenance: Mapping[str, Any]) -> str:
    """Return a line: moved rows with ratios to a random partition, and the balance of the plan."""
    if not random.messages:
        return NOTHING_MOVED
    share = ratio(metrics.volume, random.volume)
    return (
        f"rows moved {metrics.volume:,} ({share} of a random partition's {random.volume:,}), "
        f"busiest part {metrics.max_volume:,} ({ratio(metrics.max_volume, random.max_volume)}), "
        f"messages {metrics.messages:,} ({ratio(metrics.messages, random.messages)}); "
        f"balance {provenance.get('balance', '-')}: {_balance(metrics, provenance)}"
    )


def _balance(metrics: Metrics, provenance: Mapping[str, Any]) -> str:
    """Return a phrase that says how far the fullest part is above its even share."""
    from plancc.report.provenance import recorded_machine

    machine = recorded_machine(provenance)
    if machine is not None and len(set(machine.speed)) > 1:
        shared = _reached(provenance)
        if shared:
            words = ", ".join(f"{value:.1%} in {name}" for name, value in shared)
            return f"fullest part above its share by capacities: {words}"
    others = [each for each in _reached(provenance) if each[0] not in ("nnz", "rows")]
    found = [*others, ("nonzeros", metrics.nonzero_imbalance), ("rows", metrics.row_imbalance)]
    (name, most), *rest = found
    words = "".join(f", {value:.1%} more {each}" for each, value in rest)
    return f"the fullest part has {most:.1%} more {name} than the mean{words}"


def _reached(provenance: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return pairs (name of a vertex weight, imbalance); [] if the provenance lacks a value."""
    names = [each.partition(":")[0] for each in str(provenance.get("balance", "")).split(",")]
    with suppress(ValueError):  # of a text that somebody has edited
        values = [*map(float, str(provenance.get("balance_imbalance", "")).split(","))]
        more = len(values) - len(names)
        names = [each for each in names for _ in range(1 + more * (each == "weights"))]
        return [*zip(names, values, strict=True)]
    return []


def sizes_of(header: Header) -> str:
    """Return a phrase with the numbers of vertices, nonzeros and parts, and with any grid."""
    sizes = f"{header.num_vertices:,} vertices, {header.num_nonzeros:,} nonzeros, "
    if header.grid is None:
        kind = " of an edge plan" * (header.layout == "edge")
        return sizes + count_of(header.num_parts, "part") + kind
    return f"{sizes}{count_of(header.num_parts, 'block of rows')} on grid {header.grid}"


def _matrix(header: Header) -> str:
    """Return the formula of the plan's matrix, such as "D^-1/2 (A+I) D^-1/2"."""
    inner = "(A+I)" if header.self_loops else "A"
    products = {"sym": f"D^-1/2 {inner} D^-1/2", "row": f"D^-1 {inner}", "none": inner.strip("()")}
    return products[header.normalization]


def how_read(header: Header, provenance: Mapping[str, Any]) -> str:
    """Return a sentence about the plan's matrix: edge weights, direction, changes by `compile`."""
    from plancc.graph.formats import reading_of, split_names

    words = [_matrix(header)]
    if header.types is not None:
        words = ["of every relation " + words[0]]
        if header.normalization != "none":
            words.append("--normalize none keeps the values unchanged")
    elif words != ["A"]:
        words = [f"{words[0]}; --normalize none --no-self-loops keeps the matrix unchanged"]
    if provenance.get("source_weights"):
        words.append(f"weights of the edges: {provenance['source_weights']}")
    words += filter(None, [_counts(provenance)])
    if header.directed and (names := split_names(str(provenance.get("source_columns", "")))):
        turned = "transpose" in reading_of(str(provenance.get("source_reading", "")))
        row, column = map(shown, names[::-1] if turned else names)
        needs = "a row needs its columns; --transpose swaps them"
        words.append(f"row = {row}, column = {column} ({needs})")
    if header.directed and header.types is None:
        meaning = "" if names else "entry i j means row i needs row j, --transpose swaps i, j; "
        words.append(f"the graph is directed: {meaning}--symmetrize adds the reverse edges")
    return "; ".join(words)


def _counts(provenance: Mapping[str, Any]) -> str:
    """Return a phrase: how many entries of the graph were merged, added or left out in reading."""
    context = click.get_current_context(silent=True)
    said = str(provenance.get("source_counts", ""))
    return in_flags(said, context.command if context else None)


def origin(provenance: dict[str, Any]) -> str:
    """Return a phrase that names the model, and the search or partitioner."""
    model = f"model {provenance['model']}"
    if provenance.get("blocks"):
        model += f", blocks {provenance['blocks']}"
    partitioner = provenance.get("partitioner")
    if not partitioner or partitioner == "none":
        return model
    how = provenance.get("preset") or provenance.get("effort")
    return f"{model} by {partitioner}{f' ({how})' if how else ''}"


def print_refinement(given: Plan, better: Plan, output: str, digest: str, seconds: float) -> None:
    """Print a table of figures before and after `refine`."""
    from plancc.report.provenance import read_tried

    provenance, before = better.provenance, read_tried(better.provenance)[0]
    header = better.header
    say(f"{output}: {sizes_of(header)}, refined for {provenance['objective']}, {seconds:.1f} s")
    if provenance["refined_from"] != digest:
        print_table(_refinement(given, better))
    else:
        value = objective_words(provenance["objective"], before["value"])
        say(f"nothing better was found: the owners are the same, {provenance['objective']} {value}")
    say(f"content {digest}")


def print_patch(given: Plan, patched: Plan, output: str, digest: str, seconds: float) -> None:
    """Print how many rows have changed, and a table of figures before and after `patch`."""
    found, header = patched.provenance, patched.header
    say(f"{output}: {sizes_of(header)}, patched, {seconds:.1f} s")
    rows = f"{found['rows_moved']:,} of {given.num_vertices:,} rows have another owner"
    others = [("new", found["rows_added"]), ("gone", found["rows_removed"])]
    say(", ".join([rows, *(f"{count:,} are {what}" for what, count in others if count)]))
    print_table(_refinement(given, patched))
    say(f"content {digest}")


def _refinement(given: Plan, better: Plan) -> Table:
    from plancc.report.epochs import EpochTimes

    table = Table(("", "before", "after", "ratio"))
    after = EpochTimes.of_plan(better)
    before = after.beside(given)
    if before is not None and after.seconds is not None:
        times = duration(before), duration(after.seconds), ratio(after.seconds, before)
        table.add_row("predicted time of an epoch", *times)
        table.caption = basis_words(after.basis, origin=False)
    given_metrics, better_metrics = given.metrics(), better.metrics()
    for name in ("volume", "max_volume", "messages", *NO_RATIO):
        old, new = getattr(given_metrics, name), getattr(better_metrics, name)
        beside = "" if name in NO_RATIO else ratio(new, old)
        table.add_row(dict(FIGURES)[name].strip(), number(old), number(new), beside)
    return table


def print_report(report: Report, per_part: bool, every: bool = False) -> None:
    """Print the main figures; `per_part` adds a line for every part, and `every` all the rest."""
    header, provenance = report.header, report.provenance
    merged = f" merged onto {report.num_ranks} ranks" * (report.num_ranks < header.num_parts)
    model = f", {origin(provenance)}" if provenance.get("model") else ""
    say(f"{report.path}: {sizes_of(header)}{merged}{model}")
    if report.ids_are_names:
        say(_of_names(header, provenance))
    print_table(_answer(report))
    if every:
        print_table(facts_table(report))
    for table in report_tables(report, per_part, every=every):
        print_table(table)
    if not every:
        say("\n-v shows provenance, the steps of the search and all figures")


def _answer(report: Report) -> Table:
    """Return the table of the most important figures, each in a line."""
    table, of, random = Table(("", ""), left=2, has_heads=False), report.metrics, report.random
    full = ""
    if batches := _expectation(report.provenance):
        full = "full batch: "
        sampler, _, words = batches.partition(": ")
        table.add_row("a mini-batch", f"{words} ({sampler})")
    if report.product is not None:
        of_columns = f"in words ({report.product.width:,} columns): "
        table.add_row("one product", of_columns + _moved_on_grid(report.product))
        full = "row plan inside: "
    moved = [("rows moved", "volume"), ("busiest part", "max_volume"), ("messages", "messages")]
    if not random.messages:
        moved = []
        table.add_row(f"{full}rows moved", NOTHING_MOVED.removeprefix("rows moved "))
    for words, name in moved:
        value, base = getattr(of, name), getattr(random, name)
        table.add_row(
            full + words, f"{value:,}, {ratio(value, base)} of a random partition's {base:,}"
        )
    for row in (row for each in report.more.values() for row in each.facts(of)):
        table.add_row(*row)
    limits = report.provenance.get("balance")
    recorded = report.provenance if report.num_ranks == report.header.num_ranks else {}
    table.add_row("balance", _balance(of, recorded) + (f" (balanced: {limits})" if limits else ""))
    parts = {"rows": report.parts.rows, "nonzeros": report.parts.nonzeros}
    spans = [f"{each.min():,} to {each.max():,} {name}" for name, each in parts.items()]
    table.add_row("a part has", ", ".join(spans))
    full = "full batch: " * bool(batches) + WITHOUT_LINKS * bool(report.links)
    epoch = epoch_words(report.epoch).removeprefix("predicted epoch ")
    table.add_row(f"{full}predicted epoch", epoch)
    for warning in str(report.provenance.get("warnings", "")).splitlines():
        table.add_row("warning", in_flags(warning, None))
    return table


def _moved_on_grid(product: ProductTraffic) -> str:
    counts = [(getattr(product, name), words) for name, words in PRODUCT]
    return ", ".join(f"{number(each)} {words}" for each, words in counts if each) or "nothing sent"


def facts_table(report: Report) -> Table:
    """Return a table of facts about a plan and about how it was made, one fact a line."""
    header, provenance = report.header, report.provenance
    table = Table(("", ""), left=2, has_heads=False)
    kind = "directed" if header.directed else "undirected"
    if "source_weights" in provenance:  # older plans do not say
        weights = provenance["source_weights"]
        kind += f", weighted: {weights}" if weights else ", without weights"
    table.add_row("edges", "; ".join(filter(None, (kind, _counts(provenance)))))
    table.add_row("matrix", _matrix(header))
    layout = header.layout if header.grid is None else f"{header.layout} ({header.grid})"
    table.add_row("layout", layout)
    table.add_row("vertex data", ", ".join(report.vertex_data) or "none")
    if report.links:
        *of_splits, (_, rows), (_, messages) = report.links.items()
        sizes = ", ".join(f"{size:,} {split}" for split, size in of_splits)
        table.add_row("links", f"{sizes}; their targets: {rows:,} rows in {messages:,} messages")
    if sampler := provenance.get("sampler"):
        how = f"with --sampler {sampler.split()[0]}, else the full batch"
        table.add_row("training", f"plancc-run trains in them {how}")
    table.add_row("content", report.content_sha256)
    for name, value in provenance.items():
        if value != "" and not isinstance(value, list) and name not in SAID:
            table.add_row(NAMES.get(name, name.replace("_", " ")), _provenance(name, value))
    return table


def _provenance(name: str, value: Any) -> str:
    if isinstance(value, dict):  # the machine
        return str(value.get("name") or ", ".join(f"{k} {v}" for k, v in value.items()))
    if name.endswith("_memory"):
        return size(float(value))
    if name.endswith("_seconds"):
        return duration(float(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
