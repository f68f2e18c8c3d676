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
from plancc.graph.chunks import usable_cores
from plancc.graph.graph import Graph
from plancc.version import __version__

REPRODUCED, SHAPE, REFUTED, NOT_HERE = "reproduced", "shape only", "refuted", "cannot be had here"
VERDICTS = (REPRODUCED, SHAPE, REFUTED, NOT_HERE)

Row = dict[str, Any]


class TooFewRows(Exception):
    """A claim cannot be judged by the rows that there are."""


@dataclass(frozen=True)
class Finding:
    """What rows say of a claim: figures in words, and one of `VERDICTS`."""

    here: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """A statement of a paper.

    Attributes
    ----------
    text : str
        What is claimed.
    where : str
        Table, figure or section.
    published : str
        Its figures.
    judge : callable, or Finding
        What the rows of the item say; a finding for what needs none.
    """

    text: str
    where: str
    published: str
    judge: Judge | Finding

    def finding(self, rows: Rows) -> Finding | None:
        """None: no rows yet, or too few."""
        if isinstance(self.judge, Finding):
            return self.judge
        try:
            return self.judge(rows) if len(rows) else None
        except TooFewRows:
            return None


@dataclass(frozen=True)
class Item:
    """Claims that the same rows check.

    Attributes
    ----------
    name : str
        As on the command line.
    setting : str
        What is run here, and how it differs from the paper.
    claims : sequence of Claim
    measure : callable, or None
        Finds the rows; None where there are none.
    graphs : sequence of str
        Names of the graphs that it takes by default.
    columns : sequence of str
        Figures of a row that the page shows; empty: no table of rows.
    """

    name: str
    setting: str
    claims: Sequence[Claim]
    measure: Callable[[Bench], None] | None = None
    graphs: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class Paper:
    """A paper and its items.

    Attributes
    ----------
    cited : str
        Authors and year, as sources and pages cite it.
    title : str
        Authors, title and where it was published.
    here : str
        What plancc takes from it, with links.
    items : sequence of Item
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

    def ratios(self, figure: str, over: Row, under: Row, key: str = "graph") -> dict[Any, float]:
        """The figure of one case over that of another, for every value of `key` that has both."""
        found = {}
        for value in self.values(key):
            ratio = self.get(figure, **{key: value}, **over) / (
                self.get(figure, **{key: value}, **under) or math.nan
            )
            if not math.isnan(ratio):
                found[value] = ratio
        return found


def geometric_mean(ratios: Sequence[float]) -> float:
    """NaN of nothing; a ratio of 0 makes it 0."""
    if not ratios:
        return math.nan
    if min(ratios) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


Judge = Callable[[Rows], Finding]
"""What rows of an item say of a claim."""


@dataclass
class Bench:
    """What an item may use while it measures.

    Attributes
    ----------
    item : Item
    store : Store
    quick : bool
        Small cases only.
    chosen : sequence of Path
        Graphs of the user's, in place of the item's own.
    report : callable
        Is told every new row.
    """

    item: Item
    store: Store
    quick: bool = False
    chosen: Sequence[Path] = ()
    report: Callable[[str], None] = print

    def graphs(self) -> list[Path]:
        """The graphs to take: those of the user, or those of the item that are there."""
        if self.chosen:
            return list(self.chosen)
        there = [SHARED / f"{name}.mtx.gz" for name in self.item.graphs]
        return [path for path in there if path.exists()][: 1 if self.quick else None]

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

    Attributes
    ----------
    path : Path
    items : dict
        By the item's name: "machine", and "rows".
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
        entry["machine"] = f"plancc {__version__}, {usable_cores()} cores, {platform.machine()}"
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


def listed(values: Mapping[Any, float], form: str = ".2f") -> str:
    """The values by key, in words; TooFewRows if there is none, or one is missing."""
    if not values or any(math.isnan(value) for value in values.values()):
        raise TooFewRows
    return ", ".join(f"{key} {value:{form}}" for key, value in values.items())


def read(path: Path, *, symmetrize: bool = False) -> Graph:
    """The graph of a file."""
    return plancc.read_graph(path, symmetrize=symmetrize)


def _line(row: Row) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in row.items()
    )
