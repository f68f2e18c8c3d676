"""Options as fields of frozen dataclasses; each field is an option that a user may set.

The command line, docstrings and signatures are made from the fields, so options of a third party's
class appear like built-in ones. The type of an option is one of `KINDS`, or one of these with ``|
None``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from inspect import Parameter, cleandoc, signature
from numbers import Real
from os import PathLike
from textwrap import fill
from typing import Any, NamedTuple, TypeVar

import numpy as np

from plancc.errors import InputError
from plancc.registry import check_choice
from plancc.text import shown

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


class ValueKind(NamedTuple):
    """A type that the value of an option may have.

    Attributes:
        needed: Phrase for errors that says which values the type accepts.
        check: Function that converts a value, or raises TypeError or OverflowError.
        parse: Function that converts a string to the type.
    """

    needed: str
    check: Callable[[Any], Any]
    parse: Callable[[str], Any] = str


ANY = ValueKind("", lambda value: value)


def option(default: Any = MISSING, help: str = "", **metadata: Any) -> Any:
    """Return a dataclass field that describes an option.

    Parameters:
        default: Default value; if it is missing, the option must be given.
        help: A noun phrase without a full stop, with names of options in backticks.
        **metadata: ``more``: further sentences for the docstring. ``otherwise``: the default as a
            phrase, if `default` is None. ``metavar``: placeholder of the value on the command line.
            ``section``: title of the option's section in the help. ``choices``: allowed values.
            ``noun``: word for a choice in errors. ``at_least``, ``above``, ``at_most``, ``below``:
            bounds of a number. ``kind``: a `ValueKind`, if the type is not in `KINDS`.
            ``internal``: True for a field that users do not set. ``python_only``: True for an
            option that the command line does not have.
    """
    return field(default=default, metadata={"help": help, **metadata})


def like(declared: Any, name: str, **changes: Any) -> Any:
    """Return a copy of the option `name` of class `declared`, with `changes` to its settings."""
    known = next(each for each in fields(declared) if each.name == name)
    return option(**{"default": known.default, **known.metadata, **changes})


def options_of(declared: Any) -> tuple[Field[Any], ...]:
    """Return the fields of a dataclass that users set (name, type, default, metadata), in order."""
    return tuple(each for each in fields(declared) if not each.metadata.get("internal"))


def unknown_option(given: Iterable[str], declared: Any) -> str | None:
    """Return the first name in `given` that is not an option of `declared`, or None."""
    known = {each.name for each in options_of(declared)}
    return next((name for name in given if name not in known), None)


def type_in_words(each: Field[Any]) -> str:
    """Return the declared type of an option as a string, such as "int | None"."""
    return each.type.__name__ if isinstance(each.type, type) else str(each.type)


def kind_of(each: Field[Any]) -> str:
    """Return the name of an option's type without "| None", for example a key of `KINDS`."""
    return type_in_words(each).removesuffix(" | None")


def default_in_words(each: Field[Any]) -> str | None:
    """Return an option's default as a phrase for the help; None if the help shows no default."""
    if "otherwise" in each.metadata:
        return str(each.metadata["otherwise"])
    if each.default is MISSING:
        return "required"
    if each.default is None or isinstance(each.default, bool) or each.default == "":
        return None
    if isinstance(each.default, tuple):
        return ",".join(map(str, each.default))
    return str(each.default)


def help_of(each: Field[Any]) -> str:
    """Return the help of an option as a sentence, without its default."""
    words = str(each.metadata.get("help", ""))
    return f"{words[:1].upper()}{words[1:]}."


def parsed(each: Field[Any], text: str) -> Any:
    """Convert a string to the type of an option; raise InputError if this is impossible."""
    kind = KINDS.get(kind_of(each), ANY)
    try:
        return kind.parse(text)
    except (ValueError, KeyError):
        raise InputError(f"`{each.name}` '{text}': {kind.needed}") from None


def checked(each: Field[Any], value: Any) -> Any:
    """Return a value converted to the option's type; raise InputError for a value not allowed."""
    said, words = each.metadata, kind_of(each)
    kind = said.get("kind") or KINDS.get(words) or OTHERS.get(words, ANY)
    choices, noun = said.get("choices"), said.get("noun", each.name.replace("_", " "))
    given = value
    try:
        value = kind.check(value)
    except TypeError:
        if choices:
            check_choice(noun, shown(value), choices)
        raise InputError(f"`{each.name}` {value!r}: {kind.needed}") from None
    except OverflowError:
        raise InputError(f"`{each.name}` {shown(value)}: the number is too large") from None
    if choices and value not in choices:
        check_choice(noun, value, choices)
    for name, holds in BOUNDS.items():
        if name in said and not holds(value, bound := said[name]):
            limit = f"{bound:g}" if isinstance(bound, float) else str(bound)
            limit = "finite" if bound == math.inf else f"{name.replace('_', ' ')} {limit}"
            raise InputError(f"`{each.name}` {shown(given)}: must be {limit}")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InputError(f"`{each.name}` {shown(given)}: the number is too large")
    return value


