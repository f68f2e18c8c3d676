"""Kernels before numba is there: Python runs the plain ones on a few elements, with the same
answers; the others are loaded once, whoever calls them first."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import worlds
from cases import seeds

from plancc.kernel import PLAIN, LazyKernel, njit
from plancc.plan.plan import Plan
from plancc.plan.plan_invariants import plan_invariants
from plancc.predict.predictor import default_predictor
from plancc.predict.schedules import tables_of

EDITED = ("peer", "_row", "column", "global_id", "num_interior", "value")
"""Ends of the names of arrays in which any number may stand where kernels look at them."""
HASH = """
import sys
import numpy as np
from plancc.kernel import njit

@njit(plain=True)
def total(numbers):
    found = np.uint64(0)
    for k in range(len(numbers)):
        found += np.uint64(numbers[k]) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(found)

for size in map(int, sys.argv[1:]):
    print(total(np.arange(size)), "numba" in sys.modules)
"""


def answers(plan: Plan) -> list[Any]:
    """The first fault of a plan; what its parts claim of each other, and its epoch, if there is
    none."""
    told = ((what, problem) for what, problem in plan_invariants(plan) if problem)
    if fault := next(told, None):
        return [fault]
    claims = [plan.part(m).claims for m in range(plan.num_parts)]
    epoch = default_predictor().epoch(tables_of(plan))
    return [*(str(vars(each)) for each in claims), epoch.seconds]


def as_python(kernel: LazyKernel, *arguments: Any) -> Any:
    """Run a kernel as where numba is not there."""
    return (kernel.in_python if kernel._plain else kernel.load())(*arguments)


@pytest.mark.parametrize("seed", seeds(30))
@pytest.mark.parametrize("layout", ["row", "edge"])
def test_plain_kernels_give_the_same_answers(layout, seed, monkeypatch):
    """On a sound plan, and on plans in which one number is another."""
    plan, rng = worlds.plan("directed", layout, 4), np.random.default_rng(seed)
    arrays = {name: array.copy() for name, array in plan.arrays().items()}
    if seed:
        name = rng.choice([name for name in arrays if name.endswith(EDITED)])
        number = rng.choice([-1, 0, 1, 2, 3, 10, 40, 2**31 - 1])
        arrays[name][rng.integers(len(arrays[name]))] = number
    plan = Plan.from_arrays(plan.header, arrays)
    compiled = answers(plan)
    monkeypatch.setattr(LazyKernel, "__call__", as_python)
    assert answers(plan) == compiled


def test_numba_is_imported_for_many_elements_only() -> None:
    sizes = [10, PLAIN, PLAIN + 1, 10]
    words = [sys.executable, "-c", HASH, *map(str, sizes)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    factor, signed = 0x9E3779B97F4A7C15, lambda x: (x + 2**63) % 2**64 - 2**63
    sums = [signed(factor * (size * (size - 1) // 2) % 2**64) for size in sizes]
    there = [False, False, True, True]
    assert done.stdout.splitlines() == [f"{s} {t}" for s, t in zip(sums, there, strict=True)]


def test_threads_that_call_a_kernel_at_once_load_it_once() -> None:
    kernel = njit(lambda x: x + 1)
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: kernel.load(), range(8)))
    assert len({*map(id, loaded)}) == 1
    assert kernel(41) == 42
