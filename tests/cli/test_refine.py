"""`plancc refine`: from a plan, and from a part vector."""

from pathlib import Path

import figures
import h5py
import numpy as np
import pytest
import sealing
from cli_helpers import as_json, ok

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


def test_a_part_vector(graph: Path, poor: Path, data: Path, tmp_path: Path) -> None:
    vector, plan = tmp_path / f"graph.part.{P}", tmp_path / "a.h5"
    owner = np.random.default_rng(3).permutation(90) % P
    vector.write_text("".join(f"{part}\n" for part in owner))
    found = as_json(
        "refine", poor, "--part", vector, "--epsilon", 0.3, "--budget", "1m", "-o", plan
    )
    given = ["compile", graph, "-p", P, "--model", "file", "--part", vector, "--data", data]
    compiled = as_json(*given, "-o", tmp_path / "c.h5")
    assert found["refined_from"] == compiled["content_sha256"]
    assert found["value"]["before"] == compiled["metrics"]["volume"]
    ok("verify", plan, "--against", graph)
    provenance = as_json("inspect", plan)["provenance"]
    assert (provenance["model"], provenance["budget"]) == ("file", 60.0)
