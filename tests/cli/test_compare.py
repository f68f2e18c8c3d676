"""`plancc compare`: a baseline, and what cannot be compared."""

from pathlib import Path

import pytest
from cli_helpers import as_json, ok, plancc

pytestmark = pytest.mark.usefixtures("opened_once")


def test_compare_with_a_baseline(graph: Path, plan: Path, tmp_path: Path) -> None:
    ok("compile", graph, "-p", 3, "--model", "block", "-o", tmp_path / "block.h5")
    said = ok("compare", plan, tmp_path / "block.h5", "--baseline", plan)
    assert f"ratio to {plan}" in said
    found = as_json("compare", plan, tmp_path / "block.h5")
    assert [each["path"] for each in found] == [str(plan), str(tmp_path / "block.h5")]
    row = next(line for line in said.splitlines() if "messages per exchange" in line)
    assert row.count("(1.00)") == 1


def test_compare_warns_of_different_matrices(graph: Path, plan: Path, tmp_path: Path) -> None:
    def warning(changed: str, *options: str) -> str:
        (tmp_path / "b.mtx").write_text(changed)
        words = ("-p", 2, "--model", "rp", "-o", tmp_path / "b.h5")
        ok("compile", tmp_path / "b.mtx", *words, *options, warned=True)
        done = plancc("compare", plan, tmp_path / "b.h5")
        assert done.code == 0
        [line] = done.err.splitlines() or [""]
        return line

    text = graph.read_text()
    head, sizes, *entries = text.splitlines()
    n, _, nnz = map(int, sizes.split())
    assert warning(f"{head}\n% another file\n{text.partition(head)[2].strip()}\n") == ""
    many = "\n".join([head, f"{n + 1} {n + 1} {nnz}", *entries])
    assert "has 91 vertices, " in warning(many)
    assert " nonzeros, " in warning(text, "--no-self-loops")
    turned = [" ".join([i, j, w]) for j, i, w in map(str.split, entries)]
    said = warning("\n".join([head, sizes, *turned]))
    assert f"b.h5 has other nonzeros than {plan}: figures of different matrices do not" in said
