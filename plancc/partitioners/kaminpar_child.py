"""The function that runs KaMinPar in the child process. This module has no slow imports."""

from __future__ import annotations

import os
from array import array


def run(
    path: str, goal: list[int] | tuple[int, float], seeds: list[int], preset: str, threads: int
) -> list[array[int]]:
    """Minimise the edge cut once for every seed; return a list of owners.

    `goal` is a list of the largest weight of every part, or a tuple of number of parts and epsilon.
    The ParHIP file at `path` is removed.
    """
    import kaminpar

    graph = kaminpar.load_graph(path, kaminpar.GraphFileFormat.PARHIP)
    os.unlink(path)
    owners = []
    for seed in seeds:
        kaminpar.reseed(seed)
        solver = kaminpar.KaMinPar(threads, kaminpar.context_by_name(preset))
        if isinstance(goal, list):
            found = solver.compute_partition(graph, max_block_weights=goal)
        else:
            found = solver.compute_partition(graph, *goal)
        owners.append(array("i", found))
    return owners
