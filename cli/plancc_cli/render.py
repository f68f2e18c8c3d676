"""Tables of plans on stdout. Formats values; computes nothing but ratios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from plancc.report.table import Table
from plancc.text import shown
from plancc_cli.render_epochs import (
    basis_words,
    epoch_table,
    epoch_words,
    of_provenance,
    why_none,
)
from plancc_cli.tables import (
    amount,
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
    from plancc.cost.batches import Estimate
    from plancc.plan.metrics import Metrics
    from plancc.plan.plan import Plan
    from plancc.plan.values import Header
    from plancc.report.batches import BatchReport
    from plancc.report.costs import TopologyCost, TrainingCost
    from plancc.report.grid_traffic import ProductTraffic
    from plancc.report.passes import PassCost, SampledCost
    from plancc.report.plans import Report

MOST_TRIED = 20
"""Number of steps up to which all of them are shown."""
BESIDE_RANDOM = ("", "this plan", "random", "ratio")
"""Columns of figures beside those of a random partition."""
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
"""Metrics, and words for them."""
NO_RATIO = ("nonzero_imbalance", "row_imbalance")
"""Metrics without a ratio: they are relative to the ideal already."""
PRODUCT = (
    ("rows", "rows of H sent"),
    ("sums", "sums sent to where they belong"),
    ("swapped", "sent to turn rows into slices of columns and back"),
    ("reduced", "sums put into all-reductions"),
    ("matrix", "blocks of A sent"),
)
"""Attributes of `ProductTraffic`, and words for them."""
SAID = (
    *("epoch_seconds", "random_epoch_seconds", "bound_seconds"),
    *("expected_volume", "expected_volume_random", "hoeffding_nets", "hoeffding_batches"),
    *("theta", "delta", "warnings", "sampler", "source_weights"),
)
"""Entries of a provenance that are said elsewhere."""
NAMES = {
    "numbered_for": "ranks numbered for machine",
    "balance_imbalance": "imbalance reached",
    "predicted_memory": "memory predicted for the compile",
    "dims": "widths of the layers (dims)",
}
"""Words for entries of a provenance whose names say too little."""
NOTHING_MOVED = "rows moved 0, by a random partition too"
"""What is said in place of ratios to nothing, such as those of one part."""
OF_EDGE_PLANS = ("expand_volume", "fold_volume", "expand_messages", "fold_messages")
"""Metrics that row plans do not have."""


def figures(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """The `FIGURES` that mean something for one of the plans."""
    edges = any(report.header.layout == "edge" for report in reports)
    return [(name, words) for name, words in FIGURES if edges or name not in OF_EDGE_PLANS]


def print_summary(plan: Plan, output: str, digest: str, seconds: float, quiet: bool) -> None:
    """The answer of `compile` in a few lines, or one."""
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
        inside = (
            f"runs on exactly {ranks}; a product of {product.width} columns, in words: "
            f"{_moved_on_grid(product)}; row plan inside: "
        )
    batches = _expectation(provenance)
    if batches:
        say(batches)
    full = "full batch: " * bool(batches)
    say(f"{full}{inside}{moved_words(metrics, random, provenance)}")
    say(f"{full}{epoch_words(EpochTimes.of_plan(plan))}")
    sizes = _data(plan.vertex_data.sizes())
    say(f"matrix: {_how_read(header, provenance)}; vertex data: {sizes}")
    candidates = read_candidates(provenance)
    if candidates:
        say(f"model auto, by {provenance.get('chosen_by', '-')}: {_outcomes(candidates)}")
    of_model = [
        name for name in provenance if name.startswith(("bandwidth", "granularity", "stages"))
    ]
    if of_model:
        say(", ".join(f"{name.replace('_', ' ')}: {provenance[name]}" for name in of_model))
    say(f"content {digest}")


def _data(sizes: Mapping[str, int]) -> str:
    """The vertex data of a plan, and how large they are."""
    words = [f"{name.replace('_', ' ')} {size:,}" for name, size in sizes.items()]
    many = " (a vertex may be of any number of classes: sigmoid, F1)" * ("targets" in sizes)
    real = " (real numbers to learn: mean squared error, RMSE)" * ("real_targets" in sizes)
    return (", ".join(words) or "none") + many + real


def _outcomes(candidates: Sequence[Mapping[str, Any]]) -> str:
    """Models that model auto compared, the chosen one first."""
    words = []
    for each in sorted(candidates, key=lambda each: not each.get("chosen")):
        seconds = each.get("epoch_seconds")
        found = "no answer" if each["failed"] else duration(seconds) if seconds else "-"
        words.append(f"{each['model']} {found}{' (chosen)' * bool(each.get('chosen'))}")
    return ", ".join(words)


def _expectation(provenance: Mapping[str, Any]) -> str:
    """What a mini-batch moves and what that is known from; "" for other plans."""
    value, random, seen = (
        _figure(provenance, name)
        for name in ("expected_volume", "expected_volume_random", "nonzeros_seen")
    )
    if value is None:
        return ""
    beside = f" ({ratio(value, random)} of random)" if random else ""
    batches = provenance.get("batches")
    how = "exact, from the sampler's probabilities"
    if batches != "exact":
        drawn = _batches(int(_figure(provenance, "batches") or 0))
        most = "" if seen is None else f", in which {seen:.1%} of the nonzeros occur"
        how = f"the search drew {drawn}{most}"
    sampler = provenance.get("sampler")
    return f"mini-batches of {sampler}: {value:,.1f} rows expected{beside}; {how}"


def _figure(provenance: Mapping[str, Any], name: str) -> float | None:
    """A number of a provenance; None if it is missing or no number."""
    value = provenance.get(name)
    return value if isinstance(value, int | float) else None


def run_words(sampler: str) -> str:
    """What `plancc-run` trains from a plan for mini-batches."""
    return f"plancc-run trains in them with --sampler {sampler.split()[0]}, else the full batch"


def _batches(number: int) -> str:
    return f"{number:,} batch{'es' if number != 1 else ''}"


def moved_words(metrics: Metrics, random: Metrics, provenance: Mapping[str, Any]) -> str:
    """What a row plan moves, beside a random partition, what was balanced, and how even it is."""
    if not random.messages:
        return NOTHING_MOVED
    return (
        f"rows moved {metrics.volume:,} ({ratio(metrics.volume, random.volume)} of random), "
        f"busiest part {metrics.max_volume:,} ({ratio(metrics.max_volume, random.max_volume)}), "
        f"messages {metrics.messages:,} ({ratio(metrics.messages, random.messages)}); "
        f"balance {provenance.get('balance', '-')}: {_balance(metrics, provenance)}"
    )


def _balance(metrics: Metrics, provenance: Mapping[str, Any]) -> str:
    """How far the fullest parts are above the mean, or above their shares by capacities."""
    from plancc.report.provenance import recorded_machine

    machine = recorded_machine(provenance)
    if machine is not None and len(set(machine.speed)) > 1:
        with suppress(ValueError):  # of a text that somebody has edited
            reached = str(provenance.get("balance_imbalance", "")).split(",")
            names = [each.partition(":")[0] for each in provenance.get("balance", "").split(",")]
            above = zip(map(float, reached), names, strict=True)
            words = ", ".join(f"{value:.1%} in {name}" for value, name in above)
            return f"fullest part above its share by capacities: {words}"
    return (
        f"fullest part {metrics.nonzero_imbalance:.1%} above the mean in nonzeros, "
        f"{metrics.row_imbalance:.1%} in rows"
    )


def sizes_of(header: Header) -> str:
    """Vertices, nonzeros, and what the rows are divided into, with the grid that shares it."""
    sizes = f"{header.num_vertices:,} vertices, {header.num_nonzeros:,} nonzeros, "
    if header.grid is None:
        return (
            sizes
            + count_of(header.num_parts, "part")
            + " of an edge plan" * (header.layout == "edge")
        )
    return f"{sizes}{count_of(header.num_parts, 'block of rows')} on grid {header.grid}"


def _matrix(header: Header) -> str:
    """The matrix that a plan multiplies with."""
    inner = "(A+I)" if header.self_loops else "A"
    products = {"sym": f"D^-1/2 {inner} D^-1/2", "row": f"D^-1 {inner}", "none": inner.strip("()")}
    return products[header.normalization]


def _how_read(header: Header, provenance: Mapping[str, Any]) -> str:
    """The matrix, how to keep that of the file, its weights and its direction."""
    from plancc.graph.formats import reading_of, split_names

    words = [_matrix(header)]
    if header.types is not None:
        words = ["of every relation " + words[0]]
        if header.normalization != "none":
            words.append("--normalize none leaves the values as they came")
    elif words != ["A"]:
        words = [f"{words[0]}; --normalize none --no-self-loops leaves it as it came"]
    if provenance.get("source_weights"):
        words.append(f"weights of the edges: {provenance['source_weights']}")
    if header.directed and (names := split_names(str(provenance.get("source_columns", "")))):
        turned = "transpose" in reading_of(str(provenance.get("source_reading", "")))
        row, column = map(shown, names[::-1] if turned else names)
        words.append(
            f"row = {row}, column = {column} (a row needs its columns; --transpose turns it)"
        )
    if header.directed and header.types is None:
        words.append("the graph is directed: --symmetrize adds the reverse edges")
    return "; ".join(words)


def origin(provenance: dict[str, Any]) -> str:
    """The model, and what partitioned."""
    model = f"model {provenance['model']}"
    if provenance.get("blocks"):
        model += f", blocks {provenance['blocks']}"
    partitioner = provenance.get("partitioner")
    if not partitioner or partitioner == "none":
        return model
    how = provenance.get("preset") or provenance.get("effort")
    return f"{model} by {partitioner}{f' ({how})' if how else ''}"


def print_refinement(given: Plan, better: Plan, output: str, digest: str, seconds: float) -> None:
    """Figures before and after `refine`."""
    from plancc.report.provenance import read_tried

    provenance, (before, *steps) = better.provenance, read_tried(better.provenance)
    header = better.header
    say(f"{output}: {sizes_of(header)}, refined for {provenance['objective']}, {seconds:.1f} s")
    if any(step["best"] for step in steps):
        print_table(_refinement(given, better))
    else:
        value = objective_words(provenance["objective"], before["value"])
        say(
            f"nothing better was found: the owners are the same, {provenance['objective']} {value}",
        )
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
    """The answer that `inspect` gives; `every`: with all that is known of the plan.

    Figures that options ask for follow in both cases.
    """
    header, provenance = report.header, report.provenance
    merged = f" merged onto {report.num_ranks} ranks" * (report.num_ranks < header.num_parts)
    model = f", {origin(provenance)}" if provenance.get("model") else ""
    say(f"{report.path}: {sizes_of(header)}{merged}{model}")
    print_table(_answer(report), boxed=False)
    if every:
        print_table(facts_table(report))
    for table in report_tables(report, per_part, every=every):
        print_table(table)
    if not every:
        say("\n-v shows provenance, the steps of the search and all figures")


def _answer(report: Report) -> Table:
    """The figures that a reader wants first, each in a line."""
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
        table.add_row(full + words, f"{value:,}, {ratio(value, base)} of random ({base:,})")
    limits = report.provenance.get("balance")
    recorded = report.provenance if report.num_ranks == report.header.num_ranks else {}
    table.add_row("balance", _balance(of, recorded) + (f" (balanced: {limits})" if limits else ""))
    full = "full batch: " * bool(batches)
    epoch = epoch_words(report.epoch).removeprefix("predicted epoch ")
    table.add_row(f"{full}predicted epoch", epoch)
    for warning in str(report.provenance.get("warnings", "")).splitlines():
        table.add_row("warning", in_flags(warning, None))
    return table


def _moved_on_grid(product: ProductTraffic) -> str:
    counts = [(getattr(product, name), words) for name, words in PRODUCT]
    return ", ".join(f"{number(each)} {words}" for each, words in counts if each) or "nothing sent"


def facts_table(report: Report) -> Table:
    """What a plan is and how it was made, a line for each fact."""
    header, provenance, table = (
        report.header,
        report.provenance,
        Table(("", ""), left=2, has_heads=False),
    )
    kind = "directed" if header.directed else "undirected"
    if "source_weights" in provenance:  # older plans do not say
        weights = provenance["source_weights"]
        kind += f", weighted: {weights}" if weights else ", without weights"
    table.add_row("edges", kind)
    table.add_row("matrix", _matrix(header))
    layout = header.layout if header.grid is None else f"{header.layout} ({header.grid})"
    table.add_row("layout", layout)
    table.add_row("vertex data", ", ".join(report.vertex_data) or "none")
    if sampler := provenance.get("sampler"):
        table.add_row("training", run_words(sampler))
        table.add_row("sample", _sample_words(provenance))
    table.add_row("content", report.content_sha256)
    for name, value in provenance.items():
        if value != "" and not isinstance(value, list) and name not in SAID:
            table.add_row(NAMES.get(name, name.replace("_", " ")), _provenance(name, value))
    return table


def _sample_words(provenance: Mapping[str, Any]) -> str:
    """How many batches the search used, and how many Hoeffding's bound asks for."""
    nets, bound = provenance.get("hoeffding_nets"), provenance.get("hoeffding_batches")
    if nets is None or bound is None:
        return "-"
    used = provenance.get("batches")
    used = "none, the expectation is exact" if used == "exact" else f"{_batches(int(used or 0))}"
    return (
        f"{used}; for an error of at most {provenance.get('theta'):g} with probability "
        f"{1 - provenance.get('delta', 0):g} Hoeffding's bound asks for {nets:,} nets, the "
        f"rows of {_batches(bound)}"
    )


