"""`plancc simulate` of one plan: figures beside those of inspect, tables, and wrong words."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import MACHINE, as_json, ok

from plancc.graph.formats import read_graph

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


def test_ranks_of_unequal_speed(plan: Path, tmp_path: Path) -> None:
    """Twice as quick ranks compute in half the time; merged ranks need speeds of their own."""
    lines = MACHINE.partition("[node]")[0]
    times = []
    for name, speed in (("one", [1] * 7), ("two", [2] * 7), ("some", [1, 2, 1, 1, 2, 3.5, 4])):
        path = tmp_path / f"{name}.toml"
        path.write_text(f"{lines}speed = {speed}\n")
        found = simulated(plan, path, "--per-rank")
        assert found["machine"].get("speed") == speed
        times.append(found["ranks"]["seconds"]["multiply"])
    one, two, some = times
    assert [2 * t for t in two] == pytest.approx(one)
    assert [s * t for s, t in zip([1, 2, 1, 1, 2, 3.5, 4], some, strict=True)] == pytest.approx(one)
    path.write_text(f"{lines}speed = [1, 2]\n")
    ok("simulate", plan, "-p", 2, "--machine", path, "--dims", "5,8,4")


def test_figures_of_ranks_add_up(plan: Path, machine: Path) -> None:
    words = ["simulate", plan, "--dims", "5,8,4", "--machine", machine, "--passes", "none"]
    found = as_json(*words, "--per-rank")
    ranks = found["ranks"]
    assert sum(ranks["words_sent"]) == found["words"]
    assert max(ranks["memory"]) == found["max_memory"]["total"]
    of_rank = [sum(times) for times in zip(*ranks["seconds"].values(), strict=True)]
    assert max(of_rank) == pytest.approx(found["max_rank_seconds"])
    assert sum(of_rank) / 7 == pytest.approx(found["mean_seconds"])


def test_nodes_ranks_and_types(plan: Path, machine: Path) -> None:
    apart = simulated(plan, machine, "--ranks-per-node", 1)
    assert apart["machine"]["node"]["ranks"] == 1
    assert apart["words"] == simulated(plan, machine)["words"]
    double = simulated(plan, machine, "--dtype", "float64")
    assert double["word_bytes"] == 8
    assert double["seconds"] > simulated(plan, machine)["seconds"]
    merged = simulated(plan, machine, "-p", 3)
    expected = as_json("inspect", plan, "--dims", "5,8,4", "--ranks", 3)
    assert merged["num_ranks"] == 3
    assert merged["words"] == expected["training"]["passes"][2]["words"]


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


def test_dead_rows(graph: Path, machine: Path, tmp_path: Path) -> None:
    plan, data = tmp_path / "plan.h5", tmp_path / "data.npz"
    num_vertices = read_graph(graph).num_vertices
    labels = np.arange(num_vertices) % 4
    np.savez(data, features=np.ones((num_vertices, 5)), labels=labels, train_mask=labels == 3)
    ok("compile", graph, "--model", "hp", "-p", 4, "--data", data, "-o", plan)
    every = ("--passes", "order,constant,dead-rows")
    said = as_json("inspect", plan, "--dims", "5,8,4")["training"]["passes"][3]
    found = simulated(plan, machine, *every)
    assert found["words"] == said["words"] < simulated(plan, machine)["words"]
    assert found["max_words_sent"] == said["max_words_sent"]
    assert found["seconds"] < simulated(plan, machine)["seconds"]
    assert found["bound_seconds"] < simulated(plan, machine)["bound_seconds"]
    assert simulated(plan, machine, *every, "--ranks", 2)["num_ranks"] == 2
    half = simulated(plan, machine, *every, "--boundary-sampling", 0.5)
    assert half["words"] < found["words"]


def test_other_networks(plan: Path, machine: Path, tmp_path: Path) -> None:
    gcn = simulated(plan, machine)
    heads = simulated(plan, machine, "--model", "gat", "--heads", 2)
    assert heads["words"] > 0
    assert heads["seconds"] > gcn["seconds"]
    assert heads["model"] == {"name": "gat", "heads": 2}
    text = ok("simulate", plan, "--dims", "5,8,4", "--model", "sage", "--aggregator", "max")
    assert "a GraphSAGE (max) of 5 x 8 x 4" in text


def test_pipelines(graph: Path, machine: Path, plan: Path, tmp_path: Path) -> None:
    features = tmp_path / "mop.h5"
    ok("compile", graph, "--model", "mop", "-p", 2, "-o", features)
    plain = simulated(features, machine)
    piped = simulated(features, machine, "--pipeline", 3)
    assert piped["words"] == plain["words"]
    assert piped["messages"] == 3 * plain["messages"]
    assert (
        "stages, of rows in reverse"
        in simulated(features, machine, "--pipeline", "auto")["notes"][0]
    )


def test_what_an_epoch_leaves_out(graph: Path, machine: Path, tmp_path: Path) -> None:
    rows, edges = tmp_path / "rows.h5", tmp_path / "edges.h5"
    ok("compile", graph, "--model", "hp", "-p", 4, "-o", rows)
    ok("compile", graph, "--model", "libra", "-p", 4, "-o", edges)
    exact = simulated(rows, machine)
    half = simulated(rows, machine, "--boundary-sampling", 0.5)
    assert 0 < half["words"] < exact["words"]
    assert simulated(rows, machine, "--boundary-sampling", 1) == simulated(rows, machine)
    assert simulated(edges, machine, "--fold", "none")["words"] == 0
    late = simulated(edges, machine, "--fold", "delayed", "--delay", 2)
    assert late["passes"] == ["constant"]
    assert late["words"] > 0
    assert "partial sums 2 epochs late" in ok("simulate", edges, "--fold", "delayed", "--delay", 2)
    assert simulated(edges, machine, "--fold", "sync") == simulated(edges, machine)
