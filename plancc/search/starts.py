"""Kinds of graphs, and the partitioners that start a search on each kind.

A partitioner declares the kinds of graphs and the efforts that it starts
(`plancc.partitioners.adapter.Start`). Before the first start, only the degrees are known, and the
kind is hubs or even. The boundary of the first quick start then distinguishes three more kinds,
since it shows how much sweeps can improve:

=====  ===========================================================================================
hubs   some vertices have many neighbours, as in collaboration and dense social networks
wide   as hubs, and nearly every row is on the boundary: sweeps decide the result, not the start
even   no vertex has many neighbours, as in meshes
dense  as even, and nearly every row is on the boundary, as in small matrices with long rows
thin   as even, and few rows are on the boundary, as in roads: minimum cuts decide the result, and
       sweeps make the start worse
=====  ===========================================================================================

If vertices have several weights, a partitioner cuts longer boundaries than for one weight. If one
limit is tighter than the others, as the limit of rows in ``nnz:0.1,rows``, even graphs first get a
start that balances only this constraint (`tightest`). The start is kept if it respects the other
limits too; on a thin graph it may miss the limits slightly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.adapter import FEW, LARGE, Adapter, Start
from plancc.partitioners.run import by_rank_of_kind
from plancc.search.presets import KINDS, Starts


@dataclass(frozen=True)
class Beginning:
    """A start: a partitioner, and the parameters of its call."""

    adapter: Adapter
    how: Start

    @property
    def name(self) -> tuple[str, ...]:
        """Names of the partitioner, its preset and its objective; then "clusters" if it gets
        clusters.
        """
        clusters = ("clusters",) if self.how.clustered else ()
        return self.adapter.name, self.how.preset, self.how.objective, *clusters


def has_hubs(degree: npt.NDArray[np.int64]) -> bool:
    """Whether vertices with many neighbours have a considerable share of the edges."""
    total = int(degree.sum())
    if total == 0:
        return False
    mean = degree.mean()
    hubs = degree[degree > KINDS.hub * mean].sum()
    popular = degree[degree > max(KINDS.popular * mean, KINDS.many)].sum()
    return bool(hubs >= KINDS.hub_edges * total or popular >= KINDS.popular_edges * total)


def is_uneven(degree: npt.NDArray[np.int64], than: float = KINDS.uneven) -> bool:
    """Whether degrees differ much, as in graphs of people, papers or pages, and not as in meshes.

    `than`: threshold, see `Kinds.uneven`.
    """
    found = degree.astype(np.float64)
    return bool((found * found).sum() * len(found) > than * found.sum() ** 2)


def is_mild(degree: npt.NDArray[np.int64]) -> bool:
    """Whether degrees differ little for a graph with hubs; if so, METIS is as fast as on meshes."""
    return not is_uneven(degree, KINDS.mild)


def begins_with_clusters(degree: npt.NDArray[np.int64], effort: str, num_parts: int) -> bool:
    """Whether effort fast starts from a partition of clusters."""
    whole = num_parts <= FEW and is_mild(degree)
    return effort == "fast" and int(degree.sum()) >= LARGE and has_hubs(degree) and not whole


def kind_of(degree: npt.NDArray[np.int64], boundary: float | None = None) -> str:
    """Return the kind of a graph, a key of `KIND_NUMBERS`.

    Parameters:
        degree (int64[n]): Number of neighbours of every vertex in the undirected graph.
        boundary: Share of the rows on the boundary of a quick cut. None: unknown; the kind is
            "hubs" or "even".
    """
    kind = "hubs" if has_hubs(degree) else "even"
    if boundary is not None and boundary > KINDS.wide:
        return "wide" if kind == "hubs" else "dense"
    return "thin" if kind == "even" and boundary is not None and boundary < KINDS.thin else kind


def tightest(degree: npt.NDArray[np.int64], limits: Limits) -> Limits | None:
    """Return limits with only the tightest constraint, if a start should balance nothing else.

    None if there is only one constraint; if another constraint is as tight; if the graph has hubs,
    since its weights differ too much; or if the limit leaves room for fewer than
    `Starts.least_slack` average vertices.
    """
    first, *others = sorted(limits.apart(), key=lambda each: float(each.epsilon[0]))
    slack = first.epsilon[0] * len(degree) / limits.num_parts
    tied = not others or others[0].epsilon[0] == first.epsilon[0]
    return None if tied or slack < Starts.least_slack or has_hubs(degree) else first


def beginnings(
    kind: str,
    effort: str,
    weights: npt.NDArray[np.int64],
    num_nonzeros: int,
    num_parts: int,
    beside: bool = True,
    mild: bool = False,
) -> Iterator[Beginning]:
    """Yield the starts of the installed partitioners on a kind of graph, the best first.

    If the best installed partitioner of graphs declares no starts, nothing is yielded; the caller
    then chooses partitioners by `auto_rank`. If vertices have several weights and boundaries are
    long, partitioners that balance one weight are yielded only for effort best, since restoring the
    other limits costs much.

    Parameters:
        kind: A key of `KIND_NUMBERS`.
        effort: Name of the effort. Effort best also has the starts of the other efforts, except
            starts for effort fast only.
        weights (int64[n] or int64[n, num_constraints]): Vertex weights.
        num_nonzeros, num_parts: Sizes, which restrict some starts.
        beside: Whether to yield starts that are worthwhile only in addition to other starts, for
            few parts.
        mild: `is_mild` of the degrees.
    """
    ranked = by_rank_of_kind(WeightedGraph, "cut", lambda adapter: adapter.auto_rank)
    first = next((adapter for adapter in ranked if adapter.available()), None)
    if first is None or not first.starts:
        return
    several = np.count_nonzero(np.atleast_2d(weights.T).any(axis=1)) > 1
    strict = several and kind in ("hubs", "wide", "dense") and effort != "best"
    rows = len(weights) / num_parts
    able = [
        (adapter, how)
        for adapter in PARTITIONERS.loaded().values()
        if adapter.available() and (adapter.constraints or not strict)
        for how in adapter.starts
        if (
            kind in how.rank
            and _is_for(how, effort)
            and rows <= how.most_rows
            and (num_parts <= how.most_parts if beside else how.most_parts == np.inf)
            and how.mild <= mild
            and how.least_nonzeros <= num_nonzeros <= how.most_nonzeros
        )
    ]
    for adapter, how in sorted(able, key=lambda each: -each[1].rank.get(kind, 0)):
        given = WeightedGraph if how.objective else Hypergraph
        if adapter.takes_kind(given, how.objective):
            yield Beginning(adapter, how)


def highest(hypergraphs: bool, graphs: bool = True) -> list[Beginning]:
    """Return starts by every installed partitioner with its highest preset, the fastest first.

    Parameters:
        hypergraphs, graphs: Whether partitioners may get hypergraphs, and graphs. A partitioner
            that supports both gets hypergraphs.
    """
    found = []
    for adapter in PARTITIONERS.loaded().values():
        if adapter.highest and adapter.available():
            takes_nets = hypergraphs and adapter.takes_kind(Hypergraph)
            ways = ("",) if takes_nets else adapter.objectives if graphs else ()
            found += [Beginning(adapter, Start({}, adapter.highest, each)) for each in ways]
    return sorted(found, key=lambda each: each.adapter.slowness)


def _is_for(how: Start, effort: str) -> bool:
    return effort in how.efforts or (effort == "best" and how.efforts != ("fast",))
