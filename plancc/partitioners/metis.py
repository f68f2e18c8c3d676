"""METIS through pymetis: cut or total communication volume of a graph."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import BackendError, InputError
from plancc.models.problem import WeightedGraph
from plancc.partitioners.adapter import Adapter, Start
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
    capacities: npt.NDArray[np.float64] | None = None,
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
    if weights.ndim > 1 or capacities is not None:
        weights = weights.reshape(len(weights), -1)
        shares = np.full(num_parts, 1 / num_parts) if capacities is None else capacities
        goal = _Goal(shares, np.broadcast_to(allowed, weights.shape[1:]))
        return _partition((ptr, neighbours, weights, costs), goal, recursive, options)
    _, owner = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(ptr, neighbours),
        vweights=weights,
        eweights=costs,
        recursive=recursive,
        options=options,
    )
    return np.asarray(owner, dtype=np.int64)


class _Goal(NamedTuple):
    """How heavy parts are to be.

    Attributes
    ----------
    shares : float64[num_parts], with sum 1
    allowed : float64[number of constraints]
        Allowed imbalance, in thousandths.
    """

    shares: npt.NDArray[np.float64]
    allowed: npt.NDArray[np.float64]


def _partition(
    graph: tuple[npt.NDArray[Any] | None, ...], goal: _Goal, recursive: bool, options: Any
) -> npt.NDArray[Any]:
    """METIS with several weights per vertex, which pymetis' own function does not pass on.

    The METIS inside pymetis is called as its manual says (section 5.8). All arrays have the
    library's integer type.

    Parameters
    ----------
    graph : tuple
        ptr, neighbours, weights [n, number of constraints] and costs, None for all 1.
    goal : _Goal
    recursive : bool
    options : pymetis.Options
    """
    ptr, neighbours, weights, costs = graph
    assert ptr is not None
    assert weights is not None
    num_parts, allowed = len(goal.shares), goal.allowed
    name = "METIS_PartGraphRecursive" if recursive else "METIS_PartGraphKway"
    function = _function(name)
    integer = ptr.dtype
    n, number, parts, cut = (np.array([x], dtype=integer) for x in (*weights.shape, num_parts, 0))
    settings = np.array([options._get(k) for k in range(NUM_OPTIONS)], dtype=integer)
    owner = np.empty(len(weights), dtype=integer)
    alike = bool((allowed == allowed[0]).all())  # then `ufactor` says it
    factors = None if alike else (1 + allowed / 1000).astype(REAL)
    even = bool((goal.shares == goal.shares[0]).all())
    shares = None if even else np.repeat(goal.shares, len(allowed)).astype(REAL)
    # None: sizes for the volume are all 1.
    before = (n, number, ptr, neighbours, weights, None, costs)
    arguments = (*before, parts, shares, factors, settings, cut, owner)
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
    capacities=True,
    auto_rank={WeightedGraph: 30},
    starts=(
        # Quick and never far off where no vertex has many neighbours, slow where some have.
        Start({"even": 30, "thin": 30, "dense": 30}, "kway", "volume", ("fast", "balanced")),
        Start({"hubs": 20}, "kway", "cut", ("fast", "balanced")),
        Start({"wide": 20, "dense": 20, "even": 10, "thin": 10}, "kway", "cut"),
    ),
)
