"""The class that predicts epochs, to make, compare and display plans.

All times come from `plancc.predict.simulation`, for the schedule of any tables; no other formula
adds up seconds.
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
        passes: Names in `plancc.predict.passes.PASSES`. With "dead-rows", only tables that have
            `Tables.live` can be predicted.
        approximation: What every epoch leaves out; None for nothing.
        convolution: The convolution; a search uses a GCN's.
        pipeline: Pipeline of feature plans with one group; None for none.
    """

    dims: Sequence[int]
    machine: Machine
    passes: Sequence[str] = COMMON_PASSES
    approximation: Approximation | None = None
    convolution: Convolution = field(default_factory=Convolution)
    pipeline: Pipeline | None = None

    def epoch(self, tables: Tables, word_bytes: int = WORD_BYTES) -> Prediction:
        """Return the prediction for these tables, with numbers of 4 or 8 bytes.

        Rows travel node-aware if the machine's nodes equal the nodes of the plan's topology.
        """
        tables = tables.on_nodes(self.machine.node.ranks)
        schedule = schedule_of(
            tables, self.dims, self.passes, self.approximation, self.convolution, self.pipeline
        )
        return simulate(schedule, self.machine, word_bytes)

    def of_owners(
        self, matrix: Graph, owners: Owners, num_parts: int, grid: Grid | None = None
    ) -> Prediction:
        """Return the prediction for the plan that these owners would make; the plan is not built.

        Parameters:
            owners: Owners; only of rows if there is a grid.
            num_parts: Number of parts; with a grid, the number of its parts.
            grid: Process grid. If its pieces are smaller than blocks, the plan may differ a little
                from the prediction: see `tables_of_owners`.
        """
        return self.epoch(tables_of_owners(matrix, owners, num_parts, grid))

    def of_random(self, matrix: Graph, num_parts: int) -> Prediction:
        """Return the prediction for an even random row partition, always the same one."""
        speeds = tuple(self.machine.speeds(num_parts)) if self.machine.speed else None
        owner = random_owner(matrix.num_vertices, num_parts, BASELINE_SEED, speeds)
        return self.of_owners(matrix, Owners(owner), num_parts)

    def bound(
        self, num_vertices: int, num_nonzeros: int, num_parts: int, word_bytes: int = WORD_BYTES
    ) -> float:
        """Return the seconds of an epoch with all work evenly spread and no exchange of rows.

        Ranks of unequal speed have work in proportion to it. The all-reduce of the gradients stays.

        Parameters:
            num_vertices, num_nonzeros: Sizes of the matrix, with its diagonal.
            num_parts: Number of ranks.
            word_bytes: Bytes of a number: 4 or 8.
        """
        even = self._even(num_vertices, num_nonzeros, num_parts)
        return replace(self, approximation=None, pipeline=None).epoch(even, word_bytes).seconds

    def bound_of(self, tables: Tables, word_bytes: int = WORD_BYTES) -> float:
        """Return `bound` for the sizes of these tables, layer by layer if there are live rows."""

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
        """Return a function that predicts the epoch from owners of this matrix, for a search.

        Parameters:
            matrix, num_parts, grid: See `of_owners`. If there is a grid, the rates are computed for
                a row plan on the same ranks.
        """
        num_ranks = num_parts if grid is None else grid.num_ranks
        return EpochTime(
            lambda owners: self.of_owners(matrix, owners, num_parts, grid).seconds,
            self.rates(matrix.num_vertices, matrix.num_nonzeros, num_ranks),
        )

    def links(self, num_parts: int) -> LinkRates:
        """Return the costs of an epoch's messages inside and between nodes, for numbering the
        parts.

        The costs are defined as in `plancc.predict.simulation`, and summed over all exchanges of an
        epoch.
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
        """Return seconds per message, row moved, nonzero and own row, to estimate moves quickly.

        The rates are finite differences of predictions for an example: all parts are alike, and
        each exchanges `HALO` rows per own row with up to `PEERS` other parts. One quantity at a
        time is raised on all ranks. Ranks have speed 1.

        Parameters:
            num_vertices, num_nonzeros, num_parts: See `bound`.

        Returns:
            The rates, which are not negative; with one part, the rates of messages and rows are 0.
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
    """Return tables of parts that all have the same size."""
    every = np.ones(expand.num_ranks, np.int64)
    return Tables("rates", "row", rows=rows * every, nonzeros=nonzeros * every, expand=expand)


def _halved(pairs: Pairs, rows: int) -> Pairs:
    """Return the same rows in twice as many messages; a message has `rows` rows, at least 2."""
    return Pairs(
        pairs.num_ranks,
        np.repeat(pairs.source, 2),
        np.repeat(pairs.target, 2),
        np.tile(np.array([rows // 2, rows - rows // 2], np.int64), len(pairs.source)),
    )
