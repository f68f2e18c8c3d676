"""Owners for the nodes of a machine first, and for the ranks of every node then.

A row that several ranks of a node need crosses to the node once (`plancc.plan.routes`), so what
travels between nodes is the volume of a partition for as many parts as there are nodes:

    matrix --search--> nodes        few rows between nodes
    node k --search--> its ranks    on its own nonzeros; rows of other nodes come for free and may
                                    be with any rank, whose others then get them inside the node

An objective that is asked for decides. It is searched for as without nodes, and the parts are
numbered for the nodes; for the time of an epoch owners for nodes first are found too.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.hypergraph import hypergraph_of
from plancc.models.limits import Limits
from plancc.options import EFFORT, SearchOptions
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.rebalance import rebalance
from plancc.plan.topology import Topology
from plancc.search.job import Report
from plancc.search.record import Judge, Record, SearchResult

Find = Callable[[Graph, int, SearchOptions, Any, Report | None], SearchResult]
"""A search: matrix, number of parts, options, `Limits`, and the report of every trial."""
OF_NODES = 0.5
"""Share of the allowed imbalance that nodes take; the rest is for the ranks of a node."""
LEAST_EPSILON = 0.001
"""Imbalance that the ranks of a node are allowed at least."""
FIRST = 0.5
"""Share of a budget for the partition into nodes."""
INSIDE = {"fast": "fast", "balanced": "fast", "best": "balanced"}
"""Effort inside nodes, by that of the search: what stays inside costs less."""
AT_ONCE = 2
"""Nodes whose ranks are searched at the same time, at least: partitioners are processes of their
own, and what they find does not depend on others."""
ROWS_PER_RANK = 4
"""Rows per part below which there is nothing to search inside nodes."""


def pays(matrix: Graph, topology: Topology) -> bool:
    """Whether there are nodes, with ranks, and enough rows for both levels of a search."""
    if not 1 < topology.nodes < topology.num_ranks:
        return False
    return matrix.num_vertices >= ROWS_PER_RANK * topology.num_ranks


def search_on_nodes(
    find: Find,
    matrix: Graph,
    num_parts: int,
    options: SearchOptions,
    limits: Limits | None,
    report: Report | None = None,
    asked: bool = False,
) -> SearchResult:
    """What a search finds, for nodes first where that pays.

    Parameters:
        find: The search.
        matrix, num_parts, options: Of the whole.
        limits: Of the parts; None: nodes do not matter.
        report: See `plancc.search.search`.
        asked: Whether the objective was asked for.

    Returns:
        For the time of an epoch, its `others` are those for nodes first too. Its `how` names the
        topology that the parts are numbered for, unless there is none, or a node has fewer rows
        than ranks.
    """
    nodes = options.nodes
    if nodes is None or limits is None or not pays(matrix, nodes):
        return find(matrix, num_parts, options, limits, report)
    if not asked:
        found = _on_nodes(find, matrix, options, limits, report)
        if found is not None:
            return replace(found, how={"topology": str(nodes)})
    if options.objective != "time":
        return find(matrix, num_parts, options, limits, report)
    effort = options.effort or EFFORT
    turns = [options, *(replace(options, effort=each) for each in dict.fromkeys(("fast", effort)))]
    if options.budget is not None:
        turns = [replace(each, budget=options.budget / len(turns)) for each in turns]
    best = find(matrix, num_parts, turns[0], limits, report)
    for each in turns[1:]:
        found = _on_nodes(find, matrix, each, limits, report)
        if found is not None:
            best = _together(best, found)
    return best


def _together(one: SearchResult, two: SearchResult) -> SearchResult:
    """The first, with what the second found among its others if that is as balanced."""
    over = [min(each.overload for each in of.tried if each.best) for of in (one, two)]
    others = [*one.others, two.owners] if over[1] <= over[0] else one.others
    tried = [*one.tried, *(replace(each, best=False) for each in two.tried)]
    return replace(one, tried=tried, others=others, seconds=one.seconds + two.seconds)


@dataclass(frozen=True, eq=False)
class _Share:
    """A separate search.

    Attributes:
        rows, nonzeros (int64[...]): The rows and nonzeros of the whole that it finds owners for.
        own (bool[vertices of `matrix`]): Which of its vertices these rows are.
    """

    matrix: Graph
    options: SearchOptions
    limits: Limits
    rows: npt.NDArray[np.int64]
    nonzeros: npt.NDArray[np.int64]
    own: npt.NDArray[np.bool_]


def _on_nodes(
    find: Find, matrix: Graph, options: SearchOptions, limits: Limits, report: Report | None
) -> SearchResult | None:
    def search_part(part: _Share) -> SearchResult:
        return find(part.matrix, part.limits.num_parts, part.options, part.limits, None)

    topology = options.nodes
    assert topology is not None
    record, ranks, first = Record(report), topology.ranks(), topology.first_ranks()
    upper = search_part(_of_nodes(matrix, options, limits, first))
    by_volume = options.objective in (None, "volume")
    for trial in upper.tried:
        value = trial.value if by_volume else None  # that of the nodes is their volume
        noted = replace(trial, step=f"nodes: {trial.step}", value=value, best=False)
        record.trials.append(noted)
        if report is not None:
            report(noted)
    if (np.bincount(upper.owners.rows, minlength=topology.nodes) < ranks).any():
        return None
    begin = wall_seconds()
    shares = [_of_node(matrix, options, limits, upper.owners, first, k) for k in range(len(ranks))]
    with ThreadPoolExecutor(min(max(options.threads, AT_ONCE), len(shares))) as pool:
        found = list(pool.map(search_part, shares))

    rows = np.empty(matrix.num_vertices, dtype=np.int32)
    nonzeros = None
    if upper.owners.nonzeros is not None:
        nonzeros = np.empty(matrix.num_nonzeros, dtype=np.int32)
    for k, (share, result) in enumerate(zip(shares, found, strict=True)):
        rows[share.rows] = first[k] + result.owners.rows[share.own]
        if nonzeros is not None:
            nonzeros[share.nonzeros] = first[k] + result.owners.of_nonzeros(share.matrix)
    if nonzeros is None and limits.overload(limits.load(rows)) > 0:
        # limits of nodes and of their ranks may not meet
        rows = rebalance(rows, hypergraph_of(matrix, limits), Context(limits, options.seed))
    owners = Owners(rows, nonzeros)
    objective, time = options.objective or "volume", options.time(matrix, topology.num_ranks)
    member = Judge(matrix, objective, time, limits).of(owners)
    if objective == "volume":
        member = replace(member, value=float(member.value))
    record.add("ranks of every node", wall_seconds() - begin, member)
    said = [note for each in (upper, *found) for note in each.warnings if note.startswith("left")]
    notes = balance_notes(owners.sharers, limits, "the partition for nodes and ranks")
    return record.result([*dict.fromkeys(said), *notes])


def _of_nodes(
    matrix: Graph, options: SearchOptions, limits: Limits, first: npt.NDArray[np.int64]
) -> _Share:
    """The search for the nodes, which takes a share of what is allowed."""
    capacities = limits.capacities or (1.0,) * int(first[-1])
    sums = np.add.reduceat(np.array(capacities), first[:-1])
    of_nodes = None if len(set(sums.tolist())) == 1 else tuple(sums.tolist())
    epsilon = OF_NODES * limits.epsilon
    upper = replace(limits, num_parts=len(sums), epsilon=epsilon, capacities=of_nodes)
    return _Share(
        matrix,
        _options(options, options.effort, float(epsilon[0]), of_nodes, FIRST),
        upper,
        np.arange(matrix.num_vertices),
        np.arange(matrix.num_nonzeros),
        np.ones(matrix.num_vertices, np.bool_),
    )


def _of_node(
    matrix: Graph,
    options: SearchOptions,
    limits: Limits,
    nodes: Owners,
    first: npt.NDArray[np.int64],
    node: int,
) -> _Share:
    """The search for the ranks of one node: its nonzeros, and their rows and columns."""
    own = nodes.rows == node
    nonzeros = np.flatnonzero(nodes.of_nonzeros(matrix) == node)
    row = np.searchsorted(matrix.indptr, nonzeros, side="right") - 1
    column = matrix.indices[nonzeros]
    there = own.copy()
    there[row] = there[column] = True
    vertices = np.flatnonzero(there)
    number = np.cumsum(there) - 1
    degrees = np.bincount(number[row], minlength=len(vertices))
    part = Graph(
        np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64),
        number[column].astype(np.int32),
        values=None if matrix.values is None else matrix.values[nonzeros],
        directed=True,
        source=matrix.source,
    )
    ranks, mine = int(first[node + 1] - first[node]), own[vertices]
    capacities = None
    if limits.capacities is not None:
        capacities = limits.capacities[first[node] : first[node + 1]]
    everything = sum(limits.capacities) if limits.capacities is not None else float(first[-1])
    share = (sum(capacities) if capacities is not None else ranks) / everything
    if nodes.nonzeros is None:
        weights = np.where(mine[:, None], limits.weights[vertices], 0)
    else:
        weights = limits.weights[nonzeros]
    allowed = (1 + limits.epsilon) * share * limits.total / np.maximum(weights.sum(axis=0), 1)
    epsilon = np.maximum(allowed - 1, LEAST_EPSILON)
    of_ranks = Limits(weights, ranks, epsilon, capacities, limits.names)
    later = (1 - FIRST) / (len(first) - 1)
    return _Share(
        part,
        _options(options, INSIDE[options.effort or EFFORT], float(epsilon[0]), capacities, later),
        of_ranks,
        vertices[mine],
        nonzeros,
        mine,
    )


def _options(
    options: SearchOptions, effort: str | None, epsilon: float, capacities: Any, of_budget: float
) -> SearchOptions:
    """Options of a search for the volume inside one by `options`."""
    budget = options.budget
    return replace(
        options,
        effort=effort,
        objective="volume",
        topology=None,
        epsilon=epsilon,
        capacities=capacities,
        budget=None if budget is None else of_budget * budget,
    )
