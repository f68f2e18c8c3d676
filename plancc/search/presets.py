"""Tuned parameters of the search: kinds of graphs, efforts, populations, samples and memory.

`plancc.passes.presets` has the tuned parameters of the passes. It also defines a *loss*: how many
times as large an objective is without a pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plancc.passes.presets import CUTS, PRICES


@dataclass(frozen=True)
class Kinds:
    """Thresholds between the kinds of graphs (`plancc.search.starts.kind_of`)."""

    hub: float = 8.0  # least neighbours of a hub, over neighbours of the average vertex
    hub_edges: float = 0.01  # least share of the edges that hubs have in a graph of kind hubs
    # A popular vertex has at least `popular` times the average neighbours, and at least `many`. A
    # graph whose popular vertices have the share `popular_edges` of the edges is of kind hubs too:
    # dense social networks have no hubs by the first rule.
    popular: float = 3.0
    many: int = 64
    popular_edges: float = 0.1
    # Degrees are uneven if their mean square over the square of their mean is above this; meshes
    # and road networks have 1.0 to 1.6 (`plancc.passes.presets.Cuts.max_unevenness`).
    uneven: float = 1.7
    mild: float = 5.0  # hubs are mild if the same ratio is at most this
    wide: float = 0.7  # a graph is wide or dense if more than this share of rows is on the boundary
    thin: float = 0.1  # a graph is thin if less than this share of rows is on the boundary


KINDS = Kinds()


@dataclass(frozen=True)
class KindNumbers:
    """Tuned parameters of the efforts, for one kind of graph."""

    cuts: bool  # whether minimum cuts between parts pay, since parts have few neighbours
    # Starts of effort balanced besides the first: other partitioners and presets, then all of them
    # with another seed. On meshes a start is quick, and decides much of the result.
    others: int
    # Most V-cycles after the first start, and after each other start. Thin graphs get only the
    # V-cycle that combines the starts.
    cycles: tuple[int, int]
    # Most starts besides the first into few parts, where starts differ most (by up to half of the
    # volume after the first sweeps).
    scouts: int
    # Most V-cycles after each of the best of these starts. These V-cycles run no minimum cuts,
    # which would take five times as long and save only as much as another V-cycle.
    scout_cycles: int
    member_cycles: int  # most V-cycles of a new member of effort best
    # Lists of prices of overweight for the sweeps that make a child. Lists that made better
    # children are drawn more often. With prices as low as for a new member, sweeps would destroy
    # the parents' structure; with an empty list, sweeps stay within the limit.
    child_prices: tuple[tuple[float, ...], ...]


LATE = (PRICES[1:],)
ANY = (PRICES[1:], PRICES[2:], ())
EVEN = KindNumbers(
    cuts=True, others=3, cycles=(1, 1), scouts=4, scout_cycles=1, member_cycles=2, child_prices=ANY
)
THIN = replace(EVEN, others=1, cycles=(0, 0), scouts=5, scout_cycles=0, member_cycles=1)
HUBS = replace(EVEN, cuts=False, others=1, cycles=(1, 2), member_cycles=1, child_prices=LATE)
WIDE = replace(HUBS, others=0, cycles=(3, 0))
KIND_NUMBERS = {"hubs": HUBS, "wide": WIDE, "even": EVEN, "dense": EVEN, "thin": THIN}


@dataclass(frozen=True)
class Starts:
    """Tuned parameters of a search for owners of rows: of starts, and of the sweeps after them."""

    # A start that balances only the tightest constraint is tried if the constraint's limit leaves
    # room for this many average vertices: with less room, METIS often cuts several times as much
    # for one weight as for several. Loss of effort fast without such starts: 1.27 of the volume on
    # a road network in 64 parts, but 0.91 on a mesh in 8 parts.
    least_slack: int = 10
    # Overload, divided by the number of parts, up to which such a start is kept: V-cycles restore
    # the limits for fewer rows than a partitioner of several weights takes.
    nearly: float = 0.008
    # Effort fast makes another start if bringing a start within the limits raises its volume by
    # more than this factor: METIS misses the balance of graphs in many pieces by much.
    dear: float = 1.2
    # If sweeps raise the volume of a start within the limits by more than this factor, sweeps
    # within the limits are tried too.
    worse: float = 1.005
    others_share: float = 0.5  # share of the time left for each of the other starts
    # Approximate sum of nonzeros over all starts into few parts: a start on a small graph costs
    # little. There are at least two starts: by the `variety` best partitioners, then with other
    # seeds.
    scouted: int = 1_200_000
    variety: int = 2  # with 2 parts one more
    # With fewer rows in an average part, one other start is enough: refinement decides.
    many_rows: int = 100


@dataclass(frozen=True)
class Combined:
    """Tuned parameters for the last step of effort "balanced", which combines the best partitions.

    Without this step, the volume is 1.014 times as large with 64 parts.
    """

    members: int = 3  # most members that are combined with the best member
    tightened: bool = False  # whether a V-cycle within the limit ends a search; meshes have it too
    kept: int = 0  # into few parts: number of the best starts that V-cycles follow
    scouts: int = 5  # most starts besides the first into few parts, for all kinds of graphs
    # Whether a library's V-cycle follows (`RowJob.improve`).
    improved: bool = False
    # A kind of step is not repeated if it left more than this share of the volume.
    enough: float = 0.997


MANY_PARTS = Combined()
FEW_PARTS = Combined(tightened=True, kept=2)
FOUR_PARTS = replace(FEW_PARTS, kept=1)
TWO_PARTS = Combined(members=1, scouts=2, improved=True)
"""Between two parts of a graph with hubs, sweeps end early. A library's unconstrained moves with
rollback (Maas et al. 2024) lower the volume further, and take as long as the V-cycles that they
replace. Loss without the library's V-cycle: 1.015 of the volume, with one constraint."""
IMPROVED = 100_000, 1_000_000
"""Smallest and largest number of nonzeros for which a library's V-cycle is run. With fewer
nonzeros, the V-cycle is not worth starting a process; with more nonzeros, it is slow."""

