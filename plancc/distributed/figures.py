"""Figures of a plan whose parts are on several ranks, and the prediction of an epoch's time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from plancc.cost.owners import BASELINE_SEED
from plancc.distributed.kernels import parts_of_nets
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Share
from plancc.models.capacities import Capacities
from plancc.models.random import random_owner
from plancc.passes.topology import MapToTopology
from plancc.plan.exchange import Int32Array
from plancc.plan.metrics import Metrics, StepTraffic, Traffic, summarize
from plancc.plan.plan import Plan
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.topology import Topology
from plancc.predict.forecast import Forecast
from plancc.predict.predictor import Predictor
from plancc.predict.schedule import Pairs
from plancc.predict.schedules import Tables, pairs_of, tables_of

NETS_AT_ONCE = 1 << 18
"""Number of nets for which messages are counted at once."""


def pair_volumes(ranks: Ranks, share: Share, owner: Int32Array, num_parts: int) -> sp.csr_array:
    """Count the rows that each part sends to each other part. Collective.

    Each rank's result, int64[num_parts, num_parts], has these numbers for the senders in one range
    of parts, which is the rank's, and 0 for all other senders.
    """
    ptr, entry = parts_of_nets(share.first, share.net_ptr, share.pins, owner, num_parts)
    shape, lengths = (num_parts, num_parts), np.diff(ptr)
    found = sp.csr_array(shape, dtype=np.int64)
    for start in range(0, len(ptr) - 1, NETS_AT_ONCE):
        stop = min(start + NETS_AT_ONCE, len(ptr) - 1)
        sender = np.repeat(owner[share.first + start : share.first + stop], lengths[start:stop])
        receiver = entry[ptr[start] : ptr[stop]] >> 1
        away = np.flatnonzero(sender != receiver)
        ends = sender[away], receiver[away]
        found += sp.csr_array((np.ones(len(away), np.int64), ends), shape)
    cuts = found.indptr[block_of_parts(num_parts, ranks.size)[1:-1]]
    entries = found.tocoo()
    columns = [*entries.coords, entries.data]
    sender, receiver, rows = (ranks.collected(np.split(each, cuts)) for each in columns)
    return sp.csr_array((rows, (sender, receiver)), shape)


def at_root(ranks: Ranks, volumes: sp.csr_array) -> sp.csr_array:
    """Add up, on rank 0, the matrices that `pair_volumes` has returned on all ranks. Collective."""
    entries = volumes.tocoo()
    sender, receiver, rows = (ranks.at_root(each) for each in (*entries.coords, entries.data))
    return sp.csr_array((rows, (sender, receiver)), volumes.shape)


def metrics_of(ranks: Ranks, parts: Plan) -> Metrics:
    """Return the figures of the whole plan. `parts` holds this rank's parts. Collective."""
    own = parts.traffic()
    rows, nonzeros = ranks.concatenated(own.rows), ranks.concatenated(own.nonzeros)
    step = StepTraffic(*map(ranks.concatenated, StepTraffic.of(parts.exchanges.expand)))
    return summarize(Traffic(rows, nonzeros, *step))


def _tables(ranks: Ranks, parts: Plan, num_parts: int) -> Tables:
    """Return the tables of the whole plan; only rank 0 gets tables with messages. Collective."""
    own, first = tables_of(parts), ranks.before(parts.num_parts)
    pairs = own.expand.source + np.int32(first), own.expand.target, own.expand.rows
    source, target, rows = map(ranks.at_root, pairs)
    assert own.boundary_nonzeros is not None
    return replace(
        own,
        rows=ranks.concatenated(own.rows),
        nonzeros=ranks.concatenated(own.nonzeros),
        boundary_nonzeros=ranks.concatenated(own.boundary_nonzeros),
        expand=Pairs(num_parts, source, target, rows),
    )


def mapped(
    ranks: Ranks, share: Share, owner: Int32Array, topology: Topology, capacities: Capacities
) -> Int32Array:
    """Renumber parts as `plancc.owners.numbering.mapped` does; return the owners. Collective."""
    num_parts, number = topology.num_ranks, None
    volumes = at_root(ranks, pair_volumes(ranks, share, owner, num_parts))
    with ranks.agreement():
        if ranks.rank == 0:
            parts = np.arange(num_parts, dtype=np.int32)
            number = MapToTopology(topology, capacities=capacities).run(parts, volumes, num_parts)
    return ranks.from_root(number, np.int32)[owner]


def random_figures(
    ranks: Ranks, share: Share, num_parts: int, capacities: Capacities = None
) -> tuple[Metrics, Tables]:
    """Return figures and tables (for predictions) of a random partition. Collective.

    Only rank 0 gets the messages in the tables. If `capacities` is None, the partition is the
    baseline (`plancc.cost.owners.random_traffic`).
    """
    owner = random_owner(len(share.degree), num_parts, BASELINE_SEED, capacities)
    volumes = pair_volumes(ranks, share, owner, num_parts)
    moved = [each.sum(axis=axis) for each in (volumes, volumes.sign()) for axis in (1, 0)]
    step = StepTraffic(*map(ranks.sums, moved))
    rows, nonzeros = np.bincount(owner, minlength=num_parts), np.zeros(num_parts, dtype=np.int64)
    np.add.at(nonzeros, owner, share.degree)
    metrics = summarize(Traffic(rows, nonzeros, *step))
    return metrics, Tables("random", "row", rows, nonzeros, pairs_of(at_root(ranks, volumes)))


def forecast_of(ranks: Ranks, predictor: Predictor, parts: Plan, random: Tables) -> Forecast:
    """Predict the epochs of the plan and of the random partition, on every rank. Collective."""
    tables, seconds = _tables(ranks, parts, random.num_ranks), (0.0, 0.0, 0.0)
    with ranks.agreement():
        if ranks.rank == 0:
            plan, even = (predictor.epoch(each).seconds for each in (tables, random))
            seconds = plan, even, predictor.bound_of(random)
    return Forecast(predictor, *ranks.broadcast(seconds))
