"""V-cycles: refine a partition on coarse hypergraphs first, where whole clusters move.

                  coarsen (clusters stay within parts)        refine on every level
    finest    o o o o o o o o o o o o o o o o                 o o o o o o o o o o o o
                 o  o  o  o  o  o  o                             o  o  o  o  o  o
    coarsest       O    O    O    O               ->               O    O    O

On every level the price of overweight parts rises from sweep to sweep: at first parts may grow
while vertices find better places, then the balance comes back where that costs least volume. Where
parts have few neighbours, minimum cuts between them follow (`plancc.passes.flows`).
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
    """What sweeps lower: the volume, or the expected volume of mini-batches.

    Attributes:
        reach (float64[m + 1], or None): See `plancc.passes.kernels.expected`, which needs nets with
            sizes and sources; None: the volume. Gains below `plancc.passes.kernels.expected.TINY`
            count as none, so ``reach[1]`` should be about 1.
        unit: What `value` multiplies the expectation by.
    """

    reach: npt.NDArray[np.float64] | None = None
    unit: float = 1.0

    @property
    def overlap(self) -> float:
        """Share of a row's cost that two pins of one part save (`kernels.coarsening.cluster`)."""
        if self.reach is None or len(self.reach) < 3 or self.reach[1] <= 0:
            return 1.0
        return float(np.clip(2 - self.reach[2] / self.reach[1], 0, 1))

    def value(self, nets: Nets, state: State) -> int | float:
        """Rows moved; expected ones given that every source takes part."""
        if self.reach is None:
            return volume(nets, state)
        return self.unit * float(expected(nets, state, self.reach))

    def sweep(
        self, order: Any, nets: Nets, state: State, bounds: Bounds, threads: int = 1
    ) -> tuple[int, int]:
        """One sweep (`plancc.passes.kernels.volume.sweep`).

        Returns:
            moved, evaluations: Vertices moved and gains evaluated.
        """
        if self.reach is None:
            moved, _, evaluations = sweep(order, nets, state, bounds, threads)
        else:
            moved, evaluations = sweep_expected(order, nets, state, self.reach, bounds)
        return int(moved), int(evaluations)


VOLUME = Goal()


