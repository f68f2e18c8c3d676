"""Which models compete where the user leaves the choice: model ``auto``. Knows names only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

CANDIDATES = ("hp", "medium-grain", "hub-split", "checkerboard", "libra")


@dataclass(frozen=True)
class AutoModel:
    """The best of several models; `plancc.owners.choice` compiles and compares them.

    Attributes
    ----------
    candidates : sequence of str, or str with commas
        Names of models, each with options of its own at their defaults.
    """

    layout: ClassVar[str] = "any"
    partitioners: ClassVar[tuple[str, ...]] = ()

    candidates: tuple[str, ...] | str = CANDIDATES

    def names(self) -> tuple[str, ...]:
        """The candidates, each once."""
        given = self.candidates
        names = given.split(",") if isinstance(given, str) else given
        return tuple(dict.fromkeys(name.strip() for name in names))