def check_options(declared: Any) -> None:
    """Raise InputError if an option of this dataclass instance has a value that is not allowed."""
    for each in options_of(declared):
        if (value := getattr(declared, each.name)) is not None:
            checked(each, value)


def described(declared: Class) -> Class:
    """Add the options of a class to its docstring, as attributes; a class decorator."""
    if declared.__doc__ is not None:  # python -OO leaves docstrings out
        parts = cleandoc(declared.__doc__).partition("\n\nRaises:\n")
        lines = "\n".join(["Attributes:", *entries(options_of(declared))])
        declared.__doc__ = f"{parts[0]}\n\n{lines}{parts[1]}{parts[2]}"
    return declared


def taking(*declared: Any, rest: str = "") -> Callable[[Function], Function]:
    """Return a decorator for functions whose ``**options`` are options of dataclasses.

    The signature gets these options, and the docstring gets them in place of the line
    ``**options``. `rest` is the name of the parameter for all other keywords.
    """
    every = [each for one in declared for each in options_of(one)]

    def decorated(function: Function) -> Function:
        written = signature(function)
        *own, others = written.parameters.values()
        keywords = [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in every
            if each.name not in written.parameters
        ]
        more = [others.replace(name=rest)] if rest else []
        shown = written.replace(parameters=[*own, *keywords, *more])
        function.__signature__ = shown  # type: ignore[attr-defined]
        if function.__doc__ is not None:
            head, _, tail = cleandoc(function.__doc__).partition("    **options\n")
            function.__doc__ = "\n".join([head.rstrip(), *entries(every), tail])
        return function

    return decorated


def divided(given: Mapping[str, Any], *declared: Any) -> list[dict[str, Any]]:
    """Return a dict of options for each of these dataclasses, and last a dict of all others."""
    rest, found = dict(given), []
    for each in declared:
        found.append({f.name: rest.pop(f.name) for f in options_of(each) if f.name in rest})
    return [*found, rest]


def entries(options: Iterable[Field[Any]]) -> list[str]:
    """Return the lines of a docstring that describe these options."""
    lines = []
    for each in options:
        default, more = default_in_words(each), str(each.metadata.get("more", ""))
        note = "" if default in (None, "required") else f" Default: {default}."
        choices = ", ".join(each.metadata.get("choices", ()))
        kind = f"{{{choices}}}" if choices else type_in_words(each)
        text = " ".join(filter(None, [f"{each.name} ({kind}): {help_of(each)}{note}", more]))
        lines.append(fill(text, 96, initial_indent=" " * 4, subsequent_indent=" " * 8))
    return lines


def instance(needed: str, *types: Any) -> ValueKind:
    """Return a kind that accepts instances of these types; errors ask for `needed`."""

    def check(value: Any) -> Any:
        if not isinstance(value, types):
            raise TypeError
        return value

    return ValueKind(needed, check)


def _several(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(values: Any) -> tuple[Any, ...]:
        if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
            raise TypeError
        return tuple(map(check, values))

    return checked


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    return float(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


def _number_or_word(text: str) -> int | str:
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else text


BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "at_least": operator.ge,
    "above": operator.gt,
    "at_most": operator.le,
    "below": operator.lt,
}
"""Kinds of bounds that an option may have, with their comparisons. NaN is outside all bounds."""
TEXT = instance("a text is needed", str)
KINDS = {
    "int": ValueKind("a whole number is needed", _whole, int),
    "float": ValueKind("a number is needed", _number, float),
    "bool": ValueKind("True or False is needed", _bool, {"True": True, "False": False}.__getitem__),
    "tuple[int, ...]": ValueKind(
        "whole numbers are needed", _several(_whole), lambda text: tuple(map(int, text.split(",")))
    ),
    "str | int": ANY._replace(parse=_number_or_word),
    "str": TEXT,
}
"""Types of options that can be parsed from strings."""
MAPPING = instance("a mapping of names to values is needed", Mapping)
NAMES = ValueKind("several names are needed, as a tuple or list", _several(TEXT.check))
OTHERS = {
    "StrPath": instance("a path is needed", str, PathLike),
    "Mapping[str, Any]": MAPPING,
    "Mapping[str, str]": MAPPING,
    "Sequence[int]": KINDS["tuple[int, ...]"],
    "Sequence[str]": NAMES,
    "tuple[str, ...]": NAMES,
    "tuple[float, ...]": ValueKind("several numbers are needed", _several(_number)),
}
"""Other types of options; their values are checked, but are not parsed from strings."""
