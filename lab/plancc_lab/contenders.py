"""Contenders in studies and sweeps: models or partitioners, with options that a string gives."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, replace
from typing import Any

from plancc.errors import InputError
from plancc.fields import KINDS, kind_of, options_of, parsed
from plancc.models import MODELS, make_model
from plancc.models.process_grid import ProcessGridModel
from plancc.models.weights import DEFAULT_BALANCE, Balance
from plancc.options import PlanOptions, SearchOptions
from plancc.owners.task import Task
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.options import AUTO, parse_budget
from plancc.predict.passes import DEFAULT_DIMS
from plancc.registry import check_choice

ALIKE = ("seed", "threads", "dims")
"""Options of the search that all contenders of a study share."""
OF_SEARCH = {
    each.name: each
    for each in options_of(SearchOptions)
    if kind_of(each) in KINDS and each.name not in ALIKE
} | {"balance": PlanOptions.__dataclass_fields__["balance"]}
"""Options of the search that a contender may set for itself."""
MOST = 4096
"""Largest number of parts or ranks."""


@dataclass(frozen=True)
class Contender:
    """A model, or a partitioner alone, with options.

    Attributes:
        label: Name in tables.
        model: Name of the model; for a partitioner, name of the model whose problem it solves.
        options: Options of the model.
        search: Options of the search, among `OF_SEARCH`, that the contender sets for itself. These
            options replace the options that a study sets for all contenders.
    """

    label: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Contender:
        """Return the contender that a string [LABEL=]NAME[:OPTION=VALUE...] describes.

        NAME is a model or a partitioner. A partitioner of hypergraphs gets the problem of model
        "hp", a partitioner of graphs gets the problem of model "gp". An option without a value is a
        flag, which becomes true. A value may contain a colon, as in balance=nnz:0.05. The text
        after such a colon must not be the name of an option, and must not contain "=".

        Raises:
            InputError: If the name or an option is unknown, or if the model does not accept a
                value.
        """
        head, *words = text.strip().split(":")
        label, named, name = head.rpartition("=")
        label = label.strip() if named else text.strip()
        search: dict[str, Any] = {}
        model = name
        if name not in MODELS and name in PARTITIONERS:
            search["partitioner"] = name
            model = PARTITIONERS[name].model
        elif name not in MODELS:
            raise InputError(
                f"unknown model or partitioner '{name}'; choose from "
                f"{', '.join([*MODELS, *PARTITIONERS])}"
            )
        options: dict[str, Any] = {}
        known = MODELS[model].option_fields() | OF_SEARCH
        for option, value in _split(words, known):
            check_choice(f"option of '{name}'", option, known)
            if option == "partitioner" and model != name:
                raise InputError(f"`{option}` {value} and {name} both name a partitioner; give one")
            if option in search or option in options:
                raise InputError(f"`{option}` is given twice")
            if not value and kind_of(known[option]) != "bool":
                raise InputError(f"`{option}`: give a value, as {option}=VALUE")
            if option in OF_SEARCH:
                search[option] = _of_search(option, value)
            else:
                options[option] = _of_model(known[option], value) if value else True
        _check(model, options, search)
        return cls(label, model, options, search)

    def settings(self, common: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keywords with which `compile` is called for this contender.

        The keywords are the contender's own options, and the options in `common` that its model
        accepts. All row plans, except those for mini-batches, get the same default balance, even if
        a partitioner makes them without a search.

        Parameters:
            common: Options that the study or sweep sets for all contenders.
        """
        chosen = make_model(self.model, self.options)
        inner = (
            MODELS[chosen.blocks] if isinstance(chosen, ProcessGridModel) else MODELS[self.model]
        )
        own_cut = (inner.default_objective or "") in inner.own_objectives  # searched on request
        searched = inner.searched and "partitioner" not in self.search and not own_cut
        left = {name for name in ("effort", "budget") if not searched and inner.layout != "any"}
        if inner.layout != "any" and (not inner.searched or inner.of_batches):
            left.add("objective")
        if inner.layout == "edge" or (inner.of_batches and "balance" not in common):
            left.add("balance")
        given = {"balance": DEFAULT_BALANCE, **common}  # plans of one balance can be compared
        given = {name: value for name, value in given.items() if name not in left}
        return given | self.search | self.options

    def at(self, graph: str, num_parts: int) -> Contender:
        """Return the contender for this graph and number of parts.

        In values of options, ``{graph}`` is replaced by the name of the file `graph` up to its
        first dot, and ``{p}`` by the number of parts.
        """
        stem = os.path.basename(graph).split(".")[0]
        options = {
            name: value.replace("{graph}", stem).replace("{p}", str(num_parts))
            if isinstance(value, str)
            else value
            for name, value in self.options.items()
        }
        return replace(self, options=options)


