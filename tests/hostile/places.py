"""What stands under the name of a file: links in a circle, folders, pipes, sockets, devices, odd
names, files that change or shrink while they are read. The same under the name of an output."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from .attack import Case, Finding
from .commands import run_command
from .damage import damaged
from .fuzz_inputs import TEXTS, binaries
from .neighbours import COMMANDS, RUN, Neighbours
from .plan_bytes import fresh_plans

FLAPS = 0.002
"""Seconds between two changes of a file."""
GRAPHS = (
    *("graph.mtx", "graph.txt", "weights.csv", "graph.graph", "graph.gml", "graph.net"),
    "graph.graphml",
    *("csr.npz", "plain.npz", "graph.h5ad", "graph.parquet", "old.pt"),
)
DATA = ("named.data.csv", "plain.data.tsv", "x.data.npy", "sparse.data.npz")
TARGETS = [
    # commands, in which FILE is attacked, and where its content comes from
    ("inspect FILE", "plan.h5"),
    ("verify FILE", "plan.h5"),
    ("compare PLAN FILE", "plan.h5"),
    ("simulate FILE", "plan.h5"),
    ("refine FILE --budget 1 -o out.h5", "plan.h5"),
    ("plancc-run FILE --epochs 1", "plan.h5"),
    ("plancc-run PLAN --epochs 1 --init FILE", "weights.npz"),
    *(("compile FILE -p 2 --model block -o out.h5 -q", name) for name in GRAPHS),
    *(("compile GRAPH -p 2 --model block --data FILE -o out.h5 -q", name) for name in DATA),
    *((command, name) for name, command in COMMANDS.items() if "FILE" in command.split()),
]
OUTPUTS = (
    *("compile GRAPH -p 2 --model block -q -o FILE.h5", "export GRAPH -o FILE.mtx"),
    *("export GRAPH -o FILE.mtx.gz", "plancc-run PLAN --epochs 1 --save FILE.npz"),
    *("plancc-run PLAN --epochs 1 --log FILE", "inspect PLAN --json FILE"),
    *("report PLAN -q -o FILE.html", "plancc-run PLAN --epochs 1 --checkpoint FILE"),
    *("study GRAPH --models block -p 2 -q --results FILE", "dataset karate -o FILE.mtx"),
    "export PLAN --to petsc -o FILE",
)
ODD_NAMES = ("a\x1b[31mb", "a\nb", " ", "-", "é", "\udcff", "%s{0}", "a\u202eb", "~", "*")
CHANGES = ("shrinks", "grows", "changes", "is replaced", "comes and goes")
MAPPED = (".pt",)
"""Files that libraries map into memory: who cuts one off then ends the process."""
Maker = Callable[[Path, bytes], object]


def _chain(path: Path, content: bytes) -> None:
    path.symlink_to("one")
    path.with_name("one").symlink_to("two")
    path.with_name("two").write_bytes(content)


def _circle(path: Path, _: bytes) -> None:
    path.symlink_to("other")
    path.with_name("other").symlink_to(path.name)


def _full_folder(path: Path, _: bytes) -> None:
    (path / "raw").mkdir(parents=True)
    (path / "raw" / "edge.csv").write_bytes(b"0,1\n")


def _socket(path: Path, _: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(path.name)


MADE: dict[str, Maker] = {
    # what no input may be
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a circle of links": _circle,
    "a link to nothing": lambda path, _: path.symlink_to("nothing"),
    "a folder": lambda path, _: path.mkdir(),
    "empty": lambda path, _: path.write_bytes(b""),
    "zeros": lambda path, _: path.write_bytes(bytes(1 << 20)),
    "a pipe": lambda path, _: os.mkfifo(path),
    "a socket": _socket,
    "in a missing folder": lambda path, _: None,
    "below a file": lambda path, _: path.parent.write_bytes(b"x"),
    **{
        place: lambda path, _, place=place: path.symlink_to(place)  # type: ignore[misc]
        for place in ("/dev/zero", "/dev/full", "/dev/stdin", "/proc/self/mem")
    },
}
MAY_BE: dict[str, Maker] = {
    "a link to a link": _chain,
    "a full folder": _full_folder,
    "an odd name": lambda path, content: path.write_bytes(content),
    "a long name": lambda path, _: None,
    **{
        place: lambda path, _, place=place: path.symlink_to(place)  # type: ignore[misc]
        for place in ("/dev/null", "/proc/self/maps", "/proc/self/fd")
    },
}
PLACES = MADE | MAY_BE


class Places(Neighbours):
    """Files that are links, folders, pipes or devices, or change while they are read."""

    name = "places"
    cpu = 20.0
    quick, few = 30, 5

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        self.content = {name: text.encode() for name, text in TEXTS.items()} | binaries(folder)
        self.content |= {name: found[0] for name, found in self.bases.items()}
        self.content["plan.h5"] = Path(self.paths["PLAN"]).read_bytes()
        self.other = fresh_plans(folder, ("edge",))[0].read_bytes()

    def case(self, rng: np.random.Generator) -> Case:
        odd = str(int(rng.integers(len(ODD_NAMES))))
        if rng.random() < 0.2:
            target, name, place = str(rng.choice(OUTPUTS)), "", str(rng.choice(list(PLACES)))
        else:
            target, name = TARGETS[rng.integers(len(TARGETS))]
            changes = CHANGES[3:] if name.endswith(MAPPED) else CHANGES
            place = str(rng.choice(changes if rng.random() < 0.5 else list(PLACES)))
        return Case(f"{target} {name}: {place}", words=(target, name, place, odd))

    def look(self, case: Case, folder: Path) -> str:
        target, name, place, odd = case.words
        file = next(word for word in target.split() if word.startswith("FILE"))
        path = folder / (name or file.replace("FILE", "out"))
        if place == "an odd name":
            path = path.with_name(ODD_NAMES[int(odd)] + path.suffix)
        elif place == "a long name":
            path = path.with_name("a" * 300 + path.suffix)
        elif place in ("in a missing folder", "below a file"):
            path = folder / "missing" / path.name
        content = self.content.get(name, b"")
        words = [str(path) if word == file else word for word in target.split()]
        words = [self.paths.get(word, word) for word in words]
        words += RUN * (words[0] == "plancc-run")
        with contextlib.ExitStack() as stack:
            if place in CHANGES:
                rng = np.random.default_rng(int(odd))
                other = self.other if name == "plan.h5" else damaged(content, rng)[0]
                stack.enter_context(changing(path, place, content, other))
            else:
                PLACES[place](path, content)
            ended = run_command(folder, *words)
        if name and ended == "ok" and place in MADE:
            raise Finding("silent", f"{place} was read as {name}")
        if any(".tmp" in each.name for each in folder.rglob("*") if each != path):
            raise Finding("leftover", f"a temporary file was left: {target}")
        return ended


@contextlib.contextmanager
def changing(path: Path, how: str, content: bytes, other: bytes) -> Iterator[None]:
    """A file that changes all the time while a command runs."""
    over = threading.Event()
    path.write_bytes(content)

    def change() -> None:
        number = 0
        while not over.wait(FLAPS):
            number += 1
            new = content if number % 2 == 0 else other
            if how == "shrinks" and number % 7:
                os.truncate(path, len(content) * (number % 7) // 7)
            elif how == "grows" and number % 100:
                with path.open("ab") as stream:
                    stream.write(content[: 1 << 10])
            elif how == "is replaced":
                path.with_name("new").write_bytes(new)
                path.with_name("new").replace(path)
            elif how == "comes and goes" and number % 2:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(new if how == "changes" else content)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
