"""`patch` makes the plan of a changed graph from the previous plan. See also `plancc.refinement`.

plan -> graph -> changed graph -> matrix -> old owners, new rows placed -> few rows move -> plan
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.cost.owners import random_traffic
from plancc.errors import InputError, PlanccWarning, warn
from plancc.fields import taking
from plancc.files import StrPath, atomic_write
from plancc.graph.changes import EdgeChanges, changed, changed_relations
from plancc.graph.convert import as_source, own_data
from plancc.graph.csr import reading_like
from plancc.graph.formats import find_held, read_graph, reading_of
from plancc.graph.graph import Graph
from plancc.graph.links import KINDS, without
from plancc.graph.listed_edges import ListedEdges, nonzeros_of_edges, places_in
from plancc.graph.named_ids import are_names
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.graph.types import Types, ids_or_numbers
from plancc.graph.vertexdata import VertexData
from plancc.models.hypergraph import hypergraph_of
from plancc.options import PatchOptions, RefineOptions
from plancc.owners.provenance import graph_entries
from plancc.owners.task import Observer
from plancc.passes.context import Context
from plancc.passes.edges import RefineEdges
from plancc.passes.migration import Migrate
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.matrix import ends_of, ends_of_links, graph_of, owners_of, source_graph_of
from plancc.plan.metrics import summarize
from plancc.plan.parts import taken
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.refinement import Revision, kept_of, lowered_like, revised_options, with_rows_placed
from plancc.search.record import Judge, Record
from plancc.text import shown

NO_PART = -1
"""Part number, in a list of moves, for a vertex that does not exist before or after the change."""


@taking(PatchOptions)
def patch(
    plan: Plan | StrPath,
    graph: Any = None,
    *,
    add: Any = None,
    remove: Any = None,
    data: Any = None,
    command: str = "",
    observer: Observer = nullcontext,
    **options: Any,
) -> Plan:
    """Make the plan of a changed graph, starting from the owners of the previous plan.

    Vertices are identified by the ids of the source. A new vertex gets the part where it adds the
    fewest rows to the volume. Then at most the share `max_moves` of the rows gets another owner;
    the rows that save most volume move first.

    Parameters:
        graph: The whole changed graph, in any form that `plancc.compile` accepts, in place of `add`
            and `remove`. A path is read with the options of the plan's source. Vertices that the
            graph does not have are removed.
        add, remove (path or number[edges, 2 or 3], optional): Edges ``u v`` or ``u v weight`` to
            add or to remove, with the ids of the source (`plancc.graph.changes.changed`). All edges
            of `remove` are removed before the edges of `add` are added. For a plan with types, a
            mapping of relations to such edges (`plancc.graph.changes.changed_relations`).
        data: Vertex data of the changed graph, in any form that `plancc.compile` accepts. None: the
            plan's data; then no vertex may be new.
        command: Text for the provenance.
        observer: Function that is called with the name of each stage, and returns a context manager
            in which the stage runs.
        **options

    Returns:
        The plan; its provenance has ``patched_from``, the content hash of the previous plan.

    Raises:
        InputError: If a change is wrong, or if types or relations differ from the plan's. If a new
            vertex has no data, if an edge is new and the plan has features of edges, or if a link
            ends at a removed vertex. If an edge plan is to balance anything but nonzeros.
        PlanError: If the plan's file is damaged.

    Warns:
        PlanccWarning: If the balance is missed.
    """
    asked = PatchOptions(**options)
    with observer("load"):
        plan = load(plan) if not isinstance(plan, Plan) else plan
        new, given = _changed(plan, graph, (add, remove), data)
        old = _before(plan, new)
        ends = _ends_of_links(plan, old)
        new = _with_columns(plan, _without_withheld(plan, new, ends), old)
        new_data, notes = _data(plan, given, old, new.types)
        if data is None and graph is not None:
            notes += _ignored_data(graph, new, new_data)
        like = RefineOptions(balance=asked.balance, epsilon=asked.epsilon, seed=asked.seed)
        wanted = revised_options(plan, new_data, like)
    with observer("matrix"):
        header, dtype = plan.header, plan.value.dtype
        whole = normalize(new, header.normalization, self_loops=header.self_loops, dtype=dtype)
        revision = Revision.of(plan, whole, *wanted)
    with observer("patch"):
        before = np.where(old < 0, np.int32(NO_PART), plan.owner()[old])
        owners, record = _patched(revision, old, before, asked)
    with observer("lower"):
        made = lowered_like(plan, whole, owners, ends)
    notes += revision.notes(owners)
    if "expected_volume" in plan.provenance:
        notes.append("the plan was made for mini-batches, and is patched for the full batch")
    for note in notes:
        warn(note)
    first = kept_of(plan.provenance, "budget", "refined_from") | {"source_sha256": ""}
    if graph is not None:
        first |= {k: v for k, v in graph_entries(new.source, "", {}).items() if k != "model"}
    about = {
        "patched_from": plan.content_sha256(),
        "max_moves": asked.max_moves,
        "rows_moved": int(np.count_nonzero((old >= 0) & (before != owners.rows))),
        "rows_added": int(np.count_nonzero(old < 0)),
        "rows_removed": plan.num_vertices - int(np.count_nonzero(old >= 0)),
    }
    command = command or "plancc.patch(...)"
    return replace(
        made,
        vertex_data=new_data.take(made.global_id),
        original_id=new.original_ids,
        baseline=summarize(random_traffic(revision.matrix, plan.num_parts)),
        provenance=revision.provenance(made, owners, record, first, about, command, notes),
    )


def _patched(
    revision: Revision, old: Int64Array, before: Int32Array, asked: PatchOptions
) -> tuple[Owners, Record]:
    """Return owners for the changed matrix, and the record of the search.

    At most the share `PatchOptions.max_moves` of the old rows changes owner. For every row of the
    matrix, `old` has the row's number in the plan, and `before` its owner there; both are -1 for
    new rows.
    """
    start, limits, matrix = wall_seconds(), revision.limits, revision.matrix
    context = Context(limits, asked.seed)
    if revision.plan.fold is None:
        most = int(asked.max_moves * np.count_nonzero(before >= 0))
        problem = hypergraph_of(matrix, limits)
        owners = Owners(Migrate(most).refine(before, problem, context))
    else:
        owners = _edge_owners(revision, old, before, asked.max_moves, context)
    record, member = Record(), Judge(matrix, "volume", None, limits).of(owners)
    record.add("patched", wall_seconds() - start, member)
    return owners, record


def _changed(
    plan: Plan, graph: Any, lists: tuple[Any, Any], data: Any
) -> tuple[Graph, VertexData | None]:
    """Return the changed graph, and its vertex data, which are None if `data` is None.

    The changed graph is `graph` or, if that is None, the plan's graph with the edges ``lists[0]``
    added and the edges ``lists[1]`` removed.
    """
    if (graph is None) == all(each is None for each in lists):
        raise InputError("give either the changed graph (`graph`) or its changes (`add`, `remove`)")
    types = plan.header.types
    if graph is None:
        reading = reading_of(str(plan.provenance.get("source_reading", "")))
        named = zip(("add", "remove"), lists, strict=True)
        added, removed = (_edges(types, *each, "transpose" in reading) for each in named)
        source = source_graph_of(plan)
        if types is None:
            graph = changed(source, added.get(None), removed.get(None))
        else:
            graph = changed_relations(source, added, removed)
    elif isinstance(graph, str | os.PathLike):
        reading = reading_like(plan.provenance, graph)
        reading.pop("num_vertices", None)
        graph = read_graph(graph, **reading)
    new, found = as_source(graph, False if data is None else data)
    ours, theirs = (each and (each.names, each.relations) for each in (types, new.types))
    if ours != theirs:
        raise InputError(
            f"{new.source.name}: types, relations or order differ from the plan; compile the graph"
        )
    return new, None if data is None else found


def _edges(types: Types | None, name: str, given: Any, turned: bool) -> dict[Any, EdgeChanges]:
    """Return the edges in parameter `name` of `patch` by relation (key None without types)."""
    if given is not None and isinstance(given, Mapping) != (types is not None):
        has = "no types; drop the relations" if types is None else "types; give edges by relation"
        raise InputError(f"`{name}`: the plan has {has}")
    lists: Any = given if isinstance(given, Mapping) else {} if given is None else {None: given}
    edges = {
        None if types is None else types.relation(key): EdgeChanges.of(each, name)
        for key, each in lists.items()
    }
    return {key: each.turned for key, each in edges.items()} if turned else edges


def _before(plan: Plan, graph: Graph) -> Int64Array:
    """Return the plan's vertex for every vertex of the graph: int64[n], -1 for new vertices."""
    of_graph_are, of_plan_are = are_names(graph.original_ids), are_names(plan.original_id)
    if of_graph_are != of_plan_are:
        names, numbers = ("graph", "plan") if of_graph_are else ("plan", "graph")
        raise InputError(f"the {names} has names as ids, the {numbers} has not; compile the graph")
    _, (ids, known) = _ids(
        (graph.num_vertices, graph.original_ids, graph.types),
        (plan.num_vertices, plan.original_id, plan.header.types),
    )
    order = np.argsort(known, kind="stable")
    place = places_in(known[order], ids)
    old = np.where(place < 0, NO_PART, order[place])
    if (old < 0).all():
        raise InputError("plan and graph have no vertex in common; compile the graph")
    return old


