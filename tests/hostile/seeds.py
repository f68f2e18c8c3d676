"""What was found once, to be tried first for ever after.

``seeds/index.toml`` lists them. A seed has files of the folder (``files``: name in the case = name
in the folder), named pipes (``fifos``) and ``words``.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .attack import Case

FOLDER = Path(__file__).with_name("seeds")


@dataclass(frozen=True)
class Seed:
    """An entry of the index."""

    name: str
    attack: str
    entry: dict[str, Any]

    def case(self) -> Case:
        """What it was that was found."""
        entry = self.entry
        files = {
            name: (FOLDER / file).read_bytes() for name, file in entry.get("files", {}).items()
        }
        return Case(
            entry["what"], files, tuple(entry.get("fifos", ())), tuple(entry.get("words", ()))
        )


def seeds_of(attack: str | None) -> list[Seed]:
    """The seeds of an attack, or all for None, in the order of the index."""
    index = tomllib.loads((FOLDER / "index.toml").read_text())
    return [
        Seed(name, entry["attack"], entry)
        for name, entry in index.items()
        if attack in (None, entry["attack"])
    ]
