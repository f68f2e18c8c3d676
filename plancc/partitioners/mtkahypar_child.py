"""The function that runs V-cycles of Mt-KaHyPar in the child process, without slow imports."""

from __future__ import annotations

import os
from array import array


def improve(
    path: str, goal: tuple[int, float], most: list[int] | None, owner: bytes, seed: int
) -> array[int]:
    """Lower the connectivity-1 cut of given owners by one V-cycle, on one thread.

    The hMETIS file at `path` is removed. `goal`: number of parts, and epsilon. `most`: largest
    weight of every part; None if parts have equal shares. `owner`: int32[num_vertices], as bytes.
    """
    import mtkahypar

    library = mtkahypar.initialize(1)
    mtkahypar.set_seed(seed)
    context = library.context_from_file(__file__.removesuffix("_child.py") + "-improve.ini")
    context.logging = False
    context.set_partitioning_parameters(*goal, mtkahypar.Objective.KM1)
    if most is not None:
        context.set_individual_target_block_weights(most)
    hypergraph = library.hypergraph_from_file(path, context, mtkahypar.FileFormat.HMETIS)
    os.unlink(path)
    parts = hypergraph.create_partitioned_hypergraph(context, goal[0], array("i", owner).tolist())
    parts.improve_partition(context, 1)
    return array("i", parts.get_partition())
