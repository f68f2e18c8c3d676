"""Text from outside, made fit to be shown.

What files, options and other libraries say may be of any length and hold control characters. Every
error and every warning passes `message`; what is printed as text passes `printable`.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from unicodedata import category

MOST_SHOWN = 200
"""Characters of one value in a message."""
MOST_MESSAGE = 2000
"""Characters of a message."""
_CUT = "..."
_END = 60
"""Characters of the end that are kept of a word that is cut, such as the name of a file."""
_WORD = re.compile(rf"[^ ]{{{MOST_SHOWN + 1},}}")
_LINE_END = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
_QUOTED = re.compile(rf"(?<!\w)'([^']{{{MOST_SHOWN + 1},}})'(?!\w)")


def docstring(declared: type) -> str:
    """The class's own docstring, not the signature that a dataclass gets; "" where it has none."""
    text = declared.__doc__ or ""
    return "" if text.startswith(f"{declared.__name__}(") else cleandoc(text)


def printable(text: object) -> str:
    """The text in one line: ends of lines, tabs and wide blanks as blanks, and what prints nothing
    as U+FFFD.

    That is control characters, and the invisible ones that turn the direction of text or hide it.
    """
    words = str(text)
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else _in_place_of(c) for c in words)


def _in_place_of(c: str) -> str:
    blank = c in "\t\r\n" or (c.isspace() and category(c) != "Cc")
    return " " if blank else "\N{REPLACEMENT CHARACTER}"


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """A value from outside as a message shows it: printable, at most `most` characters.

    Bytes are read as UTF-8. What is cut ends with three dots.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        text = bytes(value[: 4 * most + 4]).decode("utf-8", "replace")
    else:
        text = str(value)
    text = printable(_one_line(text[: 4 * most + 4]))
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def first_sentence(text: str) -> str:
    """The first sentence of a text in one line, without its full stop: a capital follows that."""
    return re.split(r"\.(?= [A-Z]|$)", " ".join(text.split()))[0]


def first_line(error: Exception) -> str:
    """The first line of an error, or its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def message(sentence: object) -> str:
    """A sentence that names values from outside, fit to be shown.

    Returns:
        One printable line of at most `MOST_MESSAGE` characters. Words and quoted texts of more than
        `MOST_SHOWN` characters are cut in their middle.
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
    """Four significant digits, zeros too, so that compared figures are of one precision."""
    return f"{value:,.0f}" if not value or abs(value) >= 999.5 else f"{value:#.4g}".rstrip(".")
