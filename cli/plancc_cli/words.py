"""Sentences for the command line: messages of plancc's library, and messages about interruptions.

Messages of the library name parameters in Python; here the flags replace these names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import extract_tb
from typing import Any

import click

from plancc.errors import PlanccError
from plancc.text import printable, shown
from plancc_cli.signals import stopped

MOST_CLASSES = 12
"""Largest number of classes whose sizes a line lists."""
RENAMED = {"num_parts": "parts", "split": "split_name", "data=False": "no_data"}
"""For parameters of the library that commands name differently, their name in commands."""


def _flags(start: str, *names: str) -> dict[str, str]:
    return {name: start + name.replace("_", "-") for name in names}


OF_OTHERS = {
    **_flags("--", "data", "clusters", "links", "link_split", "edge_features"),
    **_flags("plancc convert --", "format", "pattern", "allow_large", "num_vertices", "keep_ids"),
    **{"columns": "plancc convert --columns", "keys": "plancc convert --key"},
    **_flags("--sampler-option ", "keep", "walk_length"),
}
"""Flags that a message may name although the command does not have them: flags of `compile`, for
data that a plan lacks; flags of `convert`; and options that are given by --sampler-option."""


class Interruptible(click.Command):
    """A command that raises `click.Abort` when it is interrupted."""

    def make_context(self, *words: Any, **extra: Any) -> click.Context:
        with interruption():
            return super().make_context(*words, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with interruption():
            return super().invoke(ctx)


@contextmanager
def interruption() -> Iterator[None]:
    """Context manager that turns an interruption of its statements into `click.Abort`."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.Abort() from None
    except Exception as error:
        if stopped.is_set():  # native code that was interrupted fails with another message
            raise click.Abort() from error
        raise


def in_flags(sentence: str, command: click.Command | None) -> str:
    """Return a message in which flags of `command` replace parameters in backticks."""
    flags = {} if command is None else OF_OTHERS.copy()
    for option in command.params if command is not None else ():
        if isinstance(option, click.Option):
            longest = max((*option.opts, *option.secondary_opts), key=len)
            flags[str(option.name)] = longest

    def flag(match: re.Match[str]) -> str:
        return flags.get(RENAMED.get(match[1], match[1]), flags.get(match[1], match[1]))

    return re.sub(r"`(\w+(?:=\w+)?)`", flag, sentence)


def name_flags(error: PlanccError, command: click.Command | None) -> None:
    """Replace parameters in an error's message by the flags of `command` (`in_flags`)."""
    error.args = (in_flags(str(error), command), *error.args[1:])


def usage_words(error: click.ClickException) -> str:
    """Return click's sentence about a wrong command line, in plain words, without full stop."""
    sentence = error.format_message().removesuffix(".")
    sentence = re.sub(r"is not a valid integer( range)?$", "is not a whole number", sentence)
    return re.sub(r"is not a valid float( range)?$", "is not a number", sentence)


def unexpected(error: BaseException) -> str:
    """Return a sentence about an unexpected error, with the line that raised the error."""
    where = "".join(f" {note}" for note in getattr(error, "__notes__", ()))  # "in rank 2"
    what = f"unexpected {type(error).__name__}{where}: {shown(error)}"
    place = "".join(
        f"{at.filename}, line {at.lineno}; " for at in extract_tb(error.__traceback__)[-1:]
    )
    return f"{what} ({place}PLANCC_TRACEBACK=1 shows the traceback; please report it)"


def say(sentence: str, err: bool = False) -> None:
    """Print a line; unprintable characters, for example in names of files, are replaced."""
    click.echo(printable(sentence), err=err)


def predictions_line(path: str, num_vertices: int, counts: Sequence[int]) -> str:
    """Return a line about a file of predictions.

    `counts` has the number of vertices predicted to have each class; the line shows a few classes.
    """
    line = f"{path}: predictions for {num_vertices:,} vertices"
    if 0 < len(counts) <= MOST_CLASSES:
        line += f"; of each class {', '.join(f'{count:,}' for count in counts)}"
    return line
