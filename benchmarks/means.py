"""Means of ratios: over graphs, and over kinds of graphs, which have equal weight.

So a mean does not depend on which kind there are many graphs of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

KINDS = {
    "social": (
        "facebook_combined",
        "wiki-Vote",
        "email-Enron",
        "musae-github",
        "soc-Slashdot0902",
        "fb100-Cornell5",
    ),
    "collaboration": ("CoauthorCS", "dblp-2010"),
    "citation": ("Cora", "cit-HepTh"),
    "web": ("polblogs", "AmazonPhoto"),
    "crawl": ("crawl-100k", "crawl-300k"),
    "road": ("USA-road.NY", "USA-road.NE"),
    "mesh/matrix": (
        "power",
        "bcspwr10",
        "4elt",
        "delaunay_n15",
        "finan512",
        "bcsstk29",
    ),
}
"""The shared graphs of each kind, the smallest first. Web: links between blogs, products bought
together. Power grids are with the matrices."""
OTHER = "other"
"""The kind of a graph that is in no list."""


def geometric_mean(values: Sequence[float]) -> float:
    """NaN of nothing, 0 where a value is 0."""
    if not values:
        return math.nan
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0


def kind_of(graph: str) -> str:
    """Kind of a graph, by its name."""
    return next((kind for kind, graphs in KINDS.items() if graph in graphs), OTHER)


def mean_of_kinds(values: Mapping[str, float]) -> dict[str, float]:
    """Geometric mean of the values of each kind's graphs; kinds without a value are left out."""
    found: dict[str, list[float]] = {}
    for graph, value in values.items():
        found.setdefault(kind_of(graph), []).append(value)
    return {kind: geometric_mean(found[kind]) for kind in (*KINDS, OTHER) if kind in found}


def mean_over_kinds(values: Mapping[str, float]) -> float:
    """Geometric mean over the kinds, which have equal weight; NaN of nothing."""
    return geometric_mean(list(mean_of_kinds(values).values()))
