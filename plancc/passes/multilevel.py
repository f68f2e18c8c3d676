"""V-cycles: refine a partition on coarse hypergraphs first, where whole clusters move.

                  coarsen (clusters stay within parts)        refine on every level
    finest    o o o o o o o o o o o o o o o o                 o o o o o o o o o o o o
                 o  o  o  o  o  o  o                             o  o  o  o  o  o
    coarsest       O    O    O    O               ->               O    O    O

On every level the price of overweight parts rises from sweep to sweep: at first parts may grow
while vertices find better places, then the balance comes back where that costs least volume.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from plancc.passes.kernels.nets import Nets
    from plancc.passes.kernels.state import State

Owner = npt.NDArray[np.int32]

PRICES = (0.2, 0.5, 1.0, 3.0, 10.0)
"""Price per sweep that an overweight of `PRICED_OVERWEIGHT` has per unit of weight, over the
volume per unit of weight of the whole partition."""
PRICED_OVERWEIGHT = 0.1
LEAST_BOUNDARY = 0.001
"""Shares of the boundary below it count as this much."""
SWEPT_BOUNDARY = 0.2
"""With every price as many sweeps are made as visit this share of the weight together ..."""
MAX_REPEATS = 8
"""... but no more, and at least one."""
SLACK = 0.01
"""Parts are priced above this much below their limit, in shares of the average."""
COARSEST_PER_PART = 10
"""Coarsening ends at about this many vertices per part ..."""
MIN_SHRINKAGE = 0.95
"""... or when a level keeps more than this share of its vertices."""
RESTORING_PRICES = (30.0, 100.0, 300.0)
"""Prices until no part is above the limit."""
SWAPPED_SHARES = (0.9, 0.5, 0.2, 0.0)
"""A swap must relieve its overweight part by this share of what it has too much, by round."""
MAX_SWAPS_TRIED = 5_000_000
"""Pairs of vertices per round."""
CLIMBS = 2
"""Sweeps within the limit that end a refinement."""


@dataclass(frozen=True)
class Limits:
    """How heavy parts may be, by constraint.

    Attributes
    ----------
    total : int64[num_constraints]
    target : float64[num_constraints]
        Above it a part's weight has a price.
    limit : float64[num_constraints]
        ``(1 + epsilon) * ceil(total / num_parts)``, or the heaviest vertex if that is more.
    """

    total: npt.NDArray[np.int64]
    target: npt.NDArray[np.float64]
    limit: npt.NDArray[np.float64]

    @classmethod
    def of(cls, weight: npt.NDArray[np.int64], num_parts: int, epsilon: float) -> Limits:
        """Limits for the weights int64[n, c] of all vertices."""
        total = weight.sum(axis=0)
        even = np.ceil(total / num_parts)
        allowed = np.floor((1 + epsilon) * even + 1e-9)
        return cls(total, allowed - SLACK * even, np.maximum(allowed, weight.max(axis=0)))

    def overload(self, state: State) -> float:
        """Weight of all parts above the limit, each constraint over its average part."""
        over = np.maximum(state.sums - self.limit, 0).sum(axis=0)
        return float((over / np.maximum(self.target, 1)).sum())


def anneal(
    nets: Nets,
    state: State,
    limits: Limits,
    rng: np.random.Generator,
    prices: tuple[float, ...] = PRICES,
    deadline: float = np.inf,
) -> int:
    """Sweep with rising prices of overweight; changes `state`, returns the gains evaluated.

    Sweeps are repeated where the boundary is small, since weight travels one layer of vertices
    per sweep. No sweep starts after `deadline` (of `time.perf_counter`).
    """
    from plancc.passes.kernels.state import boundary
    from plancc.passes.kernels.volume import sweep

    unit = price_unit(nets, state, limits)
    free = np.full(len(unit), np.inf)
    share = _boundary_share(nets, state, limits).max()
    repeats = int(np.clip(SWEPT_BOUNDARY / share, 1, MAX_REPEATS))
    evaluations = 0
    for price in np.repeat(prices, repeats):
        if time.perf_counter() > deadline:
            break
        order = boundary(nets, state)
        rng.shuffle(order)
        evaluations += sweep(order, nets, state, limits.target, price * unit, free)[2]
    return evaluations


def price_unit(nets: Nets, state: State, limits: Limits) -> npt.NDArray[np.float64]:
    """Unit of the prices of overweight, by constraint: float64[num_constraints].

    It grows with the inverse square of the boundary's share of the weight: a part of a mesh can
    only win back as much as lies on its boundary.
    """
    from plancc.passes.kernels.state import volume

    total = np.maximum(limits.total, 1)
    overweight = PRICED_OVERWEIGHT * np.maximum(total / len(state.sums), 1)
    share = _boundary_share(nets, state, limits)
    return volume(nets, state) / total / overweight / share**2


def _boundary_share(nets: Nets, state: State, limits: Limits) -> npt.NDArray[np.float64]:
    from plancc.passes.kernels.state import boundary

    on_boundary = nets.weight[boundary(nets, state)].sum(axis=0)
    return np.clip(on_boundary / np.maximum(limits.total, 1), LEAST_BOUNDARY, 1)


def settle(nets: Nets, state: State, limits: Limits, rng: np.random.Generator) -> int:
    """Bring parts below the limit and sweep within it; changes `state`, returns evaluations."""
    from plancc.passes.kernels.state import boundary
    from plancc.passes.kernels.volume import sweep

    restore_balance(nets, state, limits, rng)
    price = np.zeros(state.sums.shape[1])
    evaluations = 0
    for _ in range(CLIMBS):
        order = boundary(nets, state)
        rng.shuffle(order)
        evaluations += sweep(order, nets, state, limits.target, price, limits.limit)[2]
    return evaluations


def restore_balance(nets: Nets, state: State, limits: Limits, rng: np.random.Generator) -> None:
    """Move vertices out of parts above the limit where that costs the fewest rows.

    Changes `state`. First sweeps at still higher prices, which carry weight through full parts
    too; then single moves to any part with room, cheapest first, and swaps, light vertices first.
    A part of few heavy vertices may stay above the limit.
    """
    from plancc.passes.kernels.volume import exchange, relief_costs, relieve

    for price in RESTORING_PRICES:
        if limits.overload(state) == 0:
            return
        anneal(nets, state, limits, rng, (price,))
    if limits.overload(state) == 0:
        return
    shares_of_limit = (nets.weight / np.maximum(limits.limit, 1)).sum(axis=1)
    light_first = np.argsort(shares_of_limit, kind="stable")
    for share in SWAPPED_SHARES:
        costs = relief_costs(nets, state, limits.limit)
        order = np.argsort(costs, kind="stable")[: np.isfinite(costs).sum()]
        relieve(order, nets, state, limits.limit)
        over = (state.sums > limits.limit).any(axis=1)
        if not over.any():
            return
        order = light_first[over[state.owner[light_first]]]
        others = light_first[:: 1 + len(order) * len(light_first) // MAX_SWAPS_TRIED]
        exchange(order, others, nets, state, limits.limit, share)


def coarsen(
    nets: Nets, owner: Owner, together: npt.NDArray[Any], num_parts: int, rng: np.random.Generator
) -> Iterator[tuple[Nets, Owner, npt.NDArray[np.int32]]]:
    """Coarser and coarser levels: nets, owners, and the cluster of every vertex one level below.

    Only vertices with the same number in `together` meet, so the owners of the clusters are
    defined if every such group has one owner.
    """
    from plancc.passes.kernels.coarsening import cluster, contract

    heaviest = np.maximum(1, nets.weight.sum(axis=0) // (COARSEST_PER_PART * num_parts))
    while len(nets.weight) > 2 * COARSEST_PER_PART * num_parts:
        n = len(nets.weight)
        label = cluster(nets, rng.permutation(n), together, heaviest)
        num = int(label.max()) + 1
        if num > MIN_SHRINKAGE * n:
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


def v_cycle(
    nets: Nets,
    owner: Owner,
    num_parts: int,
    rng: np.random.Generator,
    refine: Callable[[Nets, State, npt.NDArray[np.int32] | None], int],
    *,
    other: Owner | None = None,
    deadline: float = np.inf,
) -> tuple[State, int]:
    """One V-cycle from a partition; it may end worse or unbalanced.

    Parameters
    ----------
    nets : Nets
    owner : int32[num_vertices]
    num_parts : int
    rng : numpy.random.Generator
    refine : callable
        ``refine(nets, state, place)``, called on every level from the coarsest to the finest:
        changes the state, returns how many gains it evaluated. ``place`` is the level's vertex of
        every vertex of the finest level, None on that itself.
    other : int32[num_vertices], optional
        A second partition: only vertices that share their part in both are clustered, so that
        either's cut can be kept (the combine operator of evolutionary partitioners).
    deadline : float
        Of `time.perf_counter`; no coarser level is made after it.

    Returns
    -------
    state, evaluations
    """
    from plancc.passes.kernels.nets import with_transpose, without_transpose
    from plancc.passes.kernels.state import state_of

    together = owner.astype(np.int64)
    if other is not None:
        together = together * num_parts + other
    current = owner
    place: npt.NDArray[np.int32] | None = None
    levels: list[tuple[Nets, Any, Any]] = [(nets, None, None)]
    for coarser, current, label in coarsen(nets, owner, together, num_parts, rng):  # noqa: B007
        place = label if place is None else label[place]
        levels.append((without_transpose(coarser), place, label))
        if time.perf_counter() > deadline:
            break
    evaluations = 0
    while levels:
        level, place, label = levels.pop()
        if label is not None:
            level = with_transpose(level)
        state = state_of(level, current, num_parts)
        evaluations += refine(level, state, place)
        if label is not None:
            current = state.owner[label]
    return state, evaluations
