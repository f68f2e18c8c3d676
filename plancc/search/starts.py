"""Which partitioners begin a search, by what is measured of the graph.

A partitioner says on which kinds of graphs it begins, and for which efforts
(`plancc.partitioners.adapter.Start`). Before anything is cut there are two kinds, by degrees; the
boundary of the first, quick cut tells three more, since it says what sweeps can reach:

=====  ===========================================================================================
hubs   some vertices have many neighbours, as in collaboration and dense social networks
wide   besides, nearly every row is on the boundary: sweeps decide, not the start
even   no vertex has many neighbours, as in meshes
dense  besides, nearly every row is on the boundary, as in small matrices with long rows
thin   few rows are, and degrees are even, as in roads: minimum cuts decide, sweeps spoil the start
=====  ===========================================================================================

A partitioner cuts longer boundaries with several weights than with one. Where one limit is tighter
than the others, as that of rows in ``nnz:0.1,rows``, a start that balances it alone is tried first
on even graphs (`tightest`), and kept if it holds the others too, or nearly so on a thin graph.
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
    """A partitioner, and how it is called."""

    adapter: Adapter
    how: Start

    @property
    def name(self) -> tuple[str, ...]:
        """The partitioner, its preset and its objective, and whether it is given clusters."""
        clusters = ("clusters",) if self.how.clustered else ()
        return self.adapter.name, self.how.preset, self.how.objective, *clusters


def has_hubs(degree: npt.NDArray[np.int64]) -> bool:
    """Whether a good share of the edges is that of vertices with many neighbours."""
    total = int(degree.sum())
    if total == 0:
        return False
    mean = degree.mean()
    hubs = degree[degree > KINDS.hub * mean].sum()
    popular = degree[degree > max(KINDS.popular * mean, KINDS.many)].sum()
    return bool(hubs >= KINDS.hub_edges * total or popular >= KINDS.popular_edges * total)


def is_uneven(degree: npt.NDArray[np.int64], than: float = KINDS.uneven) -> bool:
    """Whether degrees differ as in graphs of people, papers and pages, not as in meshes."""
    found = degree.astype(np.float64)
    return bool((found * found).sum() * len(found) > than * found.sum() ** 2)


def is_mild(degree: npt.NDArray[np.int64]) -> bool:
    """Whether degrees differ little for a graph with hubs: METIS is as quick as on meshes."""
    return not is_uneven(degree, KINDS.mild)


def begins_with_clusters(degree: npt.NDArray[np.int64], effort: str, num_parts: int) -> bool:
    """Whether the quick start is one from clusters."""
    whole = num_parts <= FEW and is_mild(degree)
    return effort == "fast" and int(degree.sum()) >= LARGE and has_hubs(degree) and not whole


def kind_of(degree: npt.NDArray[np.int64], boundary: float | None = None) -> str:
    """Kind of a graph, one of `OF_KIND`.

    Parameters:
        degree (int64[n]): Neighbours of the vertices in the undirected graph.
        boundary: Share of the rows on the boundary of a quick cut; None: not known, so that the
            graph is neither wide nor dense nor thin.
    """
    kind = "hubs" if has_hubs(degree) else "even"
    if boundary is not None and boundary > KINDS.wide:
        return "wide" if kind == "hubs" else "dense"
    return "thin" if kind == "even" and boundary is not None and boundary < KINDS.thin else kind


def tightest(degree: npt.NDArray[np.int64], limits: Limits) -> Limits | None:
    """The constraint with the smallest epsilon, if starts should balance it alone.

    None where there is no other constraint, or one as tight; on graphs with hubs, whose weights
    differ too much; and where the limit allows less than `Starts.least_slack` average vertices.
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
    """Starts of the installed partitioners on a kind of graph, the best first.

    There are none where the best partitioner of graphs brings no starts: it then begins by
    `auto_rank`, as does whoever stands in where nothing else is installed. Where vertices have
    several weights and boundaries are long, partitioners of one weight are for effort best only:
    what they miss is dear to restore.

    Parameters:
        kind: One of `OF_KIND`.
        effort: Effort best has the starts of the others too, but those for effort fast alone.
        weights: int64[n] or int64[n, num_constraints].
        beside: Also starts that are worth it only beside others, into few parts.
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
    """Every installed partitioner with its highest preset, the quickest first.

    Parameters:
        hypergraphs, graphs: What may be partitioned; partitioners that take both get hypergraphs.
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
