"""`patch`: the plan of a graph that has changed, from the plan before. Beside `plancc.refinement`.

plan -> graph -> changed graph -> matrix -> old owners, new rows placed -> few rows move -> plan
"""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.cost.owners import random_traffic
from plancc.errors import InputError, PlanccWarning
from plancc.fields import taking
from plancc.files import atomic_write
from plancc.graph.changes import EdgeChanges, changed
from plancc.graph.convert import as_source
from plancc.graph.formats import read_graph, reading_of
from plancc.graph.graph import Graph
from plancc.graph.listed_edges import places_in
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.models.hypergraph import hypergraph_of
from plancc.options import PatchOptions
from plancc.owners.provenance import empty_parts, of_graph, provenance
from plancc.owners.task import REFINED, Observer
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.migration import Migrate
from plancc.plan.matrix import source_graph_of
from plancc.plan.metrics import summarize
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.predict.forecast import Forecast
from plancc.predict.widths import DataWidths
from plancc.refinement import asked_balance, kept_of, lowered_like, search_options
from plancc.report.epochs import Basis
from plancc.search.record import Judge, Record

NO_PART = -1
"""Among moves: the part of a vertex that is not there."""


@taking(PatchOptions)
def patch(
    plan: Plan | str | os.PathLike[str],
    graph: Any = None,
    *,
    add: Any = None,
    remove: Any = None,
    data: Any = None,
    command: str = "",
    observer: Observer = nullcontext,
    **options: Any,
) -> Plan:
    """Make the plan of a changed graph, with the owners of the plan before.

    Vertices are the same by the ids of the source. New ones go where they cost the fewest rows.
    Then at most a share of the rows gets another owner, those that save most first.

    Parameters:
        graph: The whole graph, as `plancc.compile` takes it; a path is read as the plan's source
            was. Vertices that it does not have are gone. Instead of `add` and `remove`.
        add, remove (path or number[edges, 2 or 3], optional): Edges ``u v`` or ``u v weight`` by
            the ids of the source, see `plancc.graph.changes.changed`; `remove` first.
        data: The vertex data of the changed graph, as `plancc.compile` takes them. None: those of
            the plan, which then has no new vertex.
        command: Recorded in the provenance.
        observer: Called with the name of each stage; returns a context manager around it.
        **options

    Returns:
        Its provenance has ``patched_from``, the content hash of the plan before.

    Raises:
        InputError: For an edge plan, a plan with types, links or features of edges, wrong changes,
            new vertices without data.
        PlanError: The file is damaged.

    Warns:
        PlanccWarning: A balance that is missed.
    """
    asked = PatchOptions(**options)
    with observer("load"):
        plan = load(plan) if not isinstance(plan, Plan) else plan
        _check(plan)
        new, given = _changed(plan, graph, add, remove, data)
        old = _before(plan, new)
        kept = plan.places()[old]
        new_data, notes = _data(plan, given, old, kept)
    with observer("matrix"):
        header, recorded = plan.header, plan.provenance
        how: Any = {"normalization": header.normalization, "self_loops": header.self_loops}
        matrix = normalize(new, **how, dtype=plan.value.dtype)
        predictor = Basis.of(recorded, DataWidths.of(new_data)).predictor
        search = search_options(plan, predictor, seed=asked.seed)
        dims, mask = tuple(predictor.dims), new_data.train_mask
        wanted, epsilon = asked_balance(plan, asked.balance, asked.epsilon, dims, mask)
        wanted = replace(wanted, capacities=search.capacities)
        limits = wanted.limits(matrix, plan.num_parts, epsilon)
        problem = hypergraph_of(matrix, limits)
    with observer("patch"):
        start = wall_seconds()
        before = np.where(old < 0, np.int32(NO_PART), plan.owner()[old])
        most = int(asked.max_moves * np.count_nonzero(old >= 0))
        owner = Migrate(most).refine(before, problem, Context(limits, asked.seed))
        record = Record()
        member = Judge(matrix, "volume", None, limits).of(Owners(owner))
        record.add("patched", wall_seconds() - start, member)
    with observer("lower"):
        made = lowered_like(plan, matrix, owner, plan.num_parts)
    notes += empty_parts(owner, plan.num_parts)
    notes += balance_notes(owner, limits, REFINED)
    if "expected_volume" in recorded:
        notes.append("the plan was made for mini-batches, and is patched for whole batches")
    for note in notes:
        warnings.warn(note, PlanccWarning, stacklevel=2)
    first = kept_of(recorded, "budget", "refined_from")
    if graph is None:
        first |= {"source_sha256": ""}
    else:
        first |= {k: v for k, v in of_graph(new.source, "", {}).items() if k != "model"}
    moved = int(np.count_nonzero((old >= 0) & (before != owner)))
    about: dict[str, Any] = {
        "patched_from": plan.content_sha256(),
        "max_moves": asked.max_moves,
        "rows_moved": moved,
        "rows_added": int(np.count_nonzero(old < 0)),
        "rows_removed": plan.num_vertices - int(np.count_nonzero(old >= 0)),
        "objective": "volume",
        "tried": record.result([]).tried_json(),
    }
    forecast = Forecast.of(search.predictor, made, matrix)
    return replace(
        made,
        vertex_data=new_data.take(made.global_id),
        original_id=new.original_ids,
        baseline=summarize(random_traffic(matrix, plan.num_parts)),
        provenance=provenance(
            first,
            command or "plancc.patch(...)",
            wanted,
            limits.imbalance(limits.load(owner)).tolist(),
            replace(search, epsilon=epsilon),
            {**forecast.provenance(), **about},
            notes,
        ),
    )


