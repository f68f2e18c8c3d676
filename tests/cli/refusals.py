"""Command lines that must be refused: how tables are checked, and the folder that they run in."""

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import h5py
import numpy as np
import pytest
import worlds
from cli_helpers import MACHINE, listing, noted, ok, plancc, plancc_run

from plancc.kernel import LazyKernel

Table = Mapping[str, Mapping[str, str]]
"""By command and common words: further words, and parts of the sentence with | between them."""

TRIED = [
    {"step": "metis", "seconds": 0.25, "value": 0.00123456, "volume": 120, "best": False},
    {"step": "kahypar", "seconds": 3, "value": None, "volume": None, "best": False},
    {"step": "refine", "seconds": 1.5, "value": 98, "volume": 98, "best": True, "overload": 0.25},
]
RING = "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 4\n2 1\n3 2\n4 3\n4 1\n"
TYPES = """types = {author = 3, paper = 4}
[[relations]]
source = "author"
name = "writes"
destination = "paper"
file = "writes.txt"
"""


def lines(table: Table) -> list[tuple[str, str]]:
    """Every command line of a table with what must be said."""
    found = [(f"{words} {more}", says) for words, of in table.items() for more, says in of.items()]
    assert len(dict(found)) == len(found), "a line is there twice"
    return found


def check_refused(line: str, says: str, folder: Path) -> None:
    """The command ends with one sentence that has all parts, and no file is another one."""
    before, called, call = listing(folder), [], LazyKernel.__call__

    def recorded(kernel: LazyKernel, *arguments: object, **named: object) -> object:
        called.append(f"{kernel.__module__}.{kernel.__name__}")
        return call(kernel, *arguments, **named)

    command, *words = shlex.split(line)
    with patch.object(LazyKernel, "__call__", recorded):
        done = plancc_run(*words) if command == "run" else plancc(command, *words)
    if command == "compile" and done.code == 2:
        readers = ("plancc.graph", "plancc.plan")
        assert all(name.startswith(readers) for name in called), "a kernel ran before the refusal"
    assert done.code in (1, 2), done.out
    assert done.out == ""
    assert listing(folder) == before
    sentence, *others = done.err.strip().splitlines()
    assert not others, done.err
    assert not [word for word in says.split("|") if word not in sentence], sentence
    assert "Traceback" not in sentence
    assert len(sentence) < 2000


@pytest.fixture(scope="session")
def _refused_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graphs `ok.mtx` (4 vertices) and `g.mtx` (90), their data, plans, and files that are none."""
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "ok.mtx").write_text(RING)
    (folder / "e.el").write_text("0 1\n1 2\n2 0\n")
    masks = {f"{name}_mask": np.arange(4) == k for k, name in enumerate(("train", "val", "test"))}
    features, labels = np.eye(4, 3, dtype=np.float32), np.array([0, 1, 0, 1])
    np.savez(folder / "d.npz", features=features, labels=labels, **masks)
    worlds.write_mtx(folder / "g.mtx", worlds.array("hubs"))
    every, data = np.arange(90), {"features": np.ones((90, 5), np.float32)}
    data |= {"labels": every % 4, "train_mask": every % 3 == 0, "test_mask": every % 3 == 1}
    np.savez(folder / "v.npz", **data)
    np.savez(folder / "clusters.npz", **data, clusters=every // 9)
    np.savez(folder / "nobody.npz", train_mask=every < 0)
    np.savez(folder / "short.npz", features=np.ones((89, 2)))
    (folder / "typed").mkdir()
    (folder / "typed" / "types.toml").write_text(TYPES)
    (folder / "typed" / "writes.txt").write_text("0 0\n2 1\n3 2\n1 0\n")
    for name, options in {
        "ok.h5": "ok.mtx -p 2",
        "data.h5": "ok.mtx -p 2 --data d.npz",
        "p.h5": "g.mtx -p 7 --model block --data v.npz",
        "bare.h5": "g.mtx -p 6 --model block",
        "pattern.h5": "g.mtx -p 4 --model block --pattern --no-self-loops --normalize none",
        "one.h5": "g.mtx -p 1 --model block",
        "2d.h5": "g.mtx --model cagnet-2d -p 6 --grid 2x3 --data v.npz",
        "grid.h5": "g.mtx --model cagnet-2d -p 4",
        "mop.h5": "g.mtx --model mop -p 2",
        "typed.h5": "typed -p 2 --model block",
        "links.h5": "g.mtx -p 3 --model block --data v.npz --link-split 0.2,0.2",
    }.items():
        with chdir(folder):  # plans say how they were compiled
            ok("compile", *options.split(), "-o", name, warned=True)
    for name, of, more in (("tried", TRIED, {}), ("timed", TRIED[:1], {"objective": "time"})):
        made = noted(folder / "bare.h5", folder, tried=json.dumps(of), **more)
        made.rename(folder / f"{name}.h5")
    worlds.plan("hubs", "edge", 5).save(folder / "edge.h5")
    plancc_run(folder / "data.h5", "--epochs", 0, "--save", folder / "w.npz")
    (folder / "link.npz").symlink_to("w.npz")
    (folder / "text.h5").write_text("hello")
    (folder / "cut.h5").write_bytes((folder / "data.h5").read_bytes()[:3000])
    with h5py.File(folder / "other.h5", "w") as file:
        file.create_group("x")
    (folder / "dir").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "made.mtx").mkdir()
    (folder / "k.npz").mkdir()
    for name, text in {
        "short.part": "0\n" * 89,
        "nine.part": "0\n" * 89 + "9\n",
        "two.part": "0\n1\n",
        "from1.part": "1\n2\n1\n2\n",
        "lonely.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 0\n",
        "empty.mtx": "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n",
        "two.hgr": "2 3\n1 2\n2 3\n",
        "added.txt": "5,30\n",
        "speeds.txt": "1\nfast\n",
        "machine.toml": MACHINE,
        "speeds.toml": MACHINE.replace("[node]", "speed = [1, 2, 3, 4, 5]\n[node]"),
        "broken.toml": "latency = 1e-6\n",
    }.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def refused_in(_refused_in: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all refused commands, in which the test runs."""
    monkeypatch.chdir(_refused_in)
    return _refused_in
