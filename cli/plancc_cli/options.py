"""Options of commands, and their help texts.

Options are made from fields of dataclasses (`plancc.fields`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import Field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from plancc.errors import InputError
from plancc.fields import BOUNDS, checked, default_in_words, help_of, kind_of, options_of, parsed
from plancc.graph.formats import FLAGS as READING_FLAGS
from plancc.graph.formats import FORMATS, READING, ReadOptions, split_names
from plancc.models.capacities import check_capacities, read_capacities
from plancc.options import EFFORTS, PlanOptions, SearchOptions
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.options import AUTO, parse_budget
from plancc.predict.machine_files import DEFAULT_MACHINE, find_machine
from plancc.predict.passes import DEFAULT_DIMS
from plancc.registry import check_choice, nearest
from plancc.text import shown
from plancc_cli.words import Interruptible

if TYPE_CHECKING:
    from plancc.plan.convolutions import Convolution

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MOST = 2**31 - 1
"""Largest number in an option that takes several whole numbers; also the largest width."""
FLAGS = {
    "bias": "--bias/--no-bias",
    "keys": "--key",
    "model_options": "--model-option",
    "sampler_options": "--sampler-option",
    "value_dtype": "--dtype",
}
"""Flags, by parameter, that do not follow from the name of the parameter."""


def flag_of(name: str) -> str:
    """Return the flag of a parameter, such as ``--batch-size`` for ``batch_size``."""
    return FLAGS.get(name, f"--{name.replace('_', '-')}")


def in_words(text: str) -> str:
    """Return a string in which every parameter in backticks is replaced by its flag."""
    return re.sub(r"`([a-z_]+)`", lambda found: flag_of(found[1]), text)


def option_of(
    field: Field[Any], *others: Field[Any], who: str = "", **settings: Any
) -> click.Option:
    """Return the option of a field; its value is None if the option is not given.

    If fields of the same name (`others`) have other types, the value is a string (see `of_class`).
    """
    kind = kind_of(field) if len({kind_of(each) for each in (field, *others)}) == 1 else "str"
    types = {"int": int, "float": float, "StrPath": click.Path()}
    words = help_of(field)
    if who:
        words = f"For {who}: {words[0].lower()}{words[1:]}"
    default = settings.pop("otherwise", default_in_words(field))
    if default is None:
        note = ""
    else:
        required = f"  [required with {who}]" if who else "  [required]"
        note = required if default == "required" else f"  [default: {default}]"
    if kind == "bool":
        settings.setdefault("is_flag", True)
    elif "callback" in settings:  # it reads the text
        settings.setdefault("type", str)
    elif "choices" in field.metadata:
        settings.setdefault("type", click.Choice(field.metadata["choices"]))
    else:
        settings.setdefault("type", types.get(kind, str))
    if kind == "tuple[int, ...]":
        settings.setdefault("callback", partial(_numbers, field))
    if BOUNDS.keys() & field.metadata.keys():
        settings.setdefault("callback", partial(_check, field))
    settings.setdefault("metavar", field.metadata.get("metavar"))
    settings.setdefault("help", in_words(f"{words}{note}"))
    return click.Option([flag_of(field.name), field.name], **{"default": None} | settings)


def _numbers(
    field: Field[Any], context: click.Context, parameter: click.Parameter, text: str | None
) -> Any:
    """Return the whole numbers in a comma-separated string."""
    if text is None:
        return None
    try:
        numbers = parsed(field, text)
    except InputError:
        needed = "give whole numbers, such as 10,5"
        raise InputError(f"`{field.name}` '{text}': {needed}") from None
    if max(numbers) > MOST:
        raise InputError(f"`{field.name}` '{text}': give numbers up to {MOST}")
    return numbers


def _check(
    field: Field[Any], context: click.Context, parameter: click.Parameter, value: Any
) -> Any:
    return value if value is None else checked(field, value)


def sections_of(options: Iterable[Field[Any]]) -> dict[str, tuple[str, ...]]:
    """Return the names of the options in each section of the help, by the section's title."""
    found: dict[str, tuple[str, ...]] = {}
    for each in options:
        title = each.metadata["section"]
        found[title] = (*found.get(title, ()), each.name)
    return found


