"""Plan files with wrong structure: datasets and attributes that somebody changed with h5py.

Half of the files are sealed again: digests and hashes fit what is in them. What then is refused,
is refused by all readers alike; what is accepted is a plan that works.
"""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from plancc.errors import InputError, PlanError
from plancc.plan.exchange import Side
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.plan.verify import verify_file
from plancc.report.plans import report

from .attack import Attack, Case, Finding
from .commands import run_command
from .manners import check_words
from .plan_bytes import NAME, Truth, fresh_plans, read_every_way
from .plan_tables import run_as_meant

GROUPS = ("rows", "matrix", "expand", "fold", "vertex_data")
ODD = (-1, 0, 1, 2, 3, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1)
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
    chunk = 500
    quick, few = 30, 4

    def prepare(self, folder: Path) -> None:
        from tests.sealing import seal

        self.seal: Callable[[Path], None] = seal
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
                self.seal(self.scratch)
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
    """Whether a plan is accepted; all readers must say the same, and what they accept must work."""
    plan = None
    ends: dict[str, bool] = {}
    figures = True  # whether every refusal is of figures, which ranks neither use nor print
    for name, read in {
        "load": load,
        "verify": verify_file,
        "inspect": report,
        "ranks": run_as_meant,
    }.items():
        try:
            found = read(path)
            ends[name] = True
            if name == "load":
                plan = found
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
    if plan is not None and (problem := broken(plan)):
        raise Finding("silent", f"verify and load accept a plan that does not work: {problem}")
    return ends["load"]


def broken(plan: Plan) -> str:
    """What goes wrong when the plan's messages are sent with numbers as rows; "" if nothing.

    Vertices travel: whoever receives a row must get the vertex that its own table says.
    """
    if sorted(plan.global_id.tolist()) != list(range(plan.num_vertices)):
        return "vertices are not there once each"
    own = [plan.global_id[a:b] for a, b in zip(plan.part_ptr[:-1], plan.part_ptr[1:], strict=True)]
    if problem := _sent(plan.send, plan.receive, own):
        return f"expand: {problem}"
    edges = []
    for part, rows in enumerate(own):
        received = _received(plan.receive, part, own)
        columns = np.concatenate([rows, received])
        folded = _received(plan.fold.send, part, own) if plan.fold is not None else rows[:0]
        local = np.concatenate([rows, folded])
        first, last = plan.local_ptr[part], plan.local_ptr[part + 1]
        if last - first != len(local):
            return f"part {part} has {last - first} local rows in place of {len(local)}"
        for k, row in enumerate(local):
            start, stop = plan.row_ptr[first + k], plan.row_ptr[first + k + 1]
            used = plan.column[start:stop]
            if len(used) and (used.min() < 0 or used.max() >= len(columns)):
                return "a column that is not there"
            edges += [(int(row), int(columns[c])) for c in used]
    return "" if len(set(edges)) == len(edges) else "a nonzero is there twice"


def _received(table: Side, part: int, own: list[np.ndarray]) -> np.ndarray:
    """Vertices behind the rows of a table whose rows are those of the peers."""
    found = [
        own[table.peer[k]][table.row[table.row_ptr[k] : table.row_ptr[k + 1]]]
        for k in range(table.ptr[part], table.ptr[part + 1])
    ]
    return np.concatenate(found) if found else own[0][:0]


def _sent(send: Side, receive: Side, own: list[np.ndarray]) -> str:
    """Send what the senders list; each receiver expects exactly that."""
    travels = {}
    for part, rows in enumerate(own):
        for k in range(send.ptr[part], send.ptr[part + 1]):
            what = rows[send.row[send.row_ptr[k] : send.row_ptr[k + 1]]].tolist()
            if (part, int(send.peer[k])) in travels:
                return f"two messages from {part} to {send.peer[k]}"
            travels[part, int(send.peer[k])] = what
    for part in range(len(own)):
        for k in range(receive.ptr[part], receive.ptr[part + 1]):
            peer = int(receive.peer[k])
            wanted = own[peer][receive.row[receive.row_ptr[k] : receive.row_ptr[k + 1]]].tolist()
            if travels.pop((peer, part), None) != wanted:
                return f"part {part} does not get what it expects from {peer}"
    return f"message {min(travels)} has no receiver" if travels else ""


def changed(file: h5py.File, rng: np.random.Generator) -> str:
    """Change something in an open file; what it was."""
    groups = [name for name in (*GROUPS, "digests", "metrics", "provenance") if name in file]
    kind = rng.integers(12)
    if kind < 6:
        group = str(rng.choice([name for name in GROUPS if name in file]))
        return _values(file, f"{group}/{rng.choice(sorted(file[group]))}", rng)
    if kind == 6:
        return _storage(file, rng)
    if kind in (7, 8):
        where = str(rng.choice(["/", *groups]))
        return _attribute(file[where], rng)
    if kind == 9:
        name = _any_dataset(file, rng)
        del file[name]
        return f"{name} is gone"
    if kind == 10:
        one, other = _any_dataset(file, rng), _any_dataset(file, rng)
        if one != other:
            file.move(one, "kept")
            file.move(other, one)
            file.move("kept", other)
        return f"{one} and {other} swapped"
    names = ("x", "rows/x", "digests/x", "\x1b[31m", "a" * 3000, "matrix/value2")
    name = str(rng.choice([each for each in names if each not in file]))
    file[name] = np.arange(3)
    return f"a new {name[:20]!a}"


def _any_dataset(file: h5py.File, rng: np.random.Generator) -> str:
    return str(rng.choice(_datasets(file)))


def _datasets(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, node: names.append(name) if hasattr(node, "dtype") else None)
    return names


def _values(file: h5py.File, name: str, rng: np.random.Generator) -> str:
    array = file[name][()]
    flat = array.reshape(-1)
    if not len(flat):
        return f"{name} is empty"
    at = int(rng.integers(len(flat)))
    kind = rng.integers(6)
    how = f"{name}[{at}]"
    with np.errstate(all="ignore"):
        if kind == 0:
            flat[at] = np.asarray(rng.choice(ODD)).astype(flat.dtype)
        elif kind == 1:
            flat[at] += np.asarray(rng.choice([-1, 1])).astype(flat.dtype)
        elif kind == 2:
            other = int(rng.integers(len(flat)))
            flat[at], flat[other] = flat[other], flat[at]
            how += f" <> [{other}]"
        elif kind == 3:
            flat[at:] = flat[at]
            how += " to the end"
        elif kind == 4:
            flat[:] = rng.permutation(flat)
            how = f"{name} mixed"
        elif flat.dtype.kind == "f":
            flat[at] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-40])
        else:
            flat[at] ^= np.asarray(1 << int(rng.integers(7))).astype(flat.dtype)
    file[name][...] = array
    return how


def _storage(file: h5py.File, rng: np.random.Generator) -> str:
    """The same values in another type, shape or storage."""
    name = _any_dataset(file, rng)
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
