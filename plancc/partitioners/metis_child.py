"""The function that runs METIS in the child process. This module has no slow imports.

The function of pymetis would accept only one weight per vertex, and importing pymetis is slow. So
METIS inside pymetis is called directly.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import Any

from plancc.errors import BackendError
from plancc.partitioners import OTHERWISE

OBJTYPE = {"cut": 0, "volume": 1}
NUM_OPTIONS = 40
"""Length of METIS's array of options (METIS_NOPTIONS in metis.h)."""
REAL = "f"
"""Type code, for `array`, of METIS's real numbers (real_t) in pymetis's build."""
OK = 1
ERRORS = {-2: "wrong input", -3: "not enough memory", -4: "some other error"}
"""Phrases for METIS's error codes (rstatus_et in metis.h)."""


def run(
    graph: dict[str, bytes],
    shares: list[float],
    allowed: list[int],
    objective: str | None,
    seeds: list[int],
) -> list[array[int]]:
    """Minimise the edge cut or the volume once for every seed; return the owners for each seed.

    Parameters:
        graph: Bytes of int64 arrays: "ptr" [n + 1], "neighbours", "weights" [n, num_constraints],
            and "costs" unless all are 1. The function empties the dict, to free memory.
        shares: Shares of the parts, with sum 1.
        allowed: Allowed imbalance of every constraint, in thousandths.
        objective: "cut" or "volume"; None to minimise the cut by recursive bisection.
    """
    library = _library()
    width = library._idx_type_width()
    integer, number = ("q" if width == 64 else "i"), len(allowed)

    def numbers(name: str) -> array[int]:
        found = array("q", graph.pop(name))  # frees the bytes
        return found if width == 64 else array("i", found)

    options, index = library.Options(), library.options_indices
    options._set(index.UFACTOR, min(allowed))
    if objective is not None:
        options._set(index.OBJTYPE, OBJTYPE[objective])
    ptr, weights = numbers("ptr"), numbers("weights")
    costs = numbers("costs") if "costs" in graph else None
    n, num_parts = len(ptr) - 1, len(shares)
    factors = None  # if all are equal, UFACTOR has the value
    if min(allowed) < max(allowed):
        factors = array(REAL, [1 + each / 1000 for each in allowed])
    goal = None
    if min(shares) < max(shares):
        goal = array(REAL, [share for share in shares for _ in allowed])
    problem = (
        *(array(integer, [value]) for value in (n, number)),
        *(ptr, numbers("neighbours"), weights, None, costs),  # None: all vertex sizes are 1
        *(array(integer, [num_parts]), goal, factors),
    )
    function = _function("METIS_PartGraphRecursive" if objective is None else "METIS_PartGraphKway")
    owners = []
    for seed in seeds:
        options._set(index.SEED, seed)
        settings = array(integer, [options._get(k) for k in range(NUM_OPTIONS)])
        owner, cut = array(integer, bytes(n * ptr.itemsize)), array(integer, [0])
        arguments = (*problem, settings, cut, owner)
        status = function(*(None if each is None else each.buffer_info()[0] for each in arguments))
        if status != OK:
            why = ERRORS.get(status, "unknown")
            raise BackendError(f"metis failed (status {status}: {why}); {OTHERWISE}")
        owners.append(owner)
    return owners


def _library() -> Any:
    """Import the compiled module of pymetis, and none of its Python modules."""
    name = "pymetis._internal"
    if name not in sys.modules:
        package = find_spec("pymetis")
        folders = None if package is None else package.submodule_search_locations
        found = None if folders is None else PathFinder.find_spec("_internal", folders)
        spec = None if found is None else spec_from_file_location(name, found.origin)
        if spec is None or spec.loader is None:
            raise BackendError(f"pymetis lacks its compiled module; {OTHERWISE}")
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _function(name: str) -> Callable[..., int]:
    """Return a partitioning function of METIS, whose 13 arguments are addresses; None stands for
    NULL.
    """
    function = getattr(ctypes.CDLL(_library().__file__), name, None)
    if function is None:
        raise BackendError(f"pymetis has no function {name}; {OTHERWISE}")
    function.argtypes = [ctypes.c_void_p] * 13
    function.restype = ctypes.c_int
    return function
