"""What `benchmarks.minibatches` has measured: kept as JSON, shown as tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison import environment
from benchmarks.means import geometric_mean
from benchmarks.minibatch_methods import HP, HP_ALONE, OURS, RIVALS, Options
from benchmarks.tables import Table
from plancc.files import atomic_write

STUDIES = ("sizes", "recipe", "samplers", "drawing", "building")
OF_THE_MEAN = ("dblp-2010", "soc-Slashdot0902")
"""Graphs in the promised mean; roads are left out, since hardly a row moves."""
BATCH_SEED = 0
"""Of the fresh batches."""


@dataclass
class Results:
    """What has been measured, by the key of each step; `write` and `read` are inverses."""

    options: Options
    environment: dict[str, Any] = field(default_factory=environment)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, study: str) -> list[dict[str, Any]]:
        return [each for each in self.found.values() if each["study"] == study]

    def write(self, path: Path) -> None:
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        content = json.loads(path.read_text())
        return cls(Options(**content["options"]), content["environment"], content["found"])


def better(rows: dict[str, dict[str, Any]]) -> str | None:
    """The name of the rival that moves fewest rows; None if there is none."""
    found = [name for name in RIVALS if name in rows and "mean" in rows[name]]
    return min(found, key=lambda name: rows[name]["mean"], default=None)


def over(rows: dict[str, dict[str, Any]], name: str, base: str | None) -> dict[str, Any] | None:
    """Ratio with its interval; None where there is none, and 1 where neither moves a row."""
    if base is None or "mean" not in rows.get(name, {}) or "mean" not in rows.get(base, {}):
        return None
    found: dict[str, Any] | None = rows[name]["over"][base]
    if found is None and rows[name]["mean"] == 0:
        return {"mean": 1.0, "low": 1.0, "high": 1.0}
    return found or {"mean": math.inf, "low": math.inf, "high": math.inf}


def exactly_over(rows: dict[str, dict[str, Any]], name: str, base: str | None) -> float | None:
    """Ratio of the exact expectations, None where there is none."""
    if base is None or not rows.get(name, {}).get("expected") or not rows[base].get("expected"):
        return None
    return float(rows[name]["expected"] / rows[base]["expected"])


def cell_table(cell: dict[str, Any]) -> Table:
    """All figures of one cell, a line per method."""
    table = Table(
        f"{cell['graph']}, p = {cell['num_parts']}, {cell['draw']} ({cell['sampler']}), "
        f"{cell['batches']} batches",
        ["method", "rows per batch", "95% interval", "exact", "/ hp", "/ hp Mt-KaHyPar",
         "imbalance", "seconds"],
    )  # fmt: skip
    rows = cell["rows"]
    for name, row in rows.items():
        if "failed" in row:
            table.rows.append([name, row["failed"], *[""] * 6])
            continue
        bases = ["" if name == base else _interval(over(rows, name, base)) for base in RIVALS[:2]]
        table.rows.append([
            name, _number(row["mean"]), f"{_number(row['low'])} .. {_number(row['high'])}",
            _number(row["expected"]), *bases, f"{row['imbalance']:.3f}", f"{row['seconds']:.1f}",
        ])  # fmt: skip
    return table


def summaries(results: Results) -> Iterator[Table]:
    """Everything in a few tables."""
    sizes, recipe, samplers = (results.of(study) for study in STUDIES[:3])
    if sizes:
        yield _volumes("Rows moved per batch, by batch size: mean ± half of the 95% interval "
                       "(exact expectation)", sizes)  # fmt: skip
        yield _ratios(
            "stochastic-hp over others on the same batches, with paired 95% intervals", sizes
        )
        yield _means(sizes)
        yield _seconds(sizes)
    if recipe:
        yield _volumes("The paper's recipe, the nets of a few batches partitioned by Mt-KaHyPar: "
                       "rows moved per fresh batch", recipe)  # fmt: skip
    if samplers:
        yield _volumes("Samplers without known probabilities: rows moved per batch", samplers)
        yield _ratios("stochastic-hp over others, by sampler", samplers)
        yield _seconds(samplers)
    costs = Table("Drawing batches and building models, without a partitioner",
                  ["graph", "what", "sampler", "seconds", "pins per nonzero", "bytes per nonzero"],
                  left=3)  # fmt: skip
    for each in results.of("drawing"):
        what = f"{each['batches']:,} batches, {results.options.threads} threads"
        costs.rows.append([each["graph"], what, each["sampler"], f"{each['seconds']:.1f}", "", ""])
    for each in results.of("building"):
        figures = [_number(each[f"{name}_per_nonzero"]) for name in ("pins", "bytes")]
        seconds = f"{each['seconds']:.1f}"
        costs.rows.append([each["graph"], each["model"], each["sampler"], seconds, *figures])
    if costs.rows:
        yield costs


def _volumes(title: str, cells: list[dict[str, Any]]) -> Table:
    methods = list(dict.fromkeys(name for cell in cells for name in cell["rows"]))
    table = Table(title, ["graph", "p", "batch", *methods], left=3)
    for cell in cells:
        rows = [_volume(cell["rows"].get(name, {})) for name in methods]
        table.rows.append([cell["graph"], str(cell["num_parts"]), cell["draw"], *rows])
    return table


def _ratios(title: str, cells: list[dict[str, Any]]) -> Table:
    head = ["graph", "p", "batch", *(f"/ {name}" for name in RIVALS), "/ best of these", "exactly"]
    table = Table(title, [*head, "at most 1"], left=3)
    for cell in cells:
        rows, best = cell["rows"], better(cell["rows"])
        found = over(rows, OURS, best)
        exactly = exactly_over(rows, OURS, best)
        table.rows.append([
            cell["graph"], str(cell["num_parts"]), cell["draw"],
            *(_interval(over(rows, OURS, name)) for name in RIVALS), _interval(found),
            "-" if exactly is None else f"{exactly:.3f}",
            "-" if found is None else "yes" if found["low"] <= 1 else "no",
        ])  # fmt: skip
    return table


def _means(cells: list[dict[str, Any]]) -> Table:
    cells = of_the_mean(cells)
    graphs = dict.fromkeys(cell["graph"] for cell in cells)
    title = f"Geometric means of stochastic-hp over others, {' and '.join(graphs)}"
    table = Table(title, ["batch", "cells", *(f"/ {name}" for name in (HP, HP_ALONE))])
    for draw in dict.fromkeys(cell["draw"] for cell in cells):
        same = [cell for cell in cells if cell["draw"] == draw]
        means = [f"{mean_over(same, base):.3f}" for base in (HP, HP_ALONE)]
        table.rows.append([draw, str(len(same)), *means])
    return table


def of_the_mean(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells of `OF_THE_MEAN`; all where none is of these graphs."""
    return [cell for cell in cells if cell["graph"] in OF_THE_MEAN] or cells