QUICK_CUTS = replace(CUTS, reach=0.03, least_gain=1.0, least_yield=0.003)
"""Minimum cuts of effort fast, and after a start into few parts. They take a third of the time of
`CUTS`, and save half as much."""
SINGLE_CUTS = replace(QUICK_CUTS, reach=CUTS.reach)
"""One minimum cut between each pair of neighbouring parts."""
LAST_CUTS = replace(QUICK_CUTS, reach=3 * CUTS.reach, least_gain=CUTS.least_gain)
"""Wide minimum cuts, repeated while the volume falls."""


@dataclass(frozen=True)
class OnRanks:
    """Tuned parameters of a search that several ranks make together (`plancc.distributed`)."""

    # Clusters are joined to larger clusters until the graph between them has at most this many
    # links; rank 0 partitions this graph.
    many_links: int = 500_000
    sample: int = 8  # one in this many clusters is sampled, to estimate the links
    steps: int = 8  # steps in which this graph is built, to bound memory
    turns: int = 8  # turns of a round of clustering, and of a sweep
    most_sweeps: int = 64  # upper bound of the number of all sweeps
    tries: int = 3  # tries for the moves of one turn
    fewer: int = 8  # factor by which every further try has fewer moves
    # Most sweeps that bring parts below the limit, each at three times the price of the last.
    restoring: int = 8
    climbs: int = 6  # most sweeps within the limit that follow
    least_gain: float = 0.002  # share of the volume that a sweep must save for another to follow
    # For graphs without hubs (`plancc.distributed.nets`):
    starts: int = 4  # seeds of the partitioner of clusters; starts differ by a sixth
    corridor: int = 3_000_000  # a corridor with more links gets no further layer
    most_pins: int = 4_000_000  # most pins of nets that rank 0 takes


ON_RANKS = OnRanks()


@dataclass(frozen=True)
class ForObjective:
    """Tuned parameters of the refinement for an objective other than the volume."""

    share: float = 0.4  # share of a budget that is kept for this refinement
    starts: int = 4  # number of the best members that are refined
    vain: int = 50  # effort best ends after this many refinements without success


ROW_REFINEMENT = ForObjective()
NONZERO_REFINEMENT = ForObjective(starts=2)


@dataclass(frozen=True)
class Expected:
    """Tuned parameters of the search for owners with a small expected volume of mini-batches."""

    cut_share: float = 0.5  # share of the time left for the strongest partitioner
    # If the cut of this partitioner has less than this share of the expected volume of the first
    # owners refined for the volume, no other start is made: it would not contribute.
    decisive: float = 0.87
    few_rows: float = 0.05  # a volume is small if it is below this share of the rows
    cycles: int = 3  # V-cycles from each start, and from the two best combined


EXPECTED = Expected()