def with_options(options: Iterable[click.Option]) -> Decorator:
    """Return a decorator that adds options to a command."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        known = getattr(function, "__click_params__", [])
        function.__click_params__ = [*known, *reversed([*options])]  # type: ignore[attr-defined]
        return function

    return decorated


def of_class(given: Mapping[str, Any], fields: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """Return the given options, with strings converted to the types of the fields.

    Options without a field stay unchanged. Raises InputError for a string that cannot be converted.
    """
    found = dict(given)
    for name in given.keys() & fields.keys():
        if isinstance(given[name], str):
            found[name] = parsed(fields[name], given[name])
    return found


class Sections(Interruptible):
    """A command whose help shows only the common options, or all options in sections.

    If `common` is empty, ``--help`` shows all but the reading options
    (`plancc.graph.formats.ReadOptions`).

    Parameters:
        sections: Titles -> names of parameters; all other parameters are in section "Other".
        common: Parameters that ``--help`` shows; ``--help all`` shows all parameters.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        common: Collection[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.sections, self.common = sections, common

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        names = self.get_help_option_names(ctx)
        if not (names and self.add_help_option):
            return super().get_help_option(ctx)
        if self._help_option is None:
            self._help_option = click.Option(
                names,
                is_flag=False,
                flag_value="",
                is_eager=True,
                expose_value=False,
                metavar="[all|OPTION]",
                callback=_show_help,
                help="Show this message, all options, or one of them, and exit.",
            )
        return self._help_option

    def records(self, ctx: click.Context) -> dict[str, tuple[str, str]]:
        """Return flags and help of every option, by the name of its parameter."""
        return {
            str(p.name): _plain(*record)
            for p in self.get_params(ctx)
            if isinstance(p, click.Option) and (record := p.get_help_record(ctx))
        }

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records, short = self.records(ctx), ALL not in ctx.meta
        sections = {**self.sections, "Other" if self.sections else "Options": tuple(records)}
        if self.common and short:
            sections = {"Options that are used most": (*self.common, "help")}
        for title, names in sections.items():
            shown = [records.pop(name) for name in names if name in records]
            if shown and not (short and title == READING_TOPIC):
                with formatter.section(title):
                    formatter.write_dl(shown)
        if short and (self.common or READING_TOPIC in self.sections):
            formatter.write(f"\nAll options: {ctx.command_path} --help all\n")


READING_TOPIC = "Reading the graph"
"""Title of the section of the reading options, which only ``--help all`` shows."""
ALL = "all"
"""The topic of ``--help`` that shows all options; also a key of the context's `meta`."""
_RANGE = r"-?[\d.]*<?=?x(?:[<>]=?-?[\d.]+)?"


def _plain(flags: str, words: str) -> tuple[str, str]:
    """Return flags and help of an option, with short names of types and without ranges."""
    flags = re.sub(r" (INTEGER|FLOAT)( RANGE)?$", " N", flags)
    words = re.sub(rf"; {_RANGE}\]", "]", words)
    return flags, re.sub(rf"\s*\[{_RANGE}\]", "", words)


def _show_help(ctx: click.Context, option: click.Parameter, topic: str | None) -> None:
    if topic is None or ctx.resilient_parsing:
        return
    if topic in ("", ALL):
        if topic:
            ctx.meta[ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
    by_flag = {
        flag.lstrip("-"): each
        for each in ctx.command.get_params(ctx)
        for flag in (*each.opts, *each.secondary_opts)
        if isinstance(each, click.Option)
    }
    if topic not in by_flag:
        near = nearest(topic, by_flag)
        meant = f" (did you mean --help {near}?)" if near else ""
        raise InputError(f"--help {shown(topic)}: no option has this name{meant}; try --help {ALL}")
    chosen = copy(by_flag[topic])
    chosen.hidden = False
    record = chosen.get_help_record(ctx)
    assert record is not None
    formatter = ctx.make_formatter()
    formatter.write_dl([_plain(*record)])
    click.echo(formatter.getvalue().rstrip())
    ctx.exit()


NO_PLANS = (".json", ".npy", ".toml", ".html")
"""Extensions of files that are neither graphs nor plans."""

FORM = "plancc.form"
"""Key in the context's `meta` of the output format that the command line chooses."""


def _set_form(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        flag = parameter.opts[0]
        other = context.meta.setdefault(FORM, flag)
        if other != flag:
            raise InputError(f"{other} and {flag} exclude each other; give one of them")


def _form_option(flag: str, words: str) -> Decorator:
    name = f"as_{flag}"
    return click.option(
        f"--{flag}", name, is_flag=True, expose_value=False, callback=_set_form, help=words
    )


def form() -> str:
    """Return the format in which the command prints: "json", "csv", or "" for text."""
    return str(click.get_current_context().meta.get(FORM, "")).removeprefix("--")


def together(*decorators: Decorator) -> Decorator:
    """Return one decorator that adds several options, in the order in which the help shows them."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorated


as_json = _form_option("json", "Print JSON instead of text.")
"""The option ``--json``, which `form` reads."""
as_data = together(as_json, _form_option("csv", "Print CSV instead of a table."))
"""The options ``--json`` and ``--csv`` of commands that print tables, which `form` reads."""

OUTPUT = ("as_json", "as_csv", "quiet", "verbose")
"""Parameters of `as_data` and `plancc_cli.progress.verbosity`, for a section of a help."""
COMMANDS_OWN = (
    *("no_data", "split_name", "graph", "model", "num_parts", "command", "observer", "report"),
    *("help", "json", "as_json", "csv", "as_csv", "quiet", "verbose", "output", "parts", "dtype"),
    *("no_self_loops", "compress", "plan", "plans", "per_part", "ranks", "boundary_sampling"),
)
"""Names of parameters of `plancc.compile` and of commands that are not in `FIELDS`."""


def pairs(needed: str, **how: Any) -> dict[str, Any]:
    """Return settings for an option ``NAME=VALUE`` that may be given several times.

    `needed` describes the form of a value in errors; `how` is passed to `parsed_pairs`.
    """

    def parse(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
        return parsed_pairs(parameter.opts[0], given, needed, **how)

    return {"multiple": True, "callback": parse}


def parsed_pairs(
    option: str,
    given: tuple[str, ...],
    needed: str,
    divide: Any = str.partition,
    rename: Callable[[str], str] = str,
    empty: str = "",
) -> dict[str, str] | None:
    """Return the values of strings ``NAME=VALUE`` by name; None if there are no strings.

    `divide` splits a string at "=", and `rename` changes every name. Only the name `empty` needs no
    value. `needed` says in an error message what to give.
    """
    found: dict[str, str] = {}
    for text in given:
        name, _, value = divide(text, "=")
        name = rename(name)
        if not name or not (value or name == empty) or name in found:
            why = f"{name} is given twice" if name in found else f"give {needed}"
            raise InputError(f"{option} '{text}': {why}")
        found[name] = value
    return found or None


def shares(needed: str, most: float | None = None) -> dict[str, Any]:
    """Return arguments of `click.option` for a value that is a comma-separated list of numbers.

    If `most` is not None, the numbers must be in 0..`most`. `needed` ends the error message.
    """

    def parse(
        context: click.Context, parameter: click.Parameter, text: str | None
    ) -> tuple[float, ...] | None:
        if text is None:
            return None
        try:
            numbers = tuple(map(float, text.split(",")))
        except ValueError:
            numbers = ()
        if not numbers or not (most is None or all(0 <= each <= most for each in numbers)):
            raise InputError(f"{parameter.opts[0]} '{text}': give {needed}")
        return numbers

    return {"callback": parse}


def _parse_capacities(text: str) -> tuple[float, ...]:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        if "," in text and not os.path.exists(text):
            cure = "give a number above 0 for every part, such as 1,1,2, or a file of numbers"
            raise InputError(f"--capacities '{text}': {cure}") from None
        return read_capacities(text)
    return check_capacities(numbers)


TITLES = {"metis": "METIS", "kahypar": "KaHyPar", "kaminpar": "KaMinPar", "mtkahypar": "Mt-KaHyPar"}
"""Names of partitioners as their authors write them."""


def size(text: str | int) -> int:
    """Convert a string such as "512M" to a number of bytes; K, M, G, T are powers of 1024."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)", str(text).strip().upper())
    number = int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " ")) if found else 0
    if not number:
        raise click.BadParameter(f"'{text}': give a size above 0, such as 512M or 2G")
    return number


