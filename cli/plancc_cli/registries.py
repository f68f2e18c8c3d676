"""`plancc models`, `partitioners`, `samplers`, `formats`, `machines`, `objectives`: what there is.

Everything is read from the registries, so entries of third parties appear like the built-in ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field
from typing import Any

import click

from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.registry import check_choice
from plancc_cli import options
from plancc_cli.generated import default_in_words, flag_of

Entries = dict[str, dict[str, Any]]
"""Facts about the entries of a registry, by name."""
KINDS = {Hypergraph: "hypergraphs", WeightedGraph: "graphs"}
"""Kinds of problem in words."""


def _first(declared: Any) -> str:
    """First sentence of a docstring, without its full stop."""
    text = " ".join((inspect.getdoc(declared) or "").split("\n\n")[0].split())
    return text.split(". ")[0].removesuffix(".")


def _options(fields: Iterable[Field[Any]]) -> dict[str, str]:
    """Help texts of options by their flags."""
    found = {}
    for field in fields:
        default = default_in_words(field)
        words = str(field.metadata.get("help", ""))
        found[flag_of(field)] = words + (f" [{default}]" if default else "")
    return found


def _models() -> Entries:
    from plancc.models import MODELS
    from plancc.partitioners.run import ranked

    return {
        name: {
            "what": _first(model),
            "layout": model.layout,
            "searched": model.searched,
            "objective": model.default_objective,
            "partitioners": [] if model.problem is None else ranked(model.problem),
            "about": inspect.getdoc(model),
            "options": _options(model.option_fields().values()),
        }
        for name, model in MODELS.loaded().items()
    }


def _partitioners() -> Entries:
    from plancc.partitioners import PARTITIONERS

    return {
        name: {
            "what": ", ".join(KINDS[kind] for kind in adapter.accepts),
            "installed": adapter.available(),
            "install": adapter.install,
            "presets": list(adapter.presets),
            "objectives of graphs": list(adapter.objectives),
            "several balances": adapter.constraints,
        }
        for name, adapter in PARTITIONERS.loaded().items()
    }


def _samplers() -> Entries:
    from plancc.fields import options_of
    from plancc.sampling import SAMPLERS

    return {
        name: {
            "what": _first(sampler),
            "needs": list(sampler.needs),
            "about": inspect.getdoc(sampler),
            "options": _options(options_of(sampler)),
        }
        for name, sampler in SAMPLERS.loaded().items()
    }


def _formats() -> Entries:
    from plancc.graph.formats import FORMATS

    return {
        name: {
            "what": f"{', '.join(format.extensions)}: read"
            + (" and written" if format.write is not None else ""),
            "extensions": list(format.extensions),
            "written": format.write is not None,
        }
        for name, format in FORMATS.loaded().items()
    }


def _machines() -> Entries:
    from plancc.predict.machine_files import find_machine, shipped_machines

    found = {name: find_machine(name) for name in shipped_machines()}
    return {
        name: {
            "what": f"{machine.latency:g} s, {machine.bandwidth:g} bytes/s, "
            f"{machine.multiply_adds:g} multiply-adds/s",
            "source": machine.source,
            **machine.as_dict(),
        }
        for name, machine in found.items()
    }


def _objectives() -> Entries:
    from plancc.cost.objectives import OBJECTIVES
    from plancc.models import MODELS

    models = MODELS.loaded().items()
    own = {o: name for name, model in models for o in model.own_objectives}
    found = {name: {"what": OBJECTIVES[name].what} for name in OBJECTIVES}
    return found | {o: {"what": f"model {name}'s own"} for o, name in own.items()}


def _listing(kind: str, plural: str, entries: Callable[[], Entries]) -> click.Command:
    @click.command(plural, help=f"List the {plural}, or say all about one of them (NAME).")
    @click.argument("name", required=False)
    @options.as_json
    def command(name: str | None, as_json: bool) -> None:
        from plancc_cli.render import print_json

        found = entries()
        if name is not None:
            check_choice(kind, name, found)
        if as_json:
            print_json(found if name is None else found[name])
        elif name is None:
            _print_all(found)
        else:
            _print_one(name, found[name])

    return command


def _print_all(found: Entries) -> None:
    """One line for every entry."""
    width = max(map(len, found))
    for name, entry in found.items():
        more = []
        if "layout" in entry:
            more = [f"{entry['layout']} plans", *([", ".join(entry["partitioners"])] * 1)]
        if "installed" in entry:
            more = [] if entry["installed"] else [f"not installed: {entry['install']}"]
        line = "; ".join(filter(None, [entry["what"], *more]))
        click.echo(f"{name:{width}}  {line}")


def _print_one(name: str, entry: dict[str, Any]) -> None:
    """Everything about an entry."""
    about = (entry.pop("about", None) or entry["what"]).split("\n\nAttributes")[0]
    click.echo(f"{name}: {about}\n")
    for key, value in entry.items():
        if key in ("what", "options") or value in (None, [], ""):
            continue
        click.echo(f"  {key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    if entry.get("options"):
        click.echo("\nOptions:")
        for flag, words in entry["options"].items():
            click.echo(f"  {flag:20} {words}")


models = _listing("model", "models", _models)
partitioners = _listing("partitioner", "partitioners", _partitioners)
samplers = _listing("sampler", "samplers", _samplers)
formats = _listing("format", "formats", _formats)
machines = _listing("machine", "machines", _machines)
objectives = _listing("objective", "objectives", _objectives)
