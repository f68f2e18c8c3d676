"""Plans whose tables were changed by somebody who wrote hash and checksums anew.

What a slow oracle refuses, by sets and dictionaries, everybody must refuse, by loops and by ranks
that compare what they read.
"""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plancc.errors import PlanError
from plancc.plan.format import DATASETS, Arrays
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile, load
from plancc.plan.verify import verify_file
from plancc.plan.writer import write_file
from plancc.report.plans import report
from plancc_runtime.slices import open_plan
from plancc_runtime.transport.local import run_ranks

from .attack import Attack, Case, Finding
from .oracle import fault
from .plan_bytes import whole_plan

NAME = "plan.h5"
PLANS = (("row", 3), ("row", 4), ("edge", 3), ("edge", 4), ("2d", 4), ("feature", 4))


class PlanTables(Attack):
    """Plans whose tables were changed, with hash and checksums that fit."""

    name = "plan-tables"
    memory = 8 << 30  # for the libraries and threads of a run
    cpu = 20.0
    quick, few = 25, 3

    def prepare(self, folder: Path) -> None:
        self.folder = folder

    def case(self, rng: np.random.Generator) -> Case:
        plan = small_plan(int(rng.integers(2 * len(PLANS))))
        path = self.folder / NAME
        for _ in range(100):
            with contextlib.suppress(ValueError):  # what the writer does not write
                how, arrays = changed(plan.arrays(), rng)
                write(path, plan, arrays)
                return Case(f"{plan!r}: {how}", {NAME: path.read_bytes()})
        raise AssertionError("nothing could be changed")

    def look(self, case: Case, folder: Path) -> str:
        path = folder / NAME
        refusal = refusal_of(path)
        for reader, read in READERS.items():
            try:
                read(path)
            except PlanError:
                if not refusal:
                    raise Finding("silent", f"{reader} refuses what the oracle accepts") from None
            else:
                if refusal:
                    raise Finding("silent", f"{reader} accepts: {refusal}")
        return "refused" if refusal else "ok"


def refusal_of(path: Path) -> str:
    """Why tables are no plan, by the oracle; "" if they are."""
    with PlanFile(path) as file:
        return fault(file.header, {name: file.node(name)[...] for name in file.datasets})


def run(path: Path, num_ranks: int) -> None:
    """The set-up of a run on threads."""
    run_ranks(num_ranks, lambda transport: open_plan(path, transport).read(transport), timeout=10.0)


def run_as_meant(path: Path) -> None:
    """On all ranks of a grid, or of the plan; on fewer where there are many."""
    with PlanFile(path) as file:
        run(path, file.header.num_ranks)


def run_merged(path: Path) -> None:
    """On two ranks; a grid on its own number."""
    with PlanFile(path) as file:
        run(path, file.header.num_ranks if file.header.grid else min(2, file.header.num_parts))


READERS = {
    "load": load,
    "verify": verify_file,
    "report": report,
    "run": run_as_meant,
    "merged run": run_merged,
}


def small_plan(number: int) -> Plan:
    """A plan of one of the layouts; those of odd numbers have targets in place of labels."""
    plan = whole_plan(*PLANS[number // 2])
    targets = np.random.default_rng(5).random((plan.num_vertices, 3)) < 0.3
    data = replace(plan.vertex_data, labels=None, targets=targets)
    return replace(plan, vertex_data=data) if number % 2 else plan


def changed(arrays: Arrays, rng: np.random.Generator) -> tuple[str, dict[str, npt.NDArray]]:
    """The arrays of a plan after one to three changes, and what was done."""
    found = {name: array.copy() for name, array in arrays.items()}
    hows = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        names = [name for name in found if found[name].size]
        # vertex data are rules of single entries: the tables are where plans go wrong
        weights = np.array([0.2 if name.startswith("vertex_data") else 1.0 for name in names])
        name = str(rng.choice(names, p=weights / weights.sum()))
        hows.append(f"{name} {change(found[name].reshape(-1), found, name, rng)}")
    return "; ".join(hows), found


def change(array: npt.NDArray, arrays: Arrays, name: str, rng: np.random.Generator) -> str:
    """Change a flat array in place; how, in words."""
    size = len(array)
    at, other = (int(k) for k in rng.integers(size, size=2))
    near = min(size - 1, max(0, at + int(rng.choice([-1, 1]))))
    kind = str(rng.choice(["neighbour", "swap", "other", "zero", "step", "shuffle", "any", "nan"]))
    if kind == "neighbour":
        array[at] = array[near]
    elif kind == "swap":
        where = near if rng.random() < 0.6 else other
        array[[at, where]] = array[[where, at]]
    elif kind == "other":
        array[at] = array[other]
    elif kind == "zero":
        array[at : at + int(rng.integers(1, 4))] = 0
    elif kind == "step":
        array[at] += array.dtype.type(rng.choice([1, 2]))
        if rng.random() < 0.5:
            array[at] -= array.dtype.type(2)
    elif kind == "shuffle":
        start, stop = segment(arrays, name, at, size)
        rng.shuffle(array[start:stop])
        return f"shuffled {start}:{stop}"
    elif kind == "any":
        array[at] = array.dtype.type(rng.integers(0, 24))
    elif array.dtype.kind == "f":
        array[at] = rng.choice([np.nan, np.inf, -np.inf])
    else:
        array[at] = rng.choice([np.iinfo(array.dtype).min, np.iinfo(array.dtype).max])
    return f"{kind} at {at}"


def segment(arrays: Arrays, name: str, at: int, size: int) -> tuple[int, int]:
    """The message or the local row that entry `at` is in, or some entries around it."""
    ptr = arrays.get(f"{name}_ptr" if name.endswith("_row") else "matrix/row_ptr")
    if ptr is not None and name.endswith(("_row", "matrix/column", "matrix/value")):
        place = int(np.searchsorted(ptr, at, side="right")) - 1
        if 0 <= place < len(ptr) - 1:
            return max(0, int(ptr[place])), min(size, int(ptr[place + 1]))
    return max(0, at - 2), min(size, at + 3)


def write(path: Path, plan: Plan, arrays: Arrays) -> None:
    """A file of the arrays, with hash, checksums and, where there are any, figures of its own.

    Figures of other tables would be refused for themselves, and hide what else is accepted.
    """
    assert set(arrays) <= set(DATASETS)
    assert plan.baseline is not None
    figures = {f"random_{name}": value for name, value in plan.baseline.as_dict().items()}
    with contextlib.suppress(Exception):  # of tables that cannot be counted
        figures |= Plan.from_arrays(plan.header, arrays).metrics().as_dict()
    attributes = {"provenance": plan.provenance, "metrics": figures}
    write_file(path, plan.header, arrays, attributes, compress=False)
