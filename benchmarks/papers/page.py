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

This page compares claims of five papers with what plancc finds.

{papers}

[papers-rows.json](papers-rows.json) holds the measurements, made with {machines}. These
commands measure an item (bold below) again:

    python -m benchmarks papers ITEM --rows mine.json
    python -m benchmarks papers ITEM --graphs one.mtx,two.mtx --rows mine.json

How to read the tables:

- *a / b* is a divided by b. A label and a colon precede a figure. Semicolons separate figures.
- HP, GP and RP are the models `hp`, `gp` and `rp`. *c* is the number of copies of a row. BNS
  (boundary sampling) at *rate* 0.1 keeps a tenth of the boundary rows. cd-5 delays sums by
  5 epochs.
- A *case* is often one graph with one number of ranks. More than {few} cases are shown as a range,
  low..high. Epochs of many ranks are predicted.
- *(k/n)* means that k of n cases agree with the paper within a factor of {tolerance:g}, or within
  {points:g} points of accuracy. A bound (≤, ≥) has no tolerance.
- The *direction* of a figure is increase, decrease or no effect. A ratio from 1/{no_effect:g} to
  {no_effect:g}, and a difference of at most {points:g} points, show no effect.

Every claim has a verdict on all its figures:

- *{0}*: every case is within the tolerance and has the published direction.
- *{1}*: at least half of the cases of every figure have the published direction. A model
  that was fitted to the paper's figures gets at most this verdict.
- *{2}*: for some figure, fewer than half of the cases have the published direction.
- *{3}*: the check needs data or machines that we do not have.

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
        "claim | where | published | here (k/n agree) | verdict",
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
