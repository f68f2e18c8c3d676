"""Combinations of options that are refused, each with its sentence; read before any work.

A row is a sentence and its combination, a function of the value that has the options, ``asked``. It
returns something true where it holds, which the sentence calls ``{0}``. The first such row counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError
from plancc.fields import options_of
from plancc.models import MODELS
from plancc.models.stochastic import AUTO as EXACT_OR_ENOUGH
from plancc.models.weights import BATCH, WEIGHTS

# ruff: noqa: E501  a sentence and the head of its combination share a line
Rows = Mapping[str, Callable[[Any], Any]]

TAKEN_BY_RANKS = {
    *("objective", "effort", "seed", "epsilon", "capacities", "dims", "machine", "topology"),
    *("partitioner", "preset", "time_limit", "balance", "memory", "exchange"),
    *("normalize", "self_loops", "value_dtype", "data", "split", "keys", "format", "allow_large"),
    *("links", "link_split", "disjoint_train_ratio"),
}
"""Options of search, plan and graph file that several ranks take; others have their defaults."""


def refusal(rows: Rows, asked: Any) -> str:
    """The sentence of the first combination that is asked for; "" where there is none."""
    for sentence, combination in rows.items():
        if wrong := combination(asked):
            return sentence.format(wrong, asked=asked)
    return ""


def refuse(rows: Rows, asked: Any) -> None:
    """Raise InputError with the `refusal`, where there is one."""
    if sentence := refusal(rows, asked):
        raise InputError(sentence)


def _models(able: str) -> str:
    """Names of the models whose class has a true attribute."""
    return ", ".join(name for name, each in MODELS.loaded().items() if getattr(each, able))


def _objective_of_others(asked: Any) -> tuple[str, str] | None:
    """The models that the objective belongs to, and objectives that the asked model has."""
    known, name = asked.objectives, asked.options.objective
    owners = [n for n, each in MODELS.loaded().items() if name in each.own_objectives]
    return None if name in known or not owners else (" and ".join(owners), ", ".join(known))


def _not_taken_by_ranks(options: Any) -> str:
    """The first option that ranks do not take and whose value is not the default."""
    for one in options_of(options):
        value = getattr(options, one.name)
        default = isinstance(value, int | float) and value == one.default
        if one.name not in TAKEN_BY_RANKS and value is not one.default and not default:
            return one.name
    return ""


PLAN_OPTIONS: Rows = {
    "`link_times` are of links: give their shares (`link_split`) too": lambda asked: (
        asked.link_times is not None and asked.link_split is None
    ),
    "`links` and `link_split` exclude each other: give one of them": lambda asked: (
        asked.links is not None and asked.link_split is not None
    ),
    "`disjoint_train_ratio` is of links: give `links` or `link_split`": lambda asked: (
        asked.disjoint_train_ratio and not asked.learns_links
    ),
}
REFINEMENTS: Rows = {
    "objective 'volume' cannot take `max_extra_volume`: drop it, or choose objective {0}": lambda asked: (
        asked.max_extra_volume is not None
        and asked.objective == "volume"
        and ", ".join(name for name in OBJECTIVES if name != "volume")
    ),
}
TASKS: Rows = {
    "model '{asked.name}' has no option `objective`": lambda asked: (
        asked.objectives and not asked.model.searched
    ),
    "objective '{asked.options.objective}': the objective of model '{asked.name}' is the "
    "expected volume of its mini-batches; for another one take model hp": lambda asked: (
        asked.objectives and asked.model.of_batches
    ),
    "objective '{asked.options.objective}' is model {0[0]}'s: for model '{asked.name}' choose "
    "from {0[1]}": lambda asked: asked.objectives and _objective_of_others(asked),
    "`{0[0]}` {0[1]}: model '{asked.name}' needs no partitioner": lambda asked: (
        asked.model.problem is None and asked.options.named
    ),
    "`budget` is for a refinement, but the nets of {asked.model.batches} batches are partitioned and "
    "no more: drop one of the two": lambda asked: (
        asked.model.of_batches
        and asked.options.budget is not None
        and not asked.searches
        and getattr(asked.model, "batches", EXACT_OR_ENOUGH) != EXACT_OR_ENOUGH
    ),
    "topology {asked.options.topology}: ranks of grid '{asked.options.grid}' cannot be mapped to "
    "nodes; those of row plans and of cagnet-1d with `sparse` can": lambda asked: (
        asked.options.topology is not None
        and asked.options.grid
        and not asked.options.grid.exchanges_rows
    ),
    "`fixed` is for searches that give a row to any part, such as hp and medium-grain, not for "
    "model '{asked.name}'": lambda asked: (
        asked.options.fixed is not None and not asked.model.searched
    ),
    "`fixed` is for parts of one size: drop `capacities`": lambda asked: (
        asked.options.fixed is not None and asked.options.capacities is not None
    ),
    "`{0[0]}` is for the models {0[1]}, not for '{asked.name}'": lambda asked: (
        not asked.model.searched and asked.wish and (asked.wish, _models("searched"))
    ),
    "`effort` chooses partitioners itself: drop `{0[0]}` {0[1]}": lambda asked: (
        asked.wish == "effort" and asked.options.named
    ),
    "`{asked.wish}` is for `effort`, which chooses partitioners itself: drop `{0[0]}` {0[1]}": lambda asked: (
        asked.wish and asked.options.named
    ),
    "`{asked.wish}` is for the objectives {0}: drop `objective` {asked.options.objective}": lambda asked: (
        asked.options.objective in asked.model.own_objectives
        and asked.wish
        and ", ".join(OBJECTIVES)
    ),
}
COMPILES: Rows = {
    "`exchange` nodes: needs a topology, nodes x ranks per node (`topology`)": lambda asked: (
        asked.plan_options.exchange == "nodes" and asked.search.topology is None
    ),
    "`relay_hops`: `exchange` {asked.plan_options.exchange} has no relays": lambda asked: (
        asked.plan_options.relay_hops is not None
        and asked.plan_options.exchange in ("flat", "nodes")
    ),
    "`weights`: balance '{asked.plan_options.balance}' does not use them; give `balance` "
    f"{{asked.plan_options.balance}},{WEIGHTS}": lambda asked: (
        asked.plan_options.weights is not None and WEIGHTS not in asked.balance.names
    ),
    "`exchange` relays: a process grid has none: choose another `model`": lambda asked: (
        asked.assigner.grid and asked.plan_options.exchange == "relays"
    ),
    "a process grid has no plans with links: choose another `model`": lambda asked: (
        asked.assigner.grid and asked.plan_options.learns_links
    ),
    "balance {asked.balance}: model '{asked.task.name}' shares nonzeros evenly (nnz)": lambda asked: (
        asked.task.model.layout == "edge" and asked.balance.names != ("nnz",)
    ),
    "balance {asked.balance}: model '{asked.task.name}' shares nonzeros (nnz) or nonzeros "
    "and rows (nnz,rows)": lambda asked: (
        asked.task.model.layout == "any" and asked.balance.names not in (("nnz",), ("nnz", "rows"))
    ),
}
GRAPHS_OF_GRIDS: Rows = {
    "{asked.source.name}: `edge_features`: process grids keep none: choose another `model`": lambda asked: (
        asked.edge_features is not None
    ),
    "{asked.source.name}: several relations from one type to one type; a process grid "
    "multiplies with their sum: choose another `model`": lambda asked: asked.relation is not None,
}
READING_ON_RANKS: Rows = {"`{0}` is for a compile by one process": _not_taken_by_ranks}
COMPILES_ON_RANKS: Rows = {
    "`{0}` is for a compile by one process": lambda asked: (
        _not_taken_by_ranks(asked.search) or _not_taken_by_ranks(asked.plan_options)
    ),
    "model '{asked.assigner.named}' is compiled by one process; several ranks compile models "
    "{0}": lambda asked: (
        (asked.assigner.grid or not asked.task.model.on_ranks) and _models("on_ranks")
    ),
    "`objective` {asked.search.objective}: several ranks minimise the volume only": lambda asked: (
        asked.search.objective not in (None, "volume")
    ),
    "`effort` {asked.search.effort}: several ranks search with effort fast only": lambda asked: (
        asked.search.effort not in (None, "fast")
    ),
    "balance '{asked.balance}': several ranks balance nonzeros, rows and work (nnz, rows, work)": lambda asked: (
        {*asked.balance.names} - {"nnz", "rows", "work"}
    ),
    "`exchange` {asked.plan_options.exchange}: hops are compiled by one process; drop it": lambda asked: (
        asked.plan_options.exchange in ("nodes", "relays")
    ),
}
REVISIONS: Rows = {
    "balance '{asked}': cannot balance by the 'weights' of the graph file, which a plan does "
    "not keep; choose another (`balance`)": lambda asked: "weights" in asked.names,
    f"balance '{{asked}}': cannot balance by the '{BATCH}' of mini-batches, which a plan does "
    "not keep; choose another (`balance`)": lambda asked: BATCH in asked.names,
}
