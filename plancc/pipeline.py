"""The whole compiler on one page: every stage takes a value and returns a value.

graph -> matrix (normalised) -> owners (search, partitioner or model) -> plan -> figures
"""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from dataclasses import replace
from math import inf
from typing import Any

from plancc.cost.objectives import OBJECTIVES
from plancc.cost.owners import random_traffic
from plancc.errors import InputError, PlanccWarning
from plancc.fields import divided, taking
from plancc.graph.graph import Graph
from plancc.graph.links import SplitLinks, learnt
from plancc.graph.normalize import normalize as normalized
from plancc.graph.read_source import ReadGraph, read_source
from plancc.graph.remarks import lost_values, of_values, remarks
from plancc.graph.rowids import warn_of_lines
from plancc.graph.union import without_relations
from plancc.graph.weights import weighted
from plancc.memory import give_back_at_once
from plancc.models import DEFAULT_MODEL, MODELS
from plancc.models.stochastic import StochasticModel
from plancc.models.weights import BATCH, DEFAULT_BALANCE, Balance
from plancc.options import PlanOptions, SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.memory import allowed_memory, needed_memory
from plancc.owners.numbering import numbered
from plancc.owners.provenance import of_graph, of_wishes, provenance
from plancc.owners.request import Assigner, balance_of, prepared, with_dims
from plancc.owners.rows import with_clusters
from plancc.owners.task import Observer, Ownership, Report, Task
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower, with_links
from plancc.plan.metrics import summarize
from plancc.plan.plan import Plan
from plancc.plan.routes import with_routes
from plancc.predict.forecast import Forecast
from plancc.predict.relays import MANY, best_relays
from plancc.predict.schedules import tables_of
from plancc.text import four_digits

SLOWER = 1.02
"""Epoch with hops over that without, up to which a search for the volume keeps them: they move
fewer rows between nodes."""


