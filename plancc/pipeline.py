"""The stages of the compiler: every stage takes a value and returns a value.

graph -> matrix (normalised) -> owners (search, partitioner or model) -> plan -> figures
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from plancc.cost.owners import random_traffic
from plancc.errors import warn
from plancc.fields import taking
from plancc.graph.graph import Graph
from plancc.graph.links import SplitLinks, links_to_learn
from plancc.graph.normalize import normalize as normalized
from plancc.graph.read_source import ReadGraph, read_source
from plancc.graph.remarks import lost_value_remarks, lost_values, remarks
from plancc.graph.union import without_relations
from plancc.graph.vertexdata import VertexData
from plancc.memory import give_back_at_once
from plancc.models import DEFAULT_MODEL, MODELS
from plancc.models.stochastic import StochasticModel
from plancc.models.weights import BATCH
from plancc.options import GRAPHS_OF_GRIDS, PlanOptions, SearchOptions, refuse
from plancc.owners.find import find_owners
from plancc.owners.provenance import graph_entries, plan_entries, provenance
from plancc.owners.request import Request
from plancc.owners.task import Observer, Ownership, Report, Unowned
from plancc.plan.lowering import lower, with_links
from plancc.plan.metrics import summarize
from plancc.plan.plan import Plan
from plancc.plan.routes import MANY, with_routes


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
            PyTorch Geometric, DGL or igraph): See `plancc.graph.convert.as_graph`. A `ReadGraph` is
            also allowed; options of data and edges must have been applied to it.
        model: A name in `plancc.models.MODELS`; ``plancc list models`` lists them. None: "hp".
        num_parts: Number of parts, 1..n. For process grids and feature parallelism, it is the
            number of ranks. Parts are then blocks of rows (the table in `plancc.plan.grid` has
            their number), and options of the search apply to the model that assigns rows to blocks.
        command: Text for the provenance.
        observer: Function that is called with the name of each stage, and returns a context manager
            in which the stage runs.
        report: Function that is called with a `plancc.search.Trial` after every step of the search.
        **options
        **model_options: All further keywords: fields of the model's class (`Model.option_fields`),
            such as ``part`` for model "file".

    Raises:
        InputError, BackendUnavailable, BackendError: InputError also if memory is too small, which
            is checked before the search.

    Warns:
        PlanccWarning: If a fallback was used, if the balance is missed, if another run may give
            another partition, or if vertex data are probably a mistake (`plancc.graph.remarks`).
    """
    request = Request.of(DEFAULT_MODEL if model is None else model, num_parts, options)
    give_back_at_once()
    work = normalise(read(request, graph, observer), observer)
    for remark in (*work.remarks, *work.notes):  # before the search
        warn(remark)
    found = own(work, observer, report)
    with observer("lower"):
        plan, relays, hops = lowered(work, found)
    with observer("baseline"):
        baseline = summarize(random_traffic(work.matrix, plan.num_parts))
    with observer("predict"):
        from plancc.predict.forecast import Forecast

        forecast = Forecast.of(work.request.task.options.predictor, plan, work.matrix)
    request, assigner = work.request, work.request.assigner  # completed from the graph
    balance, named = found.balance or request.balance, MODELS[assigner.named]
    notes = [*found.warnings, *hops]
    if forecast.slower and not (named.of_batches or named.even_random):
        from plancc.owners.hops import advice

        notes.append(f"{forecast.comparison}; {advice(plan, forecast, request, balance)}")
    for note in notes:
        warn(note)
    options = {**request.options, **request.task.handed_on}
    more = {
        **({} if assigner.grid is None else {"blocks": assigner.model}),
        **forecast.provenance(),
        **found.how,
        **relays,
        **plan_entries(request.plan_options, request.search.seed, work.memory),
    }
    assert found.limits is not None
    return replace(
        plan,
        vertex_data=work.data.take(plan.global_id),
        original_id=work.graph.original_ids,
        baseline=baseline,
        provenance=provenance(
            graph_entries(work.matrix.source, assigner.named, options),
            command or "plancc.compile(...)",
            balance,
            found.limits.reached(found.owners.sharers),
            request.search,
            more,
            [*work.notes, *notes],
        ),
    )


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A graph, and the request for its plan.

    Attributes:
        request: The request, with task and balance completed from the graph.
        graph: The graph without held-out edges; it is not normalised until `normalise` is called.
        matrix: The matrix for searches: the graph, with parallel edges of several relations joined.
        memory: Bytes that the compilation is predicted to need.
        remarks: Properties of the graph or its vertex data that are probably mistakes.
        notes: Facts that the user should know before the search; the provenance records them too.
    """

    request: Request
    graph: Graph
    matrix: Graph
    data: VertexData
    links: SplitLinks | None
    memory: int
    remarks: list[str]
    notes: Sequence[str] = ()


def read(request: Request, graph: Any, observer: Observer) -> PreparedGraph:
    """Read the graph, and check it and the request; raise InputError if memory is too small."""
    from plancc.owners.memory import allowed_memory, needed_memory

    options, allowed = request.plan_options, allowed_memory(request.plan_options.memory)
    if isinstance(graph, str | os.PathLike):
        from plancc.graph.folders import check_reading

        check_reading(graph, allowed)
    with observer("load"):
        source = graph
        if not isinstance(graph, ReadGraph):
            reading = {name: getattr(options, name) for name in ("split", "keys", "edge_features")}
            source = read_source(graph, options.data, options.link_times, **reading)
        found, links = _without_links(source, request)
        if options.weights is not None:
            from plancc.graph.weights import weighted

            found = weighted(found, options.weights)
        if request.assigner.grid is not None:
            refuse(GRAPHS_OF_GRIDS, found)
        united, data = without_relations(found), source.data
        request = request.for_graph(united, data)
    task = request.task
    memory = needed_memory(task, united, data, len(request.balance.names), allowed)
    task.model.check(united, task.num_parts)
    told = [*remarks(data, found.source.name, source.files), *_remarks_on_weights(request, found)]
    return PreparedGraph(request, found, united, data, links, memory, told)


def _without_links(source: ReadGraph, request: Request) -> tuple[Graph, SplitLinks | None]:
    """Return the graph without edges held out for link prediction, and the links.

    The links are None for other tasks.
    """
    options = request.plan_options
    if not options.learns_pairs:
        return source.apart(None), None
    first = None if source.times is None else source.times.first
    links, away = links_to_learn(source.graph, options, request.search.seed, first)
    return source.apart(away, links.begins), links


def _remarks_on_weights(request: Request, graph: Graph) -> list[str]:
    """Return remarks on edge weights lost by normalising, and on vertex weights left unbalanced."""
    options, task = request.plan_options, request.task
    found = lost_value_remarks(*lost_values(graph.values, options.normalize, options.value_dtype))
    usual = options.balance is None and options.weights is None
    unused = graph.vertex_weights is not None and usual and task.model.searched
    if unused and task.num_parts > 1:
        found.append("its weights of vertices are not balanced; give `balance` weights")
    return [f"{graph.source.name}: {each}" for each in found]


def normalise(work: PreparedGraph, observer: Observer) -> PreparedGraph:
    """Return `work` with the normalised graph, and with the data that depend on this graph.

    The request's model gets the vertex data. The balance "batch" gets the expected number of
    nonzeros of every row in mini-batches.
    """
    request, options, seed = work.request, work.request.plan_options, work.request.search.seed
    with observer("normalize"):
        how = {**options.normalizing, "dtype": options.value_dtype}
        graph, data = normalized(work.graph, **how), work.data
        matrix = without_relations(graph)
    if options.clusters is not None:
        from plancc.owners.rows import with_clusters

        with observer("clusters"):
            limit = request.search.time_limit
            data = with_clusters(data, matrix, options.clusters, seed, limit)
    model, balance = request.task.model.with_data(data), request.balance
    notes = [model.unfit(matrix, request.task.num_parts)]
    if isinstance(model, StochasticModel):
        source = model.source(matrix)
        notes.insert(0, source.remark)
        if BATCH in balance.names:
            balance = replace(balance, expected_nonzeros=source.expected_nonzeros(seed))
    request = replace(request, task=replace(request.task, model=model), balance=balance)
    found: Any = {"request": request, "graph": graph, "matrix": matrix, "data": data}
    return replace(work, **found, notes=[*filter(None, notes)])


def own(work: PreparedGraph, observer: Observer, report: Report | None) -> Ownership:
    """Return owners of the rows, and of the nonzeros of an edge plan."""
    task, exchange = work.request.task, work.request.plan_options.exchange
    asked = Unowned(work.matrix, task, work.request.balance, observer, report)
    if task.model.layout == "any":
        from plancc.owners.choice import choose

        straight = task.options.nodes is None and not exchange.startswith("relays")
        able = not (work.links or work.graph.types or work.graph.read_columns)
        return choose(asked, grids=straight and able, hops=straight and exchange != "flat")
    found = find_owners(asked)
    if work.request.assigner.grid is not None:
        return found

    from plancc.owners.numbering import numbered
    from plancc.predict.schedules import tables_of

    def seconds(found: Ownership) -> float:
        plan, *_ = lowered(work, found)
        return task.options.predictor.epoch(tables_of(plan)).seconds

    with observer("number"):
        return numbered(asked, found, seconds)


def lowered(work: PreparedGraph, found: Ownership) -> tuple[Plan, dict[str, str], list[str]]:
    """Return the plan, entries on relays for its provenance, and notes on hops for the user."""
    request, options = work.request, work.request.plan_options
    grid = found.grid or request.assigner.grid
    num_parts = request.task.num_parts if grid is None else grid.num_parts
    plan = lower(work.graph, found.owners, num_parts, **options.normalizing)
    if grid is not None:
        from plancc.plan.grid_slices import with_grid

        plan = with_grid(plan, grid)
    if found.topology is not None:
        plan = with_routes(plan, found.topology)
    notes, relays, able = list[str](), "", num_parts >= MANY or request.task.options.nodes
    if grid is None and (able or options.exchange.startswith("relays")):
        from plancc.owners.hops import with_hops

        plan, notes, relays = with_hops(plan, request.task, options)
    if work.links is not None:
        plan = with_links(plan, *work.links.columns(), work.links.per_link)
    return plan, {"relays": relays} if relays else {}, notes
