"""Find the owners of rows by a model or a search, if rows are divided among ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plancc.clock import wall_seconds
from plancc.distributed.clusters import ClusterLevel, find_clusters
from plancc.distributed.nets import corridor, nets_between
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Share
from plancc.distributed.sweeps import sweep
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.random import random_owner
from plancc.models.weights import Balance
from plancc.owners.rows import find_row_owners
from plancc.owners.task import Ownership, Task, Unowned
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.partitioners.run import PartitionResult, balance_notes, partitions
from plancc.passes.clusters import Clusters, number_of_links
from plancc.passes.kernels.nets import nets_of
from plancc.passes.multilevel import Sweeps
from plancc.passes.presets import CUTS
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.search.presets import ON_RANKS, SINGLE_CUTS
from plancc.search.starts import beginnings, has_hubs, kind_of, tightest


def find_owners(
    ranks: Ranks, share: Share, task: Task, balance: Balance, graph: Graph
) -> Ownership:
    """Return the owners of all rows, the same on every rank. Collective.

    Rank 0 partitions the graph whose vertices are the clusters. If the graph has hubs, all ranks
    then improve the volume in sweeps; otherwise rank 0 improves the parts of clusters and of the
    vertices near the parts' boundaries (`plancc.distributed.nets`).
    """
    num_parts, seed, begin = task.num_parts, task.options.seed, wall_seconds()
    with ranks.agreement():
        sizes, found = share.sizes(graph), None
        if not task.model.searched:
            found = find_row_owners(Unowned(sizes, task, balance))
        limits = balance.limits(sizes, num_parts, task.options.epsilon)
    if found is not None:
        return found
    del sizes
    links = share.links
    total = ranks.total(number_of_links(links))
    level = ClusterLevel(links, share.first, limits.weights, total)
    clusters = find_clusters(ranks, level, limits, seed) if num_parts > 1 else None
    del level, links
    warnings: list[str] = []
    if clusters is None:
        owner = random_owner(len(share.degree), num_parts, seed, limits.capacities)
        who, even = f"random seed {seed}", False
    else:
        degree = share.degree.astype(np.int64)
        even = not has_hubs(degree)
        problem = nets_between(ranks, share, clusters.label, limits.weights) if even else None
        owner, who, warnings = _started(ranks, clusters, problem, task, limits, degree)
        del clusters, problem, degree
    label = corridor(ranks, share, owner) if even else None
    problem = None if label is None else nets_between(ranks, share, label, limits.weights)
    if label is None or problem is None:
        owner = sweep(ranks, share, owner, limits, seed, even)
    else:
        made = None
        with ranks.agreement():
            if ranks.rank == 0:
                start = np.empty(problem.num_vertices, dtype=np.int32)
                start[label] = owner
                sweeps = Sweeps(limits, np.random.default_rng(seed))
                made = sweeps.refined(nets_of(problem), [start], SINGLE_CUTS, coarse=False)
        owner = ranks.from_root(made, np.int32)[label]
    how = {
        "partitioner": "plancc",
        "effort": "fast",
        "objective": "volume",
        "search_seconds": wall_seconds() - begin,
        "threads": ranks.size,
        "started_from": who,
    }
    notes = balance_notes(owner, limits, "the search of several ranks")
    return Ownership(Owners(owner), how, warnings, notes, limits=limits)


def _started(
    ranks: Ranks,
    clusters: Clusters,
    problem: Hypergraph | None,
    task: Task,
    limits: Limits,
    degree: Int64Array,
) -> tuple[Int32Array, str, list[str]]:
    """Partition the clusters on rank 0; return owners, partitioner and warnings. Collective."""
    owner, told = None, ("", [""])
    with ranks.agreement():
        if ranks.rank == 0:
            first, *others = _partitions(clusters.graph, task, limits, degree)
            owner = first.owner
            if problem is not None:
                starts = [owner, *(each.owner for each in others)]
                sweeps = Sweeps(limits, np.random.default_rng(task.options.seed))
                owner = sweeps.refined(nets_of(problem), starts, CUTS, coarse=True)
            preset = f" {first.preset}" if first.preset else ""
            told = f"{first.partitioner}{preset} seed {task.options.seed}", first.about_run
    who, warnings = ranks.broadcast(told)
    return ranks.from_root(owner, np.int32)[clusters.label], who, list(warnings)


def _partitions(
    graph: WeightedGraph, task: Task, limits: Limits, degree: Int64Array
) -> list[PartitionResult]:
    """Return partitions of the graph between clusters, made with different seeds."""
    options, num_parts, kind = task.options, task.num_parts, kind_of(degree)
    name, preset = options.partitioner, options.preset
    several = len(limits.names) > 1
    if name == AUTO:
        weights, links = graph.vertex_weights, len(graph.indices)
        starts = beginnings(kind, "fast", weights, links, num_parts)
        of_graphs = (each for each in starts if each.how.objective)
        first = next((each for each in of_graphs if each.adapter.constraints or not several), None)
        if first is not None:
            name, preset = first.adapter.name, first.how.preset
    asked = PartitionOptions(
        partitioner=name,
        preset=preset,
        epsilon=options.epsilon,
        time_limit=options.time_limit,
        capacities=limits.capacities,
    )
    shared, number = replace(limits, weights=graph.vertex_weights), 1
    if kind == "even":
        number = ON_RANKS.starts
        shared = tightest(degree, shared) or shared
        graph = replace(graph, vertex_weights=shared.vertex_weights)
    seeds = [(options.seed + k) % 2**31 for k in range(number)]
    return partitions(graph, num_parts, seeds, asked, limits=shared)
