"""`compile --model stochastic-hp` as a user meets it: what is printed, written, refused."""

import math
from pathlib import Path

import figures
import h5py
import numpy as np
import pytest
import sealing
from cli_helpers import as_json, ok

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
        f"({value / random_value:.2f} of a random partition's); exact, "
        "from the sampler's probabilities"
    )
    assert text.splitlines()[1] == line
    facts = " ".join(ok("inspect", "-v", tmp_path / "plan.h5").split())
    assert (
        f"{value:,.1f} rows expected ({value / random_value:.2f} of a random partition's)" in facts
    )
    assert "plancc-run trains in them with --sampler uniform, else the full batch" in facts
    assert f"nets to draw by Hoeffding's bound {bound}" in facts
    assert f"batches to draw by Hoeffding's bound {math.ceil(bound / SIZE)}" in facts
    assert found["batches"] == "exact"
    assert found["objective"] == "expected volume"
    assert (found["theta"], found["delta"]) == (0.1, 0.5)
    assert (found["model_batch_size"], found["sampler"]) == (
        str(SIZE),
        f"uniform batch_size={SIZE}",
    )


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