def _ids(
    *of: tuple[int, npt.NDArray[Any] | None, Types | None],
) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
    """Return ids of the graphs, and for each graph the keys of its vertices.

    Vertices of two graphs are the same if their keys are equal. Without types, the keys are the
    ids, and the first graph's ids are returned. With types, the distinct ids are returned, and the
    key is ``type * number of distinct ids + position among the distinct ids``.

    Each argument is a graph's number of vertices, ids and types.
    """
    own = [ids_or_numbers(*each) for each in of]
    if of[0][2] is None:
        return own[0], own
    every = np.unique(np.concatenate(own))
    return every, [
        types.type_of(np.arange(size)) * len(every) + np.searchsorted(every, ids)
        for ids, (size, _, types) in zip(own, of, strict=True)
        if types is not None
    ]


def _now(old: Int64Array, size: int) -> Int64Array:
    """Return the changed graph's vertex for every plan vertex, int64[size]; -1 if removed."""
    place = np.full(size, NO_PART, np.int64)
    place[old[old >= 0]] = np.flatnonzero(old >= 0)
    return place


def _with_columns(plan: Plan, graph: Graph, old: Int64Array) -> Graph:
    """Add to the changed graph those columns of edge data that only the plan has.

    For `old`, see `_before`.
    """
    missing = plan.columns.keys() - graph.columns.keys()
    if not missing:
        return graph
    place = _now(old, plan.num_vertices)[np.stack(ends_of(plan))]
    kept = (place >= 0).all(axis=0)
    row, column = place[:, kept]
    number = nonzeros_of_edges(graph, ListedEdges(row, column, taken(plan.relation, kept)))
    there = number >= 0
    if fresh := graph.num_nonzeros - np.count_nonzero(there):
        raise InputError(
            f"{fresh} nonzeros are new, but the plan has features of edges; compile the graph again"
        )
    place = np.empty(graph.num_nonzeros, np.int64)
    place[number[there]] = np.flatnonzero(kept)[there]
    return graph.with_columns(**{name: plan.columns[name][place] for name in missing})


