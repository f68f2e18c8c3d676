"""Graph and vertex data from one source, on the command line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import ok, plancc

import plancc as library

X = np.arange(10, dtype=np.float32).reshape(5, 2)
TABLES = {
    **{"raw/edge": "0,1\n1,2\n3,2\n", "raw/num-node-list": "5\n"},
    "raw/node-feat": "".join(f"{a},{b}\n" for a, b in X),
    **{"raw/node-label": "0.0\n2.0\nnan\n1.0\n0.0\n", "split/time/train": "0\n3\n"},
    **{"split/time/valid": "1\n", "split/time/test": "4\n"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "ogbn_small"
    for name, text in TABLES.items():
        file = folder / f"{name}.csv.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()))
    return folder


def compiled(source: Path, *words: object) -> str:
    """What compile says of the vertex data that it took."""
    output = source.parent / "plan.h5"
    said = ok("compile", source, "-p", 2, "--model", "block", "-o", output, *words, warned=True)
    ok("verify", output, "--against", source)
    return " ".join(said.partition("vertex data: ")[2].split("content")[0].split())


def test_one_command(folder: Path) -> None:
    words = "features 2, classes 3, train mask 2, val mask 1, test mask 1"
    assert compiled(folder) == words
    plan = library.load(folder.parent / "plan.h5")
    np.testing.assert_array_equal(plan.vertex_data.features, X[plan.global_id])
    assert plan.vertex_data.train_mask is not None
    assert plan.vertex_data.train_mask.tolist() == np.isin(plan.global_id, (0, 3)).tolist()
    assert compiled(folder, "--split-name", "time", "--symmetrize") == words
    assert compiled(folder, "--no-data") == "none"
    np.save(folder.parent / "x.npy", X[:, :1])
    (folder.parent / "y.csv").write_text("0\n1\n1\n1\n0\n")
    others = ("--data", folder.parent / "x.npy", "--data", folder.parent / "y.csv")
    assert compiled(folder, *others) == "features 1, classes 2"


def test_data_of_another_source(folder: Path) -> None:
    edges = folder.parent / "edges.txt"
    edges.write_text("0 3\n3 1\n")
    done = plancc("compile", edges, "-p", 2, "--data", folder, "-o", folder.parent / "plan.h5")
    assert done.code == 2
    assert "plancc: warning: " in done.err
    assert (
        "3 vertices occur; ids go up to 3: --keep-ids or --num-vertices 4 makes vertices of all ids"
        in done.err
    )
    assert "the graph has 3 vertices: ids up to 3 occur in the graph, 3 in all" in done.err
    assert "read it with --num-vertices 5" in done.err
    said = compiled(edges, "--num-vertices", 5, "--data", folder)
    assert said.startswith("features 2, classes 3")


def test_what_targets_are_is_said(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", indptr=[0, 1, 2], indices=[1, 0], num_nodes=2, y=[[1, 1], [0, 1]])
    words = ["compile", tmp_path / "g.npz", "-p", 2, "--model", "block", "-o", tmp_path / "p.h5"]
    assert "targets 2 (a vertex may be of any number of classes: sigmoid, F1)\n" in ok(*words)
    np.savez(tmp_path / "g.npz", indptr=[0, 1, 2], indices=[1, 0], num_nodes=2, y=np.eye(2))
    assert "looks one-hot" in plancc(*words).err


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("source,target\n0,1\n1,2\n", (), "row = source, column = target (a row needs its"),
        ("source,target\n0,1\n1,2\n", ("--transpose",), "row = target, column = source (a row"),
        ('"a,b",c\n0,1\n1,2\n', ("--columns", 'c,"a,b"'), "row = c, column = a,b (a row needs its"),
        ("source,target\n0,1\n1,2\n", ("--symmetrize",), ""),
        ("0,1\n1,2\n", (), ""),
    ],
)
def test_which_column_is_the_row_is_said(tmp_path, text, words, says):
    (tmp_path / "g.csv").write_text(text)
    arguments = ("compile", tmp_path / "g.csv", "-p", 2, "--model", "block", *words)
    said = " ".join(ok(*arguments, "-o", tmp_path / "p.h5").split())
    assert says in said
    assert ("row = " in said) == bool(says)
    ok("convert", tmp_path / "g.csv", "-o", tmp_path / "folder", *words)
    again = ok("compile", tmp_path / "folder", "-p", 2, "--model", "block", "-o", tmp_path / "q.h5")
    again = " ".join(again.split())
    assert says in again
    assert ("row = " in again) == bool(says)


def test_several_splits(folder: Path) -> None:
    for file in (folder / "split/time").iterdir():
        other = folder / "split/random" / file.name
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(file.read_bytes())
    done = plancc("compile", folder, "-p", 2, "-o", folder.parent / "plan.h5")
    assert done.code == 2
    assert "several splits; choose one by --split-name, random or time" in done.error
    assert "--no-data leaves the vertex data out" in done.error
    assert not (folder.parent / "plan.h5").exists()
    assert "train mask 2" in compiled(folder, "--split-name", "random")