@dataclass(frozen=True)
class Evolution:
    """Tuned parameters of the population that effort `best` evolves (`plancc.search.memetic`)."""

    size: int = 10  # most members of a population
    # Without a budget: members added after the founders and the first two starts, or one member for
    # each start if there are more starts.
    least_size: int = 5
    rounds: int = 12  # children per member of the population, if there is no budget
    # Total pins of all children without a budget; but at least `patience` children per member.
    visited: int = 50_000_000
    # Share of a budget in which members are added to the first population.
    growing_share: float = 0.25
    restart_share: float = 0.25  # share of the time left in which a restart adds members
    # Share of the time left for a partitioner with its highest preset, if others follow.
    highest_share: float = 0.5
    start_share: float = 0.75  # share of the time left for one partitioner
    quick: float = 3.0  # a start with at most this slowness is made with several seeds
    # More slow starts follow if the first is better than the others by this share of the volume.
    clear: float = 0.01
    # Least number of children made from one state of the population; at least one per thread.
    batch: int = 2
    mutations: float = 0.15  # share of the children that come from one member only
    fading: float = 0.95  # factor on the counts of successes of prices after every child
    # Members are similar if their mean distance to the best member is below this share of the best
    # member's volume.
    alike: float = 0.02
    # The population restarts after this many children per member without a better child.
    patience: int = 3


EVOLUTION = Evolution()


@dataclass(frozen=True)
class EdgeEffort:
    """Tuned parameters of a search for owners of rows and of nonzeros (`plancc.search.edges`).

    A split assigns every nonzero to its row or to its column; a search makes `splits` splits. If it
    made only one, the volume would be 2.2% larger. Without V-cycles after splits, it would be 11.3%
    larger.
    """

    splits: int  # number of splits one after the other, the model's own split included
    rounds: int  # rounds of `RefineEdges` after its first climb, for the volume
    starts: int = 3  # size of effort best's population without a budget
    max_starts: int = 8  # largest population with a budget
    growing_share: float = 0.5  # share of the budget in which the population grows
    # Combinations per member of the population, if there is no budget.
    combinations: int = 4
    rows_share: float = 0.25  # share of the time left for a search by rows
    partitioner_share: float = 0.4  # share of the time left for a partitioner of hypergraphs
    split_share: float = 0.5  # share of the time left for the V-cycles of splits


EDGE_EFFORTS = {"fast": EdgeEffort(2, 0), "balanced": EdgeEffort(3, 2), "best": EdgeEffort(4, 2)}


@dataclass(frozen=True)
class Samples:
    """Tuned parameters of two samples of mini-batches (`plancc.search.expectation`).

    Owners are fitted to one sample, and judged on the other, held-out sample.
    """

    # Batches of the first sample by default.
    min_batches: int = 64
    growth: int = 4  # factor by which the sample grows
    # The sample grows if fresh batches move more rows than its batches by more than this share.
    max_gap: float = 0.02
    # The sample stops growing if it lowers the rows that fresh batches move by less than this share
    # and the owners are the best so far.
    min_progress: float = 0.01
    # Number of held-out batches at first; it doubles until `precision` is reached.
    min_held_out: int = 64
    max_held_out: int = 1024  # most held-out batches
    precision: float = 0.01  # half the confidence interval of the mean, over the mean
    most_judged: int = 8  # number of owners whose volumes are kept
    resamples: int = 1000  # resamples of the bootstrap for the interval
    # A given number of batches that show less than this share of the nonzeros causes a warning.
    seen_enough: float = 0.5
    # Fresh batches that move more rows than the sample by more than this share cause a warning.
    gap_to_tell: float = 0.05


@dataclass(frozen=True)
class MemoryTerms:
    """Measured memory of what a search runs, and the share of free memory that it may take."""

    # Python with its libraries, half of it code, with kernels and a partitioner's child process.
    interpreter: int = 215_000_000
    margin: float = 0.9  # share of the free memory that a search may take by default
    metis_link: int = 26  # METIS with its input, per link of the undirected graph
    metis_row: int = 190  # METIS with its input, per row
    # METIS on graphs with uneven degrees, whose coarser levels have hardly fewer links.
    uneven_link: int = 80
    uneven_row: int = 75
    of_rank: int = 70_000_000  # Python with its libraries and MPI in a rank
    # The graph between clusters, and a partitioner's child process, on the first rank.
    clustered: int = 60_000_000
    corridor_link: int = 45  # nets and cuts of a corridor, per link of the corridor
    # The graph between clusters with METIS on it, per link of an undirected graph with hubs.
    cluster_link: int = 5
