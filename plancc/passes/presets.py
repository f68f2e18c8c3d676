"""Tuned parameters of the passes, in a dataclass for each pass.

A *loss* is the value of an objective without the pass, divided by the value with the pass. `python
-m benchmarks ablation` measures it (geometric mean over graphs). `plancc.search.presets` has the
parameters of the efforts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

PRICES = (0.2, 0.5, 1.0, 3.0, 10.0)
"""Prices of overweight in the sweeps of a level, one for each sweep. A price is the cost of one
more unit of weight in a part whose overweight is `Annealing.overweight`. The unit of the price is
the volume of the partition, divided by the total weight."""
RESTORING_PRICES = (30.0, 100.0, 300.0)
"""Prices of overweight in further sweeps, which end when no part is above its limit."""


@dataclass(frozen=True)
class Annealing:
    """Tuned parameters of the sweeps in which parts may exceed the limit."""

    prices: tuple[float, ...] = PRICES
    # The overweight to which prices refer, over the even share of a part.
    overweight: ClassVar[float] = 0.1
    least_boundary: float = 0.001  # a smaller share of the boundary counts as this
    swept: float = 0.2  # share of the weight that the sweeps with one price visit together
    max_repeats: int = 8  # most sweeps with one price


@dataclass(frozen=True)
class Coarsening:
    """Tuned parameters that decide how a V-cycle builds its coarser levels."""

    per_part: int = 10  # vertices per part, about, on the coarsest level
    similar: float = 0.95  # a level with more than this share of the finer vertices ends coarsening
    # Clustering ignores nets with more pins, which say little about which vertices belong together.
    rated_pins: int = 100


@dataclass(frozen=True)
class Trading:
    """Tuned parameters for exchanging vertices between parts above their limit and parts with room.

    Without exchanges, the volume with 64 parts is 1.010 times as large, and a part that has two
    tight limits often exceeds one of them.
    """

    # For every round: least share of a part's overload that an exchange must remove, and parts with
    # room that are tried.
    rounds: tuple[tuple[float, int], ...] = ((0.5, 8), (0.1, 16), (0.0, 32))
    last: tuple[float, int] = (0.0, 48)  # the same two numbers for all further rounds
    max_last: int = 12  # most further rounds
    # A further round follows only if the last one removed this share of the overload.
    least_relief: float = 0.01


TRADING = Trading()


@dataclass(frozen=True)
class Restoring:
    """Tuned parameters of the sweeps and of the swaps of vertices that restore the balance."""

    prices: tuple[float, ...] = RESTORING_PRICES
    # With several constraints, exchanges come before sweeps if the overload of an average part is
    # at most this share of its even share. With one constraint, sweeps are as good.
    little: float = 0.05
    # Sweeps come first anyway if an average part has more rows: the time of an exchange grows with
    # the rows of a part, and an exchange relieves by a few rows.
    exchanged_rows: int = 20_000
    trading: Trading = TRADING


@dataclass(frozen=True)
class Cuts:
    """Tuned parameters of minimum cuts between neighbouring parts.

    On a mesh with 8 parts, a refinement that does not end with cuts gives 1.057 times the volume.
    """

    # Most weight next to the boundary that a minimum cut may move, as a share of the part's weight.
    reach: float = 0.1
    least_reach: int = 64  # the weight may at least be that of this many average vertices,
    whole_reach: float = 0.5  # but at most this share of the part's weight
    max_degree: int = 200_000  # most nets of the vertices that may move, added over the vertices
    max_pins: int = 1000  # nets with more pins are left out of minimum cuts
    max_spread: int = 32  # nets that touch more parts do not make parts neighbours
    # No cut is tried if an average part has more neighbours. Parts of meshes have 4 to 20. Parts of
    # graphs with hubs touch nearly all other parts, and a cut between two of them saves little.
    max_neighbours: int = 24
    # No cut is tried if the mean square of the nets' sizes, over the square of their mean, is
    # higher: meshes and road networks have 1.0 to 1.6, graphs of people and papers 1.8 to 12.
    max_unevenness: float = 2.5
    max_rounds: int = 10  # most rounds over the pairs of parts
    # Most nodes that the search for a cut may visit, over the nodes of its network; then the search
    # ends with its present result. Meshes and roads take 20 to 170, random owners thousands.
    max_work: int = 300
    # A further round follows only if the last one saved this share of the volume.
    least_gain: float = 0.001
    # After pairs with the share `tried` of the cut, a round ends unless it has saved the share
    # `least_yield` of these pairs' cost. In solids, cuts take long and save little beyond sweeps.
    tried: float = 0.2
    least_yield: float = 0.0


CUTS = Cuts()
WIDE_CUTS = replace(CUTS, reach=3 * CUTS.reach)
"""Parameters of the cuts at the end of a refinement, which can move more weight."""


@dataclass(frozen=True)
class LocalSearch:
    """Tuned parameters of local searches, which start from a few vertices of the boundary."""

    seeds: int = 25  # vertices from which a search starts
    patience: int = 50  # a search ends after this many moves since its best moment
    # After starts from this many vertices of the boundary, every vertex may move once more.
    searched: int = 50_000
    # Nets and pins, about, that searches visit between two checks of the deadline.
    work: int = 5_000_000
    max_pins: int = 200  # searches do not follow nets with more pins


@dataclass(frozen=True)
class Ejection:
    """Tuned parameters of ejection chains, which move vertices into full parts.

    Without chains, the volume is 1.013 times as large with 64 parts, and 1.042 times with 512
    parts. With 512 parts, chains make a search take five times the CPU time.
    """

    chain: int = 8  # most moves of a chain
    ejectable: int = 64  # vertices of a full part among which the part chooses
    # Most gains that chains compute, over the gains of the sweeps before. With hubs, chains would
    # take many times the time of the sweeps and save little.
    work: int = 2
    rounds: int = 6  # most rounds of chains
    # A further round follows only if the last one saved this share of the volume.
    least_saved: float = 0.003
    # A round first runs chains from the share `probed` of the boundary, and at least from
    # `least_probed` vertices. It ends if they save less than `least_saved` in proportion: if parts
    # have room for many vertices, single moves have saved all already.
    probed: float = 1 / 8
    least_probed: int = 2000


@dataclass(frozen=True)
class VCycles:
    """Tuned parameters of V-cycles, for the sweeps on every level and the steps after them."""

    annealing: Annealing = Annealing()
    climbs: int = 2  # sweeps within the limit that end a refinement
    restoring: Restoring = Restoring()
    ejection: Ejection | None = Ejection()
    coarsening: Coarsening = Coarsening()
    local_search: LocalSearch = LocalSearch()
    polishes: int = 2  # most rounds of local searches and minimum cuts that end a refinement
    # The next V-cycle starts from the last owners if they are worse than the best by at most this
    # share, and from the best owners otherwise.
    max_drift: float = 0.01


V_CYCLES = VCycles()
QUICK = replace(V_CYCLES, annealing=Annealing((0.3, 1.0, 6.0)), ejection=None)
"""Parameters for fewer sweeps and no chains: three quarters of the time, and 0.7% more volume."""
MIGRATION = replace(V_CYCLES, local_search=LocalSearch(max_pins=50))
"""Parameters for a changed graph. `LocalSearch.seeds` is unused: a search starts from all boundary
vertices."""
MIGRATION_CUTS = replace(CUTS, reach=0.03, max_rounds=1)
"""Parameters for cuts near the boundary, in one round. They take a tenth of the time of `CUTS`, and
save most of the rows that `CUTS` would save."""
LEAST_MIGRATION = 0.001
"""In a changed graph, another search runs only if the last one saved this share of the volume."""


@dataclass(frozen=True)
class Fees:
    """Tuned parameters of two penalties: price of traffic, and fees for a message's first rows."""

    # A message with this share of the average rows pays 1 - 1/e of the highest total fee.
    small: float = 0.1
    # Fee of the second row of a message over the fee of the first, for the objective "messages".
    second_row: float = 0.4
    max_size: float = 4096.0  # fees fall by the factor e in at most this many rows
    # Level above which traffic has a price, between the mean (0) and the maximum (1).
    ceiling: float = 0.5


