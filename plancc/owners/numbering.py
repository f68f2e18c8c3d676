"""Renumber the parts of given owners so that parts that exchange many rows share a node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import reduce
from operator import add

import numpy as np
import scipy.sparse as sp

from plancc.clock import wall_seconds
from plancc.cost.owners import traffic
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.capacities import Capacities
from plancc.options import SearchOptions
from plancc.owners.task import Ownership, Unowned
from plancc.plan.routes import MANY
from plancc.plan.topology import Topology
from plancc.predict.schedules import Tables, matrix_of_pairs, tables_of_owners
from plancc.search.record import Trial

STEP = "numbered for the machine"
MAX_PARTS = 4096
"""If there are more parts, they are not renumbered: it would need a table of all pairs of parts."""


def numbered(
    asked: Unowned, found: Ownership, seconds: Callable[[Ownership], float] | None = None
) -> Ownership:
    """Return the owners with renumbered parts if this makes the predicted epoch shorter.

    For objective "time", owners in `found.others` are tried too. `found` itself is returned if the
    model needs no search, or if rows are fixed; for other objectives than "time", also if the user
    names a partitioner or a topology.

    `seconds` returns the seconds of an epoch; if it is None, the predictor does.
    """
    matrix, task = asked.matrix, asked.task
    options, by_time = task.options, task.objective == "time"
    kept = bool(options.named) or options.nodes is not None
    if not task.model.searched or options.fixed is not None or (kept and not by_time):
        return found
    begin = wall_seconds()

    def predicted(found: Ownership) -> float:
        return options.predictor.of_owners(matrix, found.owners, task.num_parts).seconds

    every = list(_ways(asked, found))
    judge = seconds or predicted
    value = [judge(each) for each in every] if len(every) > 1 and by_time else []
    better = every[int(np.argmin(value))] if value else every[-1]
    if better is found:
        return found
    how = found.how | {"numbered_for": options.predictor.machine.name}
    if by_time and "tried" in how:
        tried = json.loads(how["tried"])
        last = next(step for step in reversed(tried) if step["best"])
        moved = int(traffic(matrix, better.owners, task.num_parts).sent.sum())
        spent = wall_seconds() - begin
        trial = Trial(STEP, spent, min(value), moved, last["overload"], True)
        if asked.report is not None:
            asked.report(trial)
        how = how | {"tried": json.dumps([*tried, asdict(trial)])}
    return replace(better, how=how)


def _ways(asked: Unowned, found: Ownership) -> Iterator[Ownership]:
    """Yield the owners `found.owners`, then the same owners with renumbered parts.

    For objective "time", do the same for each of the other owners that the search found
    (`found.others`) if a topology (`options.nodes`) is given, if there are at least `MANY` parts,
    or if the parts do not fit on one node.
    """
    matrix, task = asked.matrix, asked.task
    options, num_parts = task.options, task.num_parts
    decides = options.nodes is not None or num_parts >= MANY
    decides = decides or options.predictor.machine.node.ranks < num_parts
    known = list[Owners]()
    for owners in [found.owners, *(found.others if decides and task.objective == "time" else [])]:
        ways = [owners, with_better_numbers(matrix, owners, num_parts, options)]
        if options.nodes is not None:
            ways.append(mapped(owners, matrix, options.nodes, options.capacities))
        for each in ways:
            if not any(each.rows is other.rows for other in known):
                known.append(each)
                yield found if each is found.owners else replace(found, owners=each)


def with_better_numbers(
    matrix: Graph, owners: Owners, num_parts: int, options: SearchOptions
) -> Owners:
    """Return the owners, with renumbered parts if this shortens the predicted epoch."""
    predictor = options.predictor
    if not 1 < predictor.machine.node.ranks < num_parts <= MAX_PARTS:
        return owners  # all numberings are equal, or there are too many parts
    from plancc.passes.numbering import MapToMachine

    tables = tables_of_owners(matrix, owners, num_parts)
    links, speeds = predictor.links(num_parts), predictor.machine.speeds(num_parts)
    number = MapToMachine(links, speeds, options.seed).run(_exchanges(tables))
    better = owners.renumbered(number)
    reached = predictor.of_owners(matrix, better, num_parts).seconds
    return better if reached < predictor.epoch(tables).seconds else owners


def mapped(
    owners: Owners, matrix: Graph, topology: Topology, capacities: Capacities = None
) -> Owners:
    """Renumber parts of equal capacity so that few rows are sent between nodes."""
    from plancc.passes.topology import MapToTopology

    num_parts = topology.num_ranks
    parts = np.arange(num_parts, dtype=np.int32)
    pairs = reduce(add, _exchanges(tables_of_owners(matrix, owners, num_parts)))
    number = MapToTopology(topology, capacities=capacities).run(parts, pairs, num_parts)
    return owners if number is parts else owners.renumbered(number)


def _exchanges(tables: Tables) -> list[sp.csr_array]:
    """Return a matrix for each step of a product: entry (q, m) counts the rows from part q to m."""
    return [matrix_of_pairs(each) for each in tables.exchanges]
