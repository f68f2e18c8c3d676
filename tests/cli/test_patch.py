"""`plancc patch`: from lists and from a graph; the migration list; what it refuses."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import as_json, fails, ok

pytestmark = pytest.mark.usefixtures("opened_once")


def write(path: Path, pairs: list[tuple[int, int]]) -> None:
    path.write_text("".join(f"{u},{v}\n" for u, v in pairs))


def test_a_night(tmp_path: Path) -> None:
    """Three edges go, two come: by lists, and by the whole graph with a new vertex."""
    edges = [(k, (k + d) % 40) for k in range(40) for d in (1, 2)]
    old, new, plan = (tmp_path / name for name in ("old.txt", "new.txt", "old.h5"))
    added, removed = (tmp_path / name for name in ("added.txt", "removed.csv"))
    write(old, edges)
    write(added, [(5, 30), (9, 33)])
    write(removed, edges[:3])
    write(new, [*edges[3:], (5, 30), (9, 33)])
    ok("compile", old, "--symmetrize", "-p", 4, "--epsilon", 0.3, "-o", plan)
    lists = ["--add", added, "--remove", removed, "--max-moves", "5%"]
    moves, a, b = (tmp_path / name for name in ("moves.csv", "a.h5", "b.h5"))
    shown = as_json("patch", plan, *lists, "--migration", moves, "-o", a)
    ok("verify", a, "--against", new)
    owner = {}
    for path in (plan, a):
        ok("export", path, "-o", tmp_path / "graph.part.4")
        owner[path] = np.loadtxt(tmp_path / "graph.part.4", int)
    table = np.loadtxt(moves, int, delimiter=",", skiprows=1, ndmin=2)
    assert moves.read_text().startswith("row,from,to\n")
    replayed = owner[plan].copy()
    for row, before, after in table.reshape(-1, 3):
        assert replayed[row] == before
        replayed[row] = after
    np.testing.assert_array_equal(replayed, owner[a])
    assert len(table) == shown["rows_moved"] <= 2
    before = as_json("inspect", plan)
    assert shown["metrics"]["before"]["volume"] == before["metrics"]["volume"]
    whole = as_json("patch", plan, "--graph", new, "--max-moves", "5%", "-o", b)
    assert whole["content_sha256"] == shown["content_sha256"]
    ok("convert", new, "--symmetrize", "-o", tmp_path / "next")
    whole = as_json("patch", plan, "--graph", tmp_path / "next", "--max-moves", "5%", "-o", b)
    assert whole["content_sha256"] == shown["content_sha256"]
    text = ok("patch", plan, *lists, "-o", a)
    assert f"{shown['rows_moved']} of 40 rows have another owner" in text
    write(new, [*edges, (40, 0), (40, 1)])
    assert "1 are new" in ok("patch", plan, "--graph", new, "--quiet", "-o", b)

    folder, typed = tmp_path / "typed", tmp_path / "typed.h5"
    folder.mkdir()
    write(folder / "new.txt", [(0, 0), (2, 1), (3, 2), (1, 0)])
    (folder / "types.toml").write_text(
        "types = {author = 3, paper = 4}\n[[relations]]\nsource = 'author'\nname = 'writes'\n"
        "destination = 'paper'\nfile = 'new.txt'\n"
    )
    ok("compile", folder, "-p", 2, "--epsilon", 1, "-o", typed)
    more = tmp_path / "more.txt"
    write(more, [(4, 1)])
    lists = ["--add", f"writes={more}", "--migration", moves]
    ok("patch", typed, *lists, "-o", b)
    assert moves.read_text().startswith("type,row,from,to\n1,4,-1,")
    error = fails(tmp_path, "patch", plan, "--remove", added, "-o", tmp_path / "c.h5")
    assert error == f"{added}, line 1: the edge is not in the graph: '5 30'"
