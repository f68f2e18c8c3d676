"""Text from files, made fit to be shown. Knows no file."""

from __future__ import annotations


def printable(text: object) -> str:
    """The text in one line: white space as blanks, and what prints nothing as U+FFFD.

    That is control characters, and the invisible ones that turn the direction of text or hide it.
    """
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
        for c in str(text)
    )
