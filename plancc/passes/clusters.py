"""Replace a graph that is too large for a partitioner by a smaller graph of clusters.

Clusters come from size-constrained label propagation (Meyerhenke, Sanders and Schulz, 2014), which
is much faster than a partitioner. A partition of the clusters is also a partition of the vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.limits import Limits, part_weights
from plancc.models.problem import WeightedGraph
from plancc.passes.kernels.label_propagation import (
    ClusterLinks,
    between,
    degrees,
    numbered,
    propagate,
)
from plancc.passes.kernels.nets import Nets
from plancc.passes.presets import PROPAGATION, Propagation


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of vertices, and the graph of clusters.

    Attributes:
        label (int32[n]): Cluster of every vertex.
        graph: Graph whose vertices are clusters. An edge costs the number of links (`ClusterLinks`)
            between its two clusters.
    """

    label: npt.NDArray[np.int32]
    graph: WeightedGraph


def links_of(matrix: Graph, nets: Nets) -> ClusterLinks:
    """Return the links of all vertices: edges of the matrix, taken in both directions.

    `Nets.source` must be known.
    """
    n = matrix.num_vertices
    other = np.empty(0, dtype=np.int32)
    if matrix.directed:
        other = np.full(n, -1, dtype=np.int32)
        other[nets.source] = np.arange(len(nets.source), dtype=np.int32)
    none = np.empty(0, dtype=np.int64)
    return ClusterLinks(matrix.indptr, matrix.indices, none, nets.net_ptr, nets.pins, other)


def degrees_of(matrix: Graph, nets: Nets) -> npt.NDArray[np.int64]:
    """Return the number of neighbours of every vertex, int64[n]; directions are ignored.

    For the parameters, see `links_of`.
    """
    links = links_of(matrix, nets)
    found: npt.NDArray[np.int64] = degrees(links.ptr, links.ends, *links[3:])
    return found


def find_clusters(
    links: ClusterLinks,
    weight: npt.NDArray[np.int64],
    limits: Limits,
    rng: np.random.Generator,
    stopped: Callable[[], bool] = lambda: False,
    how: Propagation = PROPAGATION,
) -> Clusters | None:
    """Return clusters that are light enough for a balanced partition, or None.

    None means that too many links (edges) lead between clusters, or that there are too few
    clusters.
    """
    share = limits.total * limits.relative.min() / limits.num_parts
    heaviest = np.maximum(1, share // how.per_part).astype(np.int64)
    found: Clusters | None = None
    while found is None or len(found.graph.indices) > how.many_links:
        label, num = _propagated(links, weight, heaviest, rng, stopped, how)
        if num < how.least_per_part * limits.num_parts:
            break
        ptr, ends, cost = between(num, int(how.shrunk * number_of_links(links)), links, label)
        if ptr[-1] > len(ends):
            break
        weight = part_weights(label, weight, num)
        # METIS and KaMinPar need every edge at both ends, in any order.
        graph = WeightedGraph(ptr, ends, weight, cost)
        found = Clusters(label if found is None else label[found.label], graph)
        links = ClusterLinks(ptr, ends, cost, np.zeros(1, np.int64), ends[:0], ends[:0])
    return found


def number_of_links(links: ClusterLinks) -> int:
    """Return the total length of all lists of neighbours in `links`."""
    return len(links.ends) + (len(links.other_ends) if len(links.other) else 0)


def _propagated(
    links: ClusterLinks,
    weight: npt.NDArray[np.int64],
    heaviest: npt.NDArray[np.int64],
    rng: np.random.Generator,
    stopped: Callable[[], bool],
    how: Propagation,
) -> tuple[npt.NDArray[np.int32], int]:
    """Return the cluster of every vertex, in 0..m-1, and the number of clusters m."""
    n = len(weight)
    label, load = np.arange(n, dtype=np.int32), weight.copy()
    score = np.zeros(n, dtype=np.int64)
    order: Any = np.argsort(np.diff(links.ptr), kind="stable")
    for _ in range(how.rounds):
        moved = propagate(order, heaviest, links, weight, load, label, score)
        if moved < how.few * n or stopped():
            break
        order = rng.permutation(n)
    return label, int(numbered(label))
