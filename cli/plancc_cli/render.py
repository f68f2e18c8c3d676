"""Tables of plans on stdout. Formats values; computes nothing but ratios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from plancc_cli.render_epochs import (
    basis_words,
    epoch_table,
    epoch_words,
    of_provenance,
    why_none,
)
from plancc_cli.tables import (
    add_caption,
    amount,
    count_of,
    duration,
    number,
    objective_words,
    print_table,
    ratio,
    say,
    size,
    table_of,
)
from plancc_cli.words import in_flags

if TYPE_CHECKING:
    from plancc.cost.batches import Estimate
    from plancc.plan.metrics import Metrics
    from plancc.plan.plan import Plan
    from plancc.plan.values import Header
    from plancc.predict.grid_traffic import ProductTraffic
    from plancc.predict.training import PassCost, SampledCost
    from plancc.report.batches import BatchReport
    from plancc.report.costs import TopologyCost, TrainingCost
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
    ("swapped", "rows made slices, and slices rows"),
    ("reduced", "sums put into all-reductions"),
    ("matrix", "blocks of A sent"),
)
"""Attributes of `ProductTraffic`, and words for them."""
OF_EPOCH = ("epoch_seconds", "random_epoch_seconds", "bound_seconds")
"""Entries of a provenance that stand in the table of times."""
OF_EDGE_PLANS = ("expand_volume", "fold_volume", "expand_messages", "fold_messages")
"""Metrics that row plans do not have."""


def figures(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """The `FIGURES` that mean something for one of the plans."""
    edges = any(report.header.layout == "edge" for report in reports)
    return [(name, words) for name, words in FIGURES if edges or name not in OF_EDGE_PLANS]


def print_summary(plan: Plan, output: str, digest: str, seconds: float) -> None:
    """A few lines after `compile`, and what it tried."""
    from plancc.report.costs import product_of
    from plancc.report.epochs import EpochTimes
    from plancc.report.provenance import reached, read_candidates, read_tried

    metrics, random = plan.metrics(), plan.baseline
    assert random is not None
    header = plan.header
    say(
        f"{output}: {sizes_of(header)}, {origin(plan.provenance)}, {seconds:.1f} s",
    )
    directed = "; the graph is directed: --symmetrize adds the reverse edges" * header.directed
    say(f"matrix: {_matrix(header)}{directed}")
    weights = plan.provenance.get("source_weights")
    if weights:
        say(f"weights of the edges: {weights}")
    sizes = plan.vertex_data.sizes()
    if sizes:
        words = [f"{name.replace('_', ' ')} {size:,}" for name, size in sizes.items()]
        many = " (a vertex may be of any number of classes: sigmoid, F1)" * ("targets" in sizes)
        say(f"vertex data: {', '.join(words)}{many}")
    product = product_of(plan)
    if product is not None:
        counts = [(getattr(product, name), words) for name, words in PRODUCT]
        moved = ", ".join(f"{number(count)} {words}" for count, words in counts if count)
        say(
            f"runs on exactly {count_of(header.num_ranks, 'rank')}; one product of {product.width} "
            f"columns, in words: {moved or 'nothing sent'}"
        )
    inside = "" if product is None else "row plan inside: "
    say(f"{inside}{moved_words(metrics, random)}")
    say(epoch_words(EpochTimes.of_plan(plan)))
    if "expected_volume" in plan.provenance:
        say(_expectation(plan.provenance))
    candidates = read_candidates(plan.provenance)
    if candidates:
        print_table(_candidates(candidates, plan.provenance))
    tried = read_tried(plan.provenance)
    if tried:
        objective = plan.provenance.get("objective", "volume")
        if objective == "cut":  # what was tried was measured by what travels
            objective = "volume"
        found = objective_words(objective, reached(tried))
        say(f"{objective} {found}, the best of {len(tried)} steps:")
        print_table(_tried(tried, plan.provenance))
    for name, value in plan.provenance.items():
        if name.startswith(("bandwidth", "granularity", "stages")):
            say(f"{name.replace('_', ' ')}: {_provenance(name, value)}")
    say(f"content {digest}")


def _expectation(provenance: dict[str, Any]) -> str:
    """Sampler, expected volume and sample of a plan for mini-batches, in a sentence."""
    batches, bound = provenance["batches"], provenance["hoeffding_batches"]
    return (
        f"mini-batches of {provenance['sampler']}: {provenance['expected_volume']:,.1f} rows "
        f"expected ({batches if batches == 'exact' else _batches(batches)}); Hoeffding's bound: "
        f"{provenance['hoeffding_nets']:,} nets = {_batches(bound)} of "
        f"{provenance['nets_per_batch']:,.0f}; {run_words(provenance['sampler'])}"
    )


def run_words(sampler: str) -> str:
    """What `plancc-run` trains from a plan for mini-batches."""
    return f"plancc-run trains in them with --sampler {sampler.split()[0]}, else the full batch"


def _batches(number: int) -> str:
    return f"{number:,} batch{'es' if number != 1 else ''}"


def moved_words(metrics: Metrics, random: Metrics) -> str:
    """What a row plan moves, beside a random partition, and how even it is."""
    return (
        f"volume {metrics.volume:,} rows "
        f"({ratio(metrics.volume, random.volume)} of random), "
        f"busiest part {metrics.max_volume:,} ({ratio(metrics.max_volume, random.max_volume)}), "
        f"messages {metrics.messages:,} ({ratio(metrics.messages, random.messages)}), "
        f"imbalance of nonzeros {metrics.nonzero_imbalance:.3f}, "
        f"of rows {metrics.row_imbalance:.3f}"
    )


def sizes_of(header: Header) -> str:
    """Vertices, nonzeros, and what the rows are divided into, with the grid that shares it."""
    sizes = f"{header.num_vertices:,} vertices, {header.num_nonzeros:,} nonzeros, "
    if header.grid is None:
        return f"{sizes}{header.num_parts} parts"
    return f"{sizes}{count_of(header.num_parts, 'block of rows')} on grid {header.grid}"


def _matrix(header: Header) -> str:
    """The matrix that a plan multiplies with, and how to keep that of the file."""
    inner = "(A+I)" if header.self_loops else "A"
    products = {"sym": f"D^-1/2 {inner} D^-1/2", "row": f"D^-1 {inner}", "none": inner.strip("()")}
    product = products[header.normalization]
    if product == "A":
        return "A, as it came"
    loops = "with" if header.self_loops else "without"
    return (
        f"{product} (normalization {header.normalization} {loops} self loops); "
        "A itself: --normalize none --no-self-loops"
    )


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

    table = table_of(("", "before", "after", "ratio"))
    after = EpochTimes.of_plan(better)
    before = after.beside(given)
    if before is not None and after.seconds is not None:
        times = duration(before), duration(after.seconds), ratio(after.seconds, before)
        table.add_row("predicted time of an epoch", *times)
        add_caption(table, basis_words(after.basis, origin=False))
    given_metrics, better_metrics = given.metrics(), better.metrics()
    for name in ("volume", "max_volume", "messages", *NO_RATIO):
        old, new = getattr(given_metrics, name), getattr(better_metrics, name)
        beside = "" if name in NO_RATIO else ratio(new, old)
        table.add_row(dict(FIGURES)[name].strip(), number(old), number(new), beside)
    return table


def print_report(report: Report, per_part: bool) -> None:
    """All that `inspect` shows, but batches."""
    print_table(facts_table(report))
    for table in report_tables(report, per_part):
        print_table(table)


def facts_table(report: Report) -> Table:
    """What a plan is and how it was made, a line for each fact."""
    header, table = report.header, _plain_table()
    table.add_row("plan", report.path)
    kind = "directed" if header.directed else "undirected"
    loops = "with" if header.self_loops else "without"
    if "source_weights" in report.provenance:  # older plans do not say
        kind += ", weighted" if report.provenance["source_weights"] else ", without weights"
    table.add_row(
        "graph",
        f"{header.num_vertices:,} vertices, {header.num_nonzeros:,} nonzeros, {kind}; "
        f"normalization {header.normalization} {loops} self loops",
    )
    merged = f", merged onto {report.num_ranks} ranks" * (report.num_ranks < header.num_parts)
    if header.grid is None:
        table.add_row("layout", f"{header.layout}, {header.num_parts} parts{merged}")
    else:
        blocks = count_of(header.num_parts, "block of rows")
        ranks = count_of(header.num_ranks, "rank")
        table.add_row("layout", f"{header.layout} ({header.grid}), {ranks}, {blocks}")
    table.add_row("vertex data", ", ".join(report.vertex_data) or "none")
    if sampler := report.provenance.get("sampler"):
        table.add_row("training", run_words(sampler))
    table.add_row("content", report.content_sha256)
    for name, value in report.provenance.items():
        if value != "" and not isinstance(value, list) and name not in OF_EPOCH:
            table.add_row(name.replace("_", " "), _provenance(name, value))
    return table


def report_tables(report: Report, per_part: bool, hints: bool = True) -> Iterator[Table | str]:
    """Its other tables, and a sentence where there is nothing to put into one.

    With `hints` they name options of the command line.
    """
    header = report.header
    tried = report.provenance.get("tried")
    candidates = report.provenance.get("candidates")
    if isinstance(candidates, list):
        yield _candidates(candidates, report.provenance)
    if isinstance(tried, list):
        yield _tried(tried, report.provenance)
    yield _figures(report)
    yield epoch_table(report.epoch, hints)
    if report.product is not None:
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
    if per_part:
        yield _per_part(report)


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
    table = table_of(("", "per batch", "95% interval", "full batch"), _on_which(batches))

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
    table = table_of(
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
    table = table_of(("", *paths), f"figure (ratio to {to})")

    def add(words: str, cells: Iterable[str]) -> None:
        table.add_row(words, *cells)

    for name in ("model", "partitioner", "preset", "effort", "objective", "seed"):
        values = [report.provenance.get(name) for report in reports]
        if any(value not in (None, "") for value in values):
            add(name, ("-" if value in (None, "") else str(value) for value in values))
    add("parts", (number(report.header.num_parts) for report in reports))
    if any(report.header.grid is not None for report in reports):
        add("grid", (str(report.header.grid or "-") for report in reports))
        add("ranks", (number(report.header.num_ranks) for report in reports))
    table.add_section()
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


def _over_bound(report: Report) -> str:
    times = report.epoch
    return "-" if times.seconds is None else ratio(times.seconds, times.bound or 0.0)


def _passes_of(report: Report) -> list[PassCost]:
    """Costs of an epoch with more and more passes; empty without dims."""
    return report.on_grid if report.training is None else report.training.passes


def _provenance(name: str, value: Any) -> str:
    if isinstance(value, dict):  # the machine
        return str(value.get("name") or ", ".join(f"{k} {v}" for k, v in value.items()))
    if isinstance(value, float):
        return f"{value:.2f}" if name.endswith("_seconds") else f"{value:g}"
    return in_flags(str(value), None) if name == "warnings" else str(value)


def _plain_table() -> Table:
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column()
    return table


def _figures(report: Report) -> Table:
    table = table_of(BESIDE_RANDOM, "communication and balance")
    for name, words in figures([report]):
        value, base = getattr(report.metrics, name), getattr(report.random, name)
        beside = "" if name in NO_RATIO else ratio(value, base)
        table.add_row(words, number(value), number(base), beside)
    if report.header.grid is not None:
        add_caption(
            table, "figures of the row plan inside: rows that blocks of rows need of each other"
        )
    return table


def _product(product: ProductTraffic) -> Table:
    """Words that the ranks of a grid really send."""
    columns = (f"H of {number(product.width)} columns", "words of all ranks")
    table = table_of(columns, "one product on the grid, forward")
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
    table = table_of(BESIDE_RANDOM, f"training a GCN of {dims}")
    for words, get, show in _training_rows():
        value, base = get(training), get(random)
        table.add_row(words, show(value), show(base), ratio(value, base))
    return table


def _passes(costs: Sequence[PassCost], layout: str, in_hops: bool) -> Table:
    """Saving of every pass beyond those before it; plancc-run does what the last line says."""
    caption = "exact, per epoch, without dropout of the features; plancc-run has all passes on"
    table = table_of(
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
    table = table_of(
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
    table = table_of(columns, where)
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
    table.add_row("expected if numbered at random", "", "", f"{cost.random_share:.3f}")
    return table


def _candidates(candidates: Sequence[dict[str, Any]], provenance: Mapping[str, Any]) -> Table:
    """The models that model auto compared, with a mark at the one that it chose."""
    failed = [f"{each['model']}: {each['failed']}" for each in candidates if each["failed"]]
    table = table_of(
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
            *(["failed", *["-"] * 5] if each["failed"] else figures),
            f"{each.get('seconds') or 0:.1f}",
            "*" if each.get("chosen") else "",
        )
    return table


def _tried(tried: Sequence[dict[str, Any]], provenance: Mapping[str, Any]) -> Table:
    """Steps of the compiler, with a mark at the best so far; the last of these is the plan.

    Where there are many steps, only these are shown.
    """
    objective = str(provenance.get("objective", ""))
    over = any(each.get("overload") for each in tried)
    table = table_of(("step", "seconds", "value", "volume", *["overload"] * over, "best"), "tried")
    shown = tried if len(tried) <= MOST_TRIED else [each for each in tried if each.get("best")]
    for each in shown:
        seconds = each.get("seconds")
        table.add_row(
            each["step"],
            "-" if seconds is None else f"{seconds:.2f}",
            objective_words(objective, each.get("value")),
            amount(each.get("volume")),
            *[number(each.get("overload"))] * over,
            "*" if each.get("best") else "",
        )
    notes = []
    if objective == "time":
        notes.append(f"value: predicted time of an epoch, {of_provenance(provenance)}")
    if len(shown) < len(tried):
        notes.append(f"{len(tried) - len(shown)} other steps were no better")
    add_caption(table, "\n".join(notes))
    return table


def _per_part(report: Report) -> Table:
    from plancc.report.plans import PART_FIGURES

    columns = {name: getattr(report.parts, name) for name in PART_FIGURES}
    if report.parts.fold is not None and report.parts.copies is not None:
        columns |= {"folded": report.parts.fold.sent, "copies": report.parts.copies}
    names = (name.replace("_", " ") for name in ("part", *columns))
    table = table_of(names, "per part", left=0)
    of_parts = zip(*(column.tolist() for column in columns.values()), strict=True)
    for part, values in enumerate(of_parts):
        table.add_row(str(part), *(number(value) for value in values))
    return table
