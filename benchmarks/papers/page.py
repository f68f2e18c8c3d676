"""docs/results/papers.md, made from the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.papers.items import (
    FEW,
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

Claims of five papers, beside what plancc finds:

{papers}

[Rows](papers-rows.json) were measured by {machines}. Measure an item
(named in bold) again, or on graphs of your own:

    python -m benchmarks papers ITEM --rows mine.json
    python -m benchmarks papers ITEM --graphs one.mtx,two.mtx --rows mine.json

One rule judges all figures of a claim:

- *{0}*: in every case within the tolerance, and of the published direction.
- *{1}*: of the published direction in at least half of the cases; the best that a fitted model can
  reach.
- *{2}*: neither.
- *{3}*: needs data or machines that are not at hand.

The tolerance is a factor of {tolerance:g}, or {points:g} points of accuracy, at both ends of a
range; a bound has none. A ratio points above 1, below 1, or neither (within a factor of
{no_effect:g}); points above 0, below 0, or neither (within {points:g}). More than {few} cases are
a range, and "(2/4)" counts those within the tolerance. Epochs of many ranks are predicted.

{summary}
"""


def page(papers: Sequence[Paper], store: Store) -> str:
    """The whole page as Markdown."""
    counts: Counter[str] = Counter()
    texts = []
    for paper in papers:
        texts.append(f"## {paper.cited}")
        texts.append(_claims(paper, store, counts))
        for item in paper.items:
            texts.append(_item(item))
    total = sum(counts.values())
    summary = f"Of {total} claims: {', '.join(f'{counts[v]} {v}' for v in VERDICTS)}."
    listed = ["| cited as | paper | here |", "| --- | --- | --- |"]
    listed += [f"| {paper.cited} | {paper.title} | {paper.here} |" for paper in papers]
    names = [item.name for paper in papers for item in paper.items]
    machines = dict.fromkeys(filter(None, map(store.machine, names)))
    rule = {"tolerance": TOLERANCE, "no_effect": NO_EFFECT, "points": POINTS, "few": FEW}
    head = HEAD.format(
        *VERDICTS,
        papers="\n".join(listed),
        machines="; ".join(machines) or "nobody yet",
        summary=summary,
        **rule,
    )
    return "\n\n".join([head.strip(), *texts]) + "\n"


def _claims(paper: Paper, store: Store, counts: Counter[str]) -> str:
    lines = [
        "claim | where | published | here | verdict",
        "--- | --- | --- | --- | ---",
    ]
    for _item, claim, finding in findings(paper, store):
        found = finding or Finding("not measured yet", "-")
        if finding is not None:
            counts[finding.verdict] += 1
        cells = (claim.text, claim.where, str(claim), found.here, found.verdict)
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def findings(paper: Paper, store: Store) -> Iterator[tuple[Item, Claim, Finding | None]]:
    """Every claim with what the rows say of it."""
    for item in paper.items:
        rows = store.rows(item.name)
        for claim in item.claims:
            yield item, claim, claim.finding(rows)


def _item(item: Item) -> str:
    """How an item is measured: its name for the command, and its setting."""
    return f"**{item.name}.** {item.setting}"
