"""`plancc compare`: a baseline, part vectors, and what cannot be compared."""

from pathlib import Path

import pytest
from cli_helpers import as_json, ok, plancc

pytestmark = pytest.mark.usefixtures("opened_once")


def test_compare_with_a_baseline(graph: Path, plan: Path, tmp_path: Path) -> None:
    ok("compile", graph, "-p", 3, "--model", "block", "-o", tmp_path / "block.h5")
    ok("export", tmp_path / "block.h5", "-o", tmp_path / "block.part.3")
    vector = tmp_path / "block.part.3"
    said = ok("compare", plan, vector, tmp_path / "block.h5", "--baseline", vector)
    assert f"ratio to {vector}" in said
    found = as_json("compare", plan, vector, tmp_path / "block.h5")
    assert [each["path"] for each in found] == [str(plan), str(vector), str(tmp_path / "block.h5")]
    assert found[1]["metrics"] == found[2]["metrics"]  # the same owners
    assert found[1]["random"] == found[2]["random"]
    row = next(line for line in said.splitlines() if "messages per exchange" in line)
    assert row.count("(1.00)") == 2
    times = found[1]["epoch"]
    assert times == found[2]["epoch"]  # also the random partition's, which the file does not say
    assert times["random_seconds"] > 0
    assert "partitioner" not in ok("compare", vector, tmp_path / "block.h5")  # neither has one


def test_compare_warns_of_empty_parts(plan: Path, tmp_path: Path) -> None:
    vector = tmp_path / "nine.part"
    vector.write_text("9\n" * 90)
    done = plancc("compare", plan, vector)
    assert done.code == 0
    assert f"plancc: warning: {vector}: 9 of 10 parts have no rows" in done.err.splitlines()


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
