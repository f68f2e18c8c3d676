"""What stands under the name of a file: links in a circle, folders, pipes, sockets, devices, odd
names, files that change or shrink while they are read. The same under the name of an output."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np

from .attack import Attack, Case, Finding
from .commands import run_command
from .damage import damaged
from .fuzz_inputs import TEXTS, binaries
from .neighbours import GRAPH, RUN
from .plan_bytes import fresh_plans

FLAPS = 0.002
"""Seconds between two changes of a file."""
TARGETS = {
    # a command, in which FILE is attacked: its name, and where its content comes from
    "inspect FILE": "plan.h5",
    "verify FILE": "plan.h5",
    "compare PLAN FILE": "plan.h5",
    "simulate FILE": "plan.h5",
    "refine FILE --budget 1 -o out.h5": "plan.h5",
    "plancc-run FILE --epochs 1": "plan.h5",
    **{
        f"compile FILE -p 2 --model block -o out.h5 -q {name}": name
        for name in (
            *("graph.mtx", "graph.txt", "weights.csv", "graph.graph", "graph.gml"),
            *("graph.graphml", "csr.npz", "plain.npz", "graph.h5ad", "graph.parquet", "old.pt"),
        )
    },
    **{
        f"compile GRAPH -p 2 --model block --data FILE -o out.h5 -q {name}": name
        for name in ("named.data.csv", "plain.data.tsv", "x.data.npy", "sparse.data.npz")
    },
    "compile GRAPH -p 3 --model file --part FILE -o out.h5 -q": "graph.part.3",
    "compile GRAPH -p 3 --model block --capacities FILE -o out.h5 -q": "capacities.txt",
    "simulate PLAN --machine FILE": "machine.toml",
    "report PLAN --run FILE -o out.html -q": "run.jsonl",
    "predict PLAN --weights FILE -o out.csv --threads 1": "weights.npz",
    "plancc-run PLAN --epochs 1 --init FILE": "weights.npz",
}
OUTPUTS = (
    *("compile GRAPH -p 2 --model block -q -o FILE.h5", "export GRAPH -o FILE.mtx"),
    *("export GRAPH -o FILE.mtx.gz", "plancc-run PLAN --epochs 1 --save FILE.npz"),
    *("plancc-run PLAN --epochs 1 --log FILE", "inspect PLAN --json FILE"),
    *("report PLAN -q -o FILE.html", "plancc-run PLAN --epochs 1 --checkpoint FILE"),
    *("study GRAPH --models block -p 2 -q --keep FILE", "dataset karate -o FILE.mtx"),
    "export PLAN --to petsc -o FILE",
)
PLACES = (
    *("a link to itself", "a circle of links", "a link to nothing", "a link to a link"),
    *("a folder", "a full folder", "empty", "a pipe", "a socket", "zeros"),
    *("/dev/zero", "/dev/null", "/dev/full", "/dev/stdin", "/proc/self/mem", "/proc/self/maps"),
    *("/proc/self/fd", "a long name", "an odd name", "in a missing folder", "below a file"),
)
CHANGES = ("shrinks", "grows", "changes", "is replaced", "comes and goes")
MAPPED = (".pt",)
"""Files that libraries map into memory: who cuts one off then ends the process."""
ODD_NAMES = ("a\x1b[31mb", "a\nb", " ", "-", "é", "\udcff", "%s{0}", "a\u202eb", "~", "*")


class Places(Attack):
    """Files that are links, folders, pipes or devices, or change while they are read."""

    name = "places"
    cpu = 20.0
    quick, few = 30, 5

    def prepare(self, folder: Path) -> None:
        self.plan, _, self.other, _ = fresh_plans(folder, ("rp", "medium-grain"))
        (folder / "graph.txt").write_bytes(GRAPH)
        self.paths = {"PLAN": str(self.plan), "GRAPH": str(folder / "graph.txt")}
        self.content = {name: text.encode() for name, text in TEXTS.items()} | binaries(folder)
        self.content["plan.h5"] = self.plan.read_bytes()
        shipped = files("plancc.predict").joinpath("machines", "summit.toml")
        self.content["machine.toml"] = shipped.read_bytes()
        words = ("--log", str(folder / "run.jsonl"), "--save", str(folder / "weights.npz"))
        run_command(folder, "plancc-run", str(self.plan), *RUN, "--epochs", "2", *words)
        for name in ("run.jsonl", "weights.npz"):
            self.content[name] = (folder / name).read_bytes()

    def case(self, rng: np.random.Generator) -> Case:
        if rng.random() < 0.2:
            target, name = str(rng.choice(OUTPUTS)), ""
            place = str(rng.choice(PLACES))
        else:
            targets = [each for each, file in TARGETS.items() if file in self.content]
            target = targets[rng.integers(len(targets))]
            name = TARGETS[target]
            mapped = name.endswith(MAPPED)
            changes = CHANGES[3:] if mapped else CHANGES
            place = str(rng.choice(changes if rng.random() < 0.5 else PLACES))
        odd = str(int(rng.integers(len(ODD_NAMES))))
        return Case(f"{target}: {place}", words=(target, name, place, odd))

    def look(self, case: Case, folder: Path) -> str:
        target, name, place, odd = case.words
        words = target.removesuffix(name).split() if name else target.split()
        at = next(k for k, word in enumerate(words) if word.startswith("FILE"))
        path = folder / (name or words[at].replace("FILE", "out"))
        if place == "an odd name":
            path = path.with_name(ODD_NAMES[int(odd)] + path.suffix)
        if place == "a long name":
            path = path.with_name("a" * 300 + path.suffix)
        if place == "in a missing folder":
            path = folder / "missing" / path.name
        if place == "below a file":
            (folder / "below").write_bytes(b"x")
            path = folder / "below" / path.name
        content = self.content.get(name, b"")
        words[at] = str(path)
        words = [self.paths.get(word, word) for word in words]
        if words[0] == "plancc-run":
            words += RUN
        if place in CHANGES:
            rng = np.random.default_rng(int(odd))
            other = self.other.read_bytes() if name == "plan.h5" else damaged(content, rng)[0]
            with changing(path, place, content, other):
                ended = run_command(folder, *words)
        else:
            with standing(path, place, content):
                ended = run_command(folder, *words)
        if name and ended == "ok" and place in REFUSED:
            raise Finding("silent", f"{place} was read as {name}")
        if any(".tmp" in each.name for each in folder.rglob("*") if each != path):
            raise Finding("leftover", f"a temporary file was left: {target}")
        return ended


REFUSED = {
    *("a link to itself", "a circle of links", "a link to nothing", "a folder", "empty", "a pipe"),
    *("a socket", "/dev/zero", "/dev/full", "/dev/stdin", "/proc/self/mem", "in a missing folder"),
    *("below a file", "zeros"),
}
"""What no input may be."""


@contextlib.contextmanager
def standing(path: Path, place: str, content: bytes) -> Iterator[None]:
    """Something in a place while a command runs."""
    held = None
    if place == "a link to itself":
        path.symlink_to(path.name)
    elif place == "a circle of links":
        path.symlink_to("other")
        path.with_name("other").symlink_to(path.name)
    elif place == "a link to nothing":
        path.symlink_to("nothing")
    elif place == "a link to a link":
        path.symlink_to("one")
        path.with_name("one").symlink_to("two")
        path.with_name("two").write_bytes(content)
    elif place in ("a folder", "a full folder"):
        path.mkdir()
        if place == "a full folder":
            (path / "raw").mkdir()
            (path / "raw" / "edge.csv").write_bytes(b"0,1\n")
    elif place in ("empty", "zeros"):
        path.write_bytes(bytes(1 << 20) if place == "zeros" else b"")
    elif place == "a pipe":
        os.mkfifo(path)
    elif place == "a socket":
        held = socket.socket(socket.AF_UNIX)
        held.bind(path.name)
    elif place.startswith("/"):
        path.symlink_to(place)
    elif place == "an odd name":
        path.write_bytes(content)
    try:
        yield
    finally:
        if held is not None:
            held.close()


@contextlib.contextmanager
def changing(path: Path, how: str, content: bytes, other: bytes) -> Iterator[None]:
    """A file that changes all the time while a command runs."""
    over, number = threading.Event(), 0
    path.write_bytes(content)

    def change() -> None:
        nonlocal number
        while not over.wait(FLAPS):
            number += 1
            even = number % 2 == 0
            if how == "shrinks":
                os.truncate(path, (len(content) * (number % 7)) // 7)
                if number % 7 == 0:
                    path.write_bytes(content)
            elif how == "grows":
                with path.open("ab") as stream:
                    stream.write(content[: 1 << 10])
                if number % 100 == 0:
                    path.write_bytes(content)
            elif how == "changes":
                path.write_bytes(content if even else other)
            elif how == "is replaced":
                new = path.with_name("new")
                new.write_bytes(content if even else other)
                new.replace(path)
            elif even:
                path.write_bytes(content)
            else:
                path.unlink(missing_ok=True)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
