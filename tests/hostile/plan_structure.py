"""Plan files with wrong structure: datasets and attributes that somebody changed with h5py.

Half of the files are sealed again: digests and hashes fit what is in them. What then is refused,
is refused by all readers alike; what is accepted is a plan that works.
"""

import contextlib
import shutil
from pathlib import Path

import h5py
import numpy as np
from sealing import seal

from plancc.errors import InputError, PlanError
from plancc.plan.reader import load
from plancc.plan.verify import verify_file
from plancc.report.plans import report

from .attack import Attack, Case, Finding, check_words
from .commands import run_command
from .plan_bytes import NAME, Truth, fresh_plans, read_every_way
from .plan_tables import change, refusal_of, run_as_meant

GROUPS = ("rows", "matrix", "expand", "fold", "vertex_data")
RUNS = 40
"""One case of so many is trained on as well."""
VAST = 1 << 24
"""Bytes of a dataset that says more than is there; hashing what it says would take minutes."""
ATTRIBUTES = (
    *(b"", b"x", b"row", b"edge", b"\xff\xfe", b"1.4", b"1.5", b"1.6", b"2.0", b"2d 2x2"),
    b"0" * 64,
    *(0, 1, -1, 24, 1 << 31, 1 << 62, 0.5, float("nan"), [1, 2], b"\x1b[31m", b"a" * 5000),
    *("text", "", "1.5", True, h5py.Empty("i8")),
)


class PlanStructure(Attack):
    """Plan files changed with h5py, with and without digests and hashes that fit."""

    name = "plan-structure"
    memory = 8 << 30  # for the libraries and threads of a run
    quick, few = 30, 4

    def prepare(self, folder: Path) -> None:
        self.paths = {path.name: path for path in fresh_plans(folder)}
        self.truth = Truth(self.paths)
        self.names = sorted(self.paths)
        self.scratch = folder / "scratch.h5"

    def case(self, rng: np.random.Generator) -> Case:
        base = self.names[rng.integers(len(self.names))]
        shutil.copy(self.paths[base], self.scratch)
        sealed = "sealed" if rng.random() < 0.5 else "as it was"
        how = []
        with h5py.File(self.scratch, "r+") as file:
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                how.append(changed(file, rng))
            vast = any(file[name].nbytes > VAST for name in _datasets(file))
        if sealed == "sealed" and not vast:
            with contextlib.suppress(Exception):  # of what nobody could have written
                seal(self.scratch)
        content = self.scratch.read_bytes()
        words = (base, sealed, str(int(rng.integers(RUNS))))
        return Case(f"{base}, {sealed}: {'; '.join(how)}"[:400], {NAME: content}, words=words)

    def look(self, case: Case, folder: Path) -> str:
        path, (base, sealed, number) = folder / NAME, case.words
        if sealed != "sealed":
            found = read_every_way(path)
            self.truth.check(found, base)
            accepted = "load" in found
        else:
            accepted = agreed(path)
        if number == "0":
            ended = run_command(
                *(folder, "plancc-run", str(path), "--ranks", "4", "--epochs", "1"),
                *("--hidden", "4", "--threads", "1", "--kernel", "torch", "--timeout", "20"),
            )
            if ended == "ok" and not accepted:
                raise Finding("silent", "plancc-run trains on what load refuses")
        return "ok" if accepted else "refused"


def agreed(path: Path) -> bool:
    """Whether a plan is accepted; all readers must say the same, and the oracle confirm it."""
    ends: dict[str, bool] = {}
    figures = True  # whether every refusal is of figures, which ranks neither use nor print
    for name, read in {
        "load": load,
        "verify": verify_file,
        "inspect": report,
        "ranks": run_as_meant,
    }.items():
        try:
            read(path)
            ends[name] = True
        except (PlanError, InputError) as error:
            check_words(str(error), path.parent)
            ends[name] = False
            figures = figures and "/metrics " in str(error)
    if ends["load"] != ends["verify"]:
        raise Finding("silent", f"load and verify differ: {ends}")
    if ends["inspect"] and not ends["verify"]:
        raise Finding("silent", "report prints figures of what verify refuses")
    if ends["ranks"] and not ends["verify"] and not figures:
        raise Finding("silent", "ranks begin with what verify refuses")
    if ends["verify"] and not ends["ranks"]:
        raise Finding("silent", "ranks refuse what verify accepts")
    if ends["load"] and (problem := refusal_of(path)):
        raise Finding("silent", f"verify and load accept a plan that does not work: {problem}")
    return ends["load"]


