"""Options of commands, made from the fields of dataclasses (`plancc.fields`); sections of helps."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field
from functools import partial
from typing import Any

import click

from plancc.errors import BackendUnavailable, InputError
from plancc.fields import BOUNDS, checked, default_in_words, help_of, kind_of, parsed
from plancc.registry import check_choice
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
        except InputError:
            raise InputError(
                f"`{self.field.name}` '{value}': give whole numbers with commas, such as 10,5"
            ) from None
        if max(numbers) > MAX_NUMBER:
            raise InputError(
                f"`{self.field.name}` '{value}': numbers up to {MAX_NUMBER} are possible"
            )
        return numbers


FLAGS = {
    "bias": "--bias/--no-bias",
    "keys": "--key",
    "model_options": "--model-option",
    "sampler_options": "--sampler-option",
}
"""Flags that are not the parameter's name."""


def flag_of(name: str) -> str:
    """The flag of a parameter."""
    return FLAGS.get(name, f"--{name.replace('_', '-')}")


def in_words(text: str) -> str:
    """A text that names parameters in backticks, with their flags in place."""
    return re.sub(r"`([a-z_]+)`", lambda found: flag_of(found[1]), text)


def option_of(
    field: Field[Any], *others: Field[Any], who: str = "", **settings: Any
) -> click.Option:
    """The option of a field, None where it is not given.

    Parameters:
        *others (dataclasses.Field): Fields of other classes with the same name. If one has another
            type, the option takes text, which `of_class` reads.
        who: Whose option it is, for the help text.
        **settings: Passed to `click.Option`; ``help``, or ``otherwise``, in place of the field's.
    """
    kind = kind_of(field) if len({kind_of(each) for each in (field, *others)}) == 1 else "str"
    types = {
        "int": int,
        "float": float,
        "tuple[int, ...]": Several(field),
        "Path": click.Path(),
    }
    words = help_of(field)
    if who:
        words = f"For {who}: {words[0].lower()}{words[1:]}"
    default = settings.pop("otherwise", default_in_words(field))
    if default is None:
        note = ""
    else:
        note = "  [required]" if default == "required" else f"  [default: {default}]"
    if kind == "bool":
        settings.setdefault("is_flag", True)
    elif "callback" in settings:  # it reads the text
        settings.setdefault("type", str)
    elif "choices" in field.metadata:
        settings.setdefault("type", click.Choice(field.metadata["choices"]))
    else:
        settings.setdefault("type", types.get(kind, str))
    if BOUNDS.keys() & field.metadata.keys():
        settings.setdefault("callback", partial(_check, field))
    settings.setdefault("metavar", field.metadata.get("metavar"))
    settings.setdefault("help", in_words(f"{words}{note}"))
    return click.Option([flag_of(field.name), field.name], **{"default": None} | settings)


def _check(
    field: Field[Any], context: click.Context, parameter: click.Parameter, value: Any
) -> Any:
    return value if value is None else checked(field, value)


def sections_of(options: Iterable[Field[Any]]) -> dict[str, tuple[str, ...]]:
    """Names of options by the section of the help that they stand in."""
    found: dict[str, tuple[str, ...]] = {}
    for each in options:
        title = each.metadata["section"]
        found[title] = (*found.get(title, ()), each.name)
    return found


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

    Parameters:
        declared: Options of a class by the name of the class.
        taken: Names to leave out, because the command has options of these names.
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

    Raises:
        InputError: If a text is no value of the field's type.
    """
    found = dict(given)
    for name in given.keys() & fields.keys():
        if isinstance(given[name], str):
            found[name] = parsed(fields[name], given[name])
    return found


class Sections(Interruptible):
    """A command whose help shows its options in sections, or first those that people use most.

    Parameters:
        sections: Names of parameters by the title of their section; the others stand in "Other".
        common: Parameters that ``--help`` shows; ``--help TOPIC`` shows a section, ``--help all``
            all of them. Empty: ``--help`` shows all.
        details: An epilog of ``--help all``.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, tuple[str, ...]],
        common: Collection[str] = (),
        details: str = "",
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.sections, self.common, self.details = sections, common, details

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        names = self.get_help_option_names(ctx)
        if not (self.common and names and self.add_help_option):
            return super().get_help_option(ctx)
        if self._help_option is None:
            self._help_option = click.Option(
                names,
                is_flag=False,
                flag_value="",
                is_eager=True,
                expose_value=False,
                metavar="[TOPIC]",
                callback=_show_help,
                help="Show this message, or other options, and exit.",
            )
        return self._help_option

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            str(p.name): _plain(*record)
            for p in self.get_params(ctx)
            if isinstance(p, click.Option) and (record := p.get_help_record(ctx))
        }
        topic = ctx.meta.get(_TOPIC, "" if self.common else ALL)
        if topic == "":
            common = dict.fromkeys((*self.common, "help"))
            with formatter.section("Options that are used most"):
                formatter.write_dl([records[name] for name in common if name in records])
            with formatter.section(f"More options ({ctx.command_path} --help TOPIC)"):
                formatter.write_text(", ".join([*map(_topic_of, self.sections), "other", ALL]))
            return
        for title, names in self.sections.items():
            shown = [records.pop(name) for name in names if name in records]
            if shown and topic in (ALL, _topic_of(title)):
                with formatter.section(title):
                    formatter.write_dl(shown)
        if topic in (ALL, "other"):
            with formatter.section("Other"):
                formatter.write_dl(list(records.values()))
        if topic == ALL and self.details:
            formatter.write_paragraph()
            formatter.write_text(self.details)


ALL = "all"
"""The topic that stands for all options."""
_TOPIC = "plancc.help topic"
_RANGE = r"-?[\d.]*<?=?x(?:[<>]=?-?[\d.]+)?"


def _topic_of(title: str) -> str:
    return title.split()[0].lower()


def _plain(flags: str, words: str) -> tuple[str, str]:
    """A line of a help without ranges, which errors name, and with short names of types."""
    flags = re.sub(r" (INTEGER|FLOAT)( RANGE)?$", " N", flags)
    words = re.sub(rf"; {_RANGE}\]", "]", words)
    return flags, re.sub(rf"\s*\[{_RANGE}\]", "", words)


def _show_help(ctx: click.Context, option: click.Parameter, topic: str | None) -> None:
    if topic is None or ctx.resilient_parsing:
        return
    command = ctx.command
    assert isinstance(command, Sections)
    topics = [ALL, *map(_topic_of, command.sections), "other"]
    if topic:
        check_choice("topic of help", topic, topics)
        ctx.meta[_TOPIC] = topic
    click.echo(ctx.get_help(), color=ctx.color)
    ctx.exit()
