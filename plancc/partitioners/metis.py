"""METIS through pymetis: cut or total communication volume of a graph."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.models.problem import WeightedGraph
from plancc.partitioners.adapter import Adapter

OBJTYPE = {"cut": 0, "volume": 1}


def run(
    problem: WeightedGraph, num_parts: int, *, epsilon: float, seed: int, preset: str, threads: int
) -> npt.ArrayLike:
    """Minimise the problem's objective; `threads` is not used, the library has one.

    Raises
    ------
    InputError
        Preset recursive with objective volume, which METIS does not have.
    """
    import pymetis

    recursive = preset == "recursive"
    if recursive and problem.objective != "cut":
        raise InputError("METIS preset 'recursive' minimises the cut only: use preset 'kway'")
    # Recursive bisection allows its imbalance in every step: they multiply up to 1 + epsilon.
    steps = math.ceil(math.log2(num_parts)) if recursive else 1
    allowed = (1 + epsilon) ** (1 / steps) - 1
    options = pymetis.Options(seed=seed, ufactor=max(1, round(1000 * allowed)))
    if not recursive:
        options.objtype = OBJTYPE[problem.objective]
    integer = np.int64 if pymetis._internal._idx_type_width() == 64 else np.int32
    costs = problem.edge_weights
    _, owner = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(problem.indptr.astype(integer), problem.indices.astype(integer)),
        vweights=problem.vertex_weights.astype(integer),
        eweights=None if costs is None else costs.astype(integer),
        recursive=recursive,
        options=options,
    )
    return np.asarray(owner, dtype=np.int64)


ADAPTER = Adapter(
    name="metis",
    run=run,
    accepts=(WeightedGraph,),
    presets=("kway", "recursive"),
    objectives=("cut", "volume"),
    library="pymetis",
    distribution="pymetis",
    install="pip install pymetis",
)
