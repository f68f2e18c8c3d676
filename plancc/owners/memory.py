"""Predict the memory that a compile takes, and check that it is available.

The constants of the prediction are in `plancc.search.footprint`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.canonical import BLOCK
from plancc.graph.graph import Graph
from plancc.graph.mapped import is_mapped
from plancc.graph.vertexdata import VertexData
from plancc.memory import available_memory, held_memory
from plancc.owners.task import Task
from plancc.search.footprint import ProblemSizes, Work, shown, work
from plancc.search.presets import MemoryTerms
from plancc.search.starts import begins_with_clusters, is_uneven

SAMPLE = 2000
"""Number of nonzeros in the sample of `mirrored_share`."""


def allowed_memory(given: int | None = None) -> int | None:
    """Return the bytes of memory for this process and its child processes; None if not known.

    By default, these are the free memory plus the memory that this process has, minus a margin.
    """
    left = available_memory()
    if given is not None or left is None:
        return given
    return int(MemoryTerms.margin * (left + held_memory()))


def mirrored_share(graph: Graph) -> float:
    """Estimate, from a sample, the share of the nonzeros (i, j) for which (j, i) is a nonzero."""
    if not graph.directed or graph.num_nonzeros == 0:
        return 1.0
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, graph.num_nonzeros, SAMPLE)
    rows = np.searchsorted(graph.indptr, chosen, side="right") - 1
    columns, last = graph.indices[chosen], graph.num_nonzeros - 1
    low, high = graph.indptr[columns], graph.indptr[columns + 1]
    while (wide := low < high).any():  # a binary search in the row of every column
        middle = (low + high) // 2
        before = graph.indices[np.minimum(middle, last)] < rows
        low = np.where(wide & before, middle + 1, low)
        high = np.where(wide & ~before, middle, high)
    there = graph.indices[np.minimum(low, last)] == rows
    return float(np.mean(there & (low < graph.indptr[columns + 1])))


def degrees(graph: Graph) -> npt.NDArray[np.int64]:
    """Return how many nonzeros each vertex has in its row and, if directed, column: int64[n]."""
    found = graph.row_nonzeros().astype(np.int64)
    if graph.directed:
        step = max(BLOCK, graph.num_vertices)  # every step takes an array of n numbers
        for start in range(0, graph.num_nonzeros, step):
            column = graph.indices[start : start + step]
            found += np.bincount(column, minlength=graph.num_vertices)
    return found


def needed_memory(
    task: Task, graph: Graph, data: VertexData, constraints: int, limit: int | None
) -> int:
    """Predict the bytes of memory that a compile takes; raise InputError if above `limit`.

    `graph` is the graph before normalisation; `constraints` is the number of balanced weights.
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

    def of(effort: str) -> Work:
        # A graph of several types may have no clusters: then the search begins with all rows.
        able = searches and graph.types is None
        return work(sizes, effort, able and begins_with_clusters(degree, effort, task.num_parts))

    # A named partitioner gets all rows; the search for edge plans has steps of its own.
    other = "" if task.model.problem is None else "balanced" if task.searches else "fast"
    found = of(task.effort if searches else other)
    if limit is None or found.peak <= limit:
        return found.peak
    stage, least = max(found.stages, key=lambda name: found.stages[name]), of("fast").peak
    told = ["raise it"]
    if searches and least <= limit:
        told.append(f"use `effort` fast ({shown(least)})")
    if task.model.on_ranks:
        way = "have ranks compile a folder of `plancc convert` together"
        told.append(f"{way}: mpirun -n R plancc compile FOLDER")
    needs = f"{rows:,} rows and {sizes.nonzeros:,} nonzeros need {shown(found.peak)} of memory"
    has = f"`memory` is {shown(limit)}: {', or '.join(told)}"
    raise InputError(f"{graph.source.name}: {needs} (stage '{stage}'), but {has}")
