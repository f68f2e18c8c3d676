"""Figures beside their targets, and how they are printed."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_HOLDS = {"<=": operator.le, ">=": operator.ge, "=": operator.eq}


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        target: What `value` should be; None for a number that is only shown.
        relation: "<=", ">=" or "=": how `value` should stand to `target`.
    """

    name: str
    value: float
    target: float | None = None
    relation: str = "<="
    unit: str = ""

    @property
    def reached(self) -> bool | None:
        return None if self.target is None else _HOLDS[self.relation](self.value, self.target)


@dataclass
class Report:
    """What one benchmark found; `notes` say what was measured, or why nothing was."""

    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def add(self, *args: Any, **options: Any) -> None:
        """Append ``Figure(*args, **options)``."""
        self.figures.append(Figure(*args, **options))

    def add_times(self, name: str, seconds: Sequence[float]) -> None:
        """Append minimum and median of repeated times."""
        self.add(f"{name}: minimum of {len(seconds)}", min(seconds), unit="s")
        self.add(f"{name}: median of {len(seconds)}", statistics.median(seconds), unit="s")

    def add_ratio(
        self, name: str, over: Sequence[float], under: Sequence[float], target: float
    ) -> None:
        """Append ``over / under`` of the medians, which has the target, and of the minima."""
        ratio = statistics.median(over) / statistics.median(under)
        self.add(f"{name}, medians", ratio, target)
        self.add(f"{name}, minima", min(over) / min(under), target)

    def as_dict(self) -> dict[str, Any]:
        figures = [{**asdict(figure), "reached": figure.reached} for figure in self.figures]
        return {"notes": self.notes, "figures": figures}


def show(console: Console, name: str, report: Report) -> None:
    """One table: figure, measured, target, reached."""
    table = Table(title=name, title_style="bold", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("figure", no_wrap=True)
    for column in ("measured", "target", "reached"):
        table.add_column(column, justify="right", no_wrap=True)
    for figure in report.figures:
        target = "" if figure.target is None else f"{figure.relation} {_number(figure.target)}"
        reached = {None: "", True: "yes", False: "no"}[figure.reached]
        measured = f"{_number(figure.value)} {figure.unit}".strip()
        table.add_row(figure.name, measured, target, reached)
    if report.figures:
        console.print(table)
    else:
        console.print(f"\n{name}", style="bold")
    for note in report.notes:
        console.print(f"  {note}", soft_wrap=True)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
