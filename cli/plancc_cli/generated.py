"""Options of commands, made from the fields of dataclasses (`plancc.fields`); sections of helps."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field
from typing import Any

import click

from plancc.errors import BackendUnavailable, InputError
from plancc.fields import kind_of, parsed
from plancc_cli.words import Interruptible

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MAX_NUMBER = 2**31 - 1
"""Largest of several whole numbers."""


class Several(click.ParamType):
    """Whole numbers with commas between them."""

    name = "numbers"

    def __init__(self, field: Field[Any]) -> None:
        self.field = field

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            numbers = parsed(self.field, value)
        except ValueError:
            raise InputError(
                f"`{self.field.name}` '{value}': give whole numbers with commas, such as 10,5"
            ) from None
        if max(numbers) > MAX_NUMBER:
            raise InputError(
                f"`{self.field.name}` '{value}': numbers up to {MAX_NUMBER} are possible"
            )
        return numbers


class NumberOrWord(click.ParamType):
    """A whole number of at most 9 digits, or a word that stands for one."""

    name = "word"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return int(value) if re.fullmatch("[0-9]{1,9}", str(value), re.ASCII) else value


def default_in_words(field: Field[Any]) -> str | None:
    """The default of an option for a help text; None where there is nothing to say."""
    if "otherwise" in field.metadata:
        return str(field.metadata["otherwise"])
    if field.default is MISSING:
        return "required"
    if field.default is None or isinstance(field.default, bool) or field.default == "":
        return None
    if isinstance(field.default, tuple):
        return ",".join(map(str, field.default))
    return str(field.default)


def flag_of(field: Field[Any]) -> str:
    """The option's flag."""
    return f"--{field.name.replace('_', '-')}"


def option_of(
    field: Field[Any], *others: Field[Any], who: str = "", **settings: Any
) -> click.Option:
    """The option of a field, None where it is not given.

    Parameters
    ----------
    field : dataclasses.Field
    *others : dataclasses.Field
        Fields of other classes with the same name. If one has another type, the option takes text,
        which `of_class` reads.
    who : str
        Whose option it is, for the help text.
    **settings
        Passed to `click.Option`.
    """
    kind = kind_of(field) if len({kind_of(each) for each in (field, *others)}) == 1 else "str"
    types = {
        "int": int,
        "float": float,
        "tuple[int, ...]": Several(field),
        "str | int": NumberOrWord(),
    }
    words = str(field.metadata.get("help", ""))
    words = f"For {who}: {words}" if who else words[:1].upper() + words[1:]
    default = default_in_words(field)
    if default is None:
        note = ""
    else:
        note = "  [required]" if default == "required" else f"  [default: {default}]"
    if kind == "bool":
        settings["is_flag"] = True
    else:
        settings["type"] = types.get(kind, str)
    return click.Option(
        [flag_of(field)],
        default=None,
        metavar=field.metadata.get("metavar"),
        help=f"{words}.{note}",
        **settings,
    )


def with_options(options: Iterable[click.Option]) -> Decorator:
    """A decorator that adds options to a command."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        known = getattr(function, "__click_params__", [])
        function.__click_params__ = [*known, *reversed([*options])]  # type: ignore[attr-defined]
        return function

    return decorated


Declared = dict[str, dict[str, Field[Any]]]
"""Options of several classes: by name, the field of every class that has it."""


def fields_of(
    declared: Mapping[str, Mapping[str, Field[Any]]], taken: Collection[str] = ()
) -> Declared:
    """Options of several classes.

    Parameters
    ----------
    declared : dict of str to dict of str to Field
        Options of a class by the name of the class.
    taken : collection of str
        Names to leave out, because the command has options of these names.
    """
    found: Declared = {}
    for who, options in declared.items():
        for name, field in options.items():
            if name not in taken:
                found.setdefault(name, {})[who] = field
    return found


def refuse_taken(who: str, options: Iterable[str], taken: Collection[str]) -> None:
    """BackendUnavailable if an option has no flag, because its name is one of `taken`."""
    for name in options:
        if name in taken:
            raise BackendUnavailable(
                f"{who}: its option '{name}' has the name of one of plancc's own"
            )


def of_class(given: Mapping[str, Any], fields: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """The options that are given, those that are text in the types of a class's fields.

    Raises
    ------
    InputError
        If a text is no value of the field's type.
    """
    found = dict(given)
    for name in given.keys() & fields.keys():
        value, kind = given[name], kind_of(fields[name])
        if isinstance(value, str):
            try:
                read = parsed(fields[name], value)
            except (ValueError, KeyError):
                raise InputError(f"`{name}` '{value}': a value of type {kind} is needed") from None
            found[name] = NumberOrWord().convert(read, None, None) if kind == "str | int" else read
    return found


class Sections(Interruptible):
    """A command whose help shows its options in sections.

    Parameters
    ----------
    sections : dict of str to tuple of str
        Names of parameters by the title of their section; the others stand in "Other".
    """

    def __init__(self, *args: Any, sections: Mapping[str, tuple[str, ...]], **more: Any) -> None:
        super().__init__(*args, **more)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            str(p.name): record
            for p in self.get_params(ctx)
            if isinstance(p, click.Option) and (record := p.get_help_record(ctx))
        }
        for title, names in self.sections.items():
            shown = [records.pop(name) for name in names if name in records]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
        with formatter.section("Other"):
            formatter.write_dl(list(records.values()))
