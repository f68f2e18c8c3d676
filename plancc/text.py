"""Make strings from outside safe for display.

Every error and warning passes through `message`, all other printed text through `printable`.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from unicodedata import category

MOST_SHOWN = 200
"""Largest number of characters of one value in a message."""
MOST_MESSAGE = 2000
"""Largest number of characters of a message."""
_CUT = "..."
_END = 60
"""Number of characters that are kept at the end of a cut word, such as a file's name."""
_WORD = re.compile(rf"[^ ]{{{MOST_SHOWN + 1},}}")
_LINE_END = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
_QUOTED = re.compile(rf"(?<!\w)'([^']{{{MOST_SHOWN + 1},}})'(?!\w)")


def docstring(declared: type) -> str:
    """Return the class's own docstring, not a dataclass's signature; "" if it has none."""
    text = declared.__doc__ or ""
    return "" if text.startswith(f"{declared.__name__}(") else cleandoc(text)


def printable(text: object) -> str:
    """Return the text in one line, without characters that cannot be seen.

    Line ends, tabs and unusual spaces become spaces; control characters and characters that reverse
    or hide text become U+FFFD.
    """
    words = str(text)
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else _replacement(c) for c in words)


def _replacement(c: str) -> str:
    blank = c in "\t\r\n" or (c.isspace() and category(c) != "Cc")
    return " " if blank else "\N{REPLACEMENT CHARACTER}"


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """Return a printable value of at most `most` characters; three dots end a cut string."""
    if isinstance(value, bytes | bytearray | memoryview):
        text = bytes(value[: 4 * most + 4]).decode("utf-8", "replace")
    else:
        text = str(value)
    text = printable(_one_line(text[: 4 * most + 4]))
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def first_sentence(text: str) -> str:
    """Return the first sentence of a text in one line, without its full stop."""
    return re.split(r"\.(?= [A-Z]|$)", " ".join(text.split()))[0]


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; the type's name if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def message(sentence: object) -> str:
    """Make a sentence safe for display: a printable line of at most `MOST_MESSAGE` characters.

    Words and quoted strings of more than `MOST_SHOWN` characters are cut in the middle.
    """
    text = str(sentence)
    if len(text) > 2 * MOST_MESSAGE:
        text = f"{text[: 2 * MOST_MESSAGE - 400]}{_CUT}{text[-400:]}"
    line = printable(_one_line(text))
    line = _QUOTED.sub(lambda found: f"'{_middle_cut(found[1], MOST_SHOWN)}'", line)
    line = _WORD.sub(lambda found: _middle_cut(found[0], MOST_SHOWN), line)
    return _middle_cut(line, MOST_MESSAGE)


def _one_line(text: str) -> str:
    return _LINE_END.sub(" ", text.strip(" \t\r\n"))


def _middle_cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most - _END - len(_CUT)] + _CUT + text[-_END:]


def four_digits(value: float) -> str:
    """Format a number with four significant digits, including zeros at the end."""
    return f"{value:,.0f}" if not value or abs(value) >= 999.5 else f"{value:#.4g}".rstrip(".")
