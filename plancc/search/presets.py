"""Every number that searches are tuned by: kinds of graphs, efforts, populations, samples, memory.

`plancc.passes.presets` has the numbers of the passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plancc.passes.presets import CUTS, PRICES


@dataclass(frozen=True)
class Kinds:
    """Where one kind of graph ends and another one begins (`plancc.search.starts.kind_of`)."""

    hub: float = 8.0  # neighbours of a hub, over neighbours of the average vertex
    hub_edges: float = 0.01  # share of the edges that hubs have in a graph of kind hubs
    popular: float = 3.0  # the same of vertices with fewer neighbours over the average,
    many: int = 64  # but many,
    popular_edges: float = 0.1  # which have this share: dense social networks have no others
    # Mean square of the degrees over the square of their mean above which they are uneven: 1.0 to
    # 1.6 in meshes and road networks (`plancc.passes.presets.Cuts.max_unevenness`).
    uneven: float = 1.7
    mild: float = 5.0  # and up to which hubs are mild
    wide: float = 0.7  # share of the rows on the boundary above which a graph is wide or dense,
    thin: float = 0.1  # and below which it is thin


KINDS = Kinds()


@dataclass(frozen=True)
class OfKind:
    """What efforts do on one kind of graph."""

    cuts: bool  # whether parts have few neighbours, so that minimum cuts between them pay
    # Starts of effort balanced besides the first: other partitioners and presets, then all
    # of them with another seed. On meshes a start is quick, and decides much.
    others: int
    # Most V-cycles after the first and after the other starts; the one that combines both is the
    # only one on thin graphs.
    cycles: tuple[int, int]
    # Most starts besides the first into few parts, where they differ most (by up to half of the
    # volume after the first sweeps).
    scouts: int
    # Most V-cycles after each of the best of these. They have no minimum cuts: these take five
    # times as long there, and save as little as another V-cycle.
    scout_cycles: int
    member_cycles: int  # most V-cycles of a new member of effort best
    # Prices of overweight in the sweeps that make a child; prices that made better children are
    # taken more often. Where weight is as cheap as for a new member, what the parents have found is
    # taken apart; without prices sweeps stay within the limit.
    child_prices: tuple[tuple[float, ...], ...]


LATE = (PRICES[1:],)
ANY = (PRICES[1:], PRICES[2:], ())
EVEN = OfKind(
    cuts=True, others=3, cycles=(1, 1), scouts=4, scout_cycles=1, member_cycles=2, child_prices=ANY
)
OF_KIND = {
    "hubs": OfKind(
        cuts=False,
        others=1,
        cycles=(1, 2),
        scouts=4,
        scout_cycles=1,
        member_cycles=1,
        child_prices=LATE,
    ),
    "wide": OfKind(
        cuts=False,
        others=0,
        cycles=(3, 0),
        scouts=4,
        scout_cycles=1,
        member_cycles=1,
        child_prices=LATE,
    ),
    "even": EVEN,
    "dense": EVEN,
    "thin": OfKind(
        cuts=True,
        others=1,
        cycles=(0, 0),
        scouts=5,
        scout_cycles=0,
        member_cycles=1,
        child_prices=ANY,
    ),
}


@dataclass(frozen=True)
class Starts:
    """Starts by rows, and sweeps after them."""

    # Average vertices that the tightest limit must allow beyond an even share: with less, METIS
    # often cuts several times as much for one weight as for several. Without starts by that limit
    # fast has 1.27 of the volume on a road network in 64 parts, but 0.91 on a mesh in 8.
    least_slack: int = 10
    # Overload over the number of parts of a start that nearly holds all limits: V-cycles restore
    # them for fewer rows than a partitioner of several weights takes.
    nearly: float = 0.008
    # Volume within the limits over that of a start above them, beyond which effort fast makes
    # another start: METIS misses the balance of graphs in many pieces by much.
    dear: float = 1.2
    # Volume after sweeps over that of a start within its limits, above which sweeps within these
    # are tried too.
    worse: float = 1.005
    others_share: float = 0.5  # share of the time left for each of the other starts
    # Nonzeros that starts into few parts have together, about: a start on a small graph costs
    # little. There are two at least: of the `variety` best ones, then with other seeds.
    scouted: int = 1_200_000
    variety: int = 2  # with 2 parts one more
    # Rows of an average part below which one other start is enough: refinement decides.
    many_rows: int = 100


@dataclass(frozen=True)
class Combined:
    """What effort balanced combines, and how it ends: 1.014 without, with 64 parts."""

    members: int = 3  # most members that the best one is combined with
    tightened: bool = False  # whether a V-cycle within the limit ends a search; on meshes one does
    kept: int = 0  # starts that V-cycles follow, of those into few parts
    scouts: int = 5  # most starts besides the first into few parts, whatever the kind of graph
    # Whether a library's V-cycle follows (`RowJob.improve`).
    improved: bool = False
    # Volume over the one before above which the next such step would save too little.
    enough: float = 0.997


MANY_PARTS = Combined()
FEW_PARTS = Combined(tightened=True, kept=2)
FOUR_PARTS = replace(FEW_PARTS, kept=1)
TWO_PARTS = Combined(members=1, scouts=2, improved=True)
"""Between two parts of a graph with hubs sweeps end early: unconstrained moves that are rolled back
(Maas et al. 2024) find more, in the time of the V-cycles that they stand for; 1.015 without, under
one balance."""
IMPROVED = 100_000, 1_000_000
"""Nonzeros from which a library's V-cycle is worth its process, and up to which it is quick."""

