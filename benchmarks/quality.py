"""Partitions of plancc beside those of single partitioners, in one run.

    python -m benchmarks.quality GRAPH... -p 64 512     every method, all figures over random
    python -m benchmarks quality                        the figures that plancc promises

Graphs are read and normalised as `plancc compile` does by default. Times are those of finding the
owners, on the wall and of processors (`benchmarks.methods`); methods that run numba code are called
once untimed before.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

import plancc
from benchmarks.comparison import (
    LEGEND,
    Comparison,
    compare,
    environment,
    figure,
    over_best,
    ratios_to,
)
from benchmarks.generated import web
from benchmarks.inputs import SHARED, Inputs
from benchmarks.means import KINDS, mean_over_kinds
from benchmarks.methods import (
    BUDGET_FACTOR,
    BUDGET_OF,
    METHODS,
    REFERENCE,
    FromFile,
    Method,
    Options,
)
from benchmarks.report import Report
from benchmarks.tables import RowPrinter, markdown, summaries
from plancc.cost.owners import traffic
from plancc.files import atomic_write, check_target
from plancc.graph.formats import write_graph
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.random import random_owner
from plancc.models.weights import Balance
from plancc.partitioners.adapter import FEW
from plancc.plan.matrix import graph_of
from plancc_datasets import load_dataset

# ------------------------------------------------------------------ the figures that are promised

QUICK_GRAPHS = ("CoauthorCS", "email-Enron", "finan512")
CRAWLS = {"crawl-100k": {"pages": 100_000, "seed": 1}, "crawl-300k": {"pages": 300_000, "seed": 2}}
"""Web graphs (Kumar et al. 2000, in hosts): parameters of `web`."""
PARTS, QUICK_PARTS = (2, 4, 8, 16, 64, 256, 512), (64,)

RIVALS = ("metis-cut", "metis-volume", "kaminpar", REFERENCE)
SLOW_RIVALS = ("kaminpar-strong", "mtkahypar-large-k", "mtkahypar-quality", "mtkahypar-highest")
TARGETS = (
    ("plancc-fast", "metis-volume", {"volume": (0.95, 1.0), "cpu_seconds": (0.6, None)}),
    ("plancc-balanced", REFERENCE, {"volume": (0.98, 1.01), "cpu_seconds": (0.35, None)}),
    ("plancc-best", REFERENCE, {"volume": (0.94, None)}),
    ("plancc-max-volume", REFERENCE, {"busiest": (0.70, None), "volume": (1.02, None)}),
    ("plancc-messages", REFERENCE, {"messages": (0.72, None), "volume": (1.03, None)}),
)
"""Method, what it is compared with, and of each ratio the largest mean over kinds of graphs and the
largest of any graph, None where that does not matter."""
OF_FEW_PARTS = (
    ("plancc-fast", "metis-volume", {"volume": (0.95, 1.05), "cpu_seconds": (1.2, None)}),
    ("plancc-balanced", REFERENCE, {"volume": (0.94, 1.02), "cpu_seconds": (0.9, None)}),
)
"""The same of at most `FEW` parts."""
BEST_OF_ALL = (0.97, 1.0)
"""The same of effort best over the best of all other methods."""

PAPER_GRAPH = "soc-Slashdot0902.mtx.gz"


def run(inputs: Inputs) -> Report:
    """The targets of `TARGETS`, and the row of Table 2 in Demirci et al. 2022 that is at hand."""
    graphs, note = _graphs(inputs)
    parts = QUICK_PARTS if inputs.quick else PARTS
    rivals = RIVALS if inputs.quick else RIVALS + SLOW_RIVALS
    names = [name for name in METHODS if name in (*rivals, *(ours for ours, _, _ in TARGETS))]
    table = Comparison(Options())
    compare(
        table,
        graphs,
        parts,
        {name: METHODS[name] for name in names},
        on_row=lambda row: table.write(inputs.folder / "quality.json"),
    )
    how = "geometric means over kinds of equal weight"
    report = Report([f"{note}; {how}; every row with --folder: quality.json in it"])
    for num_parts in parts:
        _add_ratios(report, table, num_parts, len(graphs))
        _add_best_of_all(report, table, num_parts, len(graphs))
    report.notes += [f"{r.graph}, p = {r.num_parts}, {r.method}: {r.failed}"
                     for r in table.rows if r.failed]  # fmt: skip
    _add_paper_row(report, inputs)
    return report


def _graphs(inputs: Inputs) -> tuple[dict[str, Path], str]:
    """The graphs to measure, and a note that says which these are."""
    wanted = (
        QUICK_GRAPHS
        if inputs.quick
        else [name for kind in KINDS.values() for name in kind if name not in CRAWLS]
    )
    found = {name: SHARED / f"{name}.mtx.gz" for name in wanted}
    if all(path.exists() for path in found.values()):
        crawls = {} if inputs.quick else {name: CRAWLS[name] for name in KINDS["crawl"]}
        note = f"{len(found)} graphs of {SHARED.name}, {len(crawls)} crawls by a copying model"
        made = {name: web(**options) for name, options in crawls.items()}
        return found | _written(made, inputs), note
    side = 64 if inputs.quick else 256
    made = {
        "rmat": load_dataset("rmat", scale=12 if inputs.quick else 15, seed=1).graph,
        "grid": load_dataset("grid", rows=side, cols=side).graph,
    }
    graphs = _written(made, inputs)
    return graphs, f"generated graphs ({', '.join(graphs)}), since {SHARED} lacks the real ones"


def _written(graphs: Mapping[str, Graph], inputs: Inputs) -> dict[str, Path]:
    """Write generated graphs: their files, by name."""
    files = {name: inputs.folder / f"{name}-quality.mtx" for name in graphs}
    for name, graph in graphs.items():
        write_graph(graph, files[name])
    return files


def _add_ratios(report: Report, table: Comparison, num_parts: int, num_graphs: int) -> None:
    """The targets; one that cannot be measured is NaN, and missed."""
    for ours, other, targets in OF_FEW_PARTS if num_parts <= FEW else TARGETS:
        found = ratios_to(table, table.select(num_parts, ours), other)
        for name, limits in targets.items():
            what = f"p = {num_parts}: {ours} / {other}: {name}"
            _add_mean(report, what, figure(found, name), num_graphs, limits)


def _add_best_of_all(report: Report, table: Comparison, num_parts: int, num_graphs: int) -> None:
    """The volume of effort best over that of the best other method of each graph."""
    what = f"p = {num_parts}: plancc-best / best other method of a graph: volume"
    _add_mean(report, what, over_best(table, num_parts, "plancc-best"), num_graphs, BEST_OF_ALL)


def _add_mean(
    report: Report,
    what: str,
    ratios: Mapping[str, float],
    num_graphs: int,
    limits: tuple[float, float | None],
) -> None:
    """Mean and worst graph beside their limits."""
    mean, most = limits
    lacking = num_graphs - len(ratios)
    where = f", without {lacking} graph{'s' * (lacking > 1)}" if lacking else ""
    report.add(what + where, mean_over_kinds(ratios), mean)
    if most is not None:
        worst = max(ratios, key=lambda graph: ratios[graph], default="none")
        report.add(f"  worst graph ({worst})", ratios.get(worst, math.nan), most)


def _add_paper_row(report: Report, inputs: Inputs) -> None:
    """Model hp on a graph of Demirci et al. 2022, Table 2, by its balance and its objective."""
    path = SHARED / PAPER_GRAPH
    if not path.exists() or inputs.quick:
        why = "it takes minutes" if path.exists() else f"{path} is not there"
        report.notes.append(f"{PAPER_GRAPH}, p = 512, of Demirci et al. 2022: skipped, {why}")
        return
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", plancc.PlanccWarning)
        plan = plancc.compile(path, "hp", 512, balance="nnz", objective="volume")
    seconds = time.perf_counter() - start
    found, random = plan.metrics(), plan.baseline
    assert random is not None
    how = [plan.provenance.get(name) for name in ("effort", "partitioner", "preset")]
    report.notes.append(
        f"Table 2: {PAPER_GRAPH}, p = 512, {', '.join(map(str, filter(None, how)))}"
    )
    report.notes += [str(each.message) for each in caught]
    messages = found.max_messages_sent / random.max_messages_sent
    report.add("Table 2: volume / random (the paper: 0.74)", found.volume / random.volume, 0.74)
    report.add("max send / random (the paper: 0.69)", found.max_sent / random.max_sent, 0.69)
    report.add("  over the mean of 8 random partitions", found.max_sent / _mean_max_sent(plan))
    report.add("messages / random (the paper: 0.86)", found.messages / random.messages, 0.86)
    report.add("max messages / random (the paper: 0.92)", messages, 0.92)
    report.add("imbalance of nonzeros", found.nonzero_imbalance)
    report.add("compile", seconds, unit="s")


def _mean_max_sent(plan: plancc.Plan) -> float:
    """A maximum over 512 random parts varies by a quarter from seed to seed; its mean does not."""
    matrix, parts = graph_of(plan), plan.num_parts
    owners = (random_owner(plan.num_vertices, parts, seed) for seed in range(1, 9))
    return statistics.mean(int(traffic(matrix, Owners(o), parts).sent.max()) for o in owners)


# ------------------------------------------------------------------ the comparison of a user


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    given = parser.parse_args(arguments)
    graphs, methods = _named_graphs(parser, given.graphs), _methods(parser, given)
    options = Options(
        epsilon=given.epsilon,
        seed=given.seed,
        threads=given.threads,
        balance=given.balance,
        time_limit=given.time_limit,
        budget=given.budget,
        objective_effort=given.objective_effort,
        dims=given.dims,
    )
    try:
        Balance.parse(given.balance, given.dims)
        table = _start(parser, given, options)
    except plancc.PlanccError as error:
        parser.error(str(error))
    options = table.options

    console = Console(highlight=False)
    machine = table.environment
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, load {load:.1f} at the start "
        "(other work distorts times)",
        f"epsilon {options.epsilon:g}, seed {options.seed}, {options.threads} threads, "
        f"balance {options.balance}, dims {options.widths}; seconds: finding the owners, "
        "child process included; CPU s: the same, of all processors",
        LEGEND,
    ]
    if any(method.jit for method in methods.values()):
        lines.append(
            "plancc-*: called once before, untimed, so that numba has compiled the kernels"
        )
    console.print("\n".join(lines), soft_wrap=True)
    show = RowPrinter(console)

    def on_row(row):  # type: ignore[no-untyped-def]
        show(row)
        if given.json:
            table.write(given.json)

    try:
        compare(
            table,
            graphs,
            given.parts,
            methods,
            save=given.save,
            again=given.again,
            on_row=on_row,
            observer=console.status,
        )
    except KeyboardInterrupt:
        again = "; the same command with --resume goes on" if given.json else ""
        console.print(f"interrupted{again}")
        sys.exit(130)

    reference = given.reference if given.reference in table.methods() else None
    console.width = max(console.width, 140)  # tables are not to lose digits
    console.print()
    for each in summaries(table, reference):
        each.show(console)
    if given.markdown:
        with atomic_write(given.markdown) as temporary:
            temporary.write_text(markdown(table, reference))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description="Compare partitions: every figure over that of an even random partition.",
    )
    add = parser.add_argument
    add("graphs", nargs="*", metavar="GRAPH", type=Path, help="files that plancc reads")
    add("-p", "--parts", nargs="+", type=int, default=[64], metavar="P", help="numbers of parts")
    add("--methods", default=",".join(METHODS), help=f"comma-separated [{', '.join(METHODS)}]")
    add("--part", action="append", default=[], metavar="NAME=FILE", help="a part vector to compare "
        "too; {graph} and {parts} in FILE are replaced")  # fmt: skip
    add("--seed", type=int, default=1)
    add("--epsilon", type=float, default=0.01)
    add("--threads", type=int, default=2)
    add("--balance", default="nnz", metavar="NAME[,NAME]", help="what parts share evenly [nnz]")
    add("--time-limit", type=float, metavar="SECONDS", help="of one native partitioner")
    add("--budget", type=float, metavar="SECONDS", help="of effort best "
        f"[for {BUDGET_FACTOR:g} times the CPU time of {BUDGET_OF}]")  # fmt: skip
    add("--objective-effort", choices=("fast", "balanced", "best"), default="balanced",
        help="of plancc-max-volume, -messages, -time [balanced]")  # fmt: skip
    add("--dims", type=widths, default=Options.dims, metavar="D,D[,D...]", help="widths of the "
        f"layers, for plancc-time and balance work [{Options().widths}]")  # fmt: skip
    add("--reference", default=REFERENCE, metavar="METHOD", help="also print the means of the "
        f"ratios to this method [{REFERENCE}]")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="all rows, written after each")
    add(
        "--resume",
        action="store_true",
        help="keep the rows that the JSON file holds; the "
        "tables show all of them, and no GRAPH is needed for these; new ones only with the same "
        "options, machine and versions",
    )
    add("--again", action="store_true", help="with --resume: try failed methods again")
    add("--save", type=Path, metavar="FOLDER", help="part vectors as GRAPH.METHOD.part.P")
    add("--markdown", type=Path, metavar="FILE", help="the tables as Markdown")
    return parser


def widths(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _named_graphs(parser: argparse.ArgumentParser, paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their name without extensions."""
    graphs: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            parser.error(f"{path}: there is no such file")
        name = path.name.removesuffix(".gz").removesuffix(
            Path(path.name.removesuffix(".gz")).suffix
        )
        if name in graphs:
            parser.error(f"{path}: another graph is called '{name}' too")
        graphs[name] = path
    return graphs


