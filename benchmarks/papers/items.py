"""Claims of papers, the rows that were measured for them, and what these say.

An *item* measures rows for some claims of one paper. A row is a case, such as a graph and a number
of parts, and its figures. Rows are kept in one JSON file as soon as they are there, so that a run
goes on where another ended. Claims are judged from rows alone: the page is made again from the
file, without measuring.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plancc
from benchmarks.inputs import SHARED
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.threads import usable_cores
from plancc.version import __version__

REPRODUCED, SHAPE, REFUTED = "reproduced", "same trend", "not reproduced"
NOT_HERE = "not here"
VERDICTS = (REPRODUCED, SHAPE, REFUTED, NOT_HERE)

TOLERANCE = 1.25
"""Factor by which a figure may be off, either way."""
NO_EFFECT = 1.03
"""Factor up to which a ratio shows no effect, either way."""
POINTS = 0.5
"""Points of accuracy by which a difference may be off, and up to which it is none."""
FEW = 2
"""Cases that are listed one by one."""

Row = dict[str, Any]
Found = Mapping[str, float | Mapping[Any, float]]
"""Figures by label, of one case or by case."""


@dataclass(frozen=True)
class Published:
    """A figure of a paper: its value, its range, or a bound, which is a statement.

    Attributes:
        low, high: The range; one end of a statement is infinite.
        points: Whether it is a difference of accuracies, in points; any other figure is positive,
            and 1 where there is no effect.
    """

    low: float
    high: float
    points: bool = False

    @property
    def is_bound(self) -> bool:
        return math.isinf(self.low) or math.isinf(self.high)

    def agrees(self, value: float) -> bool:
        """Whether a statement holds, or the effect has the published direction."""
        if self.is_bound:
            return self.low <= value <= self.high
        return self._direction(self.low) <= self._direction(value) <= self._direction(self.high)

    def is_near(self, value: float) -> bool:
        """Whether besides the figure is within the tolerance."""
        low, high = self.low / TOLERANCE, self.high * TOLERANCE
        if self.points:
            low, high = self.low - POINTS, self.high + POINTS
        return self.agrees(value) and (self.is_bound or low <= value <= high)

    def _direction(self, value: float) -> int:
        low, high = (-POINTS, POINTS) if self.points else (1 / NO_EFFECT, NO_EFFECT)
        return int(value > high) - int(value < low)

    def said(self, value: float) -> str:
        """A figure of this kind in words."""
        return f"{value:+.1f}" if self.points else in_words(value)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"≥{self.said(self.low)}"
        if math.isinf(self.low):
            return f"≤{self.said(self.high)}"
        ends = self.said(self.low), self.said(self.high)
        return "..".join(dict.fromkeys(ends))


def number(low: float, high: float | None = None) -> Published:
    """A value, or a range."""
    return Published(low, low if high is None else high)


def points(low: float, high: float | None = None) -> Published:
    """A difference of accuracies in points, or a range of them."""
    return Published(low, low if high is None else high, points=True)


def least(value: float) -> Published:
    return Published(value, math.inf)


def most(value: float) -> Published:
    return Published(-math.inf, value)


def verdict(published: Mapping[str, Published], found: Mapping[str, Sequence[float]]) -> str:
    """The one rule by which claims are judged.

    Parameters:
        published: Every figure of the claim, by label.
        found: What was found, in one case or several, of each of them at least.

    Returns:
        `REPRODUCED` if every figure is near in every case; `SHAPE` if every figure agrees in half
        of its cases or more; else `REFUTED`.
    """
    if all(each.is_near(value) for label, each in published.items() for value in found[label]):
        return REPRODUCED
    agreed = ([each.agrees(value) for value in found[label]] for label, each in published.items())
    return SHAPE if all(2 * sum(cases) >= len(cases) for cases in agreed) else REFUTED


@dataclass(frozen=True)
class Finding:
    """What rows say of a claim: figures in words, one of `VERDICTS`, and figures beside."""

    here: str
    verdict: str
    beside: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper.

    Attributes:
        text: What is claimed.
        where: Table, figure or section.
        published: All its figures by label; the label may be empty.
        find: These figures from the rows of the item; what has another label is printed beside them
            and not judged.
        note: What a reader should know of it.
        missing: Why it cannot be had here; what `find` finds, if anything, is then shown only.
        fitted: Whether the model was fitted to these figures, so that it can reproduce their trend
            at most.
    """

    text: str
    where: str
    published: Mapping[str, Published]
    find: Callable[[Rows], Found] | None = None
    note: str = ""
    missing: str = ""
    fitted: bool = False

    def __str__(self) -> str:
        """The published figures."""
        return "; ".join(f"{of}: " * bool(of) + str(each) for of, each in self.published.items())

    def finding(self, rows: Rows) -> Finding | None:
        """None: no rows yet, or too few."""
        if not self.missing and not len(rows):
            return None
        said = [self.missing] * bool(self.missing)
        judged, beside = NOT_HERE, ""
        if self.find is not None and len(rows):
            found = {label: _cases(value) for label, value in self.find(rows).items()}
            cases = {label: [*of.values()] for label, of in found.items()}
            if not all(of and not any(map(math.isnan, of)) for of in cases.values()):
                return None
            if not self.missing:
                judged = verdict(self.published, cases)
            said += [
                self._said(label, of) for label, of in found.items() if label in self.published
            ]
            beside = "; ".join(
                self._said(label, of) for label, of in found.items() if label not in self.published
            )
        if self.fitted and judged == REPRODUCED:
            judged = SHAPE
        return Finding("; ".join([*said, *[self.note] * bool(self.note)]), judged, beside)

    def _said(self, label: str, cases: Mapping[str, float]) -> str:
        judge = self.published.get(label)
        form = in_words if judge is None else judge.said
        if len(cases) > FEW:
            text = f"{form(min(cases.values()))}..{form(max(cases.values()))}"
        else:
            text = ", ".join(f"{case} {form(value)}".strip() for case, value in cases.items())
        if judge is not None and len(cases) > 1:
            near = sum(map(judge.is_near, cases.values()))
            text += f" ({near}/{len(cases)})" if near < len(cases) else ""
        return f"{label}: " * bool(label) + text


