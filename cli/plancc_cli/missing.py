"""What to say of a library that is not installed. Imports none itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from plancc.errors import BackendUnavailable


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


def require(user: str, *libraries: str, advice: str = "") -> None:
    """Refuse, before any work, a picture or a page whose libraries are not installed.

    Raises:
        BackendUnavailable: Names the first that is missing.
    """
    for name in libraries:
        if find_spec(name) is None:
            raise BackendUnavailable(f"{user} needs {name}: pip install 'plancc[report]'{advice}")
