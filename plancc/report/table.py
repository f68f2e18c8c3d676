"""A table of texts: a value that a terminal and a page can each show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

MARKS = ("best", "chosen")
"""Columns of marks, which are centred."""


@dataclass
class Table:
    """A table of texts.

    Attributes:
        columns: Heads of the columns.
        title, caption: Texts, "" for none; a caption may have several lines.
        left: Number of columns from the left that are flush left; other columns are flush right.
        has_heads: Whether the heads are shown; if not, the first column stands out.
        justify: "left", "right" or "center" for every column.
    """

    columns: Sequence[str]
    title: str = ""
    caption: str = ""
    left: int = 1
    has_heads: bool = True
    justify: list[Literal["left", "right", "center"]] = field(init=False)
    rows: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.justify = [
            "left" if place < self.left else "center" if name in MARKS else "right"
            for place, name in enumerate(self.columns)
        ]

    def add_row(self, *cells: str) -> None:
        """Append a row; the last cells may be left out."""
        assert len(cells) <= len(self.columns)
        self.rows.append([*cells, *[""] * (len(self.columns) - len(cells))])
