"""All attacks by their names, and what they found once, which is tried first for ever after.

``seeds/index.toml`` lists the seeds. A seed has files of the folder (``files``: name in the case =
name in the folder) and ``words``.
"""

import tomllib
from pathlib import Path

from .attack import Attack, Case
from .fuzz_inputs import Inputs
from .signals import Signals

ATTACKS: dict[str, type[Attack]] = {each.name: each for each in (Inputs, Signals)}
FOLDER = Path(__file__).with_name("seeds")
SEEDS = tomllib.loads((FOLDER / "index.toml").read_text())
"""The entries of the index, by name."""


def seed_case(name: str) -> Case:
    """The case of a seed."""
    entry = SEEDS[name]
    files = {to: (FOLDER / file).read_bytes() for to, file in entry.get("files", {}).items()}
    return Case(entry["what"], files, tuple(entry.get("words", ())))
