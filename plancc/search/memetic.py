"""Effort "best": evolve a population of partitions by combination, mutation and replacement.

This is a memetic search, like KaHyPar-E (Andre, Schlag and Schulz, 2018). A *member* is a partition
in the population; a *child* is a new partition. A V-cycle combines two members if it merges only
vertices that share a part in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.graph.owners import Owner
from plancc.search.presets import EVOLUTION
from plancc.search.record import Member
from plancc.search.rows import RowJob


@dataclass
class Members:
    """The partitions that a search combines, in no particular order; no two are equal.

    Attributes:
        cost (int64[num_nets]): Costs of the nets.
        size: Largest number of members.
    """

    cost: npt.NDArray[np.int64]
    size: int = EVOLUTION.size
    members: list[Member] = field(default_factory=list)

    @property
    def best(self) -> Member:
        return min(self.members)

    def distance(self, one: Member, two: Member) -> int:
        """Return how much the members differ, as a sum over nets.

        A term is the net's cost, times the difference between the numbers of parts that have pins
        of the net in `one` and in `two`.
        """
        difference = np.abs(one.spread.astype(np.int64) - two.spread)
        return int(difference @ self.cost)

    def add(self, child: Member) -> bool:
        """Add a child to the population if it is good enough; return whether it was added.

        In a full population, the child replaces the most similar of the worse members.
        """
        apart = [self.distance(child, member) for member in self.members]
        if 0 in apart and not child < self.members[apart.index(0)]:
            return False
        if len(self.members) < self.size and 0 not in apart:
            self.members.append(child)
            return True
        worse = [k for k, member in enumerate(self.members) if child < member]
        if not worse:
            return False
        self.members[min(worse, key=lambda k: apart[k])] = child
        return True

    def alike(self) -> bool:
        """Whether the mean difference of partitions to the best is small (`Evolution.alike`)."""
        best = self.best
        apart = [self.distance(best, member) for member in self.members if member is not best]
        return not apart or float(np.mean(apart)) < EVOLUTION.alike * max(best.volume, 1)


@dataclass
class Choice:
    """A choice among alternatives that prefers alternatives with more success (Thompson, 1933).

    All counts shrink at every step, so that recent successes matter most.

    Attributes:
        won, lost (float64[number of alternatives]): Weighted numbers of successes and failures.
    """

    won: npt.NDArray[np.float64]
    lost: npt.NDArray[np.float64]

    @classmethod
    def of(cls, number: int) -> Choice:
        return cls(np.zeros(number), np.zeros(number))

    def draw(self, rng: np.random.Generator) -> int:
        return int(np.argmax(rng.beta(1 + self.won, 1 + self.lost)))

    def learn(self, way: int, paid: bool) -> None:
        self.won *= EVOLUTION.fading
        self.lost *= EVOLUTION.fading
        (self.won if paid else self.lost)[way] += 1


def evolve(job: RowJob, founders: list[Member]) -> list[Member]:
    """Evolve a population from `founders`; return the last population, the best member first.

    The best member is never worse than the best founder. Without a budget, the search ends as soon
    as children no longer improve the population or all members are alike, and at the latest after
    `Evolution.rounds` children per member (fewer in large graphs).
    """
    if not founders:
        return []
    timed = job.deadline.at < np.inf
    first_seconds = job.first_seconds
    population = Members(job.nets.cost)
    starts = _starts(job)
    for member in [*founders, *_grown(job, founders, starts, first_seconds)]:
        population.add(member)
    prices = job.kind_numbers.child_prices
    choice = Choice.of(len(prices))
    rng = np.random.default_rng(job.options.seed)
    made = fruitless = restarts = 0
    again = True  # whether there is time for new members
    members, visited = len(population.members), EVOLUTION.visited // max(len(job.nets.pins), 1)
    most = max(EVOLUTION.patience * members, min(visited, EVOLUTION.rounds * members))
    batch = max(EVOLUTION.batch, job.options.threads)
    while (timed or made < most) and not (job.deadline.passed() or job.is_least(population.best)):
        late = fruitless >= EVOLUTION.patience * len(population.members)
        if again and (late or population.alike()):
            population.add(job.polish(population.best.owner, rng))
            if not timed:
                break
            restarts, fruitless = restarts + 1, 0
            seed = (job.options.seed + 100 * restarts) % 2**31
            found = _again(job, starts, seed, first_seconds)
            again = len(found) > 0
            if again:
                population = Members(job.nets.cost, members=[population.best])
            for member in found:
                population.add(member)
            continue
        before = population.best
        ways = [choice.draw(rng) for _ in range(batch)]
        pairs = [_parents(population, rng) for _ in range(batch)]
        tasks = [(job, *pairs[k], made + k, prices[ways[k]]) for k in range(batch)]
        for child, way, (one, _) in zip(job.side_by_side(_child, tasks), ways, pairs, strict=True):
            choice.learn(way, child < one)
            population.add(child)
        made += batch
        fruitless = 0 if population.best < before else fruitless + batch
    return sorted(population.members)


@dataclass(frozen=True)
class _Start:
    """A way to make the owners from which a new member of the population grows.

    Attributes:
        make: Function of a seed and a share of the remaining time, which returns owners, or None
            if it has failed.
        slowness: Time that the start takes, divided by METIS' time.
        has_begun: Function that returns whether the search has made the start with this seed.
    """

    make: Callable[[int, float], Owner | None]
    slowness: float
    has_begun: Callable[[int], bool] = lambda seed: False


def _starts(job: RowJob) -> list[_Start]:
    """Return the ways to make the first owners of a new member of the population, best first."""
    found = [
        _Start(partial(job.begin, each), each.how.slowness, partial(job.has_begun, each))
        for each in job.beginnings("best")
    ]
    plain = _Start(lambda seed, share: job.start(job.base, seeds=[seed], share=share), 1.0)
    return found or [plain]


def _grown(
    job: RowJob, founders: list[Member], starts: list[_Start], first_seconds: float
) -> list[Member]:
    """Return more members of the population, from different starts, as many as the budget allows.

    If the first slow start is far better than quick starts and founders, the next starts are slow
    too. The reason: children of a good and a much worse member hardly beat the good member.

    `first_seconds`: time of the search's first start, from which other times are estimated.
    """
    seed, begin = job.options.seed, wall_seconds()
    share = EVOLUTION.growing_share * job.deadline.seconds_left()
    slow = [each for each in starts if each.slowness > EVOLUTION.quick and not each.has_begun(seed)]
    quick = [start for start in starts if start.slowness <= EVOLUTION.quick]
    turns = [(start, (seed + k) % 2**31) for k in range(EVOLUTION.size) for start in quick]
    turns = [(start, seed) for start, seed in turns if not start.has_begun(seed)]

    first = turns[:1] + [(start, seed) for start in slow[:1]]
    # on even graphs the start decides the result: make the first starts without a time limit
    until = np.inf if job.kind in ("even", "dense") else begin + share
    found = _grow(job, first, until, first_seconds)
    slower, rest = [(start, seed) for start in slow[1:]], turns[1:]
    others = [member.volume for member in [*founders, *found[:-1]] if member is not None]
    if slow and found[-1] is not None and found[-1].volume < (1 - EVOLUTION.clear) * min(others):
        share *= 2
        rest = slower + rest
    else:
        rest = rest[: len(quick)] + slower + rest[len(quick) :]
    size = max(EVOLUTION.least_size, len(starts))
    if share < np.inf:
        size = EVOLUTION.size - len(founders) - len(first)
    found += _grow(job, rest[: max(size, 0)], begin + share, first_seconds)
    return [member for member in found if member is not None]


def _again(job: RowJob, starts: list[_Start], seed: int, first_seconds: float) -> list[Member]:
    """Make up to ``EVOLUTION.size - 1`` members for a restart; leave failed members out."""
    until = wall_seconds() + EVOLUTION.restart_share * job.deadline.seconds_left()
    tasks = [(start, (seed + k) % 2**31) for k in range(2) for start in starts]
    found = _grow(job, tasks[: EVOLUTION.size - 1], until, first_seconds / EVOLUTION.restart_share)
    return [member for member in found if member is not None]


def _grow(
    job: RowJob, tasks: list[tuple[_Start, int]], until: float, first_seconds: float
) -> list[Member | None]:
    """Make a member of the population for every pair (start, seed) in `tasks`.

    A member grows from the owners that the start makes. It is None if the start failed, would begin
    after `until`, or would take too long.
    """

    def grow(start: _Start, seed: int) -> Member | None:
        late = wall_seconds() > until or job.deadline.passed()
        left = EVOLUTION.start_share * job.deadline.seconds_left()
        if late or start.slowness * first_seconds >= left:
            return None
        return _member(job, start, seed)

    return list(job.side_by_side(grow, tasks))


def _member(job: RowJob, start: _Start, seed: int) -> Member | None:
    """Make an initial partition by `start`, and improve it by sweeps and V-cycles.

    Return None if `start` fails.
    """
    owner = start.make(seed, EVOLUTION.start_share)
    if owner is None:
        return None
    member = job.chain(owner, seed, job.kind_numbers.member_cycles)
    if job.kind_numbers.cuts and not job.deadline.passed():
        member = min(member, job.polish(member.owner, np.random.default_rng([seed, 2])))
    return member


def _parents(population: Members, rng: np.random.Generator) -> tuple[Member, Member | None]:
    """Draw two partitions to combine, the better one first; or one to mutate, and None."""
    members = population.members
    if len(members) == 1 or rng.random() < EVOLUTION.mutations:
        return members[int(rng.integers(len(members)))], None
    one, two = (members[k] for k in rng.choice(len(members), 2, replace=False))
    return (one, two) if one < two else (two, one)


def _child(
    job: RowJob, one: Member, two: Member | None, number: int, prices: tuple[float, ...]
) -> Member:
    """Make a child from one or two members by a V-cycle, and by minimum cuts if they pay."""
    rng = np.random.default_rng([job.options.seed, 1, number])
    step = f"{'combined' if two is not None else 'mutated'} {number + 1}"
    other = None if two is None else two.owner
    child = job.cycle(one.owner, rng, step, other, prices=prices)
    if job.kind_numbers.cuts and child < one and not job.deadline.passed():
        child = min(child, job.polish(child.owner, rng))
    return child
