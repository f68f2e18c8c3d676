"""Options as fields: a frozen dataclass whose fields are what a user may set. Knows no such class.

Models, samplers and data sets are such dataclasses. The command line and the documentation are
made from their fields, so the options of a third party's class appear like the built-in ones.
The type of an option is one of `KINDS`, or one of them ``| None``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields
from numbers import Real
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.text import shown


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


def kind_of(each: Field[Any]) -> str:
    """The type of an option in words, without None: one of `KINDS`, or a third party's own."""
    words = each.type.__name__ if isinstance(each.type, type) else str(each.type)
    return words.removesuffix(" | None")


def parsed(each: Field[Any], text: str) -> Any:
    """The value of an option from a text; ValueError for what is none."""
    parse, _ = KINDS.get(kind_of(each), KINDS["str"])
    return parse(text)


def checked(each: Field[Any], value: Any) -> Any:
    """The value of an option in its type; InputError for one of another type."""
    _, check = KINDS.get(kind_of(each), KINDS["str"])
    return check(each.name, value)


def _whole(option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{option}` {value!r}: a whole number is needed")
    return int(value)


def _several(option: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple | list | np.ndarray):
        raise InputError(f"`{option}` {values!r}: whole numbers are needed")
    return tuple(_whole(option, value) for value in values)


def _number(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"`{option}` {value!r}: a number is needed")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"`{option}` {shown(value)}: the number is too large") from None


def _truth(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"`{option}` {value!r}: True or False is needed")
    return value


KINDS: dict[str, tuple[Callable[[str], Any], Callable[[str, Any], Any]]] = {
    "int": (int, _whole),
    "float": (float, _number),
    "bool": ({"True": True, "False": False}.__getitem__, _truth),
    "tuple[int, ...]": (lambda text: tuple(map(int, text.split(","))), _several),
    "str": (str, lambda option, value: value),
}
"""Types of options: how a text is read, and how a value is checked."""