QUICK_CUTS = replace(CUTS, reach=0.03, least_gain=1.0, least_yield=0.003)
"""Minimum cuts of effort fast, and those after a start into few parts: a third of the time, for
half of what the others save."""
SINGLE_CUTS = replace(QUICK_CUTS, reach=CUTS.reach)
"""One between each two neighbouring parts."""
LAST_CUTS = replace(QUICK_CUTS, reach=3 * CUTS.reach, least_gain=CUTS.least_gain)
"""Repeated as long as that helps."""


@dataclass(frozen=True)
class OnRanks:
    """A search on several ranks (`plancc.distributed`)."""

    # Links up to which clusters are not joined to larger ones: rank 0 partitions the graph
    # between them.
    many_links: int = 500_000
    sample: int = 8  # clusters for each that is looked at to see how many links that graph has
    steps: int = 8  # steps in which it is made: for memory
    turns: int = 8  # turns of a round of clustering, and of a sweep
    most_sweeps: int = 64  # more than all sweeps
    tries: int = 3  # how often moves of one turn are tried,
    fewer: int = 8  # and by which factor fewer of them each time
    # Most sweeps that bring parts below the limit, each at three times the price of the last.
    restoring: int = 8
    climbs: int = 6  # most sweeps within the limit that follow
    least_gain: float = 0.002  # share of the volume that one must save, for another to follow
    # Of graphs without hubs (`plancc.distributed.nets`):
    starts: int = 4  # seeds of the partitioner of clusters: starts differ by a sixth
    corridor: int = 3_000_000  # links of its vertices above which a corridor has no further layer
    most_pins: int = 4_000_000  # pins of nets above which rank 0 takes none


ON_RANKS = OnRanks()


@dataclass(frozen=True)
class ForObjective:
    """Refinement for another objective than the volume."""

    share: float = 0.4  # share of a budget that is kept for it
    starts: int = 4  # number of the best members that are refined for it
    vain: int = 50  # refinements in vain that end effort best before its budget does


OF_ROWS = ForObjective()
OF_NONZEROS = ForObjective(starts=2)


@dataclass(frozen=True)
class Expected:
    """Search for an expected volume."""

    cut_share: float = 0.5  # share of the time left that the strong partitioner gets
    # Expected volume of that partitioner's cut over that of the first owners refined for the
    # volume, below which these have no part in the best owners: no other start is made.
    decisive: float = 0.87
    few_rows: float = 0.05  # share of the rows below which a volume is small
    cycles: int = 3  # V-cycles from each start, and from the best two combined


EXPECTED = Expected()


