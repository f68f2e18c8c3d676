"""What holds of every error and after every case."""

import os
from pathlib import Path

from .attack import Case, Finding

MOST_WORDS = 1000
"""Characters of an error, the paths in it left out."""


def check_words(sentence: str, folder: Path) -> None:
    """An error is one line that a terminal can show, and no longer than people read."""
    text = sentence.replace(str(folder), "")
    if not text.isprintable():
        raise Finding("manners", f"an error with control characters: {text[:200]!a}")
    if len(text) > MOST_WORDS:
        raise Finding("manners", f"an error of {len(text)} characters: {text[:100]}")


def check_leftovers(case: Case, folder: Path, temporary: Path) -> None:
    """The files of the case are as they were, and nothing temporary is left."""
    for name, content in case.files.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            raise Finding("leftover", f"the input {name} was changed")
    left = [path.name for path in folder.rglob("*.tmp*")] + os.listdir(temporary)
    if left:
        raise Finding("leftover", f"{left[0]} was left")
