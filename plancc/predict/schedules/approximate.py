"""Schedulers of inexact epochs: halo rows are sampled, or partial sums are added late or never.

Boundary sampling keeps each halo row with the same probability (Wan et al. 2022, Algorithm 1). With
a late fold, or no fold (Md et al. 2021, Algorithm 4), ranks compute with copies of vertices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.plan.layers import Aggregate, LayerStep, Maximum
from plancc.plan.products import Program, clone_program
from plancc.predict.memory import Memory
from plancc.predict.passes import DELAY, FOLDS
from plancc.predict.schedule import Pairs, PointToPoint, SparseProduct, Work
from plancc.predict.schedules.epoch import PRODUCTS, Works
from plancc.predict.schedules.row import RowScheduler
from plancc.predict.schedules.tables import Tables

SEED = 1
"""Seed with which the prediction samples halo rows."""


@dataclass(frozen=True)
class Approximation:
    """The way in which an epoch approximates an exact epoch; a wrong value raises InputError.

    Attributes:
        boundary_sampling: Probability, 0 to 1, with which a row plan keeps each halo row.
        fold: When an edge plan adds up partial sums: "sync" (at once, cd-0 in Md et al. 2021),
            "delayed" (some epochs later, cd-r) or "none" (never, 0c).
        delay: Epochs by which partial sums are late, if `fold` is "delayed".
    """

    boundary_sampling: float = 1.0
    fold: str = "sync"
    delay: int = DELAY

    def __post_init__(self) -> None:
        if not 0 <= self.boundary_sampling <= 1:
            raise InputError(f"`boundary_sampling` must be 0 to 1, got {self.boundary_sampling:g}")
        if self.fold not in FOLDS:
            raise InputError(f"`fold` '{self.fold}': choose from {', '.join(FOLDS)}")
        if self.delay < 1:
            raise InputError(f"`delay` must be at least 1, got {self.delay}")

    @property
    def is_exact(self) -> bool:
        return self.boundary_sampling == 1 and self.fold == "sync"

    def check(self, tables: Tables) -> None:
        """Raise InputError if the plan with these tables does not allow this approximation."""
        has = f"layout '{tables.layout}'" if tables.grid is None else f"grid '{tables.grid}'"
        if self.boundary_sampling < 1 and (tables.layout != "row" or tables.grid is not None):
            raise InputError(f"`boundary_sampling` needs a row plan; {tables.name} has {has}")
        if self.fold != "sync" and (tables.layout != "edge" or tables.leaves is None):
            raise InputError(f"`fold` {self.fold} needs an edge plan; {tables.name} has {has}")

    def passes(self, passes: Sequence[str]) -> list[str]:
        """Return the `passes` that are allowed: without "order" if partial sums arrive late."""
        return [name for name in passes if self.fold != "delayed" or name != "order"]

    def note(self) -> str:
        """Return a sentence about the approximation, for the notes of a prediction."""
        if self.boundary_sampling < 1:
            return f"each halo row is kept with probability {self.boundary_sampling:g}: one draw"
        if self.fold == "delayed":
            return (
                f"partial sums arrive {self.delay} epochs late; ranks wait for late messages only "
                "where these take longer than the rest of the epoch"
            )
        return "no fold: every rank computes with copies of its vertices"


def sampled(tables: Tables, rate: float) -> Tables:
    """Return the tables of a row plan in an epoch that keeps each halo row with probability `rate`.

    The numbers of sent rows are drawn with a fixed seed; the number of nonzeros in halo columns is
    multiplied by `rate`.
    """
    drawn = np.random.default_rng(SEED).binomial(tables.expand.rows, rate)
    halo = tables.halo_nonzeros
    if halo is None:  # as if all columns had equally many nonzeros
        received = tables.expand.step.received
        halo = tables.nonzeros * received // np.maximum(tables.rows + received, 1)
    left_out = np.rint((1 - rate) * halo).astype(np.int64)
    flat, live = tables.flat(), tables.live
    if live is not None:
        live = replace(live, layers=tuple(sampled(each, rate) for each in live.layers))
    return replace(
        flat,
        expand=_nonempty(flat.expand, drawn),
        nonzeros=flat.nonzeros - left_out,
        boundary_nonzeros=None,
        halo_nonzeros=halo - left_out,
        live=live,
    )


class SampledScheduler(RowScheduler):
    """Scheduler of a row plan whose halo rows are sampled anew in every epoch.

    Halo rows of the features are sent once, but A H^0 is computed in every epoch, as the sampled A
    is different in every epoch.
    """

    def known_result(self, layer: int, step: LayerStep) -> Iterator[tuple[str, Work]]:
        if isinstance(step, Aggregate | Maximum):
            for work in self.works(layer, Aggregate(step.columns))[PRODUCTS]:
                yield "multiply", work


class CloneScheduler(RowScheduler):
    """Scheduler of an edge plan in which every rank has a copy of each vertex of its nonzeros.

    The tables must have `Tables.leaves`; `fold` of the approximation must be "none" or "delayed".
    """

    def __init__(self, tables: Tables, approximation: Approximation, num_layers: int) -> None:
        assert tables.leaves is not None
        super().__init__(tables)
        self._exact_rows = tables.rows
        self.rows = tables.rows + tables.leaves.step.received
        self._num_layers, self._turn = num_layers, None
        if approximation.fold == "delayed":
            rows = np.rint(tables.leaves.rows / approximation.delay).astype(np.int64)
            self._turn = _nonempty(tables.leaves, rows)

    def program(self, layer: int) -> Program:
        return clone_program(self._turn is not None, returns=layer < self._num_layers)

    def works(self, layer: int, step: Aggregate) -> Works:
        turn, width = self._turn, step.columns
        late = [] if turn is None else [PointToPoint(turn, width, "fold", is_late=True)]
        product = SparseProduct(self.rows, self._tables.nonzeros, width)
        return {"trees": late, PRODUCTS: [product]}

    def memory(self, dims: Sequence[int]) -> Memory:
        """Return an epoch's memory, with the activations of own rows and of copies of vertices."""
        exact = super().memory(dims)
        share = self.rows / np.maximum(self._exact_rows, 1)
        return replace(exact, activations=_scaled(exact.activations, share))


def _scaled(values: Int64Array, share: np.ndarray) -> Int64Array:
    return np.rint(values * share).astype(np.int64)


def _nonempty(pairs: Pairs, rows: Int64Array) -> Pairs:
    """Return `pairs`, but with ``rows[k]`` rows in message k, and without messages of 0 rows."""
    left = rows > 0
    return Pairs(pairs.num_ranks, pairs.source[left], pairs.target[left], rows[left])