@dataclass(frozen=True)
class TrafficRounds:
    """Tuned parameters of a pass that puts a price on traffic, in several rounds of sweeps.

    The price changes from round to round. To *hold* a value of the objective means to lower the
    volume without exceeding the value; to *shave* means to hold a slightly lower value.

    Without rounds, the rows of the busiest part are 1.057 times as many with 8 parts, and messages
    1.083 times as many. Without shaving, the volume is 1.006 times as large. Without holding, the
    rows of the busiest part are 1.021 times as many with 64 parts.
    """

    # Prices of traffic from sweep to sweep beyond the limit, over the strength of the round.
    prices: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 4.0)
    first: float = 1.0  # strength of the first round
    stronger: float = 2.0  # factor of the strength after a round within the allowed volume
    weaker: float = 0.6  # factor of the strength after a round above the allowed volume
    patience: int = 3  # a pass ends after this many rounds in a row without a better result
    climbs: int = 3  # sweeps within the limit that end a round
    # Whether the traffic of the busiest parts has a price. The price then holds while the balance
    # is restored, and after a round without success the next one stays within the limit on every
    # level.
    of_busiest: bool = False
    shavings: int = 0  # most shavings of the value after the rounds
    # Share of the value that the first shaving takes; it doubles after every failure.
    shaved: float = 0.01
    shaved_in_vain: int = 3  # shaving ends after this many failures in a row
    # A round's value is held at its end if it is above the best value by at most this share.
    near: float = 0.02
    # Cost, in rows, of a row above the held value, or of a new message.
    hold: float = 10.0
    holds: int = 2  # sweeps that hold the value at the end of a round
    last_holds: int = 3  # sweeps that hold the value at the end of the pass


