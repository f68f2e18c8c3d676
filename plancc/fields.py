"""Options as fields: a frozen dataclass whose fields are what a user may set. Knows no such class.

Models, samplers and data sets are such dataclasses. The command line and the documentation are
made from their fields, so the options of a third party's class appear like the built-in ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, field, fields
from typing import Any


def option(default: Any = MISSING, help: str = "", **metadata: Any) -> Any:
    """A dataclass field that says what it is.

    Parameters
    ----------
    default
        Left out: the option must be given.
    help : str
        A noun phrase for the command line, without a full stop.
    **metadata
        ``metavar``: placeholder of the value on the command line; ``otherwise``: the default in
        words, where `default` is None; ``internal``: True for a field that users do not set.
    """
    return field(default=default, metadata={"help": help, **metadata})


def options_of(declared: Any) -> tuple[Field[Any], ...]:
    """The fields of a dataclass that users set (name, type, default, metadata), in order."""
    return tuple(each for each in fields(declared) if not each.metadata.get("internal"))


def unknown_option(given: Iterable[str], declared: Any) -> str | None:
    """The first name in `given` that is no option of `declared`."""
    known = {each.name for each in options_of(declared)}
    return next((name for name in given if name not in known), None)
