"""Options that have no effect in a combination, or no value, are refused whatever their value."""

from pathlib import Path

import pytest
from cli_helpers import fails
from worlds import plan

BATCHES = "compile e.el -p 2 --model stochastic-hp --batch-size 2 --batches 4"
CASES = (
    ("verify p.h5 --format mtx", "--format is for the graph of --against"),
    ("verify p.h5 --num-vertices 0", "--num-vertices is for the graph of --against"),
    ("patch p.h5 --add e.el --symmetrize -o q.h5", "--symmetrize is for the file of --graph"),
    ("patch p.h5 --add e.el --num-vertices 9 -o q.h5", "--num-vertices is for the file of --graph"),
    ("simulate p.h5 --vertices 0", "--vertices is for --sweep"),
    ("simulate p.h5 --epsilon 0", "--epsilon is for --sweep"),
    ("simulate p.h5 --seed 0", "--seed 0: is for links, and for --split: drop it"),
    ("simulate p.h5 --passes=", "--passes '': give none, or of"),
    ("simulate p.h5 --passes ,", "--passes ',': give none, or of"),
    ("simulate p.h5 --batches 99999999999999999999", "is not in the range"),
    ("refine p.h5 --normalize none -o q.h5", "--normalize is for a graph"),
    ("compile e.el -p 2 --columns= -o q.h5", "--columns '': give names with commas between"),
    ("compile e.el -p 2 --model block --time-limit 5 -o q.h5", "--time-limit is for partitioners"),
    ("compile e.el -p 2 --timeout 60 -o q.h5", "--timeout is for several ranks"),
    (f"{BATCHES} --theta 0.1 -o q.h5", "--theta is for --batches auto"),
    (f"{BATCHES} --delta 0.4 -o q.h5", "--delta is for --batches auto"),
)


@pytest.mark.parametrize(("line", "said"), CASES, ids=[line for line, _ in CASES])
def test_refused(line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.el").write_text("0 1\n1 2\n2 0\n")
    plan("directed", "row", 4).save("p.h5")
    assert said in fails(tmp_path, *line.split())
    assert not Path("q.h5").exists()
