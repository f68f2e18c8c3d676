"""Effort best: a population of partitions that are combined, mutated and replaced by likeness.

A memetic search, as KaHyPar-E (Andre, Schlag and Schulz, 2018): V-cycles whose clusters respect two
members combine them, V-cycles with new clusters mutate one, and a child takes the place of the most
similar of those that it is better than, so that the population stays diverse. Where it has become
alike, or finds nothing better for long, it starts again with new members beside the best one.

Knows the steps of one search, no partitioner by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.models.problem import Hypergraph
from plancc.partitioners.run import strongest
from plancc.passes.multilevel import Owner
from plancc.search.job import EVEN, Job, Member
from plancc.search.starts import Beginning

MEMBER_CYCLES = {"thin": 1, "even": 2, "dense": 2, "wide": 3, "hubs": 3}
"""Most V-cycles of a new member, by kind of graph."""
SIZE = 10
"""Largest population."""
LEAST_SIZE = 5
"""Size of the population without a budget, if there are not more starts than that."""
ROUNDS = 12
"""Children per member of the population, unless a budget says when to end."""
GROWING_SHARE = 0.4
"""Share of a budget in which members are added to the first population."""
RESTART_SHARE = 0.25
"""The same, of the time left, for the population of a restart."""
START_SHARE = 0.75
"""Share of the time left that one partitioner gets."""
BATCH = 2
"""Children made from one state of the population, at least; so many as there are threads."""
MUTATIONS = 0.3
"""Share of the children that come from one member only."""
ALIKE = 0.02
"""Mean distance to the best member, over its volume, below which a population is alike."""
PATIENCE = 3
"""Children per member without a better one after which the population starts again."""


@dataclass
class Population:
    """Members that differ.

    Attributes
    ----------
    cost : int64[num_nets]
    size : int
        Most members.
    members : list of Member
    """

    cost: npt.NDArray[np.int64]
    size: int = SIZE
    members: list[Member] = field(default_factory=list)

    @property
    def best(self) -> Member:
        return min(self.members)

    def distance(self, one: Member, two: Member) -> int:
        """Rows that the nets cost one of both more or less than the other, net by net."""
        difference = np.abs(one.spread.astype(np.int64) - two.spread)
        return int(difference @ self.cost)

    def add(self, child: Member) -> bool:
        """Take a child in: whether it was.

        A full population gives up the member most similar to the child of those that are worse. A
        child that is the same as a member, net by net, is none.
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
        """Whether the members hardly differ any more."""
        best = self.best
        apart = [self.distance(best, member) for member in self.members if member is not best]
        return not apart or float(np.mean(apart)) < ALIKE * max(best.volume, 1)


def evolve(job: Job) -> list[Member]:
    """Members of the last population, the best first; none where there is nothing to search.

    Without a budget the search ends after `ROUNDS` children per member, or as soon as it would
    start again.
    """
    first = job.first("balanced")
    if first is None:
        return []
    timed = job.deadline.at < np.inf
    first_seconds = job.record.trials[0].seconds
    population = Population(job.nets.cost)
    starts = _starts(job)
    for member in _grown(job, first, starts, first_seconds):
        population.add(member)
    rng = np.random.default_rng(job.options.seed)
    made = fruitless = restarts = 0
    again = True  # whether there is time for new members
    most = np.inf if timed else ROUNDS * len(population.members)
    batch = max(BATCH, job.options.threads)
    while made < most and not (job.deadline.passed() or job.is_least(population.best)):
        late = fruitless >= PATIENCE * len(population.members)
        if again and (late or population.alike()):
            population.add(job.polish(population.best.owner, rng))
            if not timed:
                break
            restarts, fruitless = restarts + 1, 0
            seed = (job.options.seed + 100 * restarts) % 2**31
            found = _again(job, starts, seed, first_seconds)
            again = len(found) > 0
            if again:
                population = Population(job.nets.cost, members=[population.best])
            for member in found:
                population.add(member)
            continue
        before = population.best
        tasks = [(job, *_parents(population, rng), made + k) for k in range(batch)]
        for child in job.side_by_side(_child, tasks):
            population.add(child)
        made += batch
        fruitless = 0 if population.best < before else fruitless + batch
    return sorted(population.members)


