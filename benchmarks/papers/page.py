"""docs/papers.md, made from the rows. Knows items and rows; measures nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.papers.items import VERDICTS, Claim, Finding, Item, Paper, Row, Store

HEAD = """# Papers

plancc makes plans of five papers from one format. Sources and pages cite them by authors and year:

{papers}

This page has what the papers claim of their experiments, beside what this program finds. It is
made from the rows in [papers-rows.json](papers-rows.json). To measure an item again, or on graphs
of your own:

    python -m benchmarks papers ITEM --rows mine.json
    python -m benchmarks papers ITEM --graphs one.mtx,two.mtx --rows mine.json

It prints rows as they come, and then what they say of the claims. Without `ITEM` all of them run.
Rows are kept in the file, and a run goes on where another one ended; `--again` measures anew,
`--quick` takes small cases. Without `--rows` the file is that of this page, and `--page FILE`
writes the page. Items of accuracy need a graph with features and labels: `name.npz` beside
`name.mtx`.

- *{0}*: the figure here is near the published one, or the statement holds as it stands.
- *{1}*: the order or the trend is the published one, the size of the effect is not.
- *{2}*: the figures here say otherwise.
- *{3}*: it needs data or machines that are not at hand; the reason stands there.

Times are in seconds, volumes in rows of one product, memory in bytes, unless a column says
otherwise.
Epochs of many ranks are predicted (`plancc simulate`), and say so. {summary}
"""


def page(papers: Sequence[Paper], store: Store) -> str:
    """The whole page as Markdown."""
    counts: Counter[str] = Counter()
    texts = []
    for paper in papers:
        texts.append(f"## {paper.cited}")
        texts.append(_claims(paper, store, counts))
        for item in paper.items:
            texts.append(f"**{item.name}.** {item.setting}{_machine(item, store)}")
            if item.columns and len(store.rows(item.name)):
                texts.append(_rows(item, store))
    total = sum(counts.values())
    summary = f"Of {total} claims: {', '.join(f'{counts[v]} {v}' for v in VERDICTS)}."
    listed = ["| cited as | paper | here |", "| --- | --- | --- |"]
    listed += [f"| {paper.cited} | {paper.title} | {paper.here} |" for paper in papers]
    head = HEAD.format(*VERDICTS, papers="\n".join(listed), summary=summary)
    return "\n\n".join([head.strip(), *texts]) + "\n"


def _claims(paper: Paper, store: Store, counts: Counter[str]) -> str:
    lines = [
        "| claim | where | run | published | here | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for item, claim, finding in findings(paper, store):
        found = finding or Finding("not measured yet", "-")
        if finding is not None:
            counts[finding.verdict] += 1
        run = f"`papers {item.name}`" if item.measure is not None else "-"
        cells = (claim.text, claim.where, run, claim.published, found.here, found.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def findings(paper: Paper, store: Store) -> Iterator[tuple[Item, Claim, Finding | None]]:
    """Every claim with what the rows say of it."""
    for item in paper.items:
        rows = store.rows(item.name)
        for claim in item.claims:
            yield item, claim, claim.finding(rows)


def _machine(item: Item, store: Store) -> str:
    machine = store.machine(item.name)
    return f" ({machine}.)" if machine else ""


def _rows(item: Item, store: Store) -> str:
    rule = ["---" if isinstance(_first(item, store, c), str) else "--:" for c in item.columns]
    lines = [f"| {' | '.join(item.columns)} |", f"| {' | '.join(rule)} |"]
    lines += [
        f"| {' | '.join(_cell(row, column) for column in item.columns)} |"
        for row in store.rows(item.name)
    ]
    return "\n".join(lines)


def _first(item: Item, store: Store, column: str) -> object:
    return next((row[column] for row in store.rows(item.name) if column in row), "")


def _cell(row: Row, column: str) -> str:
    value = row.get(column)
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