def mean_over(cells: Sequence[dict[str, Any]], base: str) -> float:
    """Geometric mean of stochastic-hp over another method; NaN of nothing."""
    ratios = [over(cell["rows"], OURS, base) for cell in cells]
    return geometric_mean([each["mean"] for each in ratios if each is not None])


def _seconds(cells: list[dict[str, Any]]) -> Table:
    methods = list(dict.fromkeys(name for cell in cells for name in cell["rows"]))
    table = Table("Seconds to find the owners", ["graph", "p", "batch", *methods], left=3)
    for cell in cells:
        found = [cell["rows"].get(name, {}).get("seconds") for name in methods]
        seconds = ["-" if each is None else f"{each:.1f}" for each in found]
        table.rows.append([cell["graph"], str(cell["num_parts"]), cell["draw"], *seconds])
    return table


def _volume(row: dict[str, Any]) -> str:
    if "mean" not in row:
        return "-"
    half = "" if row["high"] is None else f" ± {_number(row['high'] - row['mean'])}"
    exact = "" if row["expected"] is None else f" ({_number(row['expected'])})"
    return f"{_number(row['mean'])}{half}{exact}"


def _interval(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    if found["low"] is None:
        return f"{found['mean']:.3f}"
    return f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _number(value: float | None) -> str:
    """Four digits or so."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(results: Results) -> str:
    """All tables, and what they were measured on."""
    machine, options = results.environment, results.options
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    head = (
        f"{machine['processor']}, {machine['cores']} cores; {versions}. Epsilon "
        f"{options.epsilon:g}, seed {options.seed}, {options.threads} threads, balance nnz; "
        f"{options.batches:,} fresh batches of seed {BATCH_SEED}."
    )
    texts = [head, *(each.markdown() for each in summaries(results))]
    said = [
        f"- {cell['graph']}, p = {cell['num_parts']}, {cell['draw']}, {name}: {note}"
        for cell in results.found.values()
        for name, row in cell.get("rows", {}).items()
        for note in ([row["failed"]] if "failed" in row else row["notes"])
    ]
    if said:
        texts.append("\n".join(["What the compiler said:", "", *dict.fromkeys(said)]))
    return "\n\n".join(texts) + "\n"