class NameIn(click.ParamType):
    """The type of an option whose value is a name in a registry; its error lists the names."""

    name = "name"

    def __init__(self, kind: str, choices: Iterable[str]) -> None:
        self.kind, self.choices = kind, choices

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            refuse_swapped(self.kind, value)
        check_choice(self.kind, value, self.choices)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.choices if name.startswith(incomplete)]


NAMED = pairs("NAME=VALUE", rename=lambda name: name.replace("-", "_")) | {"metavar": "NAME=VALUE"}
"""Settings of --model-option and --sampler-option, which take another option by name."""


def convolution_of(model: str, choices: Mapping[str, Any], has_types: bool = False) -> Convolution:
    """Return the convolution of a model of `plancc-run`, with the options in `choices`.

    torch is imported only for several vertex types, and for convolutions of other packages. Raises
    InputError for a class of the user, as the words that it sends cannot be predicted.
    """
    from plancc.plan.convolutions import CONVOLUTIONS, Convolution
    from plancc_runtime.nn import is_own, model_of

    if is_own(model):
        raise InputError(f"--model {model}: what your own class sends cannot be predicted")
    plain = {} if has_types else CONVOLUTIONS
    kind = plain[model] if model in plain else model_of(model, has_types).Options
    return Convolution(model, kind.read(choices, f"model {model}"))


