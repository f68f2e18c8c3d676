"""Schedulers, which build the schedule of an epoch from tables; there is one for every layout.

Tables hold the sizes of parts and messages, read from plans or computed from owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.plan.convolutions import Convolution
from plancc.plan.layers import Aggregate, Attention, Bias, Linear, OwnLinear
from plancc.predict.passes import COMMON_PASSES, DEAD_ROWS
from plancc.predict.schedule import Schedule
from plancc.predict.schedules.approximate import (
    Approximation,
    CloneScheduler,
    SampledScheduler,
    sampled,
)
from plancc.predict.schedules.epoch import Scheduler, epoch
from plancc.predict.schedules.links import LinkTask
from plancc.predict.schedules.owner_tables import (
    live_tables,
    matrix_of_pairs,
    pairs_of,
    tables_of_owners,
)
from plancc.predict.schedules.plan_tables import read_tables, tables_of, training_vertices
from plancc.predict.schedules.row import RowScheduler
from plancc.predict.schedules.tables import Live, Tables, divides_columns
from plancc.registry import load

if TYPE_CHECKING:
    from plancc.predict.pipelines import Pipeline

__all__ = [
    "Approximation",
    "LinkTask",
    "Live",
    "Schedule",
    "Tables",
    "check_pipelined",
    "live_tables",
    "matrix_of_pairs",
    "pairs_of",
    "read_tables",
    "schedule_of",
    "scheduler_of",
    "tables_of",
    "tables_of_owners",
    "training_vertices",
]

_GRID, _FEATURE = "plancc.predict.schedules.grid:", "plancc.predict.schedules.feature:"
SCHEDULERS = {
    "1d": _GRID + "BlockRowScheduler",
    "1.5d": _GRID + "BlockRowScheduler",
    "2d": _GRID + "BlockScheduler",
    "3d": _GRID + "BlockScheduler",
    "feature": _FEATURE + "FeatureScheduler",
}
"""Schedulers by `Tables.scheme`; row and edge plans have `RowScheduler`."""


def schedule_of(
    plan: StrPath | Tables,
    dims: Sequence[int],
    passes: Sequence[str] = COMMON_PASSES,
    approximation: Approximation | None = None,
    convolution: Convolution | None = None,
    pipeline: Pipeline | None = None,
) -> Schedule:
    """Return the operations of one training epoch for a plan file or for tables.

    The pass "dead-rows" needs a row plan. A pipeline needs a feature plan in which all ranks are
    one group. Some approximations switch off the pass "order".
    """
    if approximation is not None and approximation.is_exact:
        approximation = None
    network = convolution or Convolution()
    if not isinstance(plan, Tables):
        live_layers = len(dims) - 1 if DEAD_ROWS in passes else 0
        plan = read_tables(plan, copies=approximation is not None, live_layers=live_layers)
    tables, notes = plan, plan.notes
    own = None if tables.live is None else tables.live.scheduler
    if DEAD_ROWS in passes or own:
        if tables.live is None or len(tables.live.layers) != len(dims) - 1:
            raise InputError(
                f"pass '{DEAD_ROWS}' needs a row plan with live rows of {len(dims) - 1} layers; "
                f"{tables.name} has live rows of {len(tables.live.layers) if tables.live else 0}"
            )
    else:
        tables = replace(tables, live=None)
    steps = network.options.steps(1, 1, last=True)
    kinds = [type(step) for step in steps if not isinstance(step, Bias | OwnLinear)]
    scheduler: Scheduler
    if pipeline is not None:
        check_pipelined(tables)
        scheduler = load(SCHEDULERS["feature"])(tables, pipeline.stages)
        notes = (*notes, f"{pipeline}, of rows in reverse Cuthill-McKee order")
    elif approximation is None:
        scheduler = (own or scheduler_of)(tables)
    else:
        approximation.check(tables)
        if Attention in kinds:
            raise InputError(f"model '{network.name}' allows no boundary sampling or fold; drop it")
        notes = (*notes, approximation.note())
        passes = approximation.passes(passes)
        if approximation.fold == "sync":
            tables = sampled(tables, approximation.boundary_sampling)
            scheduler = SampledScheduler(tables)
        else:
            scheduler = CloneScheduler(tables, approximation, len(dims) - 1)
    if kinds not in ([Aggregate, Linear], [Linear, Aggregate]):
        notes = (*notes, "memory is that of a GCN of these widths")
    if tables.links is not None:
        notes = (*notes, "negatives as in epoch 0")
    if tables.grid is not None and tables.blocks is None and divides_columns(tables.grid):
        notes = (*notes, "nonzeros are taken to be spread evenly over the pieces of columns")
    operations = epoch(scheduler, dims, passes, network, tables.links)
    memory = scheduler.memory(dims)
    if tables.links is not None:
        ends = tables.links.memory(dims[-1])
        memory = replace(memory, activations=memory.activations + ends)
    return Schedule(
        name=tables.name,
        layout=tables.layout if tables.grid is None else f"{tables.layout} {tables.grid}",
        num_ranks=tables.num_ranks,
        dims=list(dims),
        passes=tuple(passes),
        operations=operations,
        convolution=network,
        pipeline=pipeline,
        memory=memory,
        notes=notes,
    )


def check_pipelined(tables: Tables) -> None:
    """Raise InputError unless the tables are of a feature plan in which all ranks are one group."""
    if tables.grid is None or tables.grid.scheme != "feature" or tables.grid.rows > 1:
        has = f"layout '{tables.layout}'" if tables.grid is None else f"grid '{tables.grid}'"
        raise InputError(f"`pipeline` needs a feature plan with one group; {tables.name} has {has}")


def scheduler_of(tables: Tables) -> Scheduler:
    """Return the scheduler for the layout of these tables."""
    target = SCHEDULERS.get(tables.scheme)
    made: Scheduler = RowScheduler(tables) if target is None else load(target)(tables)
    return made
