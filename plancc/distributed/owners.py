"""Owners of rows that are divided among ranks: assigned, or searched for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from plancc.clock import wall_seconds
from plancc.distributed.clusters import ClusterLevel, find_clusters
from plancc.distributed.kernels import mark_boundary
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Int32Array, Share
from plancc.distributed.sweeps import sweep
from plancc.graph.graph import Source
from plancc.models import build_problem
from plancc.models.limits import Limits
from plancc.models.problem import Assignment, WeightedGraph
from plancc.models.random import random_owner
from plancc.models.weights import Balance
from plancc.owners.task import Task
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.partitioners.run import PartitionResult, balance_notes, partition
from plancc.passes.clusters import Clusters, number_of_links
from plancc.search.starts import beginnings, kind_of


@dataclass(frozen=True, eq=False)
class SharedOwnership:
    """Owners, the same on every rank.

    Attributes
    ----------
    owner : int32[n]
    reached : list of float
        Imbalance of every constraint.
    how : dict
        For the provenance.
    warnings : list of str
    """

    owner: Int32Array
    reached: list[float]
    how: dict[str, str | int | float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def find_owners(
    ranks: Ranks, share: Share, task: Task, balance: Balance, source: Source
) -> SharedOwnership:
    """Owners of all rows. Collective.

    A search makes clusters until few links are left, partitions the graph between these on rank 0,
    and sweeps by the exact volume.

    Parameters
    ----------
    ranks : Ranks
    share : Share
    task : Task
        Of a model that is `on_ranks`.
    balance : Balance
    source : Source
        For messages.
    """
    num_parts, seed, epsilon = task.num_parts, task.options.seed, task.options.epsilon
    made, begin = None, wall_seconds()
    with ranks.agreement():
        limits = balance.limits(share.sizes(source), num_parts, epsilon)
        if not task.model.searched:
            sizes = share.sizes(source)
            made = build_problem(
                task.model, sizes, num_parts, balance=balance, seed=seed, takes=(Assignment,)
            )
    if made is not None:
        reached = limits.imbalance(limits.load(made.rows)).tolist()
        return SharedOwnership(made.rows, reached, dict(made.notes))
    links = share.links
    total = ranks.total(number_of_links(links))
    level = ClusterLevel(links, share.first, limits.weights, total)
    clusters = find_clusters(ranks, level, limits, seed) if num_parts > 1 else None
    warnings: list[str] = []
    degree = share.degree.astype(np.int64)
    if clusters is None:
        start = random_owner(len(degree), num_parts, seed, limits.capacities)
        who = f"random seed {seed}"
    else:
        start, who, warnings = _partitioned(ranks, clusters, task, limits, kind_of(degree))
    thin = clusters is not None and kind_of(degree, _boundary(ranks, share, start)) == "thin"
    del clusters, degree
    # on thin graphs sweeps that allow weight beyond the limits may spoil the start
    ways = (False, True) if thin else (False,)
    swept = [sweep(ranks, share, start, limits, seed, within) for within in ways]
    owner = min(swept, key=lambda each: (each.overload, each.volume)).owner
    del swept, start, level
    notes = balance_notes(owner, limits, "the search of several ranks")
    reached = limits.imbalance(limits.load(owner)).tolist()
    how: dict[str, str | int | float] = {
        "partitioner": "plancc",
        "effort": "fast",
        "objective": "volume",
        "partition_seconds": wall_seconds() - begin,
        "threads": ranks.size,
        "started_from": who,
    }
    return SharedOwnership(owner, reached, how, [*warnings, *notes])


def _boundary(ranks: Ranks, share: Share, owner: Int32Array) -> float:
    """Share of the rows with a column of another part. Collective."""
    cut = mark_boundary(share.first, share.indptr, share.indices, owner)
    return ranks.total(int(cut.sum())) / max(1, len(owner))


def _partitioned(
    ranks: Ranks, clusters: Clusters, task: Task, limits: Limits, kind: str
) -> tuple[Int32Array, str, list[str]]:
    """Owners by a partition of the graph between clusters on rank 0, who made it, and warnings."""
    owner, told = None, ("", [""])
    with ranks.agreement():
        if ranks.rank == 0:
            result = _partition(clusters.graph, task, limits, kind)
            owner = result.owner
            preset = f" {result.preset}" if result.preset else ""
            told = f"{result.partitioner}{preset} seed {task.options.seed}", result.about_run
    who, warnings = ranks.told(told)
    of_clusters = ranks.from_root(owner, int(clusters.label.max()) + 1, np.int32)
    return of_clusters[clusters.label], who, list(warnings)


def _partition(graph: WeightedGraph, task: Task, limits: Limits, kind: str) -> PartitionResult:
    """A partition of the graph between clusters, by whoever begins quick searches of its kind."""
    options, num_parts = task.options, task.num_parts
    name, preset = options.partitioner, options.preset
    if name == AUTO:
        weights, links = graph.vertex_weights, len(graph.indices)
        several = len(limits.names) > 1
        starts = beginnings(kind, "fast", weights, links, num_parts, False)
        first = next((each for each in starts if each.adapter.constraints or not several), None)
        if first is not None:
            name, preset = first.adapter.name, first.how.preset
            graph = replace(graph, objective=first.how.objective)
    asked = PartitionOptions(
        partitioner=name,
        preset=preset,
        epsilon=options.epsilon,
        seed=options.seed,
        time_limit=options.time_limit,
        capacities=limits.capacities,
    )
    return partition(graph, num_parts, asked, limits=limits)