def _edge_owners(
    revision: Revision, old: Int64Array, before: Int32Array, max_moves: float, context: Context
) -> Owners:
    """Return owners of the rows and nonzeros of an edge plan's changed matrix.

    New nonzeros start with their rows' owners. Old rows and nonzeros may change owners only in the
    rows with the most new nonzeros. These are at most the share `max_moves` (0 to 1) of the old
    rows, and have at most this share of the nonzeros.
    """
    plan, matrix = revision.plan, revision.matrix
    given, known = graph_of(plan), owners_of(plan)
    place, row = _now(old, plan.num_vertices), given.nonzero_rows()
    number = nonzeros_of_edges(matrix, ListedEdges(place[row], place[given.indices]))
    number[(place[row] < 0) | (place[given.indices] < 0)] = NO_PART
    part = np.full(matrix.num_nonzeros, NO_PART, np.int32)
    part[number[number >= 0]] = known.of_nonzeros(given)[number >= 0]

    row, size = matrix.nonzero_rows(), matrix.row_nonzeros()
    fresh = np.bincount(row, part < 0, matrix.num_vertices)
    able = np.argsort(-fresh, kind="stable")
    able = able[: int(max_moves * np.count_nonzero(before >= 0))]
    able = able[(fresh[able] > 0) & (np.cumsum(size[able]) <= max_moves * len(row))]
    movable = (part < 0) | (before[row] < 0)
    movable[np.isin(row, able)] = True
    owner = before if (before >= 0).all() else with_rows_placed(before, matrix, plan.num_parts)
    part = np.where(part < 0, owner[row], part)
    return (
        RefineEdges().refine(Owners(owner, part), matrix, replace(context, movable=movable)).owners
    )


