"""Targets of an export, their registry, and the function that writes a plan for a target."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from plancc.errors import BackendUnavailable, InputError, warn
from plancc.files import atomic_folder, check_folder_target
from plancc.graph.columns import COLUMNS
from plancc.plan.plan import Plan
from plancc.registry import Registry

EXPORTS = Registry(
    "export",
    "plancc.exports",
    {
        "distdgl": "plancc.interop.distdgl:EXPORT",
        "dgl-chunked": "plancc.interop.distdgl:CHUNKED",
        "pyg-cluster": "plancc.interop.pyg_partitions:CLUSTER",
        "pyg-partition": "plancc.interop.pyg_partitions:PARTITION",
        "petsc": "plancc.interop.petsc:EXPORT",
        "hypre": "plancc.interop.hypre:EXPORT",
    },
    instance_of="plancc.export.target:Export",
)


@dataclass(frozen=True)
class Export:
    """One target: a folder of files that another framework reads.

    Attributes:
        what: One line that says what the target writes, for listings.
        write: ``write(plan, folder) -> None`` writes into the empty folder `folder`. `export`
            refuses edge plans before, so every part of the plan has whole rows.
        library: Import name of a library that `write` needs; "" for none.
        install: The command that installs the library.
        has_types: Whether the target can hold a graph of several vertex types.
        columns: Names of the columns of nonzeros that the target holds (`plancc.graph.columns`).
        doubles: Whether the matrix is always written in double precision.
    """

    what: str
    write: Callable[[Plan, Path], None]
    library: str = ""
    install: str = ""
    has_types: bool = False
    columns: tuple[str, ...] = ()
    doubles: bool = False


def export(plan: Plan, target: str, folder: str | PathLike[str]) -> None:
    """Write a plan as a folder of files for another framework, whole or not at all.

    The file ``plan.json`` is added to the target's own files: sizes, normalisation, the content
    hash and the provenance of the plan.

    Parameters:
        plan: A plan of layout "row", "grid" or "feature"; the blocks of rows of a grid plan are
            written as parts.
        target: Name of an entry of `EXPORTS`.
        folder: A folder that is new, or empty.

    Raises:
        InputError: For an unknown target, an edge plan, or a plan that the target's format cannot
            hold: most formats cannot hold vertex types.
        BackendUnavailable: If the target needs a library that is not installed; the message says
            how to install it.
        OutputError: If the folder cannot be written.

    Warns:
        PlanccWarning: If the plan has pairs for link prediction, or edge features, that the format
            cannot hold.
    """
    entry: Export = EXPORTS[target]
    check_folder_target(folder)
    if plan.fold is not None:
        raise InputError(
            f"export '{target}' is only for plans with whole rows, but this plan spreads the "
            "nonzeros of rows over several parts; compile one with a model such as 'hp'"
        )
    if plan.header.types is not None and not entry.has_types:
        holding = [name for name, each in EXPORTS.loaded().items() if each.has_types]
        raise InputError(
            f"export '{target}' cannot hold vertex types, which this plan has; use "
            f"{', '.join(holding)}"
        )
    if entry.library and find_spec(entry.library) is None:
        raise BackendUnavailable(
            f"export '{target}' needs {entry.library}; install it with: {entry.install}"
        )
    with atomic_folder(folder) as temporary:
        entry.write(plan, temporary)
        write_json(temporary / "plan.json", _about(plan, target))
    lost = ["links"] * (plan.links is not None)
    lost += [COLUMNS[name] for name in plan.read_columns if name not in entry.columns]
    if lost:
        words = f"export '{target}' cannot hold {' and '.join(lost)}, which are left out"
        warn(words)


def write_json(path: str | PathLike[str], content: object) -> None:
    """Write JSON with an indent of two."""
    Path(fspath(path)).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _about(plan: Plan, target: str) -> dict[str, Any]:
    header = plan.header
    return {
        "export": target,
        "content_sha256": plan.content_sha256(),
        "layout": header.layout,
        "grid": None if header.grid is None else str(header.grid),
        "num_vertices": header.num_vertices,
        "num_nonzeros": header.num_nonzeros,
        "num_parts": header.num_parts,
        "directed": header.directed,
        "normalization": header.normalization,
        "self_loops": header.self_loops,
        "provenance": plan.provenance,
    }
