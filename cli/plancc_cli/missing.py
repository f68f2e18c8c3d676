"""Sentences about libraries that are not installed; the module imports no such library."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from plancc.errors import BackendUnavailable


def missing_library(error: BaseException) -> str | None:
    """Return a sentence about a missing library; None for other errors and for plancc's modules."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    name = error.name.partition(".")[0]
    if name.startswith("plancc"):
        return None
    return f"needs the library {name}, which is not installed: pip install {name}"


@contextmanager
def imports_of(program: str) -> Iterator[None]:
    """End the program with a sentence and exit code 1 if an import of the block is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_library(error)
        if sentence is None:
            raise
        sys.exit(f"{program}: error: {sentence}")


def require(user: str, *libraries: str, advice: str = "") -> None:
    """Refuse a picture or a page if its libraries are not installed.

    Raises:
        BackendUnavailable: A library is missing; the message names the first.
    """
    for name in libraries:
        if find_spec(name) is None:
            raise BackendUnavailable(f"{user} needs {name}: pip install 'plancc[report]'{advice}")
