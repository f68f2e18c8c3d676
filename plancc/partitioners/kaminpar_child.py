"""The function that runs KaMinPar in the child process. This module has no slow imports."""

from __future__ import annotations

import os
from array import array


def run(
    path: str, goal: list[int] | tuple[int, float], seeds: list[int], preset: str, threads: int
) -> list[array[int]]:
    """Minimise the edge cut once for every seed; return a list of owners.

    Parameters:
        path: A ParHIP file with the graph; the file is removed after it is read.
        goal: List of the largest weight of every part, or tuple (number of parts, epsilon).
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