def changed(file: h5py.File, rng: np.random.Generator) -> str:
    """Change something in an open file; what it was."""
    groups = [name for name in (*GROUPS, "digests", "metrics", "provenance") if name in file]
    kind = rng.integers(12)
    if kind < 6:
        group = str(rng.choice([name for name in GROUPS if name in file]))
        name = f"{group}/{rng.choice(sorted(file[group]))}"
        array = file[name][()]
        if array.size:
            how = change(array.reshape(-1), {}, name, rng)
            file[name][...] = array
        return f"{name} {how}" if array.size else f"{name} is empty"
    if kind == 6:
        return _storage(file, rng)
    if kind in (7, 8):
        where = str(rng.choice(["/", *groups]))
        return _attribute(file[where], rng)
    if kind == 9:
        name = str(rng.choice(_datasets(file)))
        del file[name]
        return f"{name} is gone"
    if kind == 10:
        one, other = rng.choice(_datasets(file), 2).tolist()
        if one != other:
            file.move(one, "kept")
            file.move(other, one)
            file.move("kept", other)
        return f"{one} and {other} swapped"
    names = ("x", "rows/x", "digests/x", "\x1b[31m", "a" * 3000, "matrix/value2")
    name = str(rng.choice([each for each in names if each not in file]))
    file[name] = np.arange(3)
    return f"a new {name[:20]!a}"


def _datasets(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, node: names.append(name) if hasattr(node, "dtype") else None)
    return names


def _storage(file: h5py.File, rng: np.random.Generator) -> str:
    """The same values in another type, shape or storage."""
    name = str(rng.choice(_datasets(file)))
    array = file[name][()]
    kind = rng.integers(8)
    del file[name]
    if kind == 0:
        dtype = str(rng.choice(["<i8", "<i4", ">i4", "<f4", "<f8", "<u2", "S8", "?"]))
        file[name] = array.astype(dtype, copy=False)
        return f"{name} as {dtype}"
    if kind == 1:
        file[name] = array[: len(array) // 2] if array.ndim else array
        return f"{name} cut in half"
    if kind == 2:
        file[name] = np.concatenate([array, array[-1:]]) if array.ndim else array
        return f"{name} longer by one"
    if kind == 3:
        file[name] = array[..., None]
        return f"{name} with one more dimension"
    if kind == 4:
        how = {"chunks": True, "compression": "gzip"} if array.size else {}
        file.create_dataset(name, data=array, **how)
        return f"{name} compressed"
    if kind == 5:
        size = int(rng.choice([1 << 20, 1 << 31, 1 << 40]))
        file.create_dataset(name, (size,), array.dtype, chunks=(1024,))
        return f"{name} with {size} numbers that are not there"
    if kind == 6:
        target = str(rng.choice(["/rows/part_ptr", "/", f"/{name}", "nowhere"]))
        file[name] = h5py.SoftLink(target)
        return f"{name} is a link to {target}"
    file[name] = h5py.ExternalLink("other.h5", "/x")
    return f"{name} is an external link"


def _attribute(node: h5py.Group, rng: np.random.Generator) -> str:
    names = [*node.attrs, "new", "\x1b[31m"]
    name = names[rng.integers(len(names))]
    if rng.random() < 0.15 and name in node.attrs:
        del node.attrs[name]
        return f"attribute {name} is gone"
    value = ATTRIBUTES[rng.integers(len(ATTRIBUTES))]
    node.attrs[name] = np.bytes_(value) if isinstance(value, bytes) else value
    return f"attribute {name!a} = {str(value)[:30]!a}"
