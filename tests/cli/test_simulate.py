"""`plancc simulate` of one plan: figures beside those of inspect, tables, and wrong words."""

from pathlib import Path

import pytest
from cli_helpers import as_json, ok

pytestmark = pytest.mark.usefixtures("opened_once")

STEPS = {
    *("expand", "collect", "cross", "spread"),
    *("multiply", "fold", "collectives", "dense", "all-reduce"),
}


def simulated(plan: Path, machine: Path, *words: object) -> dict:
    return as_json("simulate", plan, "--dims", "5,8,4", "--machine", machine, *words)


@pytest.mark.parametrize("model", ["hp", "libra"])
def test_words_are_those_of_inspect(model: str, graph: Path, machine: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    ok("compile", graph, "--model", model, "-p", 4, "-o", plan)
    said = as_json("inspect", plan, "--dims", "5,8,4")["training"]
    for passes, of in (("none", 0), ("order", 1), ("order,constant", 2)):
        found, expected = simulated(plan, machine, "--passes", passes), said["passes"][of]
        assert found["words"] == expected["words"]
        assert found["max_words_sent"] == expected["max_words_sent"]
        assert found["messages"] == expected["messages"]
        assert found["words_reduced"] == 4 * (6 * 8 + 9 * 4 + 1)  # with the biases
    assert found["num_ranks"] == 4
    assert found["machine"]["node"]["ranks"] == 2
    assert found["fits"] is True
    assert set(found["of_step"]) == STEPS
    total = sum(each["slowest"] for each in found["steps"])
    assert found["seconds"] == pytest.approx(total)
    assert (found["of_step"]["fold"]["slowest"] > 0) == (model == "libra")


def test_figures_of_ranks_add_up(plan: Path, machine: Path) -> None:
    words = ["simulate", plan, "--dims", "5,8,4", "--machine", machine, "--passes", "none"]
    found = as_json(*words, "--per-rank")
    ranks = found["ranks"]
    assert sum(ranks["words_sent"]) == found["words"]
    assert max(ranks["memory"]) == found["max_memory"]["total"]
    of_rank = [sum(times) for times in zip(*ranks["seconds"].values(), strict=True)]
    assert max(of_rank) == pytest.approx(found["max_rank_seconds"])
    assert sum(of_rank) / 7 == pytest.approx(found["mean_seconds"])


@pytest.mark.parametrize("model", ["cagnet-2d", "mop"])
def test_other_layouts(model: str, graph: Path, machine: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    ok("compile", graph, "--model", model, "-p", 4, "-o", plan)
    text = ok("simulate", plan, "--dims", "8,4,8", "--machine", machine)
    assert "collectives" in text
    found = as_json("simulate", plan, "--dims", "8,4,8", "--machine", machine, "--passes", "none")
    if model == "mop":  # three quarters of every product's columns go away and come back
        assert found["words"] == 2 * 90 * sum((8, 4, 4, 8)) * 3 // 4
    if model == "mop":
        assert "collectives" in ok("simulate", plan, "--dims", "8,4,1", "--machine", machine)
