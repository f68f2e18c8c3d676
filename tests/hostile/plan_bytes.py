"""Plan files with wrong bytes: every reader refuses them, or reads what was written."""

import contextlib
import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import worlds

import plancc
from plancc.errors import InputError, PlanError
from plancc.plan.reader import PlanFile, load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify_file
from plancc.report.plans import report

from .attack import Case, Finding, check_words
from .damage import damaged

LAYOUTS = {"row": "row", "edge": "edge", "2d": "2d 2x2", "3d": "3d 2x2x2", "feature": "feature 2x2"}
"""Plans of `worlds.plan`, one for every layout and way to read it."""
NAME = "plan.h5"


class PlanBytes:
    """Plan files of this version's format with wrong bytes."""

    def __init__(self, folder: Path) -> None:
        self.paths = {path.name: path for path in fresh_plans(folder)}
        self.truth = Truth(self.paths)

    def case(self, trial: int) -> Case:
        rng = np.random.default_rng([2457690943, 18, trial])
        name = [*self.paths][int(rng.integers(len(self.paths)))]
        content, how = damaged(self.paths[name].read_bytes(), rng)
        return Case(f"{name}: {how}", {NAME: content}, words=(name,))

    def look(self, case: Case, folder: Path) -> str:
        found = read_every_way(folder / NAME)
        self.truth.check(found, case.words[0])
        return "ok" if "load" in found else "refused"


@cache
def whole_plan(layout: str) -> plancc.Plan:
    """A plan with ids, figures and provenance."""
    plan = worlds.plan("directed", LAYOUTS[layout])
    return dataclasses.replace(
        plan,
        original_id=1000 * np.arange(plan.num_vertices),
        baseline=plan.metrics(),
        provenance={"seed": 1, "command": "plancc compile é", "warnings": ""},
    )


def fresh_plans(folder: Path) -> list[Path]:
    """Files of plans, each compressed too; readers have their kernels then."""
    paths = []
    for layout in LAYOUTS:
        for compress in (False, True):
            paths.append(folder / f"{layout}{'-compressed' * compress}.h5")
            whole_plan(layout).save(paths[-1], compress=compress)
        for name in ("load", "verify", "slice 1 of 2"):
            with contextlib.suppress(InputError):  # of a grid, which has ranks of its own
                READERS[name](paths[-1])
    return paths


READERS: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: _opened(path),
    "load": load,
    "verify": verify_file,
    "report": lambda path: report(path).as_dict(per_part=True),
    "report of 2 ranks": lambda path: report(path, num_ranks=2, dims=[4, 3]).as_dict(),
    **{
        f"slice {rank} of {size}": lambda path, rank=rank, size=size: read_rank_slice(
            path, rank, size
        )
        for rank, size in ((1, 2), (0, 3), (3, 4), (6, 8))
    },
}


def _opened(path: Path) -> None:
    with PlanFile(path):
        pass


def read_every_way(path: Path) -> dict[str, Any]:
    """What every reader returns that does not refuse the file."""
    found = {}
    for name, read in READERS.items():
        try:
            found[name] = read(path)
        except (PlanError, InputError) as error:
            check_words(str(error), path.parent)
            if path.name not in str(error):
                raise Finding("manners", f"{name}: no file in: {error}") from None
            if name == "open":
                break
    return found


class Truth:
    """What the readers return of undamaged files, by the names of these; read when it is needed."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self.paths, self.known = paths, dict[str, dict[str, Any]]()

    def check(self, found: dict[str, Any], base: str) -> None:
        """Nothing is read that was not written; load refuses what verify refuses.

        Provenance may differ: it is outside the content hash, and says nothing that is computed
        with.
        """
        compared = found.keys() - {"open", "verify"}
        if compared and base not in self.known:
            self.known[base] = read_every_way(self.paths[base])
            assert "verify" in self.known[base]
        for name in sorted(compared & self.known.get(base, {}).keys()):
            if where := difference(found[name], self.known[base][name]):
                raise Finding("silent", f"{name} returns other values of {where}")
        if "load" in found and "verify" not in found:
            raise Finding("silent", "load accepts what verify refuses")


IGNORED = {"provenance", "tried", "path"}


def difference(one: Any, other: Any, where: str = "") -> str:
    """Where two values differ; "" if nowhere."""
    if type(one) is not type(other):
        return where or "type"
    if dataclasses.is_dataclass(one):
        one = {f.name: getattr(one, f.name) for f in dataclasses.fields(one)}
        other = {f.name: getattr(other, f.name) for f in dataclasses.fields(other)}
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return where or "keys"
        pairs = [(str(key), one[key], other[key]) for key in one if key not in IGNORED]
    elif isinstance(one, list | tuple):
        if len(one) != len(other):
            return where
        pairs = [("", a, b) for a, b in zip(one, other, strict=True)]
    elif isinstance(one, np.ndarray):
        same = one.dtype == other.dtype and one.shape == other.shape
        return "" if same and one.tobytes() == other.tobytes() else where
    else:
        return "" if one == other or one != one else where
    for key, a, b in pairs:
        if found := difference(a, b, f"{where}.{key}".strip(".") if key else where):
            return found
    return ""
