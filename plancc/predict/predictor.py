"""The class that predicts the time of an epoch.

All times come from `plancc.predict.simulation`. A prediction needs only *tables*, the sizes of a
plan's parts and messages (`plancc.predict.schedules.tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from plancc.cost.owners import BASELINE_SEED
from plancc.cost.rates import EpochRates, EpochTime, LinkRates
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.models.random import random_owner
from plancc.plan.convolutions import Convolution
from plancc.plan.grid import Grid
from plancc.predict.machine import Machine
from plancc.predict.machine_files import DEFAULT_MACHINE, find_machine
from plancc.predict.memory import WORD_BYTES
from plancc.predict.passes import COMMON_PASSES, DEFAULT_DIMS, moved_widths
from plancc.predict.schedule import Pairs
from plancc.predict.schedules import Approximation, Tables, schedule_of, tables_of_owners
from plancc.predict.schedules.epoch import ADD_WORDS, PACK_WORDS
from plancc.predict.simulation import Prediction, simulate, slowness
from plancc.predict.sizes import even_tables, ring

if TYPE_CHECKING:
    from plancc.predict.pipelines import Pipeline

shipped = cache(find_machine)
"""`find_machine` with a cache, so that a machine of plancc is read once."""
PEERS = 16
"""Most parts that a part exchanges rows with, in the example of `Predictor.rates`."""
HALO = 0.5
"""Halo rows per own row, in the example of `Predictor.rates`."""
STEP = 0.01
"""Relative increase of nonzeros and rows, for the finite differences of `Predictor.rates`."""


@dataclass(frozen=True)
class Predictor:
    """Predicts an epoch on a machine, for any plan.

    Attributes:
        dims: Widths d_0..d_L.
        machine: The machine.
        passes: Names of the passes that are on (`plancc.predict.passes.PASSES`). With "dead-rows",
            epochs can be predicted only from tables that have `Tables.live`.
        approximation: The approximation that epochs make, such as boundary sampling; None for exact
            epochs.
        convolution: The graph convolution of the network; by default a GCN's convolution.
        pipeline: Pipeline for feature plans in which all ranks share one part; None if products are
            not pipelined.
    """

    dims: Sequence[int]
    machine: Machine
    passes: Sequence[str] = COMMON_PASSES
    approximation: Approximation | None = None
    convolution: Convolution = field(default_factory=Convolution)
    pipeline: Pipeline | None = None

    def epoch(self, tables: Tables, word_bytes: int = WORD_BYTES) -> Prediction:
        """Return the prediction for the plan that has these tables.

        The plan's hops between nodes are used if its topology has the same nodes as the machine.
        Otherwise every row is sent directly.

        `word_bytes`: bytes of a number in training, 4 or 8.
        """
        tables = tables.on_nodes(self.machine.node.ranks)
        schedule = schedule_of(
            tables, self.dims, self.passes, self.approximation, self.convolution, self.pipeline
        )
        return simulate(schedule, self.machine, word_bytes)

    def of_owners(
        self, matrix: Graph, owners: Owners, num_parts: int, grid: Grid | None = None
    ) -> Prediction:
        """Return the prediction for the plan that these owners would give; the plan is not built.

        Parameters:
            matrix: The normalised matrix.
            owners: Owners of rows; without a grid also of nonzeros.
            num_parts: Number of parts; with a grid, number of its blocks of rows.
            grid: Process grid, if the plan has one. If the grid is not square, the prediction may
                differ a little from the prediction for the built plan: see `tables_of_owners`.
        """
        return self.epoch(tables_of_owners(matrix, owners, num_parts, grid))

    def of_random(self, matrix: Graph, num_parts: int) -> Prediction:
        """Return the prediction for a random row partition, which is always the same partition.

        The parts have equal numbers of rows. If the machine gives different speeds for ranks, the
        numbers of rows are in proportion to the speeds instead.
        """
        speeds = tuple(self.machine.speeds(num_parts)) if self.machine.speed else None
        owner = random_owner(matrix.num_vertices, num_parts, BASELINE_SEED, speeds)
        return self.of_owners(matrix, Owners(owner), num_parts)

    def bound(
        self, num_vertices: int, num_nonzeros: int, num_parts: int, word_bytes: int = WORD_BYTES
    ) -> float:
        """Return the seconds of an epoch if all work were evenly spread and no rows were exchanged.

        Work is spread in proportion to the speeds of the ranks. The all-reduce of the gradients is
        included.

        Parameters:
            num_vertices: Number of rows of the matrix.
            num_nonzeros: Number of nonzeros of the matrix, its diagonal included.
            num_parts: Number of ranks.
            word_bytes: Bytes of a number: 4 or 8.
        """
        even = self._even(num_vertices, num_nonzeros, num_parts)
        return replace(self, approximation=None, pipeline=None).epoch(even, word_bytes).seconds

    def bound_of(self, tables: Tables, word_bytes: int = WORD_BYTES) -> float:
        """Return the lower bound on an epoch's seconds (see `bound`) for the tables of a plan.

        If the tables leave out dead rows, which no output in the loss needs, the bound counts for
        each layer only the rows that this layer computes.
        """

        def even(of: Tables) -> Tables:
            return self._even(int(of.rows.sum()), int(of.nonzeros.sum()), tables.num_ranks)

        found, live = even(tables), tables.live
        if live is not None:
            inputs = self._even(int(live.inputs.sum()), 0, tables.num_ranks).rows
            found = replace(found, live=type(live)(inputs, tuple(map(even, live.layers))))
        if tables.links is not None:
            found = replace(found, links=tables.links.even(found.rows))
        return replace(self, approximation=None, pipeline=None).epoch(found, word_bytes).seconds

    def _even(self, num_vertices: int, num_nonzeros: int, num_parts: int) -> Tables:
        speeds = self.machine.speeds(num_parts) if self.machine.speed else None
        return even_tables("bound", num_vertices, num_nonzeros, num_parts, speeds=speeds)

    def time(self, matrix: Graph, num_parts: int, grid: Grid | None = None) -> EpochTime:
        """Return what a search needs to minimise the epoch time of owners of this matrix.

        The result has a function that predicts the epoch exactly, and the rates by which the search
        estimates moves.

        Parameters:
            matrix, num_parts, grid: See `of_owners`. If there is a grid, the rates are the rates of
                a row plan on the same number of ranks.
        """
        num_ranks = num_parts if grid is None else grid.num_ranks
        return EpochTime(
            lambda owners: self.of_owners(matrix, owners, num_parts, grid).seconds,
            self.rates(matrix.num_vertices, matrix.num_nonzeros, num_ranks),
        )

    def links(self, num_parts: int) -> LinkRates:
        """Return how many seconds a message and a row take, inside a node and between nodes.

        From these seconds, plancc decides how to number the parts. The number of a part decides on
        which node it runs. The seconds are computed as in `plancc.predict.simulation`, and summed
        over all exchanges of an epoch.
        """
        machine = self.machine
        widths = np.array(moved_widths(self.dims, self.passes))
        exchanges, row = int((widths > 0).sum()), WORD_BYTES * int(widths.sum())
        forward, back = WORD_BYTES * widths.sum(axis=0) / (machine.compute.stream or np.inf)
        return LinkRates(
            node=np.arange(num_parts) // machine.node.ranks,
            message_inside=exchanges * machine.inside_latency,
            message_between=exchanges * machine.latency,
            row_inside=row / machine.inside_bandwidth,
            row_between=row / machine.bandwidth,
            row_of_node=row / machine.injection,
            row_copied=(
                float(PACK_WORDS * forward + ADD_WORDS * back),
                float(ADD_WORDS * forward + PACK_WORDS * back),
            ),
            slow=slowness(machine, num_parts),
        )

    def rates(self, num_vertices: int, num_nonzeros: int, num_parts: int) -> EpochRates:
        """Return seconds per message, per row sent, per nonzero and per own row of a part.

        With these rates, a search estimates quickly how a move changes the time of an epoch. Each
        rate is a finite difference: in an example, one of the four quantities grows on all ranks,
        and the change of the predicted time is divided by this growth. In the example all parts are
        alike, each receives `HALO` rows per own row from up to `PEERS` other parts, and all ranks
        have speed 1.

        Parameters:
            num_vertices, num_nonzeros, num_parts: See `bound`.

        Returns:
            The rates, at least 0. With one part, the rates of messages and of rows sent are 0.
        """
        if self.machine.speed:
            alike = replace(self, machine=replace(self.machine, speed=()))
            return alike.rates(num_vertices, num_nonzeros, num_parts)
        rows = -(-num_vertices // num_parts)
        nonzeros = -(-num_nonzeros // num_parts)
        peers = min(PEERS, num_parts - 1)
        share = max(2, round(HALO * rows / max(1, peers)))  # rows per message
        base = _alike(rows, nonzeros, ring(num_parts, np.full(peers, share)))
        least = self.epoch(base).seconds

        def per_unit(tables: Tables, units: int) -> float:
            return max(0.0, (self.epoch(tables).seconds - least) / units)

        more_rows, more_nonzeros = max(1, round(STEP * rows)), max(1, round(STEP * nonzeros))
        message = row = 0.0
        if peers:
            more, split = ring(num_parts, np.full(peers, 2 * share)), _halved(base.expand, share)
            row = per_unit(replace(base, expand=more), peers * share)
            message = per_unit(replace(base, expand=split), peers)
        return EpochRates(
            message=message,
            row=row,
            nonzero=per_unit(_alike(rows, nonzeros + more_nonzeros, base.expand), more_nonzeros),
            own_row=per_unit(_alike(rows + more_rows, nonzeros, base.expand), more_rows),
        )


def default_predictor(
    dims: Sequence[int] | None = None, machine: Machine | None = None
) -> Predictor:
    """Return a predictor with `DEFAULT_DIMS` and `DEFAULT_MACHINE` for arguments that are None."""
    return Predictor(
        DEFAULT_DIMS if dims is None else tuple(dims),
        shipped(DEFAULT_MACHINE) if machine is None else machine,
    )


def _alike(rows: int, nonzeros: int, expand: Pairs) -> Tables:
    """Return the sizes and messages (`Tables`) of a row plan whose parts have equal sizes.

    Every part has `rows` rows and `nonzeros` nonzeros.
    """
    every = np.ones(expand.num_ranks, np.int64)
    return Tables("rates", "row", rows=rows * every, nonzeros=nonzeros * every, expand=expand)


def _halved(pairs: Pairs, rows: int) -> Pairs:
    """Split every message of `pairs`, all of `rows` rows (at least 2), into two halves."""
    return Pairs(
        pairs.num_ranks,
        np.repeat(pairs.source, 2),
        np.repeat(pairs.target, 2),
        np.tile(np.array([rows // 2, rows - rows // 2], np.int64), len(pairs.source)),
    )
