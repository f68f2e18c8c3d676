"""`plancc list WHAT [NAME]`: models, partitioners, samplers, formats, machines, objectives.

The facts come from the registries, so entries of third parties are listed too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import Field
from functools import partial
from typing import Any

import click

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import BackendUnavailable, InputError
from plancc.fields import default_in_words, options_of
from plancc.graph.formats import FORMATS
from plancc.models import MODELS
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.run import ranked
from plancc.predict.machine_files import DEFAULT_MACHINE, SHIPPED, find_machine, shipped_machines
from plancc.registry import Registry, check_choice
from plancc.sampling import SAMPLERS
from plancc.text import docstring, first_sentence, shown
from plancc_cli import options
from plancc_cli.words import say

Entries = dict[str, dict[str, Any]]
"""Facts about the entries of a registry, by name."""
KINDS = {Hypergraph: "hypergraphs", WeightedGraph: "graphs"}
"""Kinds of problem in words."""


def _about(declared: type) -> str:
    """Return the docstring of a class without its attributes; "" if there is no docstring."""
    return docstring(declared).split("\n\nAttributes:")[0].replace("`", "")


def _of_class(
    declared: type, fields: Iterable[Field[Any]], flag_of: Callable[[str], str] = options.flag_of
) -> dict[str, Any]:
    """Return facts about a class: "what", "about" and "options" (help by flag).

    "what" is the first sentence of the docstring, and "about" the docstring without attributes.
    """
    about, told = _about(declared), {}
    for field in fields:
        default = default_in_words(field)
        words = str(field.metadata.get("help", ""))
        told[flag_of(field.name)] = words + (f" [{default}]" if default else "")
    return {"what": first_sentence(about.split("\n\n")[0]), "about": about, "options": told}


def _each(registry: Registry, describe: Callable[[Any], dict[str, Any]]) -> Entries:
    """Return a dict of facts for each entry's name.

    If an entry cannot be loaded, its only fact is the reason, under "what".
    """
    found = {}
    for name in registry:
        try:
            found[name] = describe(registry[name])
        except BackendUnavailable as error:
            found[name] = {"what": str(error)}
    return found


def _model(model: Any) -> dict[str, Any]:
    return _of_class(model, model.option_fields().values()) | {
        "layout": model.layout,
        "searched": model.searched,
        "objective": model.default_objective,
        "partitioners": [] if model.problem is None else ranked(model.problem),
    }


def _partitioner(adapter: Any) -> dict[str, Any]:
    return {
        "what": ", ".join(KINDS[kind] for kind in adapter.accepts),
        "installed": adapter.available(),
        "install": adapter.install,
        "presets": list(adapter.presets),
        "objectives of graphs": list(adapter.objectives),
        "several balances": adapter.constraints,
    }


def _sampler(sampler: Any) -> dict[str, Any]:
    def flag_of(name: str) -> str:
        return options.flag_of(name) if name in options.SAMPLING else f"--sampler-option {name}"

    return _of_class(sampler, options_of(sampler), flag_of) | {"needs": list(sampler.needs)}


def _format(format: Any) -> dict[str, Any]:
    written = format.write is not None
    names = [*format.extensions, *["a folder"] * (format.files is not None)]
    words = [f"{', '.join(names)}: read{' and written' * written}", format.what]
    words += ["with vertex data"] * (format.read_data is not None)
    words += [f"needs {format.needs}"] * bool(format.needs)
    return {
        "what": "; ".join(filter(None, words)),
        "extensions": list(format.extensions),
        "folders": format.files is not None,
        "written": written,
        "vertex_data": format.read_data is not None,
        "reading_options": list(format.options),
        "needs": format.needs,
    }


def _machines() -> Entries:
    return {
        name: {
            "what": "the default: " * (name == DEFAULT_MACHINE) + machine.source,
            **machine.as_dict(),
        }
        for name, machine in ((name, find_machine(name)) for name in shipped_machines())
    }


def _print_machine(name: str, _: dict[str, Any]) -> None:
    click.echo(SHIPPED.joinpath(f"{name}.toml").read_text(), nl=False)


def _objectives() -> Entries:
    found = {name: {"what": OBJECTIVES[name].what} for name in OBJECTIVES}
    for name, model in MODELS.loaded().items():
        found |= {own: {"what": f"only for model {name}"} for own in model.own_objectives}
    return found


def _listing(
    kind: str,
    plural: str,
    entries: Callable[[], Entries],
    print_one: Callable[[str, dict[str, Any]], None] | None = None,
    explain: str = "explain NAME",
) -> click.Command:
    @click.command(plural, cls=options.Sections, help=f"List the {plural}, or {explain}.")
    @click.argument("name", required=False)
    @options.as_json
    def command(name: str | None) -> None:
        found = entries()
        if name is not None:
            is_file = name.endswith(".toml") or os.path.isfile(name)
            if kind == "machine" and name not in found and is_file:
                reader = f"`plancc simulate PLAN --machine {shown(name)}`"
                raise InputError(f"unknown machine '{shown(name)}'; to read a file, use {reader}")
            check_choice(kind, name, found)
        if options.form():
            from plancc_cli.tables import print_json

            print_json(found if name is None else found[name])
        elif name is None:
            _print_all(found)
        else:
            (print_one or _print_one)(name, found[name])

    return command


def _print_all(found: Entries) -> None:
    """Print one line for every entry of a registry: its name, and what it is."""
    width = max(map(len, found))
    for name, entry in found.items():
        more = []
        if "layout" in entry:
            more = [f"{entry['layout']} plans", ", ".join(entry["partitioners"])]
        if not entry.get("installed", True):
            more = [f"not installed: {entry['install']}"]
        say(f"{name:{width}}  {'; '.join(filter(None, [entry['what'], *more]))}")


def _print_one(name: str, entry: dict[str, Any]) -> None:
    """Print all facts about one entry of a registry, such as one model or one format."""
    for line in f"{name}: {entry.get('about') or entry['what']}\n".split("\n"):
        say(line)
    for key, value in entry.items():
        if key in ("what", "about", "options") or value in (None, [], ""):
            continue
        if isinstance(value, bool):
            value = "yes" if value else "no"
        say(f"  {key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    if entry.get("options"):
        click.echo("\nOptions:")
        for flag, words in entry["options"].items():
            say(f"  {flag:20} {words}")


@click.group("list", subcommand_metavar="WHAT [NAME]", options_metavar="")
def command() -> None:
    """List all entries of a kind, or explain one: plancc list models hp."""


for each in (
    _listing("model", "models", partial(_each, MODELS, _model)),
    _listing("partitioner", "partitioners", partial(_each, PARTITIONERS, _partitioner)),
    _listing("sampler", "samplers", partial(_each, SAMPLERS, _sampler)),
    _listing("format", "formats", partial(_each, FORMATS, _format)),
    _listing("machine", "machines", _machines, _print_machine, "print the TOML file of NAME"),
    _listing("objective", "objectives", _objectives),
):
    command.add_command(each)
