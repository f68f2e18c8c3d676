"""Builders of schedules, one module per layout. Knows plans and widths; no machine.

tables.py    sizes of parts and messages, which a schedule depends on; no nonzero;
             plan_tables.py reads them from plans, owner_tables.py counts them for owners
epoch.py     what layers compute, and what of it the passes leave out
row.py       row and edge plans
grid.py      1D, 1.5D, 2D, 3D, also those that send needed rows only
feature.py   feature slices, alone and between groups
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

from plancc.predict.passes import COMMON_PASSES
from plancc.predict.schedule import Schedule
from plancc.predict.schedules.epoch import Scheduler, epoch
from plancc.predict.schedules.feature import FeatureScheduler
from plancc.predict.schedules.grid import BlockRowScheduler, BlockScheduler
from plancc.predict.schedules.owner_tables import pairs_of, tables_of_owners
from plancc.predict.schedules.plan_tables import read_tables, tables_of
from plancc.predict.schedules.row import RowScheduler
from plancc.predict.schedules.tables import Tables, divides_columns

__all__ = [
    "Schedule",
    "Tables",
    "pairs_of",
    "read_tables",
    "schedule_of",
    "scheduler_of",
    "tables_of",
    "tables_of_owners",
]

SCHEDULERS: dict[str, Callable[[Tables], Scheduler]] = {
    "row": RowScheduler,
    "edge": RowScheduler,
    "1d": BlockRowScheduler,
    "1.5d": BlockRowScheduler,
    "2d": BlockScheduler,
    "3d": BlockScheduler,
    "feature": FeatureScheduler,
}
"""Schedulers by `Tables.scheme`."""


def schedule_of(
    plan: str | PathLike[str] | Tables,
    dims: Sequence[int],
    passes: Sequence[str] = COMMON_PASSES,
) -> Schedule:
    """The operations of one training epoch of a GCN.

    Parameters
    ----------
    plan : path of a plan, or Tables
        `read_tables(path)`, `tables_of(plan)`, or made of sizes of parts and messages alone.
    dims : list of int
        Widths d_0..d_L.
    passes : sequence of str
        Names in `plancc.predict.passes.COMMON_PASSES`.

    Raises
    ------
    InputError
        If the file is missing, there is no such pass, or a width is too small for the grid.
    PlanError
        If the file is damaged.
    """
    tables = plan if isinstance(plan, Tables) else read_tables(plan)
    scheduler, notes = scheduler_of(tables), tables.notes
    if tables.grid is not None and tables.blocks is None and divides_columns(tables.grid):
        notes = (*notes, "nonzeros are taken to be spread evenly over the pieces of columns")
    return Schedule(
        name=tables.name,
        layout=tables.layout if tables.grid is None else f"{tables.layout} {tables.grid}",
        num_ranks=tables.num_ranks,
        dims=list(dims),
        passes=tuple(passes),
        operations=epoch(scheduler, dims, passes),
        memory=scheduler.memory(dims),
        notes=notes,
    )


def scheduler_of(tables: Tables) -> Scheduler:
    """The scheduler of these tables; InputError if they do not fit their grid."""
    return SCHEDULERS[tables.scheme](tables)