def refuse_swapped(kind: str, name: str) -> None:
    """Raise InputError if a partitioner is given for a model, or a model for a partitioner."""
    from plancc.models import MODELS
    from plancc.models.problem import Hypergraph

    if kind == "model" and name.lower() in PARTITIONERS:
        name = name.lower()
        model = "hp" if Hypergraph in PARTITIONERS[name].accepts else "gp"
        raise InputError(
            f"{TITLES.get(name, name)} is a partitioner; give --model {model} --partitioner {name}"
        )
    if kind == "partitioner" and name.lower() in MODELS:
        raise InputError(f"{name} is a model; give --model {name.lower()}")


def taken() -> set[str]:
    """Return names that plancc's commands use, so that an option of a model cannot have them."""
    return {*FIELDS, *READING, *COMMANDS_OWN}


SAMPLING = ("sampler", "batch_size", "fanouts", "sampler_options")
"""Parameters that say how mini-batches are drawn."""


def sampling(default: str) -> Decorator:
    """Return a decorator that adds the options `SAMPLING`; their values are None if not given.

    `default` is the name of the default sampler, for the help text.
    """
    from plancc.sampling import SAMPLERS, sampler_options

    fields = sampler_options()
    chosen = click.Option(
        ["--sampler"],
        type=NameIn("sampler", SAMPLERS),
        metavar="NAME",
        help=f"Sampler of batches: {', '.join(SAMPLERS)}.  [default: {default}]",
    )
    named = click.Option(
        ["--sampler-option", "sampler_options"],
        help="Another option of the sampler, such as keep=0.1; may be repeated.",
        **NAMED,
    )
    fanouts = option_of(fields["fanouts"], who="neighbour")
    return with_options([chosen, option_of(fields["batch_size"]), fanouts, named])


def named_options(given: dict[str, Any]) -> dict[str, Any]:
    """Remove ``--sampler-option`` from `given`; return its values by name, parsed."""
    from plancc.sampling import read_option

    named = given.pop("sampler_options", None) or {}
    for name in named:
        if name in taken() or name in OF_BATCHES:
            cure = f"see {flag_of(name)}"
            raise InputError(f"--sampler-option {name}: no sampler has this option; {cure}")
    return {name: read_option(name, text) for name, text in named.items()}


OF_BATCHES = ("batches", "seed", *SAMPLING)
"""Parameters of `fresh_batches`, for a section of a help."""


def of_batches(batches: int | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `fresh_batches` that are not None, except "batches", by name.

    Raises InputError if such an option is given without --batches.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if batches is None and chosen:
        raise InputError(
            f"`{next(iter(chosen))}` is only for mini-batches; give `batches` (their number) too"
        )
    return chosen | named_options(chosen)


def refuse_given(names: Iterable[str], why: str) -> None:
    """Raise InputError if an option in `names` is given; in the message, `why` follows its flag."""
    source = click.get_current_context().get_parameter_source
    for name in names:
        if source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"`{name}` {why}")


def check_output(output: str, *others: str | None) -> None:
    """Raise an error if `output` cannot be written, or if it is also one of the files `others`."""
    from plancc.files import check_target

    check_target(output)
    if os.path.realpath(output) in {os.path.realpath(path) for path in others if path}:
        raise InputError(f"{output} is used twice; choose another output")


def check_inputs(*paths: str | None) -> None:
    """Raise InputError for the first file or folder that is missing."""
    for path in filter(None, paths):
        if not os.path.exists(path):
            raise InputError(f"{path}: no such file")


def check_plan_output(output: str, *inputs: str | None) -> None:
    """Call `check_output`, and raise InputError if the file's extension is not for plans."""
    check_output(output, *inputs)
    name = output.lower().removesuffix(".gz")
    taken = {extension for graphs in FORMATS.loaded().values() for extension in graphs.extensions}
    if name.endswith((*taken, *NO_PLANS)):
        raise InputError(f"{output}: a plan is an HDF5 file; choose a name that ends in .h5")


