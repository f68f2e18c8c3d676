"""`inspect --batches` and `compare --batches`, against batches counted from the plan file alone."""

import json
from pathlib import Path

import figures
import numpy as np
import pytest
import scipy.stats
from cli_helpers import as_json, noted, ok, plancc

from plancc.sampling import Population, make_sampler

pytestmark = pytest.mark.usefixtures("opened_once")

N, NUMBER = 90, 60
FIGURES = ("vertices", "nonzeros", "volume", "max_volume", "messages", "work_imbalance")


@pytest.fixture(scope="module")
def others(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The graph in blocks and at random."""
    folder = tmp_path_factory.mktemp("others")
    paths = [folder / "block.h5", folder / "rp.h5"]
    ok("compile", graph, "-p", 7, "--model", "block", "-o", paths[0])
    ok("compile", graph, "-p", 3, "--model", "rp", "-o", paths[1])
    return paths


def counted(path: Path, size: int, seed: int = 1, ranks: int | None = None) -> dict[str, list]:
    """Every figure of every batch of `size` uniform vertices."""
    arrays = figures.read(path)
    p, owner = arrays.num_parts, arrays.owner
    if ranks is not None:
        rank_of_part = [next(k for k in range(ranks) if m < (k + 1) * p // ranks) for m in range(p)]
        p, owner = ranks, np.array(rank_of_part)[owner]
    sampler = make_sampler("uniform", N, batch_size=size)
    found: dict[str, list] = {name: [] for name in FIGURES}
    for number in range(NUMBER):
        drawn = sampler.batch(Population(N), seed, number).vertices()
        members = np.isin(np.arange(N), drawn)
        kept = members[arrays.row] & members[arrays.column]
        batch = figures.PlanArrays(
            arrays.row[kept], arrays.column[kept], arrays.value[kept], owner, p
        )
        of = figures.parts(batch, owner, p)
        total = sum(of["nonzeros"])
        found["vertices"].append(int(members.sum()))
        found["nonzeros"].append(total)
        found["volume"].append(sum(of["sent"]))
        found["max_volume"].append(max(*of["sent"], *of["received"]))
        found["messages"].append(sum(of["messages_sent"]))
        found["work_imbalance"].append(max(of["nonzeros"]) * p / total - 1)
    return found


def interval(values: list[float]) -> dict[str, object]:
    low, high = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return pytest.approx({"mean": np.mean(values), "low": low, "high": high}, rel=1e-9)


def test_defaults(plan: Path, tmp_path: Path) -> None:
    words = ["inspect", plan, "--batches", 70, "--json"]
    shown = json.loads(ok(*words))
    assert shown["batches"]["sampler"] == "uniform batch_size=5"  # 6% of 90
    assert shown["batches"]["seed"] == 1
    assert json.loads(ok(*words, "--seed", 1, "--sampler", "uniform")) == shown
    assert json.loads(ok(*words, "--seed", 2))["batches"]["volume"] != shown["batches"]["volume"]
    # the sampler that the plan was compiled for, and an option of it
    copy = noted(plan, tmp_path, sampler="uniform batch_size=40")
    shown = json.loads(ok("inspect", copy, *words[2:]))["batches"]
    assert shown["sampler"] == "uniform batch_size=40"
    shown = json.loads(ok("inspect", copy, *words[2:], "--batch-size", 8))["batches"]
    assert shown["sampler"] == "uniform batch_size=8"
    copy = noted(plan, tmp_path, sampler="by hand")
    assert json.loads(ok("inspect", copy, *words[2:]))["batches"]["sampler"].endswith("=5")


def test_what_plans_carry_is_drawn_from(plan: Path, data: Path) -> None:
    """Training vertices alone, by their numbers in the source."""
    words = ["inspect", plan, "--batches", 2, "--sampler", "train", "--batch-size", 30]
    shown = as_json(*words)["batches"]
    train = np.load(data)["train_mask"]
    assert train.sum() == 30
    arrays = figures.read(plan)
    inside = train[arrays.row] & train[arrays.column]
    assert shown["nonzeros"]["mean"] == inside.sum()
    moved = {
        (arrays.owner[i], j)
        for i, j in zip(arrays.row[inside], arrays.column[inside], strict=True)
        if arrays.owner[i] != arrays.owner[j]
    }
    assert shown["per_batch"]["volume"] == [len(moved)] * 2


def test_plans_on_the_same_batches(plan: Path, others: list[Path]) -> None:
    plans = [plan, *others]
    words = ["compare", *plans, "--batches", NUMBER, "--batch-size", 40]
    whole = as_json(*words)
    shown = [each["batches"] for each in whole]
    expected = [counted(path, 40) for path in plans]
    base = expected[0]["volume"]
    for found, of in zip(shown, expected, strict=True):
        for name in ("volume", "messages"):
            assert found["per_batch"][name] == of[name]
            assert found[name] == interval(of[name])
        difference = np.subtract(of["volume"], base)
        if difference.any():
            assert found["difference"] == interval(difference)
        r = np.mean(of["volume"]) / np.mean(base)
        error = scipy.stats.sem(np.subtract(of["volume"], np.multiply(r, base))) / np.mean(base)
        low, high = (r + k * scipy.stats.t.ppf(0.975, NUMBER - 1) * error for k in (-1, 1))
        assert found["ratio"] == pytest.approx({"mean": r, "low": low, "high": high}, rel=1e-9)
    assert shown[0]["difference"] == {"mean": 0, "low": 0, "high": 0}
    assert shown[0]["ratio"] == {"mean": 1, "low": 1, "high": 1}
    assert as_json("inspect", plan, *words[4:])["batches"] == {
        key: value for key, value in shown[0].items() if key not in ("difference", "ratio")
    }


def test_the_first_sampler_that_a_plan_was_compiled_for(plan, others, tmp_path):
    copy = noted(plan, tmp_path, sampler="uniform batch_size=40")
    second = tmp_path / "second"
    second.mkdir()
    other = noted(others[0], second, sampler="uniform batch_size=30")
    for plans, size in (((copy, other), 40), ((other, copy), 30), ((plan, copy, other), 40)):
        for each in as_json("compare", *plans, "--batches", 2):
            assert each["batches"]["sampler"] == f"uniform batch_size={size}"


def test_plans_of_other_graphs(plan: Path, graph: Path, tmp_path: Path) -> None:
    smaller, sparser = tmp_path / "karate.mtx", tmp_path / "sparser.h5"
    ok("dataset", "karate", "-o", smaller)
    ok("compile", smaller, "-p", 2, "-o", tmp_path / "karate.h5")
    ok("compile", graph, "-p", 2, "--no-self-loops", "-o", sparser)
    for other in (tmp_path / "karate.h5", sparser):
        done = plancc("compare", plan, other, "--batches", 3)
        assert (done.code, done.out) == (2, "")
        warning, error = done.err.splitlines()
        assert warning.startswith("plancc: warning: ")
        assert error.startswith(f"plancc: error: {other}: has a different matrix than {plan}; omit")
    ok("compile", graph, "-p", 2, "--normalize", "row", "-o", tmp_path / "row.h5")
    ok("compare", plan, tmp_path / "row.h5", "--batches", 3)  # other values, same batches
