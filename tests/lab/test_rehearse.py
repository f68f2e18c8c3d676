"""`plancc rehearse`: figures beside those of plancc-run and simulate, tables, and wrong words."""

import json
import re
from pathlib import Path

import pytest
from cli_helpers import as_json, fails, ok

pytestmark = pytest.mark.usefixtures("opened_once")


@pytest.fixture(scope="module")
def bare(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph in 3 parts, without vertex data."""
    path = tmp_path_factory.mktemp("bare") / "plan.h5"
    ok("compile", graph, "-p", 3, "-o", path, "--dims", "6,8,5")
    return path


def test_times_add_up_and_stand_beside_the_prediction(plan: Path, machine: Path) -> None:
    words = (plan, "--dims", "5,8,4", "--machine", machine)
    passes = ("--passes", "order,constant,dead-rows")
    found, said = as_json("rehearse", *words), as_json("simulate", *words, *passes)
    assert found["predicted_seconds"] == said["seconds"]
    assert (found["dims"], found["dims_from"]) == ([5, 8, 4], "given")
    assert found["machine"]["name"] == "ours"
    assert found["num_ranks"] == 7
    assert len(found["epoch_seconds"]) == 3
    ranks = found["ranks"]
    for parts in zip(ranks["compute"], ranks["messages"], ranks["waiting"], strict=True):
        assert sum(parts) == pytest.approx(found["seconds"])
    busy = [a + b for a, b in zip(ranks["compute"], ranks["messages"], strict=True)]
    assert found["mean_busy_seconds"] == pytest.approx(sum(busy) / 7)
    assert found["max_busy_seconds"] == max(busy) <= found["seconds"]
    for figures in (ranks["phases"], ranks["stages"]):
        assert all(len(seconds) == 7 for seconds in figures.values())
    by_phase = [sum(seconds) for seconds in zip(*ranks["phases"].values(), strict=True)]
    assert by_phase == pytest.approx(ranks["compute"])
    path = found["critical_path"]
    assert path[0]["begin"] == 0
    assert path[-1]["end"] == pytest.approx(found["seconds"])


def test_tables(plan: Path) -> None:
    text = ok("rehearse", plan, "--epochs", 1, "--per-rank", "--machine", "summit", "--hidden", 8)
    assert "7 ranks, GCN 5 x 8 x 4" in text
    assert "summit" in text
    for words in ("rehearsed / predicted", "busiest", "waits for others", "critical path"):
        assert words in text
    assert "layer 2 back" in text
    assert "of the critical path" in text
    assert text.count("loss 1.") == 1
    assert len(re.findall(r"^ +\d+  .* (?:us|ms|s)  ", text, re.M)) == 7  # --per-rank


def test_widths_are_those_of_the_plan_unless_given(bare: Path) -> None:
    found = as_json("rehearse", bare, "--epochs", 1)
    assert (found["dims"], found["dims_from"], found["notes"]) == ([6, 8, 5], "plan", [])
    found = as_json("rehearse", bare, "--layers", 3, "--random-features", 7, "--epochs", 1)
    assert (found["dims"], found["dims_from"]) == ([7, 8, 8, 5], "given")
    assert found["options"]["random_features"] == 7
    assert as_json("rehearse", bare, "--dims", "4,3", "--epochs", 1)["dims"] == [4, 3]


def test_mini_batches_are_predicted_and_have_a_timeline(bare: Path, tmp_path: Path) -> None:
    path, machine = tmp_path / "trace.json", ("--machine", "cpu-cluster")
    drawn = ("--model", "gin", "--sampler", "neighbour", "--fanouts", "2,2", "--batch-size", 8)
    drawn = (*drawn, "--draw", "owners", "--seed", 3, *machine, "--passes", "order,constant")
    words = (*drawn, "--epochs", 1, "--steps", 4, "--trace", path, "--json")
    found = json.loads(ok("rehearse", bare, *words))
    said = as_json("simulate", bare, *drawn, "--batches", 4)
    assert found["predicted_seconds"] == pytest.approx(4 * said["seconds"])
    assert found["words"] == sum(said["batches"]["per_batch"]["words"]) > 0
    assert found["messages"] == sum(said["batches"]["per_batch"]["messages"]) > 0
    assert "is 4 times the mean step on 4 mini-batches; rehearsed ranks draw" in found["notes"][0]
    events = json.loads(path.read_text())["traceEvents"]
    assert {"critical path", "rank 2"} <= {
        e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"
    }
    assert {"batch", "draw", "mask", "features"} <= {e["name"] for e in events}


def test_what_is_not_predicted_says_why(graph: Path, tmp_path: Path) -> None:
    """A diagonal that a layer adds to the pieces of a grid; `simulate` refuses it."""
    path, model = tmp_path / "plan.h5", ("--model", "sage", "--aggregator", "gcn")
    ok("compile", graph, "--model", "cagnet-2d", "--no-self-loops", "-p", 4, "-o", path)
    why = "layers that add a diagonal to the matrix cannot be predicted for grid '2d 2x2'"
    assert why in fails(tmp_path, "simulate", path, *model)
    text = ok("rehearse", path, *model, "--epochs", 1)
    assert "that of a GCN, since the epoch itself is not predicted" in text
    assert why in text.replace("\n", " ")
    assert "full batch" not in text


def test_help_shows_an_option_of_training_when_it_is_asked_for() -> None:
    assert "--hidden" not in ok("rehearse", "--help")
    assert "[default: that of --dims]" in ok("rehearse", "--help", "hidden")


# -- wrong words -------------------------------------------------------------------------------


def test_a_rehearsal_without_memory_says_how_much(bare, tmp_path, monkeypatch):
    monkeypatch.setattr("plancc.memory.available_memory", lambda: 1 << 20)
    sentence = fails(tmp_path, "rehearse", bare, "--trace", tmp_path / "t.json", code=1)
    assert "rehearsing 3 ranks takes about 112." in sentence
    assert "this computer has only 1.0 MiB free; give fewer --ranks, or smaller --dims" in sentence
