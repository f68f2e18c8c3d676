"""Memory that a search takes, from numbers alone.

The terms are counted from the arrays that stages hold; what libraries take beside was measured
(``python -m benchmarks memory`` compares both with real peaks, child processes included). A peak is
that of one stage, with all that the process still holds then.
"""

from __future__ import annotations

from dataclasses import dataclass

from plancc.passes.presets import PROPAGATION
from plancc.search.presets import ON_RANKS, MemoryTerms


@dataclass(frozen=True)
class ProblemSizes:
    """What is known of a graph before it is partitioned.

    Attributes:
        nonzeros: Of the normalised matrix, one for every row on the diagonal.
        mirrored: Share of the others whose mirror image is a nonzero too.
        weighted: Whether the graph has values.
        constraints: Balances.
        uneven: Whether some rows have many more nonzeros than others
            (`plancc.search.starts.is_uneven`): then coarser levels hardly have fewer.
        data: Bytes of features and other vertex data that are in memory.
        mapped: Whether the graph's own arrays are in a file that is mapped into memory.
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
        """Links of the undirected graph, each from both of its ends."""
        return int((2 - self.mirrored) * max(self.nonzeros - self.rows, 0))


@dataclass(frozen=True)
class Work:
    """What a compile takes.

    Attributes:
        effort: Of the search; "" without one.
        stages: Bytes of all processes at the peak of every stage, the interpreter included.
    """

    effort: str
    stages: dict[str, int]

    @property
    def peak(self) -> int:
        """The largest of all."""
        return max(self.stages.values())


def reading(sizes: ProblemSizes) -> int:
    """The graph while it is read: entries as pairs, sorted into rows."""
    if sizes.mapped:
        return 24 * sizes.rows
    return 33 * sizes.nonzeros + 24 * sizes.rows


def own(sizes: ProblemSizes) -> int:
    """The graph's own arrays."""
    if sizes.mapped:
        return 0
    return (12 if sizes.weighted else 4) * sizes.nonzeros + 8 * sizes.rows


def matrix(sizes: ProblemSizes) -> int:
    """Graph and normalised matrix."""
    return own(sizes) + 8 * sizes.nonzeros + 8 * sizes.rows


def normalising(sizes: ProblemSizes) -> int:
    return matrix(sizes) + 6 * sizes.nonzeros + 40 * sizes.rows


def nets(sizes: ProblemSizes) -> int:
    """Column nets, the nets of every row, weights, degrees."""
    return 8 * sizes.nonzeros + (36 + 8 * sizes.constraints) * sizes.rows


def state(sizes: ProblemSizes) -> int:
    """Pins of every net in every part, owners, orders of rows, minimum cuts."""
    return 8 * sizes.nonzeros + 52 * sizes.rows


def metis(rows: int, links: int, uneven: bool) -> int:
    """METIS on a graph, its input included."""
    if uneven:
        return MemoryTerms.uneven_link * links + MemoryTerms.uneven_row * rows
    return MemoryTerms.metis_link * links + MemoryTerms.metis_row * rows


def clustering(sizes: ProblemSizes) -> int:
    """Labels, weights of clusters, and the graph between them with METIS at work on it."""
    labels = (32 + 8 * sizes.constraints) * sizes.rows
    most = 8 * PROPAGATION.many_links  # with more, clusters are joined
    return labels + MemoryTerms.cluster_link * min(sizes.links, most)


def starting(sizes: ProblemSizes) -> int:
    """METIS on all rows, and the undirected graph in this process."""
    return 4 * sizes.links + 8 * sizes.rows + metis(sizes.rows, sizes.links, sizes.uneven)


def cycling(sizes: ProblemSizes) -> int:
    """The levels of a V-cycle, beside the state on the finest."""
    return 90 * sizes.nonzeros if sizes.uneven else 4 * sizes.nonzeros + 30 * sizes.rows


def lowering(sizes: ProblemSizes) -> int:
    """Matrix and plan side by side, with tables of messages, and the baseline."""
    return matrix(sizes) + 16 * sizes.nonzeros + 40 * sizes.rows + sizes.data


def work(sizes: ProblemSizes, effort: str, clustered: bool) -> Work:
    """What an effort takes; "" for owners that are not searched for.

    `clustered`: whether partitioners are given the graph between clusters.
    """
    found = {"read": reading(sizes) + sizes.data, "normalise": normalising(sizes) + sizes.data}
    if effort:
        held = matrix(sizes) + nets(sizes) + sizes.data
        found["start"] = held + (clustering(sizes) if clustered else starting(sizes))
        found["sweeps"] = held + state(sizes)
        if effort != "fast" or not sizes.uneven:  # thin graphs may have one to be balanced
            found["V-cycles"] = held + state(sizes) + cycling(sizes)
    found["lower"] = lowering(sizes) + sizes.data
    return Work(effort, {name: MemoryTerms.interpreter + size for name, size in found.items()})


def work_of_rank(sizes: ProblemSizes, num_ranks: int) -> Work:
    """What each of several ranks takes that compile together (`plancc.distributed`).

    Nonzeros are divided among them; arrays of the length of the rows are on every rank.
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
    """Bytes in MiB, from 10 GiB on in GiB."""
    return f"{size / 2**20:,.0f} MiB" if size < 10 * 2**30 else f"{size / 2**30:,.1f} GiB"