def _cases(value: float | Mapping[Any, float]) -> dict[str, float]:
    if isinstance(value, Mapping):
        return {str(case): float(each) for case, each in value.items()}
    return {"": float(value)}


def in_words(value: float) -> str:
    """A figure, with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Item:
    """Claims that the same rows check.

    Attributes:
        name: As on the command line.
        setting: What is run here, and how it differs from the paper.
        measure: Finds the rows; None where there are none.
        graphs: Names of the graphs that it takes by default.
    """

    name: str
    setting: str
    claims: Sequence[Claim]
    measure: Callable[[Bench], None] | None = None
    graphs: Sequence[str] = ()


@dataclass(frozen=True)
class Paper:
    """A paper and its items.

    Attributes:
        cited: Authors and year, as sources and pages cite it.
        title: Authors, title and where it was published.
        here: What plancc takes from it, with links.
    """

    cited: str
    title: str
    here: str
    items: Sequence[Item]


@dataclass(frozen=True)
class Rows:
    """Rows of an item, in the order in which they were measured."""

    rows: Sequence[Row] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **case: Any) -> Rows:
        """Those with these values; a row without one of the keys is left out."""
        missing = object()
        return Rows(
            [
                row
                for row in self.rows
                if all(row.get(key, missing) == value for key, value in case.items())
            ]
        )

    def values(self, key: str) -> list[Any]:
        """The values of one key, in the order of the rows, each once."""
        return list(dict.fromkeys(row[key] for row in self.rows if key in row))

    def get(self, figure: str, **case: Any) -> float:
        """The figure of the only row of a case; NaN if there is no such row or figure."""
        found = [row[figure] for row in self.where(**case) if row.get(figure) is not None]
        return float(found[0]) if found else math.nan

    def ratios(self, figure: str, over: Row, under: Row, *keys: str) -> dict[Any, float]:
        """The figure of one case over that of another, by the values of `keys` that both have.

        By the graph, if no key is given; several values are joined to text.
        """
        found: dict[Any, float] = {}
        for row in self.where(**over):
            case = {key: row[key] for key in keys or ("graph",)}
            ratio = self.get(figure, **case | over) / (self.get(figure, **case | under) or math.nan)
            if not math.isnan(ratio):
                values = [*case.values()]
                found[values[0] if len(values) == 1 else ", ".join(map(str, values))] = ratio
        return found


def geometric_mean(ratios: Sequence[float]) -> float:
    """NaN of nothing; a ratio of 0 makes it 0."""
    if not ratios:
        return math.nan
    if min(ratios) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


@dataclass
class Bench:
    """What an item may use while it measures.

    Attributes:
        quick: Small cases only.
        chosen: Graphs of the user's, in place of the item's own.
        install: Whether environments of other libraries are made where they are not there.
        report: Is told every new row.
    """

    item: Item
    store: Store
    quick: bool = False
    chosen: Sequence[Path] = ()
    install: bool = True
    report: Callable[[str], None] = print

    def graphs(self) -> list[Path]:
        """The graphs to take: those of the user, or those of the item that are there."""
        return list(self.chosen) or [path for path in self._own() if path.exists()]

    def missing(self) -> list[Path]:
        """The graphs to take that are not there."""
        return [] if self.chosen else [path for path in self._own() if not path.exists()]

    def _own(self) -> list[Path]:
        names = self.item.graphs[: 1 if self.quick else None]
        return [SHARED / f"{name}.mtx.gz" for name in names]

    def row(self, case: Row, measure: Callable[[], Row]) -> Row:
        """The row of a case: as it is kept, or measured now."""
        kept = self.store.rows(self.item.name).where(**case)
        if len(kept):
            return next(iter(kept))
        row = case | measure()
        self.store.add(self.item.name, row)
        self.report(f"{self.item.name}: {_line(row)}")
        return row


@dataclass
class Store:
    """Rows of all items in one JSON file.

    Attributes:
        items: By the item's name: "machine", and "rows".
    """

    path: Path
    items: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Store:
        """The rows of a file; none if there is no such file. InputError if it is another file."""
        if not path.exists():
            return cls(path)
        try:
            items = json.loads(path.read_bytes())
            for item in items.values():
                str(item["machine"])
                for row in item["rows"]:
                    dict(row)
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            raise InputError(f"{path}: not a file of rows, as --rows writes it") from None
        return cls(path, items)

    def rows(self, item: str) -> Rows:
        return Rows(self.items.get(item, {}).get("rows", []))

    def machine(self, item: str) -> str:
        """What the item was last measured with; empty without rows."""
        return str(self.items.get(item, {}).get("machine", ""))

    def add(self, item: str, row: Row) -> None:
        """Keep a row; the file is replaced as a whole."""
        entry = self.items.setdefault(item, {"machine": "", "rows": []})
        entry["machine"] = (
            f"plancc {__version__}, {len(usable_cores())} cores, {platform.machine()}"
        )
        entry["rows"].append(row)
        self._write()

    def drop(self, item: str) -> None:
        """Forget the rows of an item."""
        if self.items.pop(item, None) is not None:
            self._write()

    def _write(self) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        lines = []
        for name, entry in self.items.items():
            rows = ",\n".join(f"   {json.dumps(row)}" for row in entry["rows"])
            machine = json.dumps(entry["machine"])
            lines.append(f'{json.dumps(name)}: {{"machine": {machine}, "rows": [\n{rows}]}}')
        temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        temporary.replace(self.path)


def read(path: Path, *, symmetrize: bool = False) -> Graph:
    """The graph of a file."""
    return plancc.read_graph(path, symmetrize=symmetrize)


def _line(row: Row) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in row.items()
    )
