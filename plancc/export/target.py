"""The targets of an export, their registry, and the function `export`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from os import fspath
from pathlib import Path
from typing import Any

from plancc.errors import BackendUnavailable, InputError, warn
from plancc.files import StrPath, atomic_folder, check_folder_target
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
    """One target: a framework that can read the files that `write` makes.

    Attributes:
        what: One line that says what the target writes, for lists of targets.
        write: ``write(plan, folder) -> None`` fills an empty folder. No `plan` is an edge plan.
        library: Import name of a library that `write` needs; "" if it needs none.
        install: The command that installs this library.
        has_types: Whether the target can hold a graph with vertex types.
        columns: Arrays of `plancc.graph.columns` that the target can hold besides the values.
        doubles: Whether the matrix is always written in double precision.
    """

    what: str
    write: Callable[[Plan, Path], None]
    library: str = ""
    install: str = ""
    has_types: bool = False
    columns: tuple[str, ...] = ()
    doubles: bool = False


def export(plan: Plan, target: str, folder: StrPath) -> None:
    """Write a plan whose parts own whole rows, with a ``plan.json``, into a new or empty folder.

    An edge plan is refused. The parts of a grid plan are its blocks of rows. After an error nothing
    is written. Links and vertex data that the target cannot hold are left out with a warning.
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


def write_json(path: StrPath, content: object) -> None:
    """Write `content` as JSON, indented by two spaces."""
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
