"""`plancc refine`: from a plan, from a part vector, from a graph; and what it refuses."""

import json
from pathlib import Path

import figures
import h5py
import numpy as np
import pytest
import sealing
from cli_helpers import as_json, ok, plancc

from plancc_cli.options import parse_share

pytestmark = pytest.mark.usefixtures("opened_once")

P = 5


@pytest.fixture(scope="module")
def poor(graph: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph in blocks, with vertex data."""
    path = tmp_path_factory.mktemp("poor") / "poor.h5"
    ok("compile", graph, "-p", P, "--model", "block", "--data", data, "-o", path)
    return path


def value_of(metrics: dict, objective: str) -> float:
    return metrics[objective.replace("-", "_")]


@pytest.mark.parametrize("objective", ["volume", "max-volume", "messages"])
def test_a_plan(objective: str, poor: Path, graph: Path, tmp_path: Path) -> None:
    plan = tmp_path / "better.h5"
    words = ["--objective", objective, "--epsilon", 0.3, "--cycles", 6, "-o", plan]
    shown = as_json("refine", poor, *words)
    assert ok("verify", plan, "--against", graph).endswith("valid\n")
    assert [path.name for path in tmp_path.iterdir()] == ["better.h5"]

    # every figure from the files, recomputed
    for when, path in (("before", poor), ("after", plan)):
        arrays = figures.read(path)
        metrics = figures.metrics(arrays, arrays.owner, P)
        assert shown["metrics"][when] == pytest.approx(metrics, rel=1e-12)
        assert shown["value"][when] == value_of(metrics, objective)
    assert shown["improved"] is True
    assert shown["value"]["after"] < shown["value"]["before"]
    with h5py.File(poor, locking=False) as before, h5py.File(plan, locking=False) as after:
        assert sealing.attributes(after)["content_sha256"] == shown["content_sha256"]
        assert sealing.attributes(before)["content_sha256"] == shown["refined_from"]
        for name in ("features", "labels", "train_mask"):
            owners = [np.argsort(file["rows/global_id"][:]) for file in (before, after)]
            values = [
                file[f"vertex_data/{name}"][:][at]
                for file, at in zip((before, after), owners, strict=True)
            ]
            np.testing.assert_array_equal(*values)
    inspected = as_json("inspect", plan)
    old = as_json("inspect", poor)
    assert inspected["provenance"] == shown["provenance"]
    assert inspected["random"] == old["random"]
    assert inspected["provenance"]["source_sha256"] == old["provenance"]["source_sha256"]

    assert shown["epoch"]["seconds"] == inspected["epoch"]["seconds"]
    assert shown["epoch"]["before_seconds"] == old["epoch"]["seconds"]
    text = ok("refine", poor, *words)
    assert "machine cpu-cluster, dims 5,128,4" in text
    assert f"content {shown['content_sha256']}" in text
    assert "before" in text
    assert f"{shown['value']['after']:,}" in text


def test_time_is_the_predicted_epoch(poor: Path, tmp_path: Path) -> None:
    machine = tmp_path / "machine.toml"
    machine.write_text("latency = 1e-3\nbandwidth = 1e10\nmultiply_adds = 5e9\n")
    words = ["refine", poor, "--objective", "time", "-o", tmp_path / "better.h5"]
    words += ["--epsilon", 0.3, "--dims", "5,4,4", "--machine", machine]
    shown = as_json(*words)
    numbers = ("latency", "bandwidth", "multiply_adds")
    assert [shown["provenance"]["machine"][each] for each in numbers] == [1e-3, 1e10, 5e9]
    assert shown["value"]["after"] <= shown["value"]["before"]
    for when, plan in (("before", poor), ("after", tmp_path / "better.h5")):
        figure = as_json("inspect", plan, "--dims", "5,4,4", "--machine", machine)
        assert shown["value"][when] == figure["epoch"]["seconds"]
    assert shown["epoch"]["seconds"] == shown["value"]["after"]
    assert shown["epoch"]["before_seconds"] == shown["value"]["before"]
    text = ok(*words)
    assert "machine machine, dims 5,4,4" in text
    assert text.count("predicted time of an epoch") == 1


def test_nothing_better(poor: Path, tmp_path: Path) -> None:
    """Twice the same: the second time there is nothing left, and the owners are the same."""
    words = ["--epsilon", 0.3, "--cycles", 40]
    ok("refine", poor, *words, "-o", tmp_path / "a.h5")
    before = as_json("inspect", tmp_path / "a.h5")
    words = ["refine", tmp_path / "a.h5", "--cycles", 0, "-o", tmp_path / "b.h5"]
    shown = as_json(*words)
    assert shown["value"]["after"] <= shown["value"]["before"]
    assert shown["improved"] == (shown["content_sha256"] != before["content_sha256"])
    ok("dataset", "grid", "--rows", 2, "--cols", 1, "-o", tmp_path / "two.mtx")
    ok("compile", tmp_path / "two.mtx", "-p", 2, "--model", "block", "-o", tmp_path / "two.h5")
    text = ok("refine", tmp_path / "two.h5", "-o", tmp_path / "same.h5")
    assert "nothing better was found: the owners are the same, volume 2" in text
    (tmp_path / "fixed.part").write_text("0\n0\n")
    two = "refine", tmp_path / "two.h5", "--fixed", tmp_path / "fixed.part"
    assert "imbalance of rows" in plancc(*two, "-o", tmp_path / "moved.h5").out
    assert json.loads(plancc(*two, "-o", tmp_path / "moved.h5", "--json").out)["improved"]


def test_a_part_vector(graph: Path, poor: Path, data: Path, tmp_path: Path) -> None:
    vector = tmp_path / f"graph.part.{P}"
    owner = np.random.default_rng(3).permutation(90) % P
    vector.write_text("".join(f"{part}\n" for part in owner))
    common = ["--part", vector, "--epsilon", 0.3, "--budget", "1m", "--json", "-o"]
    of_plan = json.loads(ok("refine", poor, *common, tmp_path / "a.h5"))
    of_graph = json.loads(ok("refine", graph, "--data", data, *common, tmp_path / "b.h5"))
    for name in ("content_sha256", "refined_from", "value", "metrics"):
        assert of_plan[name] == of_graph[name]
    given = ["compile", graph, "-p", P, "--model", "file", "--part", vector, "--data", data]
    compiled = as_json(*given, "-o", tmp_path / "c.h5")
    assert of_plan["refined_from"] == compiled["content_sha256"]
    assert of_plan["value"]["before"] == compiled["metrics"]["volume"]
    for path in ("a.h5", "b.h5"):
        ok("verify", tmp_path / path, "--against", graph)
        provenance = as_json("inspect", tmp_path / path)["provenance"]
        assert (provenance["model"], provenance["budget"]) == ("file", 60.0)

    # how the graph is read, and more parts than the vector names
    words = ["--normalize", "row", "--no-self-loops", "--transpose", "-p", P + 1]
    done = plancc("refine", graph, *words, *common, tmp_path / "d.h5")
    assert done.code == 0
    ok("verify", tmp_path / "d.h5", "--against", graph)
    header = as_json("inspect", tmp_path / "d.h5")["header"]
    assert (header["normalization"], header["self_loops"]) == ("row", False)
    assert header["num_parts"] == P + 1


def test_extra_volume_is_a_share(poor: Path, tmp_path: Path) -> None:
    words = ["refine", poor, "--objective", "messages", "--epsilon", 0.3, "--json"]
    words += ["-o", tmp_path / "better.h5", "--max-extra-volume"]
    assert parse_share("max_moves", "2.5%") == parse_share("max_moves", "0.025") == 0.025
    shown = json.loads(ok(*words, "0"))
    assert shown["metrics"]["after"]["volume"] <= shown["metrics"]["before"]["volume"]


def test_time_takes_several_steps(graph: Path, tmp_path: Path) -> None:
    """Parts are numbered for the nodes of the machine after they are refined."""
    machine, poor, plan = (tmp_path / name for name in ("nodes.toml", "rp.h5", "quick.h5"))
    machine.write_text(
        "latency = 1e-6\nbandwidth = 1e6\nmultiply_adds = 1e9\n"
        "[node]\nranks = 2\nlatency = 1e-7\nbandwidth = 1e10\n"
    )
    ok("compile", graph, "-p", 8, "--model", "rp", "-o", poor)
    words = ["--objective", "time", "--machine", machine, "--epsilon", 0.3]
    words += ["--cycles", 2, "-o", plan]  # owners whose numbers can be better
    shown = as_json("refine", poor, *words)
    steps = as_json("inspect", plan)["provenance"]["tried"]
    assert len(steps) == 3
    assert steps[-1]["step"] == "numbered for the machine"
    assert shown["value"] == {"before": steps[0]["value"], "after": steps[-1]["value"]}
    assert shown["value"]["after"] == shown["epoch"]["seconds"]
    assert "predicted time of an epoch" in ok("refine", poor, *words)