def _check(plan: Plan) -> None:
    """Refuse a plan with what a changed graph does not tell."""
    for what, there in (
        ("owners of nonzeros", plan.fold is not None),
        ("types", plan.header.types is not None),
        ("links", plan.links is not None),
        ("features of edges", plan.edge_features is not None),
    ):
        if there:
            raise InputError(f"patch does not know plans with {what}: compile the graph again")


def _changed(plan: Plan, graph: Any, add: Any, remove: Any, data: Any) -> tuple[Graph, Any]:
    """The changed graph, and its vertex data if they are given."""
    if (graph is None) == (add is None and remove is None):
        raise InputError("give the changed graph (`graph`), or its changes (`add`, `remove`)")
    reading = reading_of(str(plan.provenance.get("source_reading", "")))
    if graph is None:
        edges = [
            None if each is None else EdgeChanges.of(each, name)
            for each, name in ((add, "add"), (remove, "remove"))
        ]
        if "transpose" in reading:
            edges = [None if each is None else each.turned for each in edges]
        graph = changed(source_graph_of(plan), *edges)
    elif isinstance(graph, str | os.PathLike):
        reading.pop("num_vertices", None)
        graph = read_graph(graph, **reading)
    new, found = as_source(graph, False if data is None else data)
    if new.types is not None:
        raise InputError("patch knows no types: compile the graph again")
    return new, None if data is None else found


def _before(plan: Plan, graph: Graph) -> npt.NDArray[np.int64]:
    """The vertex of the plan that every vertex of the graph is: int64[n], -1 where it is new."""
    ids, known = graph.original_ids, plan.original_id
    ids = np.arange(graph.num_vertices) if ids is None else ids
    known = np.arange(plan.num_vertices) if known is None else known
    order = np.argsort(known, kind="stable")
    place = places_in(known[order], ids)
    old = np.where(place < 0, NO_PART, order[place])
    if (old < 0).all():
        raise InputError("the plan has no vertex of the graph: compile it")
    return old


def _data(
    plan: Plan, given: VertexData | None, old: npt.NDArray[np.int64], kept: npt.NDArray[np.int64]
) -> tuple[VertexData, list[str]]:
    """Vertex data of the changed graph in vertex order, and what the user should know.

    Parameters:
        old: See `_before`.
        kept (int64[n]): Row of the plan of every vertex of the graph; anything for new ones.
    """
    if given is not None:
        lost = plan.vertex_data.clusters is not None and given.clusters is None
        return given, ["the clusters of the plan are not kept: compile it again"] * lost
    sizes = plan.vertex_data.sizes()
    if sizes and (old < 0).any():
        raise InputError(
            f"{np.count_nonzero(old < 0)} vertices are new, and the plan has data "
            f"({', '.join(sizes)}): give those of all vertices (`data`)"
        )
    return (plan.vertex_data.take(kept) if sizes else VertexData()), []


def moves_of(before: Plan, after: Plan) -> npt.NDArray[np.int64]:
    """The vertices that have another owner in a plan than in the one before.

    Returns:
        int64[rows, 3]: The source's id, the part before and the part after, by ascending ids;
        `NO_PART` where there is no such vertex.
    """
    ids = [
        np.arange(each.num_vertices) if each.original_id is None else each.original_id
        for each in (before, after)
    ]
    every = np.union1d(*ids)
    table = np.full((len(every), 3), NO_PART, np.int64)
    table[:, 0] = every
    for column, plan, own in zip((1, 2), (before, after), ids, strict=True):
        table[np.searchsorted(every, own), column] = plan.owner()
    return table[table[:, 1] != table[:, 2]]


def write_moves(moves: npt.NDArray[np.int64], path: str | os.PathLike[str]) -> None:
    """Write what `moves_of` returns as CSV, under the names row, from and to; whole or not at all.

    Raises:
        OutputError: If the file cannot be written.
    """
    with atomic_write(path) as temporary:
        np.savetxt(temporary, moves, "%d", ",", header="row,from,to", comments="")
