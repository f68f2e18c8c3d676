"""Options of searches and of their plans: a line for each, with what must be said."""

import pytest
from input_case import Case, run_case

RING = "".join(f"{k} {(k + 1) % 12}\n" for k in range(12))
WEIGHTS = "weight\n" + "".join(f"{9 if k < 2 else 1}\n" for k in range(12))
PARTS = "".join(f"{k // 6}\n" for k in range(12))
NETS = "6 6\n" + "".join(f"{k + 1} {(k + 1) % 6 + 1}\n" for k in range(6))
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(56)

CASES = [
    Case("M8: weights that are balanced are shown", {"g.txt": RING, "w.csv": WEIGHTS,
         "g.part": PARTS},
         "compile g.txt --model file --part g.part --weights w.csv --balance weights -p 2 -o p.h5",
         says=("the fullest part has 57.1% more weights than the mean|more nonzeros|more rows",)),
    Case("a plan in place of a part vector", {"g.txt": RING, "g.h5": HDF5},
         "compile g.txt --model file --part g.h5 -p 2 -o p.h5",
         refused="g.h5: is not text|plancc export PLAN -o FILE.part` writes a plan's part vector"),
    Case(
        "an uneven part vector to begin with",
        {"h.hgr": NETS, "h.part": "0\n0\n0\n0\n1\n1\n"},
        "partition h.hgr -p 2 --part h.part -o o.part",
        says=(
            "to start from has an imbalance of 0.3333, above epsilon 0.01|--epsilon 0.3334 avoids",
            "cost of the nets cut 2",
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_options_of_searches(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)