@taking(SearchOptions, PlanOptions, rest="model_options")
def compile(
    graph: Any,
    model: str | None = None,
    num_parts: int = 2,
    *,
    command: str = "",
    observer: Observer = nullcontext,
    report: Report | None = None,
    **options: Any,
) -> Plan:
    """Compile a graph into a communication plan.

    Parameters:
        graph (Graph, path, scipy sparse matrix, networkx graph, (n, edge_index), or an object of
            PyTorch Geometric, DGL or igraph): See `plancc.graph.convert.as_graph`. Or a
            `ReadGraph`, to which the options of data and edges are applied already.
        model: A name in `plancc.models.MODELS`; ``plancc list models`` lists them. None: "hp".
        num_parts: 1..n. For process grids and feature parallelism the number of ranks; a grid has a
            block of rows for every process row, in every layer, or for every group. Options of the
            search then are those of the model of the blocks.
        command: Recorded in the provenance.
        observer: Called with the name of each stage; returns a context manager around it.
        report: Called with every step of the search as it ends, a `plancc.search.Trial`.
        **options
        **model_options: The fields of the model's class (`Model.option_fields`), such as ``part``
            for model file.

    Raises:
        InputError, BackendUnavailable, BackendError: An InputError also where memory does not
            suffice, before the search.

    Warns:
        PlanccWarning: Fallbacks, a missed balance, a partition that another run may not repeat;
            what vertex data hold and is seldom meant (`plancc.graph.remarks`).
    """
    of_search, of_plan, model_options = divided(options, SearchOptions, PlanOptions)
    wishes, search = PlanOptions(**of_plan), SearchOptions(**of_search)
    if wishes.exchange == "nodes" and search.topology is None:
        raise InputError("`exchange` nodes: needs a topology, nodes x ranks per node (`topology`)")
    if wishes.relay_hops is not None and wishes.exchange in ("flat", "nodes"):
        raise InputError(f"`relay_hops`: `exchange` {wishes.exchange} has no relays")
    balance = balance_of(wishes.balance, wishes.weights)
    model = DEFAULT_MODEL if model is None else model
    assigner, task, wanted = prepared(model, num_parts, model_options, search, balance)
    if isinstance(task.model, StochasticModel) and search.dims is not None:
        task.model.check_layers(len(search.dims) - 1)
    num_parts = task.num_parts
    relays_only = wishes.exchange == "relays"
    if relays_only and assigner.grid is not None:
        raise InputError("`exchange` relays: a process grid has none: choose another `model`")

    give_back_at_once()
    taken = allowed_memory(wishes.memory)
    if isinstance(graph, str | os.PathLike):
        from plancc.graph.folders import check_reading

        check_reading(graph, taken)
    with observer("load"):
        read = graph
        if not isinstance(read, ReadGraph):
            reading: Any = {"split": wishes.split, "keys": wishes.keys}
            reading["edge_features"] = wishes.edge_features
            read = read_source(graph, wishes.data, wishes.link_times, **reading)
        links, away, begins = None, None, inf
        if wishes.links is not None or wishes.link_split is not None:
            ways = wishes.links, wishes.link_split, wishes.disjoint_train_ratio
            first = None if read.times is None else read.times.first
            links, away = learnt(read.graph, *ways, search.seed, first)
            begins = links.begins
        graph, vertex_data = read.apart(away, begins), read.data
        if wishes.weights is not None:
            graph = weighted(graph, wishes.weights)
        assigner.check_graph(graph.num_vertices, vertex_data)
        given, graph = graph, without_relations(graph)
        of_rows = _what_no_grid_has(given, links, several=given is not graph)
        if of_rows and assigner.grid is not None:
            raise InputError(f"{of_rows}: choose another `model`")
        wanted = replace(wanted, train_mask=vertex_data.train_mask)
        if task.model.layout == "row":  # others share nonzeros alone, and say so
            wanted.check_given(graph)
        task = with_dims(task, vertex_data)
        if search.fixed is not None:
            from plancc.models.file import part_vector

            fixed = part_vector(search.fixed, graph.num_vertices, num_parts, -1)
            warn_of_lines(graph, search.fixed)
            task = replace(task, options=replace(task.options, fixed=fixed))
    needed = needed_memory(task, graph, vertex_data, len(wanted.names), taken)
    notes: list[str] = []

    def tell(*found: str) -> None:
        notes.extend(filter(None, found))
        for note in filter(None, found):
            warnings.warn(note, PlanccWarning, stacklevel=3)

    how: dict[str, Any] = {"normalization": wishes.normalize, "self_loops": wishes.self_loops}
    task.model.check(graph, num_parts)
    with observer("normalize"):
        whole = normalized(given, **how, dtype=wishes.value_dtype)
        matrix = without_relations(whole)
    if wishes.clusters is not None:
        with observer("clusters"):
            vertex_data = with_clusters(
                vertex_data, matrix, wishes.clusters, search.seed, search.time_limit
            )
    wanted = replace(wanted, dims=task.options.dims)
    task, said = replace(task, model=task.model.with_data(vertex_data)), list[str]()
    if isinstance(task.model, StochasticModel):
        source = task.model.source(matrix)
        said.append(source.remark)
        if BATCH in wanted.names:
            wanted = replace(wanted, expected_nonzeros=source.expected_nonzeros(search.seed))
    name = graph.source.name
    of_graph_alone = of_values(*lost_values(given.values, wishes.normalize, wishes.value_dtype))
    unused = graph.vertex_weights is not None and balance is None and task.model.searched
    if unused and num_parts > 1:
        of_graph_alone.append("its weights of vertices are not balanced: `balance` weights does")
    told = *remarks(vertex_data, name, read.files), *(f"{name}: {each}" for each in of_graph_alone)
    for remark in told:
        warnings.warn(remark, PlanccWarning, stacklevel=2)
    tell(*said, task.model.unfit(matrix, num_parts))  # before the search

    def lowered(found: Ownership) -> Plan:
        grid = found.grid or assigner.grid
        plan = lower(whole, found.owners, grid.num_parts if grid else num_parts, **how)
        if grid is not None:
            plan = with_grid(plan, grid)
        return plan if found.topology is None else with_routes(plan, found.topology)

    def in_the_end(found: Ownership) -> float:
        plan, *_ = _with_hops(lowered(found), task, wishes)
        return task.options.predictor.epoch(tables_of(plan)).seconds

    if task.model.layout == "any":
        from plancc.owners.choice import choose

        found = choose(
            *(matrix, task, wanted, observer, report),
            grids=not (of_rows or graph.types or task.options.nodes or relays_only),
            hops=task.options.nodes is None and not relays_only and wishes.exchange != "flat",
        )
    else:
        found = find_owners(matrix, task, wanted, observer, report)
    if assigner.grid is None and task.model.layout != "any":
        with observer("number"):
            found = numbered(matrix, found, task, report, in_the_end)
    wanted = found.balance or wanted
    with observer("lower"):
        limits = found.limits
        assert limits is not None
        reached = limits.imbalance(limits.load(found.owners.sharers)).tolist()
        plan, about_hops, relays = _with_hops(lowered(found), task, wishes)
        if links is not None:
            plan = with_links(plan, *links.columns(), links.per_link)
    with observer("baseline"):
        baseline = summarize(random_traffic(matrix, plan.num_parts))
    with observer("predict"):
        forecast = Forecast.of(task.options.predictor, plan, matrix)
    tell(*found.warnings, *about_hops)
    if forecast.slower and not (task.model.of_batches or MODELS[model].even_random):
        straight = _straight(plan, task)
        if straight is not None and straight < (forecast.seconds or 0.0):
            advice = f"without hops, by `exchange` flat, it takes {four_digits(1e3 * straight)} ms"
        else:
            advice = _advice(wanted, task, assigner)
        tell(f"{forecast.comparison}; {advice}")
    return replace(
        plan,
        vertex_data=vertex_data.take(plan.global_id),
        original_id=graph.original_ids,
        baseline=baseline,
        provenance=provenance(
            of_graph(matrix.source, model, model_options | task.handed_on),
            command or "plancc.compile(...)",
            wanted,
            reached,
            search,
            {
                **({} if assigner.grid is None else {"blocks": assigner.model}),
                **forecast.provenance(),
                **found.how,
                **({"relays": relays} if relays else {}),
                **of_wishes(wishes, search.seed, needed),
            },
            notes,
        ),
    )


