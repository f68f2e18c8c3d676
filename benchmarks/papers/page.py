"""docs/papers.md, made from the rows. Knows items and rows; measures nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.papers.items import (
    NO_EFFECT,
    POINTS,
    TOLERANCE,
    VERDICTS,
    Claim,
    Finding,
    Item,
    Paper,
    Store,
)

HEAD = """# Papers

plancc makes plans of five papers from one format. Sources and pages cite them by authors and year:

{papers}

This page has what the papers claim of their experiments, beside what this program finds. All rows
that were measured are in [papers-rows.json](papers-rows.json). To measure an item again, or on
graphs of your own:

    python -m benchmarks papers ITEM --rows mine.json
    python -m benchmarks papers ITEM --graphs one.mtx,two.mtx --rows mine.json

It prints rows as they come, and then what they say of the claims. Without `ITEM` all of them run,
if their graphs are at hand.
Rows are kept in the file, and a run goes on where another one ended; `--again` measures anew,
`--quick` takes small cases. Without `--rows` the file is that of this page, and `--page FILE`
writes the page. Items of accuracy need a graph with features and labels: `name.npz` beside
`name.mtx`.

One rule judges every claim, by all of its figures:

- *{0}*: every figure is within the tolerance in every case, and has the published direction.
- *{1}*: every figure has the published direction in at least half of its cases.
- *{2}*: some figure has not.
- *{3}*: it needs data or machines that are not at hand; the reason stands there, and what is
  predicted, if anything.

A figure may be off by a factor of {tolerance:g}, a difference of accuracies by {points:g} points; a
published range is as much wider at both ends. A bound ("at least", "at most") is kept or not: it
has no tolerance. The direction is more than 1, less than 1, or neither, within a factor of
{no_effect:g} of 1; that of points is above 0, below 0, or neither, within {points:g}. Cases are
graphs, numbers of ranks and the like; "(2 of 4)" says in how many of them the figure is within the
tolerance. What stands "beside" is not judged. A model that was fitted to the published figures has
*{1}* at most.

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
            texts.append(_item(item, store))
    total = sum(counts.values())
    summary = f"Of {total} claims: {', '.join(f'{counts[v]} {v}' for v in VERDICTS)}."
    listed = ["| cited as | paper | here |", "| --- | --- | --- |"]
    listed += [f"| {paper.cited} | {paper.title} | {paper.here} |" for paper in papers]
    rule = {"tolerance": TOLERANCE, "no_effect": NO_EFFECT, "points": POINTS}
    head = HEAD.format(*VERDICTS, papers="\n".join(listed), summary=summary, **rule)
    return "\n\n".join([head.strip(), *texts]) + "\n"


def _claims(paper: Paper, store: Store, counts: Counter[str]) -> str:
    lines = [
        "| claim | where | published | tolerance | here | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for _item, claim, finding in findings(paper, store):
        found = finding or Finding("not measured yet", "-")
        if finding is not None:
            counts[finding.verdict] += 1
        cells = (
            *(claim.text, claim.where, str(claim), claim.tolerance),
            *(found.here, found.verdict),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def findings(paper: Paper, store: Store) -> Iterator[tuple[Item, Claim, Finding | None]]:
    """Every claim with what the rows say of it."""
    for item in paper.items:
        rows = store.rows(item.name)
        for claim in item.claims:
            yield item, claim, claim.finding(rows)


def _item(item: Item, store: Store) -> str:
    """How an item is measured: its command, its setting, its graphs and its rows."""
    rows = store.rows(item.name)
    run = f"`papers {item.name}`. " if item.measure is not None else ""
    graphs = dict.fromkeys(str(row["graph"]) for row in rows if row.get("graph"))
    notes = [store.machine(item.name), ", ".join(graphs), f"{len(rows)} rows" if rows else ""]
    said = "; ".join(filter(None, notes))
    return f"**{item.name}.** {run}{item.setting}" + (f" ({said}.)" if said else "")
