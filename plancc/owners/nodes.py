"""Search in two levels: find a node for every row, then a rank within this node.

With node-aware exchange, a row goes to a node only once (`plancc.plan.routes`). So the rows sent
between nodes are the volume of a partition into nodes, which the first search finds. A search
within a node ignores rows of other nodes, since these rows may arrive at any rank of the node.

If the user names no objective, the search has two levels. For objective "time", searches in one
level and in two levels are made, and `plancc.owners.numbering` chooses. For other objectives, there
is one level, and its parts are numbered for the nodes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.hypergraph import hypergraph_of
from plancc.models.limits import Limits
from plancc.options import EFFORT, SearchOptions
from plancc.owners.task import Unowned
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.rebalance import rebalance
from plancc.plan.topology import Topology
from plancc.search.job import Report
from plancc.search.record import Judge, Record, SearchResult

Find = Callable[[Graph, int, SearchOptions, Any, Report | None], SearchResult]
"""A search. Its arguments are the matrix, the number of parts, the options, the limits, and a
function to which it reports trials."""
OF_NODES = 0.5
"""Share of the allowed imbalance that the search into nodes may use; the searches into ranks may
use the rest."""
LEAST_EPSILON = 0.001
"""Imbalance that the ranks of a node are allowed at least."""
FIRST = 0.5
"""Share of the time budget that the search into nodes gets."""
INSIDE = {"fast": "fast", "balanced": "fast", "best": "balanced"}
"""Effort of the search -> effort of the searches into ranks. It is lower, since rows sent inside a
node cost less."""
AT_ONCE = 2
"""Smallest number of searches into ranks that run at the same time, even on one thread, since
partitioners run in separate processes."""
ROWS_PER_RANK = 4
"""With fewer rows per part, the search has one level."""


def pays(matrix: Graph, topology: Topology) -> bool:
    """Whether a search in two levels pays: it needs nodes of several ranks, and many rows."""
    if not 1 < topology.nodes < topology.num_ranks:
        return False
    return matrix.num_vertices >= ROWS_PER_RANK * topology.num_ranks


def search_on_nodes(find: Find, asked: Unowned, limits: Limits | None) -> SearchResult:
    """Search for owners in two levels: first the node of each row, then its rank on the node.

    Without a topology, without `limits`, or if the function `pays` returns False, `find` searches
    in one level. For objective "time", `others` of the result includes owners of searches in two
    levels. `how` of the result names the topology if a search in two levels found the owners.
    """
    matrix, num_parts, report = asked.matrix, asked.task.num_parts, asked.report
    options, nodes = asked.task.search_options, asked.task.options.nodes
    if nodes is None or limits is None or not pays(matrix, nodes):
        return find(matrix, num_parts, options, limits, report)
    if asked.task.options.objective not in OBJECTIVES:
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
    """Return the result `one`, with the steps and the seconds of both searches.

    If the best owners of `two` are at least as balanced as those of `one`, they are added to
    `others` of the result.
    """
    over = [min(each.overload for each in of.tried if each.best) for of in (one, two)]
    others = [*one.others, two.owners] if over[1] <= over[0] else one.others
    tried = [*one.tried, *(replace(each, best=False) for each in two.tried)]
    return replace(one, tried=tried, others=others, seconds=one.seconds + two.seconds)


@dataclass(frozen=True, eq=False)
class _Share:
    """A search that divides all rows among the nodes, or a node's rows among its ranks.

    Attributes:
        rows, nonzeros (int64[num_rows], int64[num_nonzeros]): Rows and nonzeros that the search
            divides, by index in the whole matrix.
        own (bool[matrix.num_vertices]): Vertices of `matrix` that the search divides; others belong
            to other nodes.
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
    upper = search_part(_between(matrix, options, limits, first))
    by_volume = options.objective in (None, "volume")
    for trial in upper.tried:
        value = trial.value if by_volume else None  # the search into nodes is for the volume
        noted = replace(trial, step=f"nodes: {trial.step}", value=value, best=False)
        record.trials.append(noted)
        if report is not None:
            report(noted)
    if (np.bincount(upper.owners.rows, minlength=topology.nodes) < ranks).any():
        return None
    begin = wall_seconds()
    shares = [_inside(matrix, options, limits, upper.owners, first, k) for k in range(len(ranks))]
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
        # parts within the limits of both levels may still exceed the limits of the whole
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


def _between(
    matrix: Graph, options: SearchOptions, limits: Limits, first: npt.NDArray[np.int64]
) -> _Share:
    """Return the search that divides rows among nodes.

    It may use the share `OF_NODES` of the allowed imbalance. `first` has the first rank of every
    node, and at its end the number of ranks.
    """
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


def _inside(
    matrix: Graph,
    options: SearchOptions,
    limits: Limits,
    nodes: Owners,
    first: npt.NDArray[np.int64],
    node: int,
) -> _Share:
    """Return the search that divides the rows of one node among its ranks.

    `first` has the first rank of every node, and at its end the number of ranks.
    """
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
    """Return the options of a search for the volume, with the share `of_budget` of the budget."""
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