@dataclass(frozen=True)
class Evolution:
    """The population of effort best."""

    size: int = 10  # largest population
    # Members that come after the founders and the first two without a budget, or one for each start
    # if there are more of these.
    least_size: int = 5
    rounds: int = 12  # children per member of the population, unless a budget says when to end
    # Pins of all children without a budget, unless that leaves fewer than `patience` per member.
    visited: int = 50_000_000
    # Share of a budget in which members are added to the first population.
    growing_share: float = 0.25
    restart_share: float = 0.25  # the same, of the time left, for the population of a restart
    # The same of a partitioner with its highest preset, which others follow.
    highest_share: float = 0.5
    start_share: float = 0.75  # share of the time left that one partitioner gets
    quick: float = 3.0  # slowness of a start up to which it is made with several seeds
    # Share of the volume by which a slow start must be better than the others for more like it.
    clear: float = 0.01
    # Children made from one state of the population, at least; one for each thread.
    batch: int = 2
    mutations: float = 0.15  # share of the children that come from one member only
    fading: float = 0.95  # factor of what is known of prices with every child
    # Mean distance to the best member, over its volume, below which a population is alike.
    alike: float = 0.02
    # Children per member without a better one after which the population starts again.
    patience: int = 3


EVOLUTION = Evolution()


@dataclass(frozen=True)
class EdgeEffort:
    """A search by nonzeros: 1.022 with one split alone, 1.113 without V-cycles after splits."""

    splits: int  # number of splits one after the other, the model's own included
    rounds: int  # rounds of `RefineEdges` after its first climb, for the volume
    starts: int = 3  # population of effort best without a budget,
    max_starts: int = 8  # and the largest with one
    growing_share: float = 0.5  # share of the budget in which the population grows
    # Combinations per member of the population, unless a budget says when to end.
    combinations: int = 4
    rows_share: float = 0.25  # share of the time left for a search by rows,
    partitioner_share: float = 0.4  # for a partitioner of hypergraphs,
    split_share: float = 0.5  # and for the V-cycles of splits


EDGE_EFFORTS = {"fast": EdgeEffort(2, 0), "balanced": EdgeEffort(3, 2), "best": EdgeEffort(4, 2)}


@dataclass(frozen=True)
class Samples:
    """Samples of mini-batches, and held-out ones."""

    # Batches of the first sample that refinement works on, unless told otherwise.
    min_batches: int = 64
    growth: int = 4  # factor by which the sample grows
    # Share by which fresh batches may move more rows than the sample's batches; above it, it grows.
    max_gap: float = 0.02
    # Least share by which growth must lower what fresh batches move, unless owners were the best.
    min_progress: float = 0.01
    # Number of batches that judge owners at first; it doubles until `precision` is reached.
    min_held_out: int = 64
    max_held_out: int = 1024  # most batches that judge owners
    precision: float = 0.01  # half the confidence interval of the judged mean, over the mean
    most_judged: int = 8  # number of owners whose volumes are kept
    resamples: int = 1000  # samples of the bootstrap behind that interval
    # Share of the nonzeros that a given number of batches must have seen; below it, a warning.
    seen_enough: float = 0.5
    # Share by which fresh batches may move more rows than the sample; above it, a warning.
    gap_to_tell: float = 0.05


@dataclass(frozen=True)
class MemoryTerms:
    """Bytes that libraries take, measured, and the share of the memory that may be taken."""

    # Python with its libraries, half of them code, of kernels, and of a partitioner's child
    # process.
    interpreter: int = 215_000_000
    margin: float = 0.9  # share of the memory that is left which may be taken unless told otherwise
    metis_link: int = 26  # METIS per link of the undirected graph,
    metis_row: int = 190  # and per row, its input included
    # The same of graphs with uneven degrees: their coarser levels hardly have fewer links.
    uneven_link: int = 80
    uneven_row: int = 75
    of_rank: int = 70_000_000  # python with its libraries in a rank, and MPI
    # The graph between clusters, and a partitioner's child process on the first rank.
    clustered: int = 60_000_000
    corridor_link: int = 45  # nets and cuts there, per link of a corridor
    # Per link of an undirected graph with hubs for the graph between clusters, and METIS on that.
    cluster_link: int = 5