def _starts(job: Job) -> list[tuple[Callable[..., Owner | None], float]]:
    """Ways to begin, each called with a seed and a share of the time, and their slowness."""
    found: list[tuple[Callable[..., Owner | None], float]] = [
        (partial(_begin, job, each), each.how.slowness) for each in job.beginnings("best")
    ]
    if found:
        return found
    found.append((lambda seed, share: job.start(job.base, seed=seed, share=share), 1.0))
    strong = strongest(job.hypergraph) if job.model.problem is Hypergraph else None
    if strong is not None:
        preset = strong.presets[0]

        def start(seed: int, share: float) -> Owner | None:
            return job.start(job.hypergraph, strong, seed=seed, preset=preset, share=share)

        found.append((start, strong.slowness))
    return found


def _begin(job: Job, how: Beginning, seed: int, share: float) -> Owner | None:
    """Owners of a start, unless it was the first one of the search."""
    return None if job.has_begun(how, seed) else job.begin(how, seed, share)


def _grown(job: Job, first: Owner, starts: list[Any], first_seconds: float) -> list[Member]:
    """The first members, each from another start; with a budget as many as it allows."""
    seed, begin = job.options.seed, wall_seconds()
    growing = GROWING_SHARE * job.deadline.seconds_left()
    timed = growing < np.inf
    quick = [start for start, slowness in starts if slowness <= 3.0] or [starts[0][0]]
    tasks: list[tuple[Callable[..., Owner | None], int, float]] = [(lambda *_: first, seed, 0.0)]
    tasks += [(start, seed, slowness) for start, slowness in starts]
    size = SIZE if timed else max(LEAST_SIZE, len(tasks))
    tasks += [
        (quick[k % len(quick)], (seed + 1 + k // len(quick)) % 2**31, 1.0)
        for k in range(size - len(tasks))
    ]

    def grow(start: Callable[..., Owner | None], seed: int, slowness: float) -> Member | None:
        late = wall_seconds() - begin > growing
        if slowness > 0 and (late or not _in_time(job, slowness * first_seconds)):
            return None
        return _member(job, start, seed)

    return [member for member in job.side_by_side(grow, tasks) if member is not None]


def _again(job: Job, starts: list[Any], seed: int, first_seconds: float) -> list[Member]:
    """Members of a restart, with new seeds."""
    begin, growing = wall_seconds(), RESTART_SHARE * job.deadline.seconds_left()

    def grow(start: Callable[..., Owner | None], seed: int, slowness: float) -> Member | None:
        late = wall_seconds() - begin > growing
        if late or not _in_time(job, slowness * first_seconds / RESTART_SHARE):
            return None
        return _member(job, start, seed)

    tasks = [(start, (seed + k) % 2**31, slowness) for k in range(2) for start, slowness in starts]
    found = job.side_by_side(grow, tasks[: SIZE - 1])
    return [member for member in found if member is not None]


def _in_time(job: Job, seconds: float) -> bool:
    """Whether what takes that long, about, is worth being begun."""
    return seconds < START_SHARE * job.deadline.seconds_left()


def _member(job: Job, start: Callable[..., Owner | None], seed: int) -> Member | None:
    """A start with a chain of V-cycles of its own."""
    owner = start(seed, START_SHARE)
    if owner is None:
        return None
    member = job.chain(owner, seed, MEMBER_CYCLES[job.kind])
    if job.kind in EVEN and not job.deadline.passed():
        member = min(member, job.polish(member.owner, np.random.default_rng([seed, 2])))
    return member


def _parents(population: Population, rng: np.random.Generator) -> tuple[Member, Member | None]:
    """Two members to be combined, the better one first, or one to be mutated."""
    members = population.members
    if len(members) == 1 or rng.random() < MUTATIONS:
        return members[int(rng.integers(len(members)))], None
    one, two = (members[k] for k in rng.choice(len(members), 2, replace=False))
    return (one, two) if one < two else (two, one)


def _child(job: Job, one: Member, two: Member | None, number: int) -> Member:
    """A V-cycle from two members or from one, and what the kind of graph asks for after it."""
    rng = np.random.default_rng([job.options.seed, 1, number])
    step = f"{'combined' if two is not None else 'mutated'} {number + 1}"
    other = None if two is None else two.owner
    child = job.cycle(one.owner, rng, step, other)
    if job.deadline.passed() or (job.kind in EVEN and not child < (two or one)):
        return child
    if job.kind in EVEN:
        return min(child, job.polish(child.owner, rng))
    return min(child, job.cycle(child.owner, rng, f"{step}, V-cycle"))