def report_tables(
    report: Report, per_part: bool, hints: bool = True, every: bool = True
) -> Iterator[Table | str]:
    """Its other tables, and a sentence where there is nothing to put into one.

    With `hints` they name options of the command line; without `every` those that options ask for.
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
        yield epoch_table(report.epoch, hints)
    if every and report.product is not None:
        yield _product(report.product)
    if report.on_grid:
        yield _passes(report.on_grid, header.layout, in_hops=False)
    if report.topology is not None:
        yield _topology(report.topology)
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


def print_comparison(reports: Sequence[Report], baseline: str | None = None) -> None:
    """Plans side by side, in as many tables as the width asks for.

    Ratios are to an even random partition, or to the plan whose path is `baseline`.
    """
    base = next((report for report in reports if report.path == baseline), None)
    print_table(comparison_table(reports, base))
    say(f"predicted times: {basis_words(reports[0].epoch.basis)}")
    for report in reports:
        if report.epoch.why:
            say(f"{report.path}: no predicted time: {why_none(report.epoch)}")


def print_on_batches(report: Report, batches: BatchReport) -> None:
    """Figures per mini-batch beside those of a full batch, which exchanges as often."""
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
    """Plans on the same mini-batches, a row for each."""
    table = Table(
        ("", "volume per batch", "ratio to the first", "busiest part", "messages"),
        f"{_on_which(reports[0])}, for all plans",
        "in brackets: 95% intervals; that of the ratio is paired",
    )
    for each in reports:
        of = each.estimates
        table.add_row(
            each.path,
            f"{number(of['volume'].mean)} ({interval(of['volume'])})",
            "-" if each.ratio is None else f"{each.ratio.mean:.3f} ({interval(each.ratio, '.3f')})",
            number(of["max_volume"].mean),
            number(of["messages"].mean),
        )
    print_table(table)


def _on_which(batches: BatchReport) -> str:
    count = "1 fresh batch" if batches.number == 1 else f"{batches.number:,} fresh batches"
    return f"{count} by {batches.sampler}, seed {batches.seed}"


def interval(figure: Estimate, digits: str = "") -> str:
    """As ``3.1000 to 3.4000``; "-" where one batch says nothing of the spread."""
    if figure.low is None or figure.high is None:
        return "-"
    ends = (figure.low, figure.high)
    return " to ".join(format(end, digits) if digits else number(end) for end in ends)


def comparison_table(reports: Sequence[Report], baseline: Report | None = None) -> Table:
    """One column for every plan; each figure but the imbalances with its ratio."""
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
    table.add_section()
    if any("expected_volume" in report.provenance for report in reports):
        add("rows expected of a mini-batch", (_of_batch(each, baseline) for each in reports))
    for name, words in figures(reports):
        cells = []
        for report in reports:
            beside = report.random if baseline is None else baseline.metrics
            value, base = getattr(report.metrics, name), getattr(beside, name)
            cells.append(number(value) + ("" if name in NO_RATIO else f" ({ratio(value, base)})"))
        add(words, cells)
    table.add_section()
    add("predicted time of an epoch", (_epoch(report, baseline) for report in reports))
    add("  over the bound", map(_over_bound, reports))
    if all(report.training is not None for report in reports):
        table.add_section()
        for words, get, show in _training_rows():
            cells = []
            for report in reports:
                other = report.random_training if baseline is None else baseline.training
                value, base = get(report.training), get(other)
                cells.append(f"{show(value)} ({ratio(value, base)})")
            add(words, cells)
    elif all(map(_passes_of, reports)):
        epochs = [_passes_of(report) for report in reports]
        table.add_section()
        add("words of an epoch, all passes", (number(costs[-1].words) for costs in epochs))
        add("messages of an epoch", (number(costs[-1].messages) for costs in epochs))
    return table


def _epoch(report: Report, baseline: Report | None) -> str:
    """The predicted time, with its ratio to random or the baseline where that is known."""
    times = report.epoch
    if times.seconds is None:
        return "-"
    base = times.random if baseline is None else baseline.epoch.seconds
    return duration(times.seconds) + ("" if base is None else f" ({ratio(times.seconds, base)})")


def _of_batch(report: Report, baseline: Report | None) -> str:
    """Expected rows of a mini-batch; with a ratio where the baseline draws the same batches."""
    of = report.provenance
    base, name = (of, "expected_volume_random")
    if baseline is not None:
        base, name = baseline.provenance, "expected_volume"
    value, beside = _figure(of, "expected_volume"), _figure(base, name)
    if value is None:
        return "-"
    if beside is None or base.get("sampler") != of.get("sampler"):
        return f"{value:,.1f}"
    return f"{value:,.1f} ({ratio(value, beside)})"


def _over_bound(report: Report) -> str:
    times = report.epoch
    return "-" if times.seconds is None else ratio(times.seconds, times.bound or 0.0)


def _passes_of(report: Report) -> list[PassCost]:
    """Costs of an epoch with more and more passes; empty without dims."""
    return report.on_grid if report.training is None else report.training.passes


def _provenance(name: str, value: Any) -> str:
    if isinstance(value, dict):  # the machine
        return str(value.get("name") or ", ".join(f"{k} {v}" for k, v in value.items()))
    if name.endswith("_memory"):
        return size(float(value))
    if name.endswith("_seconds"):
        return duration(float(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figures(report: Report) -> Table:
    table = Table(BESIDE_RANDOM, "communication and balance")
    for name, words in figures([report]):
        value, base = getattr(report.metrics, name), getattr(report.random, name)
        beside = "" if name in NO_RATIO else ratio(value, base)
        table.add_row(words, number(value), number(base), beside)
    if report.header.grid is not None:
        table.caption = (
            "figures of the row plan inside: rows that blocks of rows need of each other"
        )
    return table


def _product(product: ProductTraffic) -> Table:
    """Words that the ranks of a grid really send."""
    columns = (f"H of {number(product.width)} columns", "words of all ranks")
    table = Table(columns, "one product on the grid, forward")
    for name, words in PRODUCT:
        value = getattr(product, name)
        if value or name == "rows":
            table.add_row(words, number(value))
    return table


def _training_rows() -> list[tuple[str, Any, Any]]:
    memory = ("plan", "matrix", "halo", "features", "activations", "total")
    return [
        ("words sent per epoch", lambda t: t.words, number),
        ("bytes sent per epoch (float32)", lambda t: 4 * t.words, size),
        ("  most by one rank", lambda t: 4 * t.max_words_sent, size),
        ("messages sent per epoch", lambda t: t.messages, number),
        ("  most by one rank", lambda t: t.max_messages_sent, number),
        *(
            (f"memory of the fullest rank: {name}", lambda t, n=name: t.max_memory[n], size)
            for name in memory
        ),
        ("  total with --recompute", lambda t: t.recomputed_memory, size),
    ]


def _training(training: TrainingCost, random: TrainingCost) -> Table:
    dims = " x ".join(map(str, training.dims))
    table = Table(BESIDE_RANDOM, f"training a GCN of {dims}")
    for words, get, show in _training_rows():
        value, base = get(training), get(random)
        table.add_row(words, show(value), show(base), ratio(value, base))
    return table


def _passes(costs: Sequence[PassCost], layout: str, in_hops: bool) -> Table:
    """Saving of every pass beyond those before it; plancc-run does what the last line says."""
    caption = "exact, per epoch, without dropout of the features; plancc-run has all passes on"
    table = Table(
        ("execution", "words", "saved", "most by one", "messages"),
        "words with passes, each added to those before",
        caption
        + "; dead-rows is for row plans" * (layout != "row")
        + "; rows in hops between nodes" * in_hops,
    )
    for cost in costs:
        table.add_row(
            f"+ {cost.passes[-1]}" if cost.passes else "plain",
            number(cost.words),
            f"{cost.saved:.1%}",
            number(cost.max_words_sent),
            number(cost.messages),
        )
    return table


def _sampled(costs: Sequence[SampledCost]) -> Table:
    table = Table(
        ("rate", "words", "messages", "memory, fullest", "mean"),
        "boundary sampling (BNS-GCN)",
        "expected per epoch, with all passes; memory by Equation 4 of the paper",
        left=0,
    )
    for cost in costs:
        table.add_row(
            f"{cost.rate:g}",
            f"{cost.words:,.0f}",
            f"{cost.messages:,.1f}",
            size(cost.max_memory),
            size(cost.mean_memory),
        )
    return table


def _topology(cost: TopologyCost) -> Table:
    of = cost.topology
    columns = ("", "inside nodes", "between nodes", "share between")
    where = f"on nodes x ranks {of}"
    if of.ranks_per_node is not None:
        where = f"on {of.nodes} nodes of {of.ranks_per_node} ranks"
    table = Table(columns, where)
    straight = " straight from rank to rank" if cost.volume_in_hops is not None else ""
    hops = "in hops" if cost.has_hops else "in hops, which it has not"
    for words, by_node in (
        (f"rows moved per product{straight}", cost.volume),
        (f"messages{straight}", cost.messages),
        (f"rows {hops}", cost.volume_in_hops),
        (f"messages {hops}", cost.messages_in_hops),
    ):
        if by_node is not None:
            inside, between = by_node
            table.add_row(words, number(inside), number(between), ratio(between, inside + between))
    table.add_row("expected if numbered at random", "", "", f"{cost.random_share:.2f}")
    return table


def _candidates(candidates: Sequence[dict[str, Any]], provenance: Mapping[str, Any]) -> Table:
    """The models that model auto compared, with a mark at the one that it chose."""
    failed = [f"{each['model']}: {each['failed']}" for each in candidates if each["failed"]]
    table = Table(
        (
            *("model", "volume", "messages", "busiest part", "imb. nonzeros", "imb. rows"),
            *("epoch", "seconds", "chosen"),
        ),
        f"candidates, the best by {provenance.get('chosen_by', '-')}",
        "\n".join([f"epoch: predicted, {of_provenance(provenance)}", *failed]),
    )
    for each in candidates:
        figures = [
            amount(each.get("volume")),
            amount(each.get("messages")),
            amount(each.get("max_volume")),
            number(each.get("nonzero_imbalance")),
            number(each.get("row_imbalance")),
            duration(each.get("epoch_seconds") or 0.0),
        ]
        table.add_row(
            each["model"],
            *(["no answer", *["-"] * 5] if each["failed"] else figures),
            f"{each.get('seconds') or 0:.1f}",
            "*" if each.get("chosen") else "",
        )
    return table


def _tried(tried: Sequence[dict[str, Any]], provenance: Mapping[str, Any]) -> Table:
    """Steps of the compiler, with a mark at the best so far; the last of these is the plan.

    Where there are many steps, only these are shown.
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
            "*" if each.get("best") else "",
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
