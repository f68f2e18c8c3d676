"""The JSON of `inspect` and `compare` is right."""

import json
from itertools import pairwise
from pathlib import Path

import figures
import numpy as np
import pytest
from cases import some
from cli_helpers import as_json, ok

pytestmark = pytest.mark.usefixtures("opened_once")


DIMS = ((5, 4), (5, 16, 4), (5, 7, 7, 7))
RANKS = (None, 7, 3, 2, 1)
QUICK = {(DIMS[k % 3], ranks) for k, ranks in enumerate(RANKS)}


@some(lambda *case: case in QUICK, dims=DIMS, ranks=RANKS)
def test_words_messages_and_merged_parts(dims: tuple[int, ...], ranks: int | None, plan: Path):
    words = ["inspect", plan, "--json", "--per-part", "--dims", ",".join(map(str, dims))]
    shown = json.loads(ok(*words, *([] if ranks is None else ["--ranks", ranks])))
    arrays, p = figures.read(plan), 7
    r = ranks or p
    rank_of_part = [next(k for k in range(r) if m < (k + 1) * p // r) for m in range(p)]
    owners = np.array(rank_of_part)[arrays.owner], figures.random_owner(90, r)
    of_parts, random = (figures.parts(arrays, owner, r) for owner in owners)
    assert shown["num_ranks"] == r
    assert shown["parts"] == of_parts
    for name, owner in zip(("metrics", "random"), owners, strict=True):
        assert shown[name] == pytest.approx(figures.metrics(arrays, owner, r), rel=1e-12)
    for name, tables in (("training", of_parts), ("random_training", random)):
        cost, layers = shown[name], len(dims) - 1
        width = sum(a + b for a, b in pairwise(dims))
        assert cost["words"] == width * sum(tables["sent"])
        pairs = list(zip(tables["sent"], tables["received"], strict=True))
        busiest = max(s * sum(dims[:-1]) + g * sum(dims[1:]) for s, g in pairs)
        assert cost["max_words_sent"] == busiest
        assert cost["messages"] == 2 * layers * sum(tables["messages_sent"])
        talk = zip(tables["messages_sent"], tables["messages_received"], strict=True)
        assert cost["max_messages_sent"] == layers * max(s + g for s, g in talk)
        memory = cost["max_memory"]
        assert memory["total"] == sum(bytes for term, bytes in memory.items() if term != "total")
        assert cost["recomputed_memory"] <= memory["total"]
        # no rank can do with less than its own H^0, nor the plan with less than its numbers
        assert memory["features"] >= 4 * dims[0] * min(tables["rows"])
        assert memory["plan"] >= 8 * min(tables["nonzeros"])
        assert cost["passes"][0]["words"] == cost["words"]


def test_compare_says_what_inspect_does(graph: Path, plan: Path, tmp_path: Path) -> None:
    other = tmp_path / "rp.h5"
    ok("compile", graph, "-p", 3, "--model", "rp", "--seed", 8, "-o", other)
    both = as_json("compare", plan, other, "--dims", "5,4")
    alone = [as_json("inspect", "-v", each, "--dims", "5,4") for each in (plan, other)]
    added = ("search_seconds", "pays", "pays_random")
    assert [{k: v for k, v in each.items() if k not in added} for each in both] == alone
