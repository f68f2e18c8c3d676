"""Claims of the five papers, checked: `python -m benchmarks papers [ITEM ...]`.

items.py      claims, the rule that judges them, rows, and the file of rows
page.py       docs/results/papers.md, made from the rows
demirci.py    Demirci et al. 2022; and so on, a module per paper
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inputs import ROOT, Inputs
from benchmarks.papers import bns, demirci, distgnn, mixgcn, tripathy
from benchmarks.papers.items import Bench, Item, Paper, Store
from benchmarks.papers.page import findings, page
from benchmarks.report import Report
from plancc.errors import PlanccError

PAPERS: Sequence[Paper] = (
    demirci.PAPER,
    tripathy.PAPER,
    mixgcn.PAPER,
    bns.PAPER,
    distgnn.PAPER,
)
ITEMS = {item.name: item for paper in PAPERS for item in paper.items if item.measure is not None}
RESULTS = ROOT / "docs" / "results"
ROWS, PAGE = RESULTS / "papers-rows.json", RESULTS / "papers.md"


def run(inputs: Inputs) -> Report:
    """All items into rows of their own, as part of `make bench`."""
    store = Store.read(inputs.results("papers") / "papers-rows.json")
    for item in ITEMS.values():
        measure(Bench(item, store, quick=inputs.quick, install=inputs.kept))
    report = Report()
    for paper in PAPERS:
        for item, claim, finding in findings(paper, store):
            if finding is not None and item.measure is not None:
                report.notes.append(f"{item.name}: {claim.text}: {finding.here}: {finding.verdict}")
    return report


def measure(bench: Bench) -> None:
    assert bench.item.measure is not None
    bench.item.measure(bench)


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks papers",
        description="Measure what papers claim of their experiments. Rows are kept as they come.",
    )
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"{', '.join(ITEMS)} [all]")
    parser.add_argument("--graphs", metavar="FILE,...", default="", help="in place of an item's")
    parser.add_argument("--rows", metavar="FILE", type=Path, default=ROWS, help="where they are")
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the page, of all rows")
    parser.add_argument("--again", action="store_true", help="forget the rows of these items")
    parser.add_argument("--quick", action="store_true", help="small cases: shows that all works")
    options = parser.parse_args(arguments)
    chosen = _items(parser, options.items)
    graphs = [Path(name) for name in options.graphs.split(",") if name]
    for path in graphs:
        if not path.exists():
            parser.error(f"--graphs: there is no {path}")
    if graphs and options.rows == ROWS:
        parser.error("--graphs: give --rows FILE too, so that these rows stay apart")
    if options.quick and options.rows == ROWS:
        parser.error("--quick: give --rows FILE too, so that these rows stay apart")
    for option, path in (("--rows", options.rows), ("--page", options.page)):
        if path is not None and not path.absolute().parent.is_dir():
            parser.error(f"{option} {path}: there is no such folder")
    try:
        store = Store.read(options.rows)
    except PlanccError as error:
        parser.exit(error.exit_code, f"{parser.prog}: error: {error}\n")
    if options.page is None or options.items:
        benches = [Bench(item, store, options.quick, graphs) for item in chosen]
        missing = list(dict.fromkeys(path for bench in benches for path in bench.missing()))
        if missing:
            parser.exit(
                2,
                f"{parser.prog}: error: {missing[0].parent} has no "
                f"{', '.join(path.name for path in missing)}: put them there, choose items that "
                "need none of them, or name graphs of your own with --graphs\n",
            )
        for bench in benches:
            item = bench.item
            if options.again:
                store.drop(item.name)
            try:
                measure(bench)
            except PlanccError as error:
                parser.exit(error.exit_code, f"{parser.prog}: error: {item.name}: {error}\n")
            _say(item, store)
    if options.page is not None:
        options.page.write_text(page(PAPERS, store))
    return 0


def _items(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[Item]:
    for name in names:
        if name not in ITEMS:
            parser.error(f"unknown item '{name}': choose from {', '.join(ITEMS)}")
    return [ITEMS[name] for name in names or ITEMS]


def _say(item: Item, store: Store) -> None:
    for claim in item.claims:
        finding = claim.finding(store.rows(item.name))
        if finding is not None:
            print(
                f"{item.name}: {claim.text}: {claim} published; {finding.here}: {finding.verdict}"
                + f"; beside: {finding.beside}" * bool(finding.beside)
            )
