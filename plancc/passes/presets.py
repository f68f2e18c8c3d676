"""Every number that passes are tuned by, in a value for each pass.

What a pass saves is said where `python -m benchmarks ablation` has measured it: values without the
pass over those with it, geometric means over graphs.

A pass takes its numbers as a value; the defaults are below. Numbers of the
efforts are in `plancc.search.presets`. Compiled loops read the plain constants at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

PRICES = (0.2, 0.5, 1.0, 3.0, 10.0)
"""Prices of an overweight of `Annealing.overweight` per unit of weight, from sweep to sweep, over
the volume per unit of weight of the whole partition."""
RESTORING_PRICES = (30.0, 100.0, 300.0)
"""Prices until no part is above the limit."""


@dataclass(frozen=True)
class Annealing:
    """Sweeps beyond the limit, at prices of overweight that rise."""

    prices: tuple[float, ...] = PRICES
    # The overweight that prices are of, over the even share of a part.
    overweight: ClassVar[float] = 0.1
    least_boundary: float = 0.001  # least share of the boundary that is counted with
    swept: float = 0.2  # share of the weight that the sweeps with one price visit together
    max_repeats: int = 8  # most sweeps with one price


@dataclass(frozen=True)
class Coarsening:
    """Levels of clusters."""

    per_part: int = 10  # vertices per part, about, of the coarsest level
    similar: float = 0.95  # share of its vertices above which a level is too similar to be kept
    # Nets with more pins say little about who belongs together: clustering ignores them.
    rated_pins: int = 100


@dataclass(frozen=True)
class Trading:
    """Exchanges of vertices between parts above their limit and parts with room.

    Without them 1.010 with 64 parts; under two tight limits parts stay above them.
    """

    # Share of a part's overload that an exchange must relieve, and parts with room that it looks
    # at, round after round.
    rounds: tuple[tuple[float, int], ...] = ((0.5, 8), (0.1, 16), (0.0, 32))
    last: tuple[float, int] = (0.0, 48)  # the same for the rounds after that
    max_last: int = 12
    # Share of the overload that such a round must relieve for another one to follow.
    least_relief: float = 0.01


TRADING = Trading()


@dataclass(frozen=True)
class Restoring:
    """Sweeps at still higher prices, and exchanges, that bring parts below the limit."""

    prices: tuple[float, ...] = RESTORING_PRICES
    # Overload of an average part, over its even share, that exchanges are tried for first where
    # there are several constraints; with one, sweeps find places as good.
    little: float = 0.05
    # Rows of an average part above which sweeps come first all the same: an exchange takes time in
    # proportion to them, and relieves by a few rows.
    exchanged_rows: int = 20_000
    trading: Trading = TRADING


@dataclass(frozen=True)
class Cuts:
    """Minimum cuts between neighbouring parts: 1.057 without the last, on a mesh in 8 parts."""

    # Share of a part's weight, next to its boundary, that a minimum cut may move.
    reach: float = 0.1
    least_reach: int = 64  # it is at least as much as this number of average vertices weighs,
    whole_reach: float = 0.5  # but no more than this share
    max_degree: int = 200_000  # sum of the nets of these vertices
    max_pins: int = 1000  # nets with more pins are left out of minimum cuts
    max_spread: int = 32  # nets that touch more parts make no two of them neighbours
    # Neighbours of an average part above which nothing is tried: parts of meshes have 4 to 20,
    # while parts of graphs with hubs touch nearly all others, and cuts between two of them save
    # little.
    max_neighbours: int = 24
    # Mean square of the nets' sizes over the square of their mean above which nothing is tried
    # either: 1.0 to 1.6 in meshes and road networks, 1.8 to 12 in graphs of people and papers.
    max_unevenness: float = 2.5
    max_rounds: int = 10
    # Nodes that one cut may look at, over nodes of its network; then it ends with what it has.
    # Meshes and road networks take 20 to 170, owners at random thousands.
    max_work: int = 300
    # Share of the volume that a round must save for another one to follow.
    least_gain: float = 0.001
    tried: float = 0.2  # share of the cut whose pairs show what a round saves
    # Once pairs with the share `tried` of the cut are solved, a round ends unless it has saved at
    # least this share of what they cost: in solids cuts are dear, and hardly better than what
    # sweeps find.
    least_yield: float = 0.0


CUTS = Cuts()
WIDE_CUTS = replace(CUTS, reach=3 * CUTS.reach)
"""The last ones of a refinement."""


@dataclass(frozen=True)
class LocalSearch:
    """Searches from a few vertices of the boundary, which may pass through worse partitions."""

    seeds: int = 25  # vertices that a search starts from
    patience: int = 50  # moves without a better moment that end it
    # Vertices of the boundary that are searched from before a vertex may move once more.
    searched: int = 50_000
    # Nets and pins, about, that searches look at between two looks at the clock.
    work: int = 5_000_000
    max_pins: int = 200  # larger nets lead a search to no other vertex


@dataclass(frozen=True)
class Ejection:
    """Chains of moves into full parts, each of which ejects another vertex.

    Without them 1.013 with 64 parts and 1.042 with 512, in a fifth of the CPU time there.
    """

    chain: int = 8  # most moves of a chain
    ejectable: int = 64  # vertices of a full part that it chooses from
    # Gains that chains may compute, over gains of the sweeps before: with hubs, chains cost many
    # times the sweeps and save little.
    work: int = 2
    rounds: int = 6
    # Share of the volume that a round of chains must save for another one to follow.
    least_saved: float = 0.003
    probed: float = 1 / 8  # a round ends as soon as this share of the boundary,
    # and at least this many vertices, save less than that in proportion: where parts have room for
    # many vertices, single moves have found it all.
    least_probed: int = 2000


@dataclass(frozen=True)
class VCycles:
    """Sweeps on every level, and what follows them."""

    annealing: Annealing = Annealing()
    climbs: int = 2  # sweeps within the limit that end a refinement
    restoring: Restoring = Restoring()
    ejection: Ejection | None = Ejection()
    coarsening: Coarsening = Coarsening()
    local_search: LocalSearch = LocalSearch()
    polishes: int = 2  # most rounds of localised searches and minimum cuts that end a refinement
    # Share by which owners may be worse than the best ones for the next V-cycle to start there.
    max_drift: float = 0.01


V_CYCLES = VCycles()
QUICK = replace(V_CYCLES, annealing=Annealing((0.3, 1.0, 6.0)), ejection=None)
"""Fewer sweeps and no chains: three quarters of the time, for 0.7% more volume."""
MIGRATION = replace(V_CYCLES, local_search=LocalSearch(max_pins=50))
"""Searches from the whole boundary at once (`seeds` does not count), after a graph has changed."""
MIGRATION_CUTS = replace(CUTS, reach=0.03, max_rounds=1)
"""Near the boundary and once: a tenth of the time of all cuts, and most of what they save."""
LEAST_MIGRATION = 0.001
"""Share of the volume that such a search must save for another one to follow."""


@dataclass(frozen=True)
class Fees:
    """What the rows of a message pay: the first ones are dear."""

    # A message of this share of the average rows pays 1 - 1/e of the fees that any one pays.
    small: float = 0.1
    # Fee of the second row of a message over that of the first, where messages are to be few.
    second_row: float = 0.4
    max_size: float = 4096.0  # fees are spread over no more rows of a message than a few times this
    # Level from which traffic is priced, between the mean (0) and the maximum (1).
    ceiling: float = 0.5


@dataclass(frozen=True)
class TrafficRounds:
    """How rounds that price traffic follow each other.

    Without rounds 1.057 of the busiest part and 1.083 of the messages, with 8 parts; without holds
    1.021 of the busiest part with 64; without shaving 1.006 of the volume with 8.
    """

    # Of traffic, from sweep to sweep beyond the limit, over the strength of the round.
    prices: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 4.0)
    first: float = 1.0  # strength of the first round
    stronger: float = 2.0  # factor after a round within the allowed volume
    weaker: float = 0.6  # factor after a round above it
    patience: int = 3  # rounds in a row without anything better after which a pass ends
    climbs: int = 3  # sweeps within the limit that end a round
    # Whether traffic of the busiest parts is what is priced: it then has its price while the
    # balance is restored, and a round in vain is followed by one within the limit on every level.
    of_busiest: bool = False
    # Most times that the value is shaved after the rounds, by sweeps that hold it.
    shavings: int = 0
    # Share of the value that is shaved first; twice as much after every one in vain.
    shaved: float = 0.01
    shaved_in_vain: int = 3  # shavings in vain, one after the other, that end them
    # Share by which the value of a round may be above the best one for its traffic to be held.
    near: float = 0.02
    # Rows that a row above what is held costs, or a message that is not there yet.
    hold: float = 10.0
    holds: int = 2  # sweeps that hold the traffic at the end of a round,
    last_holds: int = 3  # and of the pass


MAX_VOLUME_ROUNDS = TrafficRounds(of_busiest=True, shavings=20)
MESSAGE_ROUNDS = TrafficRounds((1.0,) * len(PRICES), first=3.3, stronger=1.5, patience=5)
TIME_ROUNDS = TrafficRounds(stronger=1.6, of_busiest=True)


@dataclass(frozen=True)
class EdgeRounds:
    """Rounds of sweeps over nonzeros and owners of rows: 1.007 without them, with 64 parts."""

    prices: tuple[float, ...] = PRICES
    restoring: tuple[float, ...] = (*RESTORING_PRICES, 1e3, 1e4, 1e6, 1e9, 1e12)
    max_climbs: int = 6  # most sweeps within the limit at the end of a round
    # Share of the volume that a sweep must save to be followed by another.
    least_progress: float = 0.002
    # Rounds in a row that gain less than `least_progress` after which refinement stops.
    patience: int = 3
    # Price of messages in the first round: one that is not there yet is never wanted. Other traffic
    # has none then.
    first_fees: float = 4.0
    stronger: float = 1.5  # factor of the price of traffic after a round that lowered the maximum,
    weaker: float = 0.5  # and after one that did not


EDGE_ROUNDS = EdgeRounds()


@dataclass(frozen=True)
class Propagation:
    """Clusters by size-constrained label propagation."""

    # Most times that every vertex chooses; rounds end when few choose another cluster.
    rounds: int = 6
    few: float = 0.02  # share of the vertices below which choices are few
    per_part: int = 16  # clusters of the largest size that a part has room for
    least_per_part: int = 4  # clusters per part below which there is nothing left to partition
    # Links between clusters above which clusters are joined to larger ones.
    many_links: int = 2_000_000
    # Share of a graph's links beyond which those between its clusters are too many: they have none.
    shrunk: float = 0.6


PROPAGATION = Propagation()


@dataclass(frozen=True)
class Swaps:
    """Swaps of parts between the nodes of a machine."""

    per_part: int = 60  # swaps that are tried, per part,
    most: int = 30_000  # and altogether: every one takes time in proportion to the parts


NEAR_LEAST = 0.01
"""A volume at most this share above the least one is not worth another search."""

MEAN = 1e-3
"""Weight of the mean rank's time beside the slowest one's: it decides among equals."""
TINY = 1e-9
"""Gains, and shares of an overload, up to it are rounding."""
BOUND_ROUNDING = 1e-6
"""How far a bound on an expected gain must be below 0: sums are rounded."""
PENALTY_ROUNDING = 1e-13
"""Relative error of sums of penalties, generously."""
LISTED = 4
"""Parts that a vertex touches are listed while they are at most one in this many."""
STRIDE = 32
"""Parts that are passed over together where none gains enough."""
BLOCKED_PINS, BLOCKS = 500_000, 64
"""A sweep of as many pins is made in as many blocks, whose vertices choose their parts at once."""
SHORT = 32
"""Factor by which a short net has fewer nonzeros than there are parts: it looks at its own only.
A net with as many nonzeros in one part is first asked whether it can leave that part at all."""
MAX_FEES_READ = 1 << 12
"""Most fees that are read to choose a part for one vertex: hubs try some parts only."""
SAMPLE = 64
"""Vertices of a part that exchanged pairs are made of: a part of more is cut into as many groups of
about the same weight, and each gives the one whose move costs the fewest rows."""
GROUP = 4
"""Most vertices of a group that are looked at."""
MAX_STEPS = 32
"""Most exchanges of a part in one call."""
