"""What to say of a library that is not installed. Imports none itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def missing_library(error: BaseException) -> str | None:
    """A sentence on the library; None for other errors, and where a module of ours is missing."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    name = error.name.partition(".")[0]
    if name.startswith("plancc"):
        return None
    return f"needs the library {name}, which is not installed: pip install {name}"


@contextmanager
def imports_of(program: str) -> Iterator[None]:
    """A block that imports what a program needs: a sentence, exit code 1 where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_library(error)
        if sentence is None:
            raise
        sys.exit(f"{program}: error: {sentence}")
