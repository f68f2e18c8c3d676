"""Sweeps and V-cycles. A sweep moves every boundary vertex for which there is a better part.

A V-cycle runs sweeps on coarse hypergraphs, then on finer ones.

                  coarsen (clusters stay within parts)        refine on every level
    finest    o o o o o o o o o o o o o o o o                 o o o o o o o o o o o o
                 o  o  o  o  o  o  o                             o  o  o  o  o  o
    coarsest       O    O    O    O               ->               O    O    O

On every level, the price of overweight rises from sweep to sweep. At low prices, parts may grow
beyond the limit while vertices move to better parts; higher prices restore the balance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.owners import Owner
from plancc.models.limits import Bounds, Limits
from plancc.passes.deadline import Deadline
from plancc.passes.kernels.coarsening import cluster, contract
from plancc.passes.kernels.ejection import eject
from plancc.passes.kernels.exchange import Rules, chains, exchange
from plancc.passes.kernels.expected import expected, sweep_expected
from plancc.passes.kernels.local_search import end_search, local_search, new_search
from plancc.passes.kernels.nets import Nets, with_transpose, without_transpose
from plancc.passes.kernels.state import State, boundary, state_of, volume
from plancc.passes.kernels.volume import relief_costs, relieve, sweep
from plancc.passes.presets import CUTS, V_CYCLES, WIDE_CUTS, Annealing, Coarsening, Cuts, VCycles


@dataclass(frozen=True, eq=False)
class Goal:
    """The objective of sweeps: the volume, or the expected volume of mini-batches.

    Attributes:
        reach (float64[m + 1], or None): ``reach[c]`` is the probability that a part with c pins of
            a net needs the net's row, scaled so that ``reach[1]`` is about 1, since gains below
            `plancc.passes.presets.TINY` count as 0. If it is None, the objective is the volume.
        unit: Number by which `value` multiplies its result, to undo the scaling of `reach`.
    """

    reach: npt.NDArray[np.float64] | None = None
    unit: float = 1.0

    @property
    def overlap(self) -> float:
        """The parameter `overlap` of `plancc.passes.kernels.coarsening.cluster`, in 0..1."""
        if self.reach is None or len(self.reach) < 3 or self.reach[1] <= 0:
            return 1.0
        return float(np.clip(2 - self.reach[2] / self.reach[1], 0, 1))

    def value(self, nets: Nets, state: State) -> int | float:
        """Return the volume if `reach` is None, else the expected volume of mini-batches.

        The expected volume assumes, for every net j, that vertex j is in the mini-batch.
        """
        if self.reach is None:
            return volume(nets, state)
        return self.unit * float(expected(nets, state, self.reach))

    def sweep(
        self, order: Any, nets: Nets, state: State, bounds: Bounds, threads: int = 1
    ) -> tuple[int, int]:
        """Run one sweep; return the numbers of vertices moved and of gains computed."""
        if self.reach is None:
            moved, _, evaluations = sweep(order, nets, state, bounds, threads)
        else:
            moved, evaluations = sweep_expected(order, nets, state, self.reach, bounds)
        return int(moved), int(evaluations)


VOLUME = Goal()


@dataclass(eq=False)
class Sweeps:
    """Methods that refine a partition by sweeps; most of them change the given state in place.

    Attributes:
        rng: Random numbers that shuffle the vertices.
        deadline: No sweep starts and no coarser level is built after the deadline.
        threads: Number of threads of sweeps and cuts; the result does not depend on it.
        evaluations: Number of gains computed so far, each for a pair of vertex and part.
    """

    limits: Limits
    rng: np.random.Generator
    deadline: Deadline = field(default_factory=Deadline)
    goal: Goal = VOLUME
    threads: int = 1
    numbers: VCycles = V_CYCLES
    evaluations: int = 0

    def _sweep(self, order: Any, nets: Nets, state: State, bounds: Bounds) -> int:
        """Run one sweep; return the number of vertices that moved."""
        moved, tried = self.goal.sweep(order, nets, state, bounds, self.threads)
        self.evaluations += tried
        return moved

    def anneal(self, nets: Nets, state: State, prices: tuple[float, ...] | None = None) -> None:
        """Run sweeps, each at a higher price of overweight than the sweep before.

        If the boundary is small, several sweeps run at each price, since a sweep moves only
        vertices on the boundary.
        """
        order = boundary(nets, state)
        share = self._share_of_weight(order, nets)
        unit = self.price_unit(nets, state, share)
        how = self.numbers.annealing
        repeats = int(np.clip(how.swept / share.max(), 1, how.max_repeats))
        last, moved = None, 1
        prices = how.prices if prices is None else prices
        for k, price in enumerate(np.repeat(prices, repeats)):
            if self.deadline.passed():
                break
            if k > 0:
                order = boundary(nets, state)
            self.rng.shuffle(order)
            if moved or price != last:  # otherwise no vertex would move again
                moved = self._sweep(order, nets, state, self.limits.bounds(price * unit))
            last = price

    def price_unit(
        self, nets: Nets, state: State, share: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the base price of weight above the target, float64[num_parts, num_constraints].

        Each sweep multiplies the price by a factor. The price is high for parts of little capacity,
        and proportional to 1 / share**2. `share` is the share of all weight that is in
        boundary vertices, since only these can move. If it is None, it is computed.
        """
        if share is None:
            share = self._share_of_weight(boundary(nets, state), nets)
        return price_unit(self.goal.value(nets, state) / self.goal.unit, share, self.limits)

    def _share_of_weight(
        self, vertices: npt.NDArray[np.int64], nets: Nets
    ) -> npt.NDArray[np.float64]:
        weight = nets.weight[vertices].sum(axis=0)
        least = self.numbers.annealing.least_boundary
        return np.clip(weight / np.maximum(self.limits.total, 1), least, 1)

    def refined(self, nets: Nets, owners: Sequence[Owner], cuts: Cuts, coarse: bool) -> Owner:
        """Return the partition in `owners` with the smallest volume, after refining it.

        Sweeps and minimum cuts refine the partition. If `coarse`, the vertices of `nets` are
        clusters: a V-cycle follows, and the sweeps and cuts are repeated.
        """
        limits = self.limits
        states = [state_of(nets, owner, limits.num_parts) for owner in owners]
        state = min(states, key=lambda each: volume(nets, each))
        if limits.overload(state.sums) > 0:  # clusters move weight through chains of parts
            state = self.v_cycle(nets, state.owner, self.anneal)
        found = []
        for again in range(1 + coarse):
            if again:
                state = self.v_cycle(nets, state.owner)
            self.settle(nets, state)
            self.cut(nets, state, (cuts,))
            found.append((limits.overload(state.sums), volume(nets, state), again, state.owner))
        return min(found)[-1]

    def settle(self, nets: Nets, state: State) -> None:
        """Bring all parts within the limit, then lower the volume within the limit.

        After the deadline, only the balance is restored, in the quickest way.
        """
        self.restore_balance(nets, state)
        self.improve(nets, state)

    def improve(self, nets: Nets, state: State) -> None:
        """Run sweeps within the limit, then ejection chains; neither volume nor overload rises."""
        before, chains = self.evaluations, self.numbers.ejection
        self.climb(nets, state)
        if chains is not None:
            self.eject(nets, state, chains.work * (self.evaluations - before))

    def climb(self, nets: Nets, state: State) -> None:
        """Run sweeps that fill no part above its limit; neither volume nor overload rises."""
        bounds = self.limits.bounds(np.zeros(state.sums.shape), self.limits.limit)
        moved = 1
        for _ in range(self.numbers.climbs):
            if self.deadline.passed():
                break
            order = boundary(nets, state)
            self.rng.shuffle(order)
            if moved:  # otherwise no vertex would move again
                moved = self._sweep(order, nets, state, bounds)

    def eject(self, nets: Nets, state: State, most: int) -> None:
        """Run ejection chains (`plancc.passes.kernels.ejection`) until `most` gains are computed.

        A gain is the number of rows that a move saves. If the goal is not the volume, nothing is
        done. Neither volume nor overload rises.
        """
        how = self.numbers.ejection
        if self.goal.reach is not None or how is None:
            return
        limit = np.maximum(self.limits.limit, state.sums).astype(np.float64)
        rows, last = volume(nets, state), self.evaluations + most
        for _ in range(how.rounds):
            order = boundary(nets, state)
            self.rng.shuffle(order)
            chain = chains(order, state.owner, len(state.sums))
            total, done, saved = len(order), 0, 0
            probed = max(int(how.probed * total), how.least_probed)
            for end in (min(total, probed), total):
                if self.deadline.passed():
                    return
                most_of = how.chain, how.ejectable, last - self.evaluations
                more, tried = eject(order[done:end], limit, *most_of, chain, nets, state)
                self.evaluations += int(tried)
                saved, done = saved + int(more), end
                if saved * total <= how.least_saved * rows * done or self.evaluations >= last:
                    return
            rows -= saved

    def cut(
        self,
        nets: Nets,
        state: State,
        cuts: tuple[Cuts, ...] = (CUTS, WIDE_CUTS),
        most: int | None = None,
    ) -> int:
        """Apply minimum cuts between neighbouring parts; return the work (see `Flows.refine`).

        Cuts are tried only if the goal is the volume, and between parts that have few neighbours.
        There is one run for each entry of `cuts`, which moves at most `most` vertices. Neither
        volume nor overload rises.
        """
        if self.goal.reach is not None:
            return 0
        from plancc.passes.flows import Flows

        work = 0
        for numbers in cuts:
            flows = Flows(self.limits, self.deadline, self.threads, numbers, most)
            work += flows.refine(nets, state)
        return work

    def polish(self, nets: Nets, state: State) -> int:
        """Alternate minimum cuts and local searches, if parts have few neighbours.

        Neither volume nor overload rises. Returns the work of all cuts (see `cut`).
        """
        work = self.cut(nets, state, (WIDE_CUTS,))
        for _ in range(self.numbers.polishes if work > 0 else 0):
            if self.deadline.passed() or self.search(nets, state) == 0:
                break
            work += self.cut(nets, state, (WIDE_CUTS,))
        return work

    def search(self, nets: Nets, state: State) -> int:
        """Run local searches from all boundary vertices; return the number of rows saved.

        No move lets a part exceed its limit. ``self.goal`` must be the volume.
        """
        order = boundary(nets, state)
        self.rng.shuffle(order)
        how, limit, saved = self.numbers.local_search, self.limits.limit, 0
        for first in range(0, len(order), how.searched):
            seeds = order[first : first + how.searched]
            more, done = self.search_from(seeds, how.seeds, len(nets.weight), limit, nets, state)
            saved += more
            if not done:
                break
        return saved

    def search_from(
        self, order: Any, width: int, most: int, limit: Any, nets: Nets, state: State
    ) -> tuple[int, bool]:
        """Run local searches; return by how much the volume fell, and whether all have ended.

        Each search starts from the next `width` vertices in `order`, and makes at most `most`
        moves. Searches that the deadline stops have not ended.
        """
        how, scale = self.numbers.local_search, 1 / self.limits.relative
        effort = width, how.patience, how.max_pins, how.work, most, limit.astype(np.float64), scale
        search, finished, keys = new_search(len(nets.weight)), False, np.empty(64, np.int64)
        while not (finished or self.deadline.passed()):
            keys, finished = local_search(order, keys, *effort, search, nets, state)
        end_search(search, nets, state)
        return int(search.rows[0]), finished

    def anneal_and_cut(
        self, nets: Nets, state: State, prices: tuple[float, ...] | None = None, cuts: Cuts = CUTS
    ) -> None:
        """Call `anneal` with `prices` of overweight, or `improve` if they are (); then `cut`."""
        if prices is not None and len(prices) == 0:
            self.improve(nets, state)
        else:
            self.anneal(nets, state, prices)
        self.cut(nets, state, (cuts,))

    def restore_balance(self, nets: Nets, state: State) -> None:
        """Move vertices out of parts above the limit, so that the volume grows least.

        With several constraints and little overload, vertices of two parts are exchanged before the
        sweeps, since this then adds fewer rows to the volume. A part of few heavy vertices may stay
        above the limit.
        """
        how = self.numbers.restoring
        for price in how.prices:
            overload, num_parts = self.limits.overload(state.sums), len(state.sums)
            little = overload <= how.little * num_parts and state.sums.shape[1] > 1
            if little and len(state.owner) <= how.exchanged_rows * num_parts:
                self.trade(nets, state)
            if self.limits.overload(state.sums) == 0:
                return
            self.anneal(nets, state, (price,))
        if self.limits.overload(state.sums) == 0:
            return
        self.relieve(nets, state)
        self.trade(nets, state)

    def relieve(self, nets: Nets, state: State, most: int | None = None) -> None:
        """Move up to `most` vertices out of parts above the limit, cheapest moves first."""
        limit = self.limits.limit
        costs = relief_costs(nets, state, limit)
        order = np.argsort(costs, kind="stable")[: np.isfinite(costs).sum()]
        relieve(order[:most], nets, state, limit)

    def trade(self, nets: Nets, state: State) -> int:
        """Lower the overload by exchanges between pairs of parts; return the number of exchanges.

        Only some of the parts below their limits are tried, so that the work does not grow with the
        number of pairs of parts. No part becomes empty.
        """
        limits, numbers = self.limits, self.numbers.restoring.trading
        limit = np.ascontiguousarray(limits.limit, dtype=np.float64)
        even = np.maximum(-(-limits.total // limits.num_parts), 1)
        unit = 1 / (limits.relative[:, None] * even)
        chain, made, last = None, 0, 0
        overload = limits.overload(state.sums)
        while overload > 0 and last <= numbers.max_last and not self.deadline.passed():
            if chain is None:
                chain = chains(np.arange(len(state.owner)), state.owner, limits.num_parts)
                rounds = iter(numbers.rounds)
            how = next(rounds, numbers.last)
            room = (limit - state.sums) * unit
            roomy = np.argsort(-np.vstack([room.T, room.min(axis=1)]), axis=1, kind="stable")
            worst = np.maximum(-room, 0).sum(axis=1)
            over = np.argsort(-worst, kind="stable")[: np.count_nonzero(worst)]
            rules = Rules(limit, unit, *how)
            number = (room > 0).sum(axis=0)
            made += int(exchange(over, roomy, number, chain, nets, state, rules, self.rng))
            before, overload = overload, limits.overload(state.sums)
            if how is numbers.last:
                last += 1
                if overload > (1 - numbers.least_relief) * before:
                    break
        return made

    def v_cycle(
        self,
        nets: Nets,
        owner: Owner,
        refine: Callable[[Nets, State], object] | None = None,
        *,
        other: Owner | None = None,
    ) -> State:
        """Run one V-cycle; return its result, which may be unbalanced or worse than `owner`.

        `refine` changes the state of every level, coarsest first; None: `anneal`, then `cut`. With
        `other`, clusters stay within parts of both partitions (the combine operator of evolutionary
        partitioners).
        """
        refine = refine or self.anneal_and_cut
        num_parts = self.limits.num_parts
        together = owner.astype(np.int64)
        if other is not None:
            together = together * num_parts + other
        current = owner
        levels: list[tuple[Nets, Any]] = [(nets, None)]
        for coarser, current, label in coarsen(  # noqa: B007
            nets, owner, together, num_parts, self.rng, self.goal.overlap, self.numbers.coarsening
        ):
            levels.append((without_transpose(coarser), label))
            if self.deadline.passed():
                break
        while levels:
            level, label = levels.pop()
            if label is not None:
                level = with_transpose(level)
            state = state_of(level, current, num_parts)
            refine(level, state)
            if label is not None:
                current = state.owner[label]
        return state


def coarsen(
    nets: Nets,
    owner: Owner,
    together: npt.NDArray[Any],
    num_parts: int,
    rng: np.random.Generator,
    overlap: float = 1.0,
    how: Coarsening = V_CYCLES.coarsening,
) -> Iterator[tuple[Nets, Owner, npt.NDArray[np.int32]]]:
    """Build coarser and coarser hypergraphs of clusters, until they are small or hardly shrink.

    Yields each level's hypergraph, the part of every cluster, and the cluster of every vertex of
    the next finer level. A cluster has vertices of one label in `together`, and a label has
    vertices of one owner. `overlap` is 1 for the volume, 0 for the edge cut; see `cluster`.
    """
    heaviest = np.maximum(1, nets.weight.sum(axis=0) // (how.per_part * num_parts))
    while len(nets.weight) > 2 * how.per_part * num_parts:
        n = len(nets.weight)
        label = cluster(nets, rng.permutation(n), together, heaviest, overlap, how.rated_pins)
        num = int(label.max()) + 1
        if num > how.similar * n:
            return
        nets = contract(nets, label)
        owner, together = _cluster_values(owner, label, num), _cluster_values(together, label, num)
        yield nets, owner, label


def _cluster_values(
    values: npt.NDArray[Any], label: npt.NDArray[np.int32], num: int
) -> npt.NDArray[Any]:
    """Return, for every cluster, the value that all vertices of the cluster have."""
    result = np.empty(num, dtype=values.dtype)
    result[label] = values
    return result


def price_unit(
    value: float, share: npt.NDArray[np.float64], limits: Limits
) -> npt.NDArray[np.float64]:
    """Return the unit of the prices of overweight: float64[num_parts, num_constraints]."""
    total = np.maximum(limits.total, 1)
    overweight = Annealing.overweight * np.maximum(total / limits.num_parts, 1)
    return np.asarray(value / total / overweight / share**2 / limits.relative[:, None])
