"""Sentences about libraries that are not installed.

The module itself imports none of these libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from plancc.errors import BackendUnavailable


def missing_library(error: BaseException) -> str | None:
    """Return a sentence about a missing library and its installation; None for other errors."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    name = error.name.partition(".")[0]
    if name.startswith("plancc"):
        return None
    return f"needs the library {name}, which is not installed: pip install {name}"


@contextmanager
def imports_of(program: str) -> Iterator[None]:
    """Context manager: if an import fails, print one sentence and end the program (exit code 1)."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_library(error)
        if sentence is None:
            raise
        sys.exit(f"{program}: error: {sentence}")


def require(user: str, *libraries: str, advice: str = "") -> None:
    """Raise BackendUnavailable if a library is missing that `user`, such as a command, needs.

    `advice` ends the message.
    """
    for name in libraries:
        if find_spec(name) is None:
            raise BackendUnavailable(f"{user} needs {name}: pip install 'plancc[report]'{advice}")