@dataclass(eq=False)
class Sweeps:
    """Sweeps over the vertices of a partition; all methods but `price_unit` change its state.

    Attributes:
        deadline: No sweep starts after it, and no coarser level, except sweeps that restore the
            balance.
        goal: What they lower.
        threads: For sweeps and cuts, which give the same with any number.
        evaluations: Pairs of vertex and part whose gain was computed so far.
    """

    limits: Limits
    rng: np.random.Generator
    deadline: Deadline = field(default_factory=Deadline)
    goal: Goal = VOLUME
    threads: int = 1
    numbers: VCycles = V_CYCLES
    evaluations: int = 0

    def _sweep(self, order: Any, nets: Nets, state: State, bounds: Bounds) -> int:
        """One sweep; returns how many vertices moved."""
        moved, tried = self.goal.sweep(order, nets, state, bounds, self.threads)
        self.evaluations += tried
        return moved

    def anneal(self, nets: Nets, state: State, prices: tuple[float, ...] | None = None) -> None:
        """Sweep with rising prices of overweight.

        Sweeps are repeated where the boundary is small, since weight travels one layer of vertices
        per sweep.
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
            if moved or price != last:  # nothing would move again
                moved = self._sweep(order, nets, state, self.limits.bounds(price * unit))
            last = price

    def price_unit(
        self, nets: Nets, state: State, share: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Unit of the prices of overweight: float64[num_parts, num_constraints].

        It is the higher, the smaller the share of a part. It grows with the inverse square of the
        boundary's share of the weight: a part of a mesh can only win back as much as lies on its
        boundary. `share`: that share, if it is known.
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
        """Owners by sweeps and minimum cuts within the limits, from the start of least volume.

        `owners` are not changed. `coarse`: whether vertices are clusters; then a V-cycle follows.
        """
        limits = self.limits
        states = [state_of(nets, owner, limits.num_parts) for owner in owners]
        state = min(states, key=lambda each: volume(nets, each))
        if limits.overload(state.sums) > 0:  # clusters carry weight through chains of parts
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
        """Bring parts below the limit and improve them within it.

        The balance is restored also after the deadline, in its quickest way.
        """
        self.restore_balance(nets, state)
        self.improve(nets, state)

    def improve(self, nets: Nets, state: State) -> None:
        """`climb`, then `eject`: nothing gets worse."""
        before, chains = self.evaluations, self.numbers.ejection
        self.climb(nets, state)
        if chains is not None:
            self.eject(nets, state, chains.work * (self.evaluations - before))

    def climb(self, nets: Nets, state: State) -> None:
        """Sweep within the limit, so that nothing gets worse."""
        bounds = self.limits.bounds(np.zeros(state.sums.shape), self.limits.limit)
        moved = 1
        for _ in range(self.numbers.climbs):
            if self.deadline.passed():
                break
            order = boundary(nets, state)
            self.rng.shuffle(order)
            if moved:  # else nothing would move again
                moved = self._sweep(order, nets, state, bounds)

    def eject(self, nets: Nets, state: State, most: int) -> None:
        """Moves into full parts, which eject other vertices.

        No chain begins once `most` gains were evaluated.

        See `plancc.passes.kernels.ejection`. Only for the volume; neither it nor the overload
        rises.
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
        """Minimum cuts between neighbouring parts, where these are few; returns their work.

        Neither volume nor overload rises. Other goals than the volume are left alone. Each of
        `cuts` moves at most `most` vertices; None: any number.
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
        """Minimum cuts and localised searches in turns, where parts have few neighbours.

        Neither volume nor overload rises. Returns the work of the cuts; 0 if nothing was tried.
        """
        work = self.cut(nets, state, (WIDE_CUTS,))
        for _ in range(self.numbers.polishes if work > 0 else 0):
            if self.deadline.passed() or self.search(nets, state) == 0:
                break
            work += self.cut(nets, state, (WIDE_CUTS,))
        return work

    def search(self, nets: Nets, state: State) -> int:
        """Localised searches from the whole boundary, within the limit; returns the rows saved.

        See `plancc.passes.kernels.local_search`. Only for the volume.
        """
        order = boundary(nets, state)
        self.rng.shuffle(order)
        how, limit, saved = self.numbers.local_search, self.limits.limit, 0
        for first in range(0, len(order), how.searched):
            seeds = order[first : first + how.searched]
            more, finished = self.search_from(
                seeds, how.seeds, len(nets.weight), limit, nets, state
            )
            saved += more
            if not finished:
                break
        return saved

    def search_from(
        self, order: Any, width: int, most: int, limit: Any, nets: Nets, state: State
    ) -> tuple[int, bool]:
        """Localised searches from an order, `width` at a time, of at most `most` moves each.

        Returns:
            The rows saved, and whether all searches ended before the deadline.
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
        """Sweep with rising prices, or without any within the limit, then cut."""
        if prices is not None and len(prices) == 0:
            self.improve(nets, state)
        else:
            self.anneal(nets, state, prices)
        self.cut(nets, state, (cuts,))

    def restore_balance(self, nets: Nets, state: State) -> None:
        """Move vertices out of parts above the limit where that costs the fewest rows.

        First sweeps at still higher prices, which carry weight through full parts too; then single
        moves to any part with room, cheapest first, and exchanges of few vertices between two
        parts (`trade`), which come first where several constraints are missed by
        little: they cost fewer rows than such sweeps. A part of few heavy vertices may stay above
        the limit. After the deadline only single moves are made.
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
        """Move vertices out of parts above the limit, the cheapest first; all or `most` of them."""
        limit = self.limits.limit
        costs = relief_costs(nets, state, limit)
        order = np.argsort(costs, kind="stable")[: np.isfinite(costs).sum()]
        relieve(order[:most], nets, state, limit)

    def trade(self, nets: Nets, state: State) -> int:
        """Exchange few vertices between two parts to lower the overload; returns how often.

        The work follows the parts above their limit, not the pairs of parts: each looks at some
        parts with room, so that thousands of parts are no problem. The overload never rises, and no
        part is emptied.
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
        """One V-cycle from a partition; it may end worse or unbalanced.

        Parameters:
            owner (int32[num_vertices]): Not changed.
            refine: ``refine(nets, state)`` changes the state, on every level from the coarsest to
                the finest. None: `anneal`, then `cut`.
            other (int32[num_vertices], optional): A second partition: only vertices that share
                their part in both are clustered, so that either's cut can be kept (the combine
                operator of evolutionary partitioners).
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
    """Coarser and coarser levels: nets, owners, and the cluster of every vertex one level below.

    Only vertices with the same number in `together` meet, so the owners of the clusters are
    defined if every such group has one owner.
    """
    heaviest = np.maximum(1, nets.weight.sum(axis=0) // (how.per_part * num_parts))
    while len(nets.weight) > 2 * how.per_part * num_parts:
        n = len(nets.weight)
        label = cluster(nets, rng.permutation(n), together, heaviest, overlap, how.rated_pins)
        num = int(label.max()) + 1
        if num > how.similar * n:
            return
        nets = contract(nets, label)
        owner, together = _of_clusters(owner, label, num), _of_clusters(together, label, num)
        yield nets, owner, label


def _of_clusters(
    values: npt.NDArray[Any], label: npt.NDArray[np.int32], num: int
) -> npt.NDArray[Any]:
    """The value that all vertices of a cluster share, by cluster."""
    result = np.empty(num, dtype=values.dtype)
    result[label] = values
    return result


def price_unit(
    value: float, share: npt.NDArray[np.float64], limits: Limits
) -> npt.NDArray[np.float64]:
    """`Sweeps.price_unit` of a volume, and of the boundary's share of every weight."""
    total = np.maximum(limits.total, 1)
    overweight = Annealing.overweight * np.maximum(total / limits.num_parts, 1)
    return np.asarray(value / total / overweight / share**2 / limits.relative[:, None])