def _methods(parser: argparse.ArgumentParser, given: argparse.Namespace) -> dict[str, Method]:
    """The chosen methods in the order of `METHODS`, then the part vectors."""
    chosen = given.methods.split(",")
    for name in chosen:
        if name not in METHODS:
            parser.error(f"unknown method '{name}': choose from {', '.join(METHODS)}")
    methods = {name: METHODS[name] for name in METHODS if name in chosen}
    for text in given.part:
        name, _, path = text.partition("=")
        if not name or not path or name in METHODS or name in methods:
            parser.error(f"--part {text}: NAME=FILE is needed, with a NAME of its own")
        methods[name] = FromFile(path)
    if given.reference not in (*METHODS, *methods):
        parser.error(f"unknown method '{given.reference}' as --reference")
    return methods


def _start(
    parser: argparse.ArgumentParser, given: argparse.Namespace, options: Options
) -> Comparison:
    """An empty comparison, or with ``--resume`` the one in the JSON file."""
    for path in (given.json, given.markdown):
        if path is not None:
            check_target(path)
    if given.save is not None:
        given.save.mkdir(parents=True, exist_ok=True)
    if not given.resume:
        if not given.graphs:
            parser.error("name a graph")
        return Comparison(options)
    if given.json is None:
        parser.error("--resume needs --json FILE")
    if not given.json.exists():
        return Comparison(options)
    try:
        table = Comparison.read(given.json)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        parser.error(f"{given.json} was not written by this benchmark ({error})")
    if given.graphs and table.options != options:
        parser.error(f"{given.json} was made with other options: {table.options}")
    if given.graphs and table.environment != environment():
        parser.error(f"{given.json} was made elsewhere or with other versions: {table.environment}")
    return table


if __name__ == "__main__":
    main()