def check_writable_format(output: str, *others: str) -> None:
    """Raise InputError if graphs cannot be written with this extension.

    The message lists the extensions that are allowed, and `others`.
    """
    known: list[str] = []
    for name in FORMATS:
        format = FORMATS[name]
        if format.write is None:
            continue
        if output.lower().removesuffix(".gz").endswith(format.extensions):
            return
        known += format.extensions
    raise InputError(
        f"{output}: this extension is not supported; choose from {', '.join((*known, *others))}"
    )


def _parse_dims(text: str) -> list[int]:
    try:
        dims = [int(word) for word in text.split(",")]
    except ValueError:
        dims = []
    if len(dims) < 2 or min(dims) < 1 or max(dims) > MOST:
        example = "602,128,41 for an input of 602 columns and layers of 128 and 41"
        cure = f"give at least two widths from 1 to {MOST}, such as {example}"
        raise InputError(f"--dims '{text}': {cure}")
    return dims


def read_by(parse: Callable[[str], Any]) -> Any:
    """Return a callback that applies `parse` to the string of an option; None stays None."""
    return lambda context, parameter, text: None if text is None else parse(text)


def _parse_columns(text: str) -> tuple[str, ...]:
    if not text:
        raise InputError("`columns` '': give names, separated by commas")
    return split_names(text)


def parse_share(name: str, text: str) -> float:
    """Convert a string such as "3%" or "0.03" to a share, such as 0.03."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)(%?)", text.strip(), re.ASCII)
    if not found:
        raise InputError(f"`{name}` '{text}': give a share such as 3% or 0.03")
    return float(found[1]) / (100 if found[2] else 1)


READERS: dict[str, dict[str, Any]] = {
    "effort": {"type": NameIn("effort", EFFORTS)},
    "budget": {"callback": read_by(parse_budget)},
    "dims": {"callback": read_by(_parse_dims)},
    "machine": {"type": click.Path(), "callback": read_by(find_machine)},
    "capacities": {"callback": read_by(_parse_capacities)},
    "partitioner": {"type": NameIn("partitioner", [AUTO, *PARTITIONERS])},
    "memory": {"type": size},
    "weights": {"type": click.Path()},
    "fixed": {"type": click.Path()},
    "data": {"type": click.Path(), "multiple": True, "default": ()},
    "columns": {"callback": read_by(_parse_columns)},
    "link_split": shares("two shares, such as 0.1,0.1"),
    "keys": pairs("WHAT=NAME, such as features=X_pca", empty="id"),
    **{
        name: {"type": str, "callback": read_by(partial(parse_share, name))}
        for name in ("max_extra_volume", "max_moves")
    },
}
"""For some parameters, settings of their options, such as the function that parses the value."""
FIELDS = {each.name: each for one in (SearchOptions, PlanOptions) for each in options_of(one)}


def field_option(field: Field[Any], **settings: Any) -> click.Option:
    """Return the command-line option for a field of a dataclass, with the field's default.

    Settings of `READERS` replace those of the field, and `settings` replace both.
    """
    known: dict[str, Any] = {"default": field.default, **READERS.get(field.name, {}), **settings}
    return option_of(field, **known)


def searching(name: str, help: str | None = None, **settings: Any) -> Decorator:
    """Return a decorator that adds an option of `SearchOptions` or `PlanOptions` to a command."""
    return with_options([field_option(FIELDS[name], **({"help": help} if help else {}) | settings)])


reading = with_options([field_option(each) for each in options_of(ReadOptions)])
"""A decorator that adds all reading options, for the commands `compile` and `convert`."""
reading_flags = with_options(
    [field_option(each) for each in options_of(ReadOptions) if each.name in READING_FLAGS]
)
"""A decorator that adds only the reading options that all formats have, for other commands."""
predicted_epoch = together(
    searching(
        "dims",
        "Widths d0,d1,...,dL of the layers; if given, inspect and compare also show words, bytes "
        "and memory of training a GCN.  [default: the widths that the plan was compiled for, or "
        f"those of its features and labels, or {','.join(map(str, DEFAULT_DIMS))}]",
    ),
    searching(
        "machine",
        "Machine of the predictions: a name (see plancc list machines), or your own file.  "
        f"[default: the machine that the plan was compiled for, or {DEFAULT_MACHINE}]",
    ),
)
"""A decorator that adds the options of a predicted epoch."""
fresh_batches = together(
    click.option(
        "--batches", type=int, metavar="NUMBER", help="Add figures of this many new mini-batches."
    ),
    searching("seed", "Random seed of the batches.  [default: 1]", default=None),
    lambda function: sampling("the plan's own, or uniform")(function),
)
"""A decorator that adds ``--batches`` and the options of these batches; see `of_batches`."""
