"""`Table`: a table of strings, which a terminal or an HTML page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

MARKS = ("best", "chosen")
"""Names of columns that hold marks; these columns are centred."""


@dataclass
class Table:
    """A table of strings.

    Attributes:
        columns: Headings of the columns.
        title, caption: Title, and caption of one line or more; "" for none.
        left: Number of first columns that are aligned left.
        has_heads: Whether headings are shown; if not, the first column is emphasised.
        justify: For every column, "left", "right" or "center".
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
        """Append a line of cells; missing cells at its end are empty."""
        assert len(cells) <= len(self.columns)
        self.rows.append([*cells, *[""] * (len(self.columns) - len(cells))])
