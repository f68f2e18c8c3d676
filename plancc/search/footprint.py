"""Estimate the memory that a search takes, in bytes, from the sizes of the graph.

``python -m benchmarks memory`` compares the estimates with measured peaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from plancc.passes.presets import PROPAGATION
from plancc.search.presets import ON_RANKS, MemoryTerms


@dataclass(frozen=True)
class ProblemSizes:
    """Sizes of a graph that are known before it is partitioned.

    Attributes:
        nonzeros: Number of nonzeros of the normalised matrix, including the whole diagonal.
        mirrored: Share of the off-diagonal nonzeros (i, j) for which (j, i) is a nonzero too.
        constraints: Number of weights of a vertex that the parts share evenly.
        uneven: Whether degrees differ much (`plancc.search.starts.is_uneven`). If so, the coarser
            levels of a V-cycle have nearly as many nonzeros as the matrix.
        data: Bytes of features and other vertex data in memory.
        mapped: Whether the graph's arrays are mapped from a file, and so take no memory.
    """

    rows: int
    nonzeros: int
    mirrored: float = 1.0
    weighted: bool = False
    constraints: int = 2
    uneven: bool = True
    data: int = 0
    mapped: bool = False

    @property
    def links(self) -> int:
        """Number of links between vertices in the undirected graph, counted from both ends."""
        return int((2 - self.mirrored) * max(self.nonzeros - self.rows, 0))


@dataclass(frozen=True)
class Work:
    """Memory of a compilation; `effort` is "" if there is no search.

    Attributes:
        stages: Peak bytes of all processes in every stage, including the interpreter.
    """

    effort: str
    stages: dict[str, int]

    @property
    def peak(self) -> int:
        """Bytes of the stage that needs the most memory."""
        return max(self.stages.values())


def reading(sizes: ProblemSizes) -> int:
    """Return the bytes needed while the graph file is read and its entries are sorted by row."""
    if sizes.mapped:
        return 24 * sizes.rows
    return 33 * sizes.nonzeros + 24 * sizes.rows


def own(sizes: ProblemSizes) -> int:
    """Return the bytes of the arrays of the graph before it is normalised."""
    if sizes.mapped:
        return 0
    return (12 if sizes.weighted else 4) * sizes.nonzeros + 8 * sizes.rows


def matrix(sizes: ProblemSizes) -> int:
    """Return the bytes of the graph and the normalised matrix together."""
    return own(sizes) + 8 * sizes.nonzeros + 8 * sizes.rows


def normalising(sizes: ProblemSizes) -> int:
    return matrix(sizes) + 6 * sizes.nonzeros + 40 * sizes.rows


def nets(sizes: ProblemSizes) -> int:
    """Return the bytes of the column nets: their pins, the nets of every row, weights, degrees."""
    return 8 * sizes.nonzeros + (36 + 8 * sizes.constraints) * sizes.rows


def state(sizes: ProblemSizes) -> int:
    """Return the bytes of a partition with its pin counts, and of the arrays that sweeps use."""
    return 8 * sizes.nonzeros + 52 * sizes.rows


def metis(rows: int, links: int, uneven: bool) -> int:
    """Return the bytes that METIS needs, including its input, for `rows` vertices and their edges.

    `links` counts every edge in both directions; `uneven`: see `ProblemSizes`.
    """
    if uneven:
        return MemoryTerms.uneven_link * links + MemoryTerms.uneven_row * rows
    return MemoryTerms.metis_link * links + MemoryTerms.metis_row * rows


def clustering(sizes: ProblemSizes) -> int:
    """Return the bytes of a start that partitions clusters of vertices, including METIS' bytes."""
    labels = (32 + 8 * sizes.constraints) * sizes.rows
    most = 8 * PROPAGATION.many_links  # if there are more links, clusters are joined
    return labels + MemoryTerms.cluster_link * min(sizes.links, most)


def starting(sizes: ProblemSizes) -> int:
    """Return the bytes that METIS needs to partition all rows, in its process and in this one."""
    return 4 * sizes.links + 8 * sizes.rows + metis(sizes.rows, sizes.links, sizes.uneven)


def cycling(sizes: ProblemSizes) -> int:
    """Return the bytes of the levels of a V-cycle, beyond those that `nets` and `state` return."""
    return 90 * sizes.nonzeros if sizes.uneven else 4 * sizes.nonzeros + 30 * sizes.rows


def lowering(sizes: ProblemSizes) -> int:
    """Return the bytes of matrix, plan, messages and random partition while a plan is made."""
    return matrix(sizes) + 16 * sizes.nonzeros + 40 * sizes.rows + sizes.data


def work(sizes: ProblemSizes, effort: str, clustered: bool) -> Work:
    """Estimate a compilation's memory; `clustered`: partitioners get clusters, not vertices."""
    found = {"read": reading(sizes) + sizes.data, "normalise": normalising(sizes) + sizes.data}
    if effort:
        held = matrix(sizes) + nets(sizes) + sizes.data
        found["start"] = held + (clustering(sizes) if clustered else starting(sizes))
        found["sweeps"] = held + state(sizes)
        if effort != "fast" or not sizes.uneven:  # thin graphs may run a V-cycle for balance
            found["V-cycles"] = held + state(sizes) + cycling(sizes)
    found["lower"] = lowering(sizes) + sizes.data
    return Work(effort, {name: MemoryTerms.interpreter + size for name, size in found.items()})


def work_of_rank(sizes: ProblemSizes, num_ranks: int) -> Work:
    """Estimate the memory of each rank if several ranks compile together (`plancc.distributed`).

    Nonzeros are divided among the ranks. Arrays with one entry per row are on every rank.
    """
    rows, share = sizes.rows, -(-sizes.nonzeros // num_ranks)
    nets = 4 * share if sizes.mirrored < 1 else 0
    held = 8 * share + nets + 4 * rows + sizes.data
    weights = 8 * sizes.constraints * rows
    links = 0 if sizes.uneven else min(sizes.links, ON_RANKS.corridor)
    corridor = MemoryTerms.corridor_link * links
    found = {
        "read": held + 12 * share + (16 * rows if nets else 8 * rows),
        "clusters": held + 2 * weights + 32 * rows + 4 * share + MemoryTerms.clustered,
        "sweeps": held + weights + 26 * rows + 8 * share,
        "corridor": held + weights + 26 * rows + corridor,
        "lower": held + 16 * share + 26 * rows,
    }
    return Work("fast", {stage: MemoryTerms.of_rank + size for stage, size in found.items()})


def shown(size: int) -> str:
    """Return a number of bytes as text: in MiB if it is below 10 GiB, otherwise in GiB."""
    return f"{size / 2**20:,.0f} MiB" if size < 10 * 2**30 else f"{size / 2**30:,.1f} GiB"
