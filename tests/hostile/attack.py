"""What is tried, and how the program must not meet it."""

from dataclasses import dataclass, field
from pathlib import Path

MOST_WORDS = 1000
"""Characters of an error, the paths in it left out."""


class Finding(Exception):
    """The program did what it promises not to do: a kind of `KINDS`, and a line."""

    def __init__(self, kind: str, what: str) -> None:
        assert kind in KINDS, kind
        super().__init__(f"{kind}: {what}")
        self.kind, self.what = kind, what


KINDS = {
    "crash": "a process died by a signal that nobody sent",
    "hang": "a case took more CPU time or wall time than its limit",
    "memory": "memory above the limit was asked for",
    "traceback": "an exception of Python reached the user, or 'unexpected ... please report it'",
    "manners": "control characters, several lines, no file named, too long, a wrong exit code",
    "leftover": "a temporary file or a process was left, or an input was changed",
    "silent": "wrong data were accepted: a result, exit code 0, and no word",
}


@dataclass(frozen=True)
class Case:
    """How it was made, for people; files of an empty folder; what else there is to know."""

    how: str
    files: dict[str, bytes] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def check_words(sentence: str, folder: Path) -> None:
    """An error is one line that a terminal can show, and no longer than people read."""
    text = sentence.replace(str(folder), "")
    if not text.isprintable():
        raise Finding("manners", f"an error with control characters: {text[:200]!a}")
    if len(text) > MOST_WORDS:
        raise Finding("manners", f"an error of {len(text)} characters: {text[:100]}")
