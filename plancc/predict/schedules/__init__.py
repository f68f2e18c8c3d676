"""Builders of schedules, one module per layout. Knows plans and widths; no machine.

tables.py    what of a plan a schedule depends on: sizes of parts, messages; no nonzero
epoch.py     what layers compute, and what of it the passes leave out
row.py       row and edge plans
grid.py      1D, 1.5D, 2D, 3D, also those that send needed rows only
feature.py   feature slices, alone and between groups
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from os import PathLike

from plancc.predict.schedule import Schedule
from plancc.predict.schedules.epoch import Layout, epoch
from plancc.predict.schedules.feature import FeatureSlices
from plancc.predict.schedules.grid import BlockRows, Blocks
from plancc.predict.schedules.row import RowLayout
from plancc.predict.schedules.tables import (
    Tables,
    pairs_of,
    read_tables,
    recorded_dims,
    tables_of,
    tables_of_owners,
)

__all__ = [
    "Schedule",
    "Tables",
    "layout_of",
    "pairs_of",
    "read_tables",
    "recorded_dims",
    "schedule_of",
    "tables_of",
    "tables_of_owners",
]

SPREAD = ("1.5d", "2d", "3d")
"""Schemes that divide a part's nonzeros by their columns."""


def schedule_of(
    plan: str | PathLike[str] | Tables,
    dims: Sequence[int],
    passes: Sequence[str] = ("order", "constant"),
) -> Schedule:
    """The operations of one training epoch of a GCN.

    Parameters
    ----------
    plan : path of a plan, or Tables
        `read_tables(path)`, `tables_of(plan)`, or made of sizes of parts and messages alone.
    dims : list of int
        Widths d_0..d_L.
    passes : sequence of str
        Of "order" and "constant" (`plancc.predict.training`).

    Raises
    ------
    InputError
        If the file is missing, there is no such pass, or a width is too small for the grid.
    PlanError
        If the file is damaged.
    """
    tables = plan if isinstance(plan, Tables) else read_tables(plan)
    layout = layout_of(tables)
    operations = epoch(layout, dims, passes)
    held = layout.memory(dims)
    notes = tables.notes
    if tables.grid is not None and tables.blocks is None and tables.grid.scheme in SPREAD:
        notes = (*notes, "nonzeros are taken to be spread evenly over the pieces of columns")
    return Schedule(
        name=tables.name,
        layout=tables.layout if tables.grid is None else f"{tables.layout} {tables.grid}",
        num_ranks=tables.num_ranks,
        dims=list(dims),
        passes=tuple(passes),
        operations=operations,
        memory={each.name: getattr(held, each.name) for each in fields(held)},
        notes=notes,
    )


def layout_of(tables: Tables) -> Layout:
    """How the ranks of these tables multiply; InputError if they do not fit their grid."""
    if tables.grid is None:
        return RowLayout(tables)
    if tables.grid.scheme == "feature":
        return FeatureSlices(tables)
    if tables.grid.scheme in ("1d", "1.5d"):
        return BlockRows(tables)
    return Blocks(tables)