def _split(words: Sequence[str], known: Collection[str]) -> list[tuple[str, str]]:
    """Return a pair (name, value) for every option in `words`.

    An option is a word "name=value", or a name in `known`. Any other word is appended, after a
    colon, to the value before it.
    """
    found: list[tuple[str, str]] = []
    for word in words:
        name, equals, value = word.partition("=")
        option = name.replace("-", "_")  # also accepts the spelling of the command line
        if equals or option in known or not (found and found[-1][1]):
            found.append((option, value))
        else:
            option, value = found[-1]
            found[-1] = option, f"{value}:{word}"
    return found


def _of_search(option: str, text: str) -> Any:
    """Convert `text` to the type of an option of the search; raise InputError for a wrong value."""
    if option == "balance":
        Balance.parse(text, DEFAULT_DIMS)
        return text
    value: Any = parse_budget(text) if option == "budget" else parsed(OF_SEARCH[option], text)
    SearchOptions(**{option: value})
    return value


def _check(model: str, options: Mapping[str, Any], search: Mapping[str, Any]) -> None:
    """Raise InputError for options that the model never accepts, whatever the graph."""
    chosen = make_model(model, options)
    if isinstance(chosen, ProcessGridModel):
        model, chosen = chosen.blocks, make_model(chosen.blocks, chosen.block_options)
    own = {name: search[name] for name in ("partitioner", "objective", "preset") if name in search}
    Task(model, chosen, 2, SearchOptions(**own))
    if "preset" in own:
        named = own.get("partitioner", AUTO)
        able = PARTITIONERS.loaded().values() if named == AUTO else [PARTITIONERS[named]]
        check_choice("preset", own["preset"], dict.fromkeys(p for a in able for p in a.presets))


def _of_model(declared: Field[Any], text: str) -> Any:
    """Convert `text` to the declared type of a model's option."""
    for left in re.findall(r"\{(.*?)\}", text):
        if left not in ("graph", "p"):
            raise InputError(f"{declared.name} '{text}': {{{left}}} must be {{graph}} or {{p}}")
    return parsed(declared, text)


def _parse(parameter: str, text: str) -> Contender:
    """Return `Contender.parse(text)`; an error's message begins with `parameter` and `text`."""
    try:
        return Contender.parse(text)
    except InputError as error:
        words = str(error).replace("`", "")
        raise InputError(f"`{parameter}` '{text.strip()}': {words}") from None


def parse_contenders(text: str, baseline: str | None = None) -> list[Contender]:
    """Return the contenders in a comma-separated string, and `baseline` if it is none of them."""
    found = [_parse("models", word) for word in text.split(",") if word.strip()]
    if not found:
        raise InputError(f"`models` '{text}': name at least one model, such as hp,metis")
    for each in found:
        if sum(each.label == other.label for other in found) > 1:
            raise InputError(f"`models` '{text}': '{each.label}' is given twice; give it once")
    labels = [each.label for each in found]
    if baseline is not None and baseline not in labels:
        if baseline.split(":")[0] not in (*MODELS, *PARTITIONERS):
            check_choice("baseline", baseline, labels)
        found.append(_parse("baseline", baseline))
    return found


def parse_numbers(text: str) -> list[int]:
    """Return the numbers of parts or ranks in a string, ascending.

    "p=16..4096" gives the powers of two in this range, and "p=16,36,64" the listed numbers.
    InputError is raised for a number outside 1..4096.
    """
    found: set[int] = set()
    for word in text.strip().removeprefix("p=").split(","):
        match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", word.strip(), re.ASCII)
        if not match:
            raise InputError(
                f"numbers '{text}': give a range such as 16..4096, which stands for all powers of "
                "two in it, or numbers such as 16,36,64"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= min(first, last) <= max(first, last) <= MOST:
            raise InputError(f"numbers '{text}': they must be from 1 to {MOST}")
        powers = [2**k for k in range(MOST.bit_length()) if first <= 2**k <= last]
        chosen = [first] if match[2] is None else powers
        if not chosen:
            raise InputError(f"numbers '{text}': there is no power of two in {first}..{last}")
        found.update(chosen)
    return sorted(found)
