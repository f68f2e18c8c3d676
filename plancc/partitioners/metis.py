"""METIS through pymetis: cut or total communication volume of a graph."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import BackendError, InputError
from plancc.models.problem import WeightedGraph
from plancc.partitioners.adapter import Adapter
from plancc.partitioners.process import OTHERWISE

OBJTYPE = {"cut": 0, "volume": 1}
NUM_OPTIONS = 40
"""METIS_NOPTIONS of metis.h."""
REAL = np.float32
"""real_t of metis.h, as pymetis builds it."""
OK = 1
ERRORS = {-2: "wrong input", -3: "not enough memory", -4: "some other error"}
"""rstatus_et of metis.h."""


def run(
    problem: WeightedGraph,
    num_parts: int,
    *,
    epsilon: float | npt.NDArray[np.float64],
    seed: int,
    preset: str,
    threads: int,
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
    allowed = np.maximum(np.round(1000 * ((1 + np.asarray(epsilon)) ** (1 / steps) - 1)), 1)
    options = pymetis.Options(seed=seed, ufactor=int(allowed.min()))
    if not recursive:
        options.objtype = OBJTYPE[problem.objective]
    integer = np.int64 if pymetis._internal._idx_type_width() == 64 else np.int32
    ptr, neighbours = problem.indptr.astype(integer), problem.indices.astype(integer)
    weights = np.ascontiguousarray(problem.vertex_weights, dtype=integer)
    costs = None if problem.edge_weights is None else problem.edge_weights.astype(integer)
    if weights.ndim > 1:
        graph = (ptr, neighbours, weights, costs)
        allowed = np.broadcast_to(allowed, weights.shape[1:])
        return _balance_several(num_parts, graph, allowed, recursive, options)
    _, owner = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(ptr, neighbours),
        vweights=weights,
        eweights=costs,
        recursive=recursive,
        options=options,
    )
    return np.asarray(owner, dtype=np.int64)


def _balance_several(
    num_parts: int,
    graph: tuple[npt.NDArray[Any] | None, ...],
    allowed: npt.NDArray[np.float64],
    recursive: bool,
    options: Any,
) -> npt.NDArray[Any]:
    """METIS with several weights per vertex, which pymetis' own function does not pass on.

    The METIS inside pymetis is called as its manual says (section 5.8). All arrays have the
    library's integer type.

    Parameters
    ----------
    num_parts : int
    graph : tuple
        ptr, neighbours, weights [n, number of constraints] and costs, None for all 1.
    allowed : float64[number of constraints]
        Allowed imbalance, in thousandths.
    recursive : bool
    options : pymetis.Options
    """
    ptr, neighbours, weights, costs = graph
    assert ptr is not None
    assert weights is not None
    name = "METIS_PartGraphRecursive" if recursive else "METIS_PartGraphKway"
    function = _function(name)
    integer = ptr.dtype
    n, number, parts, cut = (np.array([x], dtype=integer) for x in (*weights.shape, num_parts, 0))
    settings = np.array([options._get(k) for k in range(NUM_OPTIONS)], dtype=integer)
    owner = np.empty(len(weights), dtype=integer)
    alike = bool((allowed == allowed[0]).all())  # then `ufactor` says it
    factors = None if alike else (1 + allowed / 1000).astype(REAL)
    # None: sizes for the volume all 1, parts all equal.
    before = (n, number, ptr, neighbours, weights, None, costs)
    arguments = (*before, parts, None, factors, settings, cut, owner)
    status = function(*(None if x is None else x.ctypes.data for x in arguments))
    if status != OK:
        why = ERRORS.get(status, "unknown")
        raise BackendError(f"metis failed (status {status}: {why}); {OTHERWISE}")
    return owner


def _function(name: str) -> Callable[..., int]:
    """A partitioning function of the METIS inside pymetis: 13 pointers, None for NULL."""
    import pymetis

    function = getattr(ctypes.CDLL(pymetis._internal.__file__), name, None)
    if function is None:
        raise BackendError(f"this pymetis has no {name} for several balances; {OTHERWISE}")
    function.argtypes = [ctypes.c_void_p] * 13
    function.restype = ctypes.c_int
    return function


ADAPTER = Adapter(
    name="metis",
    run=run,
    accepts=(WeightedGraph,),
    presets=("kway", "recursive"),
    objectives=("cut", "volume"),
    library="pymetis",
    distribution="pymetis",
    install="pip install pymetis",
    constraints=True,
    auto_rank={WeightedGraph: 30},
)
