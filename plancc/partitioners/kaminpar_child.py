"""KaMinPar in its child process; imports nothing that takes long."""

from __future__ import annotations

import os
from array import array


def run(
    path: str, goal: list[int] | tuple[int, float], seed: int, preset: str, threads: int
) -> array[int]:
    """Minimise the cut.

    Parameters
    ----------
    path : str
        A ParHIP file, which is removed.
    goal : list of int, or (int, float)
        What every part may weigh; or the number of parts, and epsilon.
    seed, preset, threads
        As for `plancc.partitioners.adapter.Adapter.run`.
    """
    import kaminpar

    graph = kaminpar.load_graph(path, kaminpar.GraphFileFormat.PARHIP)
    os.unlink(path)
    kaminpar.reseed(seed)
    solver = kaminpar.KaMinPar(threads, kaminpar.context_by_name(preset))
    if isinstance(goal, list):
        return array("i", solver.compute_partition(graph, max_block_weights=goal))
    return array("i", solver.compute_partition(graph, *goal))
