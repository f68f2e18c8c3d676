"""What of a search fits into the memory that there is.

Numbers are those of `plancc.search.footprint`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plancc.graph.canonical import BLOCK
from plancc.graph.graph import Graph
from plancc.graph.mapped import is_mapped
from plancc.graph.vertexdata import VertexData
from plancc.memory import available_memory, held_memory
from plancc.owners.task import Task
from plancc.scratch import check_room, folder
from plancc.search.footprint import (
    ProblemSizes,
    Work,
    fitting,
    of_clusters,
    scratch,
    shown,
    work,
)
from plancc.search.presets import MemoryTerms
from plancc.search.starts import begins_with_clusters, is_uneven

SAMPLE = 2000
"""Nonzeros that are looked at to learn how many have a mirror image."""


def allowed_memory(given: int | None = None) -> int | None:
    """Bytes that this process and its children may have together.

    Parameters:
        given: What the user allows; None: what the system has left and what this process has
            already, less a margin.

    Returns:
        None where the system does not say.
    """
    left = available_memory()
    if given is not None or left is None:
        return given
    return int(MemoryTerms.margin * (left + held_memory()))


def mirrored_share(graph: Graph) -> float:
    """Share of the nonzeros whose mirror image is one too, by a sample of them."""
    if not graph.directed or graph.num_nonzeros == 0:
        return 1.0
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, graph.num_nonzeros, SAMPLE)
    rows = np.searchsorted(graph.indptr, chosen, side="right") - 1
    found = 0
    for i, j in zip(rows.tolist(), graph.indices[chosen].tolist(), strict=True):
        row = graph.indices[graph.indptr[j] : graph.indptr[j + 1]]
        at = int(np.searchsorted(row, i))
        found += at < len(row) and row[at] == i
    return found / SAMPLE


def degrees(graph: Graph) -> npt.NDArray[np.int64]:
    """Entries of every row, and of its column where the graph is directed: int64[n]."""
    found = graph.row_nonzeros().astype(np.int64)
    if graph.directed:
        step = max(BLOCK, graph.num_vertices)  # every step makes an array of all vertices
        for start in range(0, graph.num_nonzeros, step):
            column = graph.indices[start : start + step]
            found += np.bincount(column, minlength=graph.num_vertices)
    return found


def within_memory(
    task: Task, graph: Graph, data: VertexData, constraints: int, limit: int | None
) -> tuple[Task, Work, str]:
    """The task, or the most of it that fits.

    Parameters:
        graph: Not normalised.
        constraints: Number of balances.
        limit: Bytes; None: any.

    Returns:
        task, work, str: What it is predicted to take, and a sentence of what was given up, "" for
            nothing.

    Raises:
        InputError: Nothing fits.
    """
    rows = graph.num_vertices
    every = (array for each in (data, *data.of_type.values()) for array in each.arrays().values())
    held = sum(array.nbytes for array in every if isinstance(array, np.ndarray))
    degree = degrees(graph)
    sizes = ProblemSizes(
        rows,
        graph.num_nonzeros + rows,
        mirrored_share(graph),
        weighted=graph.values is not None,
        constraints=constraints,
        uneven=is_uneven(degree),
        data=held,
        mapped=is_mapped(graph.indices),
    )
    searches = task.searches and task.model.layout == "row"
    # A named partitioner is given all rows; edge plans are searched in their own way.
    effort = "" if task.model.problem is None else "balanced" if task.searches else "fast"
    effort, clustered = task.effort if searches else effort, False
    if searches and graph.types is None:  # types may have no clusters, and then begin with all rows
        clustered = begins_with_clusters(degree, effort, task.num_parts)
    first = work(sizes, effort, clustered)
    chosen = fitting(sizes, effort, limit, clustered, only=bool(effort) and not searches)
    options = task.options
    if limit is not None and chosen.clustered:
        options = replace(options, room=limit - chosen.stages["start"] + of_clusters(sizes))
    if chosen == first:
        return replace(task, options=options), first, ""
    options = replace(options, lean=chosen.clustered, on_disk=chosen.on_disk)
    if chosen.on_disk:
        check_room(scratch(sizes))
    if searches:
        options = replace(options, effort=chosen.effort)
        who, what, of_memory = f"effort {effort}", "partitioners are given clusters of rows", ""
        if chosen.effort != effort:
            what = f"the effort is {chosen.effort}, and {what}"
        what += ", matrix and nets" * chosen.on_disk
    else:
        who, what, of_memory = "this", "matrix and plan", " of memory"
    what += f" are in files in {folder()}" * chosen.on_disk
    told = (
        f"{who} takes about {shown(first.peak)}, and `memory` is {shown(limit or 0)}: {what} "
        f"({shown(chosen.peak)}{of_memory})"
    )
    return replace(task, options=options), chosen, told