MAX_VOLUME_ROUNDS = TrafficRounds(of_busiest=True, shavings=20)
MESSAGE_ROUNDS = TrafficRounds((1.0,) * len(PRICES), first=3.3, stronger=1.5, patience=5)
TIME_ROUNDS = TrafficRounds(stronger=1.6, of_busiest=True)


@dataclass(frozen=True)
class EdgeRounds:
    """Tuned parameters of the rounds of `RefineEdges`, each of which is a series of sweeps.

    Without rounds, the volume with 64 parts is 1.007 times as large.
    """

    prices: tuple[float, ...] = PRICES
    restoring: tuple[float, ...] = (*RESTORING_PRICES, 1e3, 1e4, 1e6, 1e9, 1e12)
    max_climbs: int = 6  # most sweeps within the limit at the end of a round
    # A further sweep follows only if the last one saved this share of the volume.
    least_progress: float = 0.002
    # Refinement ends after this many rounds in a row with less than `least_progress`.
    patience: int = 3
    # Price of messages in the first round, so high that new messages never pay. Other traffic has
    # no price in this round.
    first_fees: float = 4.0
    stronger: float = 1.5  # factor of the price of traffic after a round that lowered the maximum
    weaker: float = 0.5  # factor of the price of traffic after any other round


EDGE_ROUNDS = EdgeRounds()


@dataclass(frozen=True)
class Propagation:
    """Tuned parameters of the label propagation that finds clusters."""

    rounds: int = 6  # most rounds, in which every vertex chooses a cluster
    few: float = 0.02  # rounds end if less than this share of the vertices changes its cluster
    per_part: int = 16  # number of largest clusters for which a part has room
    least_per_part: int = 4  # with fewer clusters per part, clusters are not used
    # If there are more links between clusters, clusters are joined to larger clusters.
    many_links: int = 2_000_000
    # If more than this share of a graph's links is between clusters, clusters are not used.
    shrunk: float = 0.6


PROPAGATION = Propagation()


@dataclass(frozen=True)
class Swaps:
    """Tuned parameters of the swaps of `MapToMachine`, which move parts between nodes."""

    per_part: int = 60  # swaps that are tried, per part
    most: int = 30_000  # most swaps in all, since the time of a swap grows with the number of parts


NEAR_LEAST = 0.01
"""A search ends when its volume is at most this share above the lower bound."""

MEAN = 1e-3
"""Factor of the ranks' mean time, which is added to the slowest rank's time to break ties."""
TINY = 1e-9
"""Gains, and shares of an overload, up to this number count as rounding errors."""
BOUND_ROUNDING = 1e-6
"""A move is ruled out if the upper bound on its gain is below minus this number, which allows for
rounding errors."""
PENALTY_ROUNDING = 1e-13
"""Upper bound on the relative rounding error of a sum of penalties."""
LISTED = 4
"""The parts that the nets of a vertex touch are listed only if they are at most 1 / `LISTED` of all
parts."""
STRIDE = 32
"""Number of parts that are skipped together if none of them has enough gain."""
BLOCKED_PINS, BLOCKS = 500_000, 64
"""A sweep over at least `BLOCKED_PINS` pins is divided into `BLOCKS` blocks. The vertices of a
block choose their parts in parallel."""
SHORT = 32
"""A net is short if `SHORT` times its number of nonzeros is below the number of parts. For a short
net, a sweep visits only the parts that the net touches. If a net has at least `SHORT` nonzeros in a
part, a quick test shows first whether it can be worthwhile for the net to leave the part."""
MAX_FEES_READ = 1 << 12
"""Largest number of fees that a sweep reads to choose a part for one vertex. With this bound, hubs
try only some of the parts."""
SAMPLE = 64
"""Largest number of vertices of a part that are candidates for an exchange. The vertices of a
larger part are divided into this many groups by weight. The candidate of a group is the vertex
whose move costs the fewest rows."""
GROUP = 4
"""Approximate number of vertices of a group that are rated to find the candidate of the group."""
MAX_STEPS = 32
"""Largest number of exchanges that a part above its limit makes in one call."""
