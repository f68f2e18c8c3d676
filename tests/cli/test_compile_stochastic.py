"""`compile --model stochastic-hp` as a user meets it: what is printed, written, refused."""

import json
import math
import re
from pathlib import Path

import figures
import h5py
import numpy as np
import pytest
import sealing
from cli_helpers import as_json, fails, ok, plancc

pytestmark = pytest.mark.usefixtures("opened_once")

N, P, SIZE = 90, 4, 30
STOCHASTIC = ["--model", "stochastic-hp", "-p", P, "--epsilon", 0.1]


@pytest.fixture(scope="module")
def exact(graph: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "plan.h5"
    words = ["--batch-size", SIZE, "--data", data, "--effort", "fast"]
    ok("compile", graph, *STOCHASTIC, *words, "-o", path)
    return path


def expected_volume(path: Path, size: int, train: np.ndarray | None = None) -> float:
    """From the rows, columns and owners of a plan file alone."""
    arrays = figures.read(path)
    inside = np.ones(N, bool) if train is None else train
    n = int(inside.sum())
    pins: dict[tuple[int, int], int] = {}
    for i, j in zip(arrays.row.tolist(), arrays.column.tolist(), strict=True):
        there = arrays.owner[i]
        if inside[i] and inside[j] and there != arrays.owner[j]:
            pins[j, there] = pins.get((j, there), 0) + 1
    missed = [math.comb(n - 1 - c, size - 1) / math.comb(n - 1, size - 1) for c in pins.values()]
    return size / n * sum(1 - each for each in missed)


def test_what_is_printed_and_written(graph: Path, exact: Path, tmp_path: Path) -> None:
    words = ["--batch-size", SIZE, "--effort", "fast", "-o", tmp_path / "plan.h5"]
    text = ok("compile", graph, *STOCHASTIC, *words)
    assert ok("verify", tmp_path / "plan.h5", "--against", graph).endswith("valid\n")
    value = expected_volume(tmp_path / "plan.h5", SIZE)
    with h5py.File(tmp_path / "plan.h5", locking=False) as file:
        found = sealing.attributes(file["provenance"])
    assert found["expected_volume"] == pytest.approx(value, rel=1e-9)
    ok("compile", graph, "-p", P, "--model", "rp", "-o", tmp_path / "rp.h5")
    random_value = found["expected_volume_random"]
    assert random_value == pytest.approx(expected_volume(tmp_path / "rp.h5", SIZE), rel=1e-9)
    bound = math.ceil((P - 1) ** 2 / 2 / 0.1**2 * math.log(4))
    line = (
        f"mini-batches of uniform batch_size={SIZE}: {value:,.1f} rows expected "
        f"({value / random_value:.2f} of random); exact, from the sampler's probabilities"
    )
    assert text.splitlines()[1] == line
    facts = " ".join(ok("inspect", "-v", tmp_path / "plan.h5").split())
    assert f"{value:,.1f} rows expected ({value / random_value:.2f} of random)" in facts
    assert "plancc-run trains in them with --sampler uniform, else the full batch" in facts
    assert f"bound asks for {bound} nets, the rows of {math.ceil(bound / SIZE)} batches" in facts
    assert found["batches"] == "exact"
    assert found["objective"] == "expected volume"
    assert (found["theta"], found["delta"]) == (0.1, 0.5)
    assert (found["model_batch_size"], found["sampler"]) == (
        str(SIZE),
        f"uniform batch_size={SIZE}",
    )


def test_json(graph: Path, data: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    words = ["--sampler", "train", "--batch-size", 12, "--theta", 0.3, "--delta", "0.1"]
    words += ["--data", data, "--effort", "fast", "-o", plan, "--json"]
    shown = json.loads(ok("compile", graph, *STOCHASTIC, *words))
    value = expected_volume(plan, 12, np.arange(N) % 3 == 0)
    assert shown["objective"] == "expected volume"
    assert shown["value"] == pytest.approx(value, rel=1e-9)
    best = [each for each in shown["tried"] if each["best"]][-1]
    assert best["value"] == pytest.approx(value, rel=1e-9)
    found = shown["provenance"]
    assert found["expected_volume"] == pytest.approx(value, rel=1e-9)
    assert found["sampler"] == "train batch_size=12"
    assert (found["theta"], found["delta"]) == (0.3, 0.1)
    assert found["hoeffding_nets"] == math.ceil(9 / 2 / 0.09 * math.log(20))
    assert found["nets_per_batch"] == 12
    assert found["hoeffding_batches"] == math.ceil(found["hoeffding_nets"] / 12)
    assert found["warnings"] == ""
    assert shown["metrics"]["volume"] > value
    assert as_json("inspect", plan)["provenance"] == found


@pytest.mark.parametrize(
    ("words", "sampler"),
    [
        (
            ["neighbour", "--batch-size", 8, "--fanouts", "3,2"],
            "neighbour batch_size=8 fanouts=3,2",
        ),
        (["walk", "--batch-size", 20], "walk batch_size=20 walk_length=3"),
        (["cluster", "--batch-size", 30, "--clusters", 9], "cluster batch_size=30"),
        (["edges", "--keep", 0.25], "edges keep=0.25"),
    ],
    ids=str,
)
def test_every_sampler(words: list, sampler: str, graph: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    done = plancc(
        "compile", graph, *STOCHASTIC, "--effort", "fast", "-o", plan, "--sampler", *words
    )
    assert done.code == 0, done.err
    with h5py.File(plan, locking=False) as file:
        found = sealing.attributes(file["provenance"])
    assert found["sampler"] == sampler
    how = "exact, from the sampler's probabilities"
    if "edges" not in sampler:
        seen = f"in which {found['nonzeros_seen']:.1%} of the nonzeros occur"
        how = f"the search drew {found['batches']:,} batches, {seen}"
    beside = found["expected_volume"] / found["expected_volume_random"]
    value = f"{found['expected_volume']:,.1f} rows expected ({beside:.2f} of random)"
    assert f"of {sampler}: {value}; {how}\n" in done.out
    shown = as_json("inspect", plan, "--batches", 100)["batches"]
    assert shown["sampler"] == sampler  # the plan's own, unless told otherwise
    half = 4 * (shown["volume"]["high"] - shown["volume"]["low"]) / 2
    assert found["expected_volume"] == pytest.approx(shown["volume"]["mean"], abs=half)


def test_a_batch_larger_than_the_graph(graph: Path, tmp_path: Path) -> None:
    """The plan is that of batches of the whole graph, and says so."""
    plans = [tmp_path / "whole.h5", tmp_path / "more.h5"]
    words = ["compile", graph, *STOCHASTIC, "--effort", "fast"]
    ok(*words, "--batch-size", N, "-o", plans[0])
    done = plancc(*words, "--batch-size", 4 * N, "-o", plans[1])
    remark = f"--batch-size {4 * N}: there are only {N} vertices, and batches are of {N}"
    assert done.err.splitlines().count(f"plancc: warning: {remark}") == 1
    whole, more = (as_json("inspect", plan) for plan in plans)
    assert more["provenance"]["sampler"] == f"uniform batch_size={N}"
    assert remark.replace("--batch-size", "`batch_size`") in more["provenance"]["warnings"]
    assert more["content_sha256"] == whole["content_sha256"]


def test_clusters_are_carried(graph: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    ok("compile", graph, "-p", 3, "--model", "block", "--clusters", 7, "-o", plan)
    with h5py.File(plan, locking=False) as file:
        clusters = file["vertex_data/clusters"][:]
    sizes = np.bincount(clusters)
    assert len(sizes) == 7
    assert sizes.sum() == N
    assert 1 <= sizes.min() <= sizes.max() <= 15
    ok("inspect", plan, "--batches", 3, "--sampler", "cluster", "--batch-size", 26)


def test_too_few_batches(graph: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    words = ["compile", graph, *STOCHASTIC, "--effort", "fast", "-o", plan]
    done = plancc(*words, "--batches", 1, "--json")
    assert done.code == 0
    assert re.fullmatch(
        "plancc: warning: .*% of the vertices and .*% of the nonzeros.*--batches 'auto'.*\n",
        done.err,
    )
    found = json.loads(done.out)["provenance"]
    assert found["batches"] == 1
    assert found["expected_volume_low"] < found["expected_volume"] < found["expected_volume_high"]
    assert found["warnings"].replace("`batches`", "--batches") in done.err
    ok(*words, "--batches", "auto")


def test_refined_it_is_a_plan_for_whole_batches(exact: Path, graph: Path, tmp_path: Path) -> None:
    """What was expected of the old owners is not said of the new ones."""
    plan = tmp_path / "better.h5"
    shown = as_json("refine", exact, "--cycles", 3, "-o", plan, warned=True)
    assert ok("verify", plan, "--against", graph).endswith("valid\n")
    found = shown["provenance"]
    assert shown["value"]["after"] <= shown["value"]["before"]
    assert found["objective"] == "volume"
    assert not [name for name in found if name.startswith(("expected_", "hoeffding_"))]
    assert not {"theta", "delta", "batches", "nets_per_batch"} & found.keys()
    assert "was made for mini-batches" in found["warnings"]
    assert found["sampler"] == f"uniform batch_size={SIZE}"
    text = ok("refine", exact, "--cycles", 0, "-o", plan, warned=True)
    assert "rows expected" not in text
    text = ok("inspect", plan, "--batches", 20)
    assert f"uniform batch_size={SIZE}" in text


def test_balance_by_batches(graph: Path, data: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.h5"
    words = ["--sampler", "train", "--batch-size", 10, "--data", data, "--balance", "nnz,batch"]
    words += ["--effort", "fast", "-o", plan, "--json"]
    shown = json.loads(ok("compile", graph, *STOCHASTIC, *words))
    assert shown["provenance"]["balance"] == "nnz,batch"
    assert all(float(x) < 0.15 for x in shown["provenance"]["balance_imbalance"].split(","))
    error = fails(tmp_path, "refine", plan, "-o", tmp_path / "better.h5")
    assert "'batch' of mini-batches, which a plan does not keep" in error
    better = tmp_path / "better.h5"
    ok("refine", plan, "--balance", "nnz", "--cycles", 1, "-o", better, warned=True)
    ok("inspect", better)


def test_inspect_and_compare(exact: Path, plan: Path) -> None:
    shown = as_json("inspect", exact, "--batches", 300)["batches"]
    value = expected_volume(exact, SIZE)
    assert shown["expected_volume"] == pytest.approx(value, rel=1e-9)
    low, high = shown["volume"]["low"], shown["volume"]["high"]
    assert low - (high - low) <= value <= high + (high - low)
    answer = " ".join(ok("inspect", exact).split())
    assert f"probabilities (mini-batches of uniform batch_size={SIZE})" in answer
    found = as_json("inspect", exact)["provenance"]
    beside = value / found["expected_volume_random"]
    row = f"rows expected of a mini-batch {value:,.1f} ({beside:.2f})"
    assert row in " ".join(ok("compare", exact, plan).split())
    both = as_json("compare", exact, plan, "--batches", 300)
    for each, path in zip(both, (exact, plan), strict=True):
        assert each["batches"]["sampler"] == f"uniform batch_size={SIZE}"
        value = expected_volume(path, SIZE)
        assert each["batches"]["expected_volume"] == pytest.approx(value, rel=1e-9)