def _ends_of_links(plan: Plan, old: Int64Array) -> Int32Array | None:
    """Return the links' ends in the changed graph, int32[2, links]; None without links.

    `old` has, for every vertex of the changed graph, its number in the plan's graph (`_before`).
    """
    if plan.links is None:
        return None
    ends = _now(old, plan.num_vertices)[ends_of_links(plan)]
    if gone := np.count_nonzero((ends < 0).any(axis=0)):
        raise InputError(f"{gone} links end at vertices that were removed; compile the graph again")
    return ends.astype(np.int32)


def _without_withheld(plan: Plan, graph: Graph, ends: Int32Array | None) -> Graph:
    """Return the changed graph without edges that are links to predict and carry no messages."""
    if ends is None or plan.links is None:
        return graph
    away = {"val", "test", *["train"] * bool(plan.provenance.get("disjoint_train_ratio"))}
    return without(graph, ends[:, np.isin(plan.links.kind, [KINDS.index(kind) for kind in away])])


def _data(
    plan: Plan, given: VertexData | None, old: Int64Array, types: Types | None
) -> tuple[VertexData, list[str]]:
    """Return the vertex data of the changed graph in vertex order, and notes for the user."""
    if given is not None:
        lost = plan.vertex_data.clusters is not None and given.clusters is None
        return given, ["the clusters of the plan are not kept; compile it again"] * lost
    sizes = plan.vertex_data.sizes()
    if sizes and (old < 0).any():
        raise InputError(
            f"{np.count_nonzero(old < 0)} vertices are new, but the plan has data "
            f"({', '.join(sizes)}); give data of all vertices (`data`)"
        )
    found = plan.vertex_data.take(plan.places()[old]) if sizes else VertexData()
    if found.by_type is not None and types is not None:
        found = replace(found, by_type=replace(found.by_type, types=types))
    return found, []


def _ignored_data(graph: Any, new: Graph, kept: VertexData) -> list[str]:
    """Return a note if the changed source has vertex data that differ from the plan's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanccWarning)
            own = own_data(find_held(graph) or graph, new)
    except InputError:  # for instance if there are several splits and none is chosen
        return []
    ours = {"": kept, **kept.of_type}
    other = [
        f"{key}{name and f' of type {shown(name)}'}"
        for name, each in {"": own, **own.of_type}.items()
        for key, array in each.arrays().items()
        if name in ours and (before := ours[name].arrays().get(key)) is not None
        if not np.array_equal(array[:], before[:], equal_nan=before.dtype.kind == "f")
    ]
    said = "that it holds differ from the plan's, which are kept; give the source as `data` too"
    return [f"{new.source.name}: the {', '.join(other)} {said} to use its data"] * bool(other)


def moves_of(before: Plan, after: Plan) -> npt.NDArray[Any]:
    """Return the vertices that have different owners in two plans, before and after a change.

    Returns:
        int64[rows, 3]: The source's id, the part before and the part after, in ascending order of
        ids; a part is -1 (`NO_PART`) if the vertex does not exist in the plan. For plans with
        types, the shape is [rows, 4], with the index of the type before the id. If ids are names,
        the array holds objects, with names as str.
    """
    plans, types = (before, after), after.header.types
    known, keys = _ids(*((p.num_vertices, p.original_id, p.header.types) for p in plans))
    every = np.union1d(*keys)
    parts = np.full((2, len(every)), NO_PART, np.int64)
    for row, plan, own in zip(parts, plans, keys, strict=True):
        row[np.searchsorted(every, own)] = plan.owner()
    moved = parts[0] != parts[1]
    of_type, ids = [], every[moved]
    if types is not None:
        kind, number = np.divmod(ids, len(known))
        of_type, ids = [kind], known[number]
    if are_names(ids):
        ids = np.char.decode(ids, "utf-8", "replace").astype(object)
    return np.column_stack([*of_type, ids, *parts[:, moved]])


def write_moves(moves: npt.NDArray[Any], path: StrPath) -> None:
    """Write the result of `moves_of` as CSV: row, from, to; "type" first for plans with types."""
    header = ["type"] * (moves.shape[1] > 3) + ["row", "from", "to"]
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *moves.tolist()])
