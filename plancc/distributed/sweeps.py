"""Sweeps that lower the exact volume, with rows and nets divided among ranks.

In each turn of a sweep, some rows choose the part to which they should move; then all ranks make
the same moves, in order of gain. If the moves together raise the cost, only some of them are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.distributed.kernels import (
    mark_columns,
    move_rows,
    parts_of_nets,
    picked,
    turns,
    wanted_parts,
)
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Share
from plancc.models.limits import Bounds, Limits
from plancc.models.problem import Hypergraph
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of
from plancc.passes.multilevel import Sweeps, price_unit
from plancc.passes.presets import PRICES, Annealing
from plancc.plan.exchange import Int32Array, Int64Array, offsets
from plancc.plan.lowering import mark_boundary
from plancc.search.presets import ON_RANKS


def sweep(
    ranks: Ranks, share: Share, owner: Int32Array, limits: Limits, seed: int, within: bool = False
) -> Int32Array:
    """Return the part of every row, int32[n], after sweeps that lower the volume. Collective.

    If `within`, the result keeps the limits if the owners at the start keep the limits.
    """
    work = _Work(ranks, share, owner.copy(), limits, seed)
    unit = work.price_unit()
    for price in () if within else PRICES:
        work.sweep(price * unit)
    price = 3 * PRICES[-1]
    for number in range(ON_RANKS.restoring):
        if work.overload() == 0:
            break
        work.sweep(price * unit, limits.limit if number % 2 else limits.target)
        price *= 3
    work.restore()
    for _ in range(ON_RANKS.climbs):
        before = work.volume
        work.sweep(0 * unit, cap=limits.limit)
        if work.volume > (1 - ON_RANKS.least_gain) * before:
            break
    return work.owner


class _Work:
    """The state of sweeps: owners (on all ranks), and the parts that this rank's nets touch."""

    def __init__(
        self, ranks: Ranks, share: Share, owner: Int32Array, limits: Limits, seed: int
    ) -> None:
        self.ranks, self.share, self.weight, self.limits = ranks, share, limits.weights, limits
        self.owner, self.seed, self.number = owner, seed, 0
        self.loads = limits.load(owner)
        self.size = np.bincount(owner, minlength=limits.num_parts)
        self.nets, self.volume = self._measured()

    def price_unit(self) -> npt.NDArray[np.float64]:
        """Return the base price of overweight, float64[num_parts, num_constraints].

        It is computed as in `plancc.passes.multilevel.Sweeps.price_unit`.

        Collective.
        """
        share, total = self.share, np.maximum(self.limits.total, 1)
        cut = mark_boundary(share.first, share.indptr, share.indices, self.owner)
        at = share.first + np.flatnonzero(cut)
        of_boundary = self.ranks.sums(self.weight[at].sum(axis=0)) / total
        return price_unit(
            self.volume, np.clip(of_boundary, Annealing.least_boundary, 1), self.limits
        )

    def overload(self) -> float:
        """Return by how much parts exceed their limits (`plancc.models.limits.Limits.overload`)."""
        return self.limits.overload(self.loads)

    def restore(self) -> None:
        """Move rows out of the parts that still exceed their limits, even if the volume grows."""
        if self.overload() == 0:
            return
        without_nets = Hypergraph(np.zeros(1, np.int64), np.empty(0, np.int32), self.weight)
        nets = nets_of(without_nets)
        state = state_of(nets, self.owner, len(self.loads))
        Sweeps(self.limits, np.random.default_rng(self.seed)).restore_balance(nets, state)
        self.owner, self.loads = state.owner, state.sums
        self.size = np.bincount(self.owner, minlength=len(self.loads))
        self.nets, self.volume = self._measured()

    def sweep(self, price: npt.NDArray[np.float64], target: Any = None, cap: Any = None) -> None:
        """Move every row at most once, to its best part.

        Parameters:
            price: Prices of the excess of a part's weights over `target`, one for each weight.
            target: Weights above which each part is overweight. None: `Limits.target`.
            cap: Largest weights that each part may have. None: no limit.
        """
        share, bounds = self.share, self.limits.bounds(price, cap, target)
        turn = turns(
            share.first, share.last, ON_RANKS.most_sweeps * self.seed + self.number, ON_RANKS.turns
        )
        self.number += 1
        cost = self.volume + self._overweight(bounds)
        for each in range(ON_RANKS.turns):
            rows = np.flatnonzero(turn == each)
            place, ghosts = self._fetched(rows)
            part, saved, gain = wanted_parts(
                rows, share.first, share.indptr, share.indices, place, *ghosts, self.owner,
                self.weight, self.loads, bounds,
            )  # fmt: skip
            move = part >= 0
            chosen = (share.first + rows[move]).astype(np.int32), part[move], saved[move]
            vertices, part, saved = (self.ranks.concatenated(array) for array in chosen)
            order = np.argsort(-self.ranks.concatenated(gain[move]), kind="stable")
            former = self.owner[vertices], self.loads.copy(), self.size.copy()
            for _ in range(ON_RANKS.tries):
                moved = move_rows(
                    order, vertices, part, saved, self.weight, self.loads, bounds, self.size,
                    self.owner,
                )  # fmt: skip
                if not moved:
                    break
                nets, volume = self._measured()
                now = volume + self._overweight(bounds)
                if now <= cost:
                    self.nets, self.volume, cost = nets, volume, now
                    break
                self.owner[vertices] = former[0]
                self.loads[:], self.size[:] = former[1:]
                order = order[: len(order) // ON_RANKS.fewer]

    def _overweight(self, bounds: Bounds) -> float:
        """Return the sum of the penalties for the overweight of all parts."""
        over = np.maximum(self.loads - bounds.target, 0)
        return float((bounds.price * over**2).sum() / 2)

    def _measured(self) -> tuple[tuple[Int64Array, Int32Array], int]:
        """Return the parts that have pins of this rank's nets, and the volume of all nets.

        Collective.
        """
        share, num_parts = self.share, len(self.loads)
        nets = parts_of_nets(share.first, share.net_ptr, share.pins, self.owner, num_parts)
        return nets, self.ranks.total(len(nets[1]) - (len(nets[0]) - 1))

    def _fetched(self, rows: Int64Array) -> tuple[Int32Array, tuple[Int64Array, Int32Array]]:
        """Fetch, for each net with one of `rows` as a pin, the parts that have pins. Collective.

        Returns the place of each vertex's net among the fetched lists of parts, int32[n] (undefined
        if its list was not fetched), and the lists, as offsets and entries.
        """
        share = self.share
        marked = np.zeros(len(share.degree), dtype=np.bool_)
        mark_columns(rows, share.first, share.indptr, share.indices, marked)
        needed = np.flatnonzero(marked).astype(np.int32)
        place = np.empty(len(marked), dtype=np.int32)
        place[needed] = np.arange(len(needed), dtype=np.int32)
        cuts = np.searchsorted(needed, share.bounds[1:-1])
        asked = self.ranks.swapped(np.split(needed, cuts))
        answers = [picked(*self.nets, which - np.int32(share.first)) for which in asked]
        lengths = self.ranks.collected([lengths for lengths, _ in answers])
        entries = self.ranks.collected([entries for _, entries in answers])
        return place, (offsets(lengths), entries)