def _what_no_grid_has(graph: Graph, links: SplitLinks | None, several: bool) -> str:
    """Why a graph is not for process grids; "" where it is. `several`: it has relations to add."""
    if links is not None:
        return "a process grid has no plans with links"
    for column in graph.read_columns:
        return f"{graph.source.name}: `{column}`: process grids keep none"
    name = graph.source.name
    sums = f"{name}: several relations from one type to one type; a process grid multiplies with"
    return f"{sums} their sum" if several else ""


def _with_hops(plan: Plan, task: Task, wishes: PlanOptions) -> tuple[Plan, list[str], str]:
    """The plan with hops, what the user should know of them, and how relays were chosen; "": none.

    "auto" tries relays for objectives of the busiest part, with many parts.
    """
    routed, notes = _on_nodes(plan, task, wishes.exchange)
    asked, predictor = wishes.exchange == "relays", task.options.predictor
    busiest = task.objective in OBJECTIVES and OBJECTIVES[task.objective].of_busiest
    tried = wishes.exchange == "auto" and plan.num_parts >= MANY and plan.header.grid is None
    if asked or (tried and busiest):
        relayed, seconds, how = best_relays(plan, predictor, wishes.relay_hops or 3)
        if asked or seconds < predictor.epoch(tables_of(routed)).seconds:
            return relayed, [], how
    return routed, notes, ""


def _on_nodes(plan: Plan, task: Task, exchange: str) -> tuple[Plan, list[str]]:
    """The plan with hops for the nodes of a topology, and what the user should know of it.

    "auto" leaves them out where the epoch is predicted to take longer with them; for objective
    "volume", by more than `SLOWER`.
    """
    topology, predictor = task.options.nodes, task.options.predictor
    if topology is None or plan.header.grid is not None or exchange in ("flat", "relays"):
        return plan, []
    if not 1 < topology.nodes < topology.num_ranks:
        return plan, []
    routed = with_routes(plan, topology)
    tables = tables_of(routed)
    there = tables.on_nodes(predictor.machine.node.ranks)
    if exchange == "nodes" or there.topology is None:
        return routed, []
    flat, hops = (predictor.epoch(each).seconds for each in (tables.flat(), tables))
    allowed = SLOWER if task.objective == "volume" else 1.0
    if hops <= allowed * flat:
        return routed, []
    return plan, [
        f"rows travel straight from rank to rank: in hops between nodes ({topology}) an epoch is "
        f"predicted to take {hops / flat:.2f} times as long ({four_digits(1e3 * hops)} ms, "
        f"straight {four_digits(1e3 * flat)} ms; machine {predictor.machine.title}); "
        "`exchange` nodes compiles them"
    ]


def _straight(plan: Plan, task: Task) -> float | None:
    """Predicted epoch of a plan with hops, without them; None for other plans."""
    if plan.header.route is None:
        return None
    return task.options.predictor.epoch(tables_of(plan).flat()).seconds


def _advice(wanted: Balance, task: Task, assigner: Assigner) -> str:
    """What may make an epoch faster."""
    model, searched = task.model, task.model.searched and assigner.grid is None
    chooses = model.layout == "any"  # among models
    if searched and model.layout == "row" and "rows" not in wanted.names:
        return f"try `balance` {DEFAULT_BALANCE}"
    if (searched or chooses) and (task.options.objective or model.default_objective) != "time":
        return "try `objective` time, or fewer parts"
    return "try fewer parts" if chooses else "try `model` auto, or fewer parts"
