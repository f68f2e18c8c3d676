"""Kinds of graphs, and the starts of a search on each kind.

A *start* is a partition that a partitioner makes, and that the search then improves. Before the
first start, degrees tell graphs of kind hubs from graphs of kind even; afterwards, the start's
boundary rows tell the other kinds.

=====  ===========================================================================================
hubs   some vertices have many neighbours, as in collaboration and dense social networks
wide   like hubs, but nearly every row is a boundary row: the result depends on the sweeps more
       than on the start
even   no vertex has many neighbours, as in meshes
dense  like even, but nearly every row is a boundary row, as in small matrices with long rows
thin   like even, but few rows are boundary rows, as in road networks: the result depends on the
       minimum cuts, and sweeps make the start worse
=====  ===========================================================================================

A start that balances several weights has more boundary rows. So graphs of kind even first get a
start that balances only the tightest limit (`tightest`). The start is kept if it respects the other
limits too (nearly, on a thin graph).
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
    """How a first partition is made: the partitioner, and the parameters of its call."""

    adapter: Adapter
    how: Start

    @property
    def name(self) -> tuple[str, ...]:
        """Partitioner, preset and objective; then "clusters" if clusters are partitioned."""
        clusters = ("clusters",) if self.how.clustered else ()
        return self.adapter.name, self.how.preset, self.how.objective, *clusters


def has_hubs(degree: npt.NDArray[np.int64]) -> bool:
    """Whether vertices with many neighbours have a large share of the edges (`Kinds`)."""
    total = int(degree.sum())
    if total == 0:
        return False
    mean = degree.mean()
    hubs = degree[degree > KINDS.hub * mean].sum()
    popular = degree[degree > max(KINDS.popular * mean, KINDS.many)].sum()
    return bool(hubs >= KINDS.hub_edges * total or popular >= KINDS.popular_edges * total)


def is_uneven(degree: npt.NDArray[np.int64], than: float = KINDS.uneven) -> bool:
    """Whether degrees differ much, as in graphs of people, papers or pages, but not in meshes.

    `than`: threshold for the mean square of the degrees divided by the square of their mean.
    """
    found = degree.astype(np.float64)
    return bool((found * found).sum() * len(found) > than * found.sum() ** 2)


def is_mild(degree: npt.NDArray[np.int64]) -> bool:
    """Whether degrees differ so little that METIS is as fast as on a mesh, even with hubs."""
    return not is_uneven(degree, KINDS.mild)


def begins_with_clusters(degree: npt.NDArray[np.int64], effort: str, num_parts: int) -> bool:
    """Whether a search starts from clusters: effort "fast", on large graphs with hubs."""
    whole = num_parts <= FEW and is_mild(degree)
    return effort == "fast" and int(degree.sum()) >= LARGE and has_hubs(degree) and not whole


def kind_of(degree: npt.NDArray[np.int64], boundary: float | None = None) -> str:
    """Return the kind of a graph, a key of `KIND_NUMBERS`.

    `boundary` is the first partition's share of boundary rows. If it is None, the kind is "hubs" or
    "even".
    """
    kind = "hubs" if has_hubs(degree) else "even"
    if boundary is not None and boundary > KINDS.wide:
        return "wide" if kind == "hubs" else "dense"
    return "thin" if kind == "even" and boundary is not None and boundary < KINDS.thin else kind


def tightest(degree: npt.NDArray[np.int64], limits: Limits) -> Limits | None:
    """Return the limits for a start that balances only the tightest constraint, or None.

    The result is None if constraints are equally tight, if there are hubs (whose weights differ too
    much), or if a part's slack is below the weight of `Starts.least_slack` average vertices.
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
    """Yield the starts that installed partitioners declare for a kind of graph, the best first.

    Yield nothing if the best partitioner of graphs declares none; callers then use `auto_rank`.
    `beside`: whether to add starts for few parts (`Start.most_parts`), which are worth their time
    only beside other starts. `mild`: whether degrees differ little (`is_mild`).
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
    """Return a `Beginning` for every installed partitioner, with its best preset; fastest first.

    `hypergraphs` and `graphs` say whether partitioners may get a hypergraph, and a graph. If a
    partitioner takes both, it gets the hypergraph. A partitioner that gets the graph has a
    `Beginning` for each of its objectives.
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
