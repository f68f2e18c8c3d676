"""Find clusters in a graph whose links (edges with costs) are divided among ranks.

The method is that of `plancc.passes.clusters`, but in turns: the vertices of a turn choose by the
labels that neighbours had before the turn. Then all ranks change labels in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.distributed.kernels import take_labels, turns, wanted_labels
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import joined
from plancc.models.limits import Limits, part_weights
from plancc.models.problem import WeightedGraph
from plancc.passes.clusters import Clusters
from plancc.passes.kernels.label_propagation import (
    ClusterLinks,
    count_between,
    links_between,
    members_of,
    numbered,
)
from plancc.passes.presets import PROPAGATION
from plancc.plan.exchange import Int32Array, Int64Array, offsets
from plancc.search.presets import ON_RANKS


@dataclass(frozen=True, eq=False)
class ClusterLevel:
    """A graph whose links (to neighbours) are divided among ranks, as one rank sees it.

    Attributes:
        links: Links of this rank's vertices, which have consecutive numbers from `first` on.
        weight (int64[n, c]): Weights of all vertices of the graph.
        total: Number of links of the whole graph.
    """

    links: ClusterLinks
    first: int
    weight: npt.NDArray[np.int64]
    total: int

    @property
    def count(self) -> int:
        """Number of vertices whose links this rank has."""
        return len(self.links.ptr) - 1

    def own(self, label: Int32Array) -> Int32Array:
        """Return the labels of this rank's vertices, given the labels of all vertices."""
        return label[self.first : self.first + self.count]


def find_clusters(ranks: Ranks, level: ClusterLevel, limits: Limits, seed: int) -> Clusters | None:
    """Find clusters that are small enough for a balanced partition. Collective.

    Only rank 0 gets the graph between clusters. The result is None if the graph has many links
    (edges), and clusters would not reduce their number by much.
    """
    share = limits.total * limits.relative.min() / limits.num_parts
    heaviest = np.maximum(1, share // PROPAGATION.per_part).astype(np.int64)
    n = len(level.weight)
    label: Int32Array = np.arange(n, dtype=np.int32)
    found = _Between(ranks, level, label, n).made() if level.total <= ON_RANKS.many_links else None
    key = seed
    while found is None or found.total > ON_RANKS.many_links:
        key += 1
        here = level if found is None else found
        own, num = _propagated(ranks, here, heaviest, key)
        if num < PROPAGATION.least_per_part * limits.num_parts:
            break
        between = _Between(ranks, here, own, num)
        if between.share_of_links(key) > PROPAGATION.shrunk:
            break
        label, found = own[label], between.made()
    if found is None:
        return None
    links = found.links
    sizes = ranks.at_root(np.diff(links.ptr))
    ends, cost = ranks.at_root(links.ends), ranks.at_root(links.cost)
    weight = found.weight if ranks.rank == 0 else found.weight[:0]
    return Clusters(label, WeightedGraph(offsets(sizes), ends, weight, cost))


def _propagated(
    ranks: Ranks, level: ClusterLevel, heaviest: Int64Array, key: int
) -> tuple[Int32Array, int]:
    """Return the cluster 0..m-1 of every vertex, by label propagation, and m. Collective."""
    n = len(level.weight)
    label, load = np.arange(n, dtype=np.int32), level.weight.copy()
    score = np.zeros(n, dtype=np.int64)
    first = level.first
    for number in range(PROPAGATION.rounds):
        turn = turns(first, first + level.count, PROPAGATION.rounds * key + number, ON_RANKS.turns)
        moved = 0
        for each in range(ON_RANKS.turns):
            rows = np.flatnonzero(turn == each)
            wanted = wanted_labels(
                rows, first, level.links, level.weight, load, heaviest, label, score
            )
            choose = wanted >= 0
            vertices = ranks.concatenated((first + rows[choose]).astype(np.int32))
            wanted = ranks.concatenated(wanted[choose])
            moved += take_labels(vertices, wanted, level.weight, load, heaviest, label)
        if moved < PROPAGATION.few * n:
            break
    return label, int(numbered(label))


class _Between:
    """The graph whose vertices are the clusters. `made` builds it, divided among the ranks."""

    def __init__(self, ranks: Ranks, level: ClusterLevel, label: Int32Array, num: int) -> None:
        self.ranks, self.level, self.label, self.num = ranks, level, label, num
        self.start, self.members = members_of(num, level.own(label))
        self.ptr = count_between(self.start, self.members, level.links, label)

    def share_of_links(self, key: int) -> float:
        """Estimate from a sample which share of all links joins different clusters. Collective."""
        sample = np.flatnonzero(turns(0, self.num, key, ON_RANKS.sample) == 0)
        load = np.cumsum(self.ranks.sums(self.ptr[sample + 1] - self.ptr[sample]))
        shares = np.arange(1, self.ranks.size) / self.ranks.size
        cuts = np.searchsorted(load, shares * load[-1:].sum())
        made = self._gathered(np.split(sample, cuts))
        return self.ranks.total(made.nnz) * ON_RANKS.sample / max(1, self.level.total)

    def made(self) -> ClusterLevel:
        """Return the graph whose vertices are the clusters. Collective.

        Every rank gets consecutive clusters, with about equally many links.
        """
        size, steps = self.ranks.size, np.arange(self.ranks.size * ON_RANKS.steps + 1)
        load = offsets(self.ranks.sums(np.diff(self.ptr)))
        bounds = np.searchsorted(load, load[-1] * steps // (size * ON_RANKS.steps))
        bounds[-1] = self.num
        pieces = []
        for step in range(ON_RANKS.steps):  # some clusters of every rank
            at = np.arange(size) * ON_RANKS.steps + step
            chosen = [np.arange(*each) for each in zip(bounds[at], bounds[at + 1], strict=True)]
            pieces.append(self._gathered(chosen))
        ptr = offsets(np.concatenate([np.diff(each.indptr) for each in pieces]))
        ends, cost = (np.concatenate([getattr(m, n) for m in pieces]) for n in ("indices", "data"))
        none = np.empty(0, np.int32)
        links = ClusterLinks(ptr, ends, cost, np.zeros(1, np.int64), none, none)
        weight = part_weights(self.label, self.level.weight, self.num)
        first = int(bounds[self.ranks.rank * ON_RANKS.steps])
        return ClusterLevel(links, first, weight, self.ranks.total(len(ends)))

    def _gathered(self, chosen: list[Int64Array]) -> Any:
        """On rank k, return the links (edges) of clusters ``chosen[k]`` to others. Collective.

        All ranks contribute links. The result is a sparse matrix with a row for each of these
        clusters and a column for every cluster.
        """
        found = [
            links_between(each, self.start, self.members, self.ptr, self.level.links, self.label)
            for each in chosen
        ]
        sizes = [(self.ptr[each + 1] - self.ptr[each]).astype(np.int32) for each in chosen]
        counts = self.ranks.swapped(sizes)
        ends = self.ranks.collected([ends for ends, _ in found])
        cost = self.ranks.collected([cost for _, cost in found])
        return joined(counts, ends, cost, self.num)
