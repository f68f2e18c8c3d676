"""One predicted epoch of every layout, whoever prints it: inspect, compare, compile, simulate."""

import json
import re
from itertools import pairwise
from pathlib import Path

import cli_helpers
import figures
import numpy as np
import pytest
from cases import turns
from cli_helpers import as_json, fails, ok

from plancc.predict.machine_files import find_machine, shipped_machines

pytestmark = pytest.mark.usefixtures("opened_once")

MODELS = {
    "row": "--model hp -p 6",
    "edge": "--model medium-grain -p 6",
    "1d": "--model cagnet-1d -p 6",
    "needed": "--model cagnet-1d -p 6 --sparse --blocks hp",
    "1.5d": "--model cagnet-1.5d -p 8 --replication 2",
    "2d": "--model cagnet-2d -p 6 --grid 2x3",
    "feature": "--model mop -p 4",
    "groups": "--model mop -p 4 --groups 2",
}
FLAT = "latency = 1e-3\nbandwidth = 5e6\nmultiply_adds = 1e7\n"


@pytest.fixture(scope="module")
def compiled(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict]]:
    """A plan of every layout, and what compile said of it."""
    folder = tmp_path_factory.mktemp("layouts")
    found = {}
    for name, options in MODELS.items():
        path = folder / f"{name}.h5"
        words = ["compile", graph, *options.split(), "-o", path, "--json"]
        found[name] = path, json.loads(ok(*words, warned=True))
    return found


@pytest.fixture(scope="module")
def bare(compiled: dict[str, tuple[Path, dict]]) -> Path:
    """A row plan without features and labels."""
    return compiled["row"][0]


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine of three numbers."""
    path = tmp_path_factory.mktemp("machine") / "flat.toml"
    path.write_text(FLAT)
    return path


def noted(plan: Path, folder: Path, **provenance: object) -> Path:
    """A copy of the plan with more in its provenance, and without what it said of times."""
    timed = ("dims", "machine", "epoch_seconds", "random_epoch_seconds", "bound_seconds")
    return cli_helpers.noted(plan, folder, timed, **provenance)


def of_file(name: str) -> dict:
    """A machine as JSON has it."""
    return json.loads(find_machine(name).to_json())


@pytest.mark.parametrize("name", MODELS)
def test_everybody_says_the_same(name: str, compiled: dict[str, tuple[Path, dict]]) -> None:
    path, at_compile = compiled[name]
    inspected, (compared,) = as_json("inspect", path)["epoch"], as_json("compare", path)
    simulated = as_json("simulate", path)
    for other in (compared["epoch"], at_compile["epoch"]):
        assert other == inspected
    for figure in ("seconds", "bound_seconds", "dims", "machine", "dims_from", "machine_from"):
        assert simulated[figure] == inspected[figure]
    # a random partition's time is recorded, and is what its matrix gives
    given = as_json("inspect", path, "--dims", ",".join(map(str, inspected["dims"])))["epoch"]
    for figure in ("seconds", "random_seconds", "bound_seconds"):
        assert inspected[figure] == given[figure] > 0


@pytest.mark.parametrize("name", MODELS)
def test_what_limits_an_epoch(name: str, compiled: dict[str, tuple[Path, dict]]) -> None:
    """Shares of even work, exchange and uneven work add up, and are those of simulate."""
    path, _ = compiled[name]
    answer = " ".join(ok("inspect", path).split())
    found = as_json("simulate", path)
    seconds, bound = found["seconds"], found["bound_seconds"]
    moved = [e for e in found["steps"] if e["step"] not in ("multiply", "dense", "all-reduce")]
    exchange = min(sum(each["slowest"] for each in moved), seconds - bound)
    assert f"{bound / seconds:.1%} of it is even work without exchange" in answer
    if "which partitions hardly change" in answer:
        assert abs(seconds / as_json("inspect", path)["epoch"]["random_seconds"] - 1) < 0.05
        return
    shares = re.findall(r", ([\d.]+)% (exchange of rows|uneven work)", answer)
    of = {"exchange of rows": exchange, "uneven work": seconds - bound - exchange}
    expected = {what: f"{100 * s / seconds:.1f}" for what, s in of.items() if s >= 1e-3 * seconds}
    assert {what: share for share, what in shares} == expected


@turns(machine=shipped_machines(), layout=["row", "edge", "1.5d", "2d", "feature"])
def test_and_on_every_machine(machine: str, layout: str, compiled) -> None:
    words = [compiled[layout][0], "--machine", machine, "--dims", "32,24,8"]
    inspected, (compared,) = as_json("inspect", *words)["epoch"], as_json("compare", *words)
    simulated = as_json("simulate", *words)
    assert inspected == compared["epoch"]
    assert inspected["seconds"] == simulated["seconds"]
    assert inspected["machine"] == simulated["machine"] == of_file(machine)
    assert (inspected["dims_from"], inspected["machine_from"]) == ("given", "given")
    assert inspected["random_seconds"] > 0


def reference(of: dict[str, list[int]], dims: list[int]) -> float:
    """An epoch on the flat machine with the passes order and constant, step by step, by loops."""
    p, latency, bandwidth, rate = len(of["rows"]), 1e-3, 5e6, 1e7
    seconds = 0.0
    for layer, (before, after) in enumerate(pairwise(dims)):
        if layer:  # the first layer's product is constant
            width = min(before, after)
            talk = zip(of["messages_sent"], of["messages_received"], strict=True)
            moved = zip(of["sent"], of["received"], strict=True)
            busiest = max(
                latency * max(messages) + 4 * width * max(rows) / bandwidth
                for messages, rows in zip(talk, moved, strict=True)
            )
            seconds += 2 * busiest + 2 * max(of["nonzeros"]) * width / rate
        products = 3 if layer else 2  # forward, dW, and dH but in the first layer
        seconds += products * max(of["rows"]) * before * after / rate
    words = sum((before + 1) * after for before, after in pairwise(dims)) + 1
    return seconds + 2 * (p - 1) * latency + 2 * (p - 1) / p * 4 * words / bandwidth


@pytest.mark.parametrize("dims", [[64, 16, 3], [7, 7], [5, 30, 8]])
def test_seconds_are_right(dims: list[int], bare: Path, flat: Path) -> None:
    found = as_json("inspect", bare, "--dims", ",".join(map(str, dims)), "--machine", flat)["epoch"]
    arrays = figures.read(bare)
    mine = reference(figures.parts(arrays, arrays.owner, 6), dims)
    random = reference(figures.parts(arrays, figures.random_owner(90, 6), 6), dims)
    nobody = dict.fromkeys(("sent", "received", "messages_sent", "messages_received"), [0] * 6)
    even = {"rows": [15] * 6, "nonzeros": [-(-len(arrays.row) // 6)] * 6, **nobody}
    assert found["seconds"] == pytest.approx(mine, rel=1e-12)
    assert found["random_seconds"] == pytest.approx(random, rel=1e-12)
    assert found["bound_seconds"] == pytest.approx(reference(even, dims), rel=1e-12)
    assert found["machine"]["name"] == "flat"


def test_where_widths_and_machine_are_from(plan: Path, bare: Path, flat: Path, tmp_path) -> None:
    """Given ones, the plan's, those of its data, the defaults; in this order, for all commands."""

    def basis(path: Path, *words: object) -> list[object]:
        of = [as_json("inspect", path, *words)["epoch"], as_json("simulate", path, *words)]
        of.append(as_json("compare", path, *words)[0]["epoch"])
        keys = ("dims", "dims_from", "machine_from")
        found = [[*(each[key] for key in keys), each["machine"]["latency"]] for each in of]
        assert found[0] == found[1] == found[2]
        return found[0]

    assert basis(noted(bare, tmp_path)) == [[128, 128, 16], "default", "default", 2e-6]
    assert "(the default)" in ok("inspect", "-v", tmp_path / "noted.h5")
    assert basis(noted(plan, tmp_path)) == [[5, 128, 4], "data", "default", 2e-6]
    assert "(of its features and labels)" in ok("simulate", tmp_path / "noted.h5")
    h100 = find_machine("h100").to_json()
    copy = noted(plan, tmp_path, dims="5,9,4", machine=h100)
    assert basis(copy) == [[5, 9, 4], "plan", "plan", 5e-6]
    assert "machine h100 (the plan's), dims 5,9,4 (the plan's)" in ok("inspect", "-v", copy)
    assert as_json("inspect", copy)["epoch"]["machine"] == of_file("h100")
    assert as_json("inspect", copy)["provenance"]["machine"]["name"] == "h100"
    assert ["machine", "h100"] in [line.split() for line in ok("inspect", "-v", copy).splitlines()]
    given = basis(copy, "--dims", "5,4", "--machine", flat)
    assert given == [[5, 4], "given", "given", 1e-3]
    # widths that cannot be; what makes no sense
    other = noted(plan, tmp_path, dims="64,4", machine=h100)
    assert basis(other) == [[5, 128, 4], "data", "plan", 5e-6]
    for strange in ("latency=x", "{", '{"latency": 1}', 3.5):
        found = as_json("inspect", noted(plan, tmp_path, dims="wide", machine=strange))
        assert (found["epoch"]["dims_from"], found["epoch"]["machine_from"]) == ("data", "default")
        assert found["provenance"]["machine"] == strange


def test_what_is_recorded_of_random(bare: Path, tmp_path: Path) -> None:
    """The recorded figure of a random partition counts for its own machine and widths only."""
    cluster = find_machine("cpu-cluster").to_json()
    copy = noted(
        bare, tmp_path, dims="8,4", machine=cluster, random_epoch_seconds=0.25, epoch_seconds=1e-9
    )
    own = as_json("inspect", copy)["epoch"]
    assert (own["random_seconds"], own["dims"]) == (0.25, [8, 4])
    assert own["seconds"] == as_json("simulate", copy)["seconds"] != 1e-9  # computed
    assert as_json("compare", copy)[0]["epoch"] == own
    assert ok("inspect", "-v", copy).count("250.0 ms") == 2  # in the answer and the table of times
    for words in (["--machine", "h100"], ["--dims", "8,4"], ["--dims", "8,5"]):
        assert as_json("inspect", copy, *words)["epoch"]["random_seconds"] not in (0.25, None)
    copy = noted(bare, tmp_path, dims="8,4", machine=cluster, random_epoch_seconds=0.25)
    fresh = as_json("inspect", copy, "--dims", "8,4")["epoch"]
    assert fresh["random_seconds"] != 0.25
    assert fresh["seconds"] == own["seconds"]
    merged = as_json("inspect", copy, "--ranks", 3)["epoch"]
    assert merged["seconds"] == as_json("simulate", copy, "-p", 3)["seconds"]
    assert merged["random_seconds"] not in (0.25, fresh["random_seconds"])
    for wrong in (0.0, np.nan, np.inf, "x"):
        copy = noted(bare, tmp_path, dims="8,4", machine=cluster, random_epoch_seconds=wrong)
        assert as_json("inspect", copy)["epoch"]["random_seconds"] is None
    for other in ({"dims": "8,5"}, {"machine": find_machine("h100").to_json()}):
        recorded = {"dims": "8,4", "machine": cluster, "random_epoch_seconds": 0.25} | other
        copy = noted(bare, tmp_path, **recorded)
        assert as_json("inspect", copy)["epoch"]["random_seconds"] == 0.25
        assert as_json("compare", copy, bare)[0]["epoch"]["random_seconds"] not in (0.25, None)


def test_plans_compare_on_one_machine(bare: Path, plan: Path, flat: Path, tmp_path: Path) -> None:
    copy = noted(bare, tmp_path, dims="8,4", machine=find_machine("h100").to_json())
    both = [each["epoch"] for each in as_json("compare", copy, copy)]
    assert [(each["dims_from"], each["machine_from"]) for each in both] == [("plan", "plan")] * 2
    both = [each["epoch"] for each in as_json("compare", copy, plan)]
    assert [each["dims"] for each in both] == [[128, 128, 16]] * 2
    assert [each["machine"] for each in both] == [of_file("cpu-cluster")] * 2
    assert {each["dims_from"] for each in both} == {"differ"}
    text = ok("compare", copy, plan)
    assert "machine cpu-cluster (the default, as the plans' differ), dims 128,128,16" in text
    both = [each["epoch"] for each in as_json("compare", copy, plan, "--machine", flat)]
    assert [each["machine"]["name"] for each in both] == ["flat"] * 2
    assert all(each["random_seconds"] > 0 for each in both)


def test_epochs_until_plans_pay(bare: Path, compiled, flat: Path, tmp_path, monkeypatch) -> None:
    """Searches of 50 and 2 seconds, and a part vector, of which nobody knows how it was found."""
    (tmp_path / "q").mkdir()
    noted(bare, tmp_path, search_seconds=50.0)
    noted(compiled["edge"][0], tmp_path / "q", search_seconds=2.0)
    monkeypatch.chdir(tmp_path)
    ok("export", bare, "-o", "x.part.6")
    words = ["noted.h5", "q/noted.h5", "x.part.6", "--machine", flat, "--dims", "64,32,16"]
    found = as_json("compare", *words)
    assert [each["search_seconds"] for each in found] == [50.0, 2.0, None]
    (one, two), random = [each["epoch"]["seconds"] for each in found[:2]], found[0]["epoch"]
    over_random, over_two = 50 / (random["random_seconds"] - one), 48 / (two - one)
    assert found[0]["pays_random"] == pytest.approx(over_random)
    pays = [{of["over"]: of["epochs"] for of in each["pays"]} for each in found]
    assert pays[0] == {"q/noted.h5": pytest.approx(over_two), "x.part.6": "never"}
    assert pays[1] == {"noted.h5": "never", "x.part.6": "never"}
    assert pays[2] == {"noted.h5": "never", "q/noted.h5": None}
    rows = re.findall(r"^(?:epochs|  over [nqx]\S*).*?  +(\S.*)$", ok("compare", *words), re.M)
    assert [re.split("  +", row) for row in rows] == [
        [f"{over_random / 1e3:.3g} k", "never", "-"],
        ["-", "never", "never"],
        [f"{over_two / 1e3:.3g} k", "-", "-"],
        ["never", "never", "-"],
    ]
    of_one = ok("compare", *words, "--baseline", "noted.h5")
    assert re.findall(r"^  over [nqx]\S* +(.*)", of_one, re.M) == rows[1:2]


def test_widths_that_contradict_the_data(plan: Path, bare: Path, tmp_path: Path) -> None:
    for command, dims, why in (
        ("inspect", "64,16,4", "the first width is 64, but the features have 5 columns"),
        ("simulate", "5,16,3", "the last width is 3, but there are 4 classes"),
        ("compare", "5,16,3", "the last width is 3, but there are 4 classes"),
    ):
        error = fails(tmp_path, command, plan, "--dims", dims)
        assert error == f"{plan}: --dims {dims}: {why}"
        ok(command, bare, "--dims", dims)
    ok("inspect", "-v", plan, "--dims", "5,16,7")  # more outputs than classes are no contradiction


def test_a_grid_that_is_too_wide(graph: Path, tmp_path: Path) -> None:
    """Default widths that a grid cannot split are no error, only no prediction."""
    path = tmp_path / "wide.h5"
    text = ok("compile", graph, "--model", "cagnet-2d", "--grid", "1x17", "-p", 17, "-o", path)
    why = "grid '2d 1x17' splits columns over 17 ranks"
    assert f"no predicted epoch: {why}" in text
    found = as_json("inspect", path)["epoch"]
    assert found["seconds"] is found["bound_seconds"] is None
    assert found["why"].startswith(why)
    assert why in ok("inspect", "-v", path)
    assert why in ok("compare", path)
    for command in ("inspect", "compare", "simulate"):
        assert ok(command, path, "--dims", "20,18")


def test_objective_time_is_what_the_others_say(graph: Path, flat: Path, tmp_path: Path) -> None:
    """The value that a search for time reached, the plan's epoch, and what simulate predicts."""
    path, better = tmp_path / "plan.h5", tmp_path / "better.h5"
    for model, words in (
        ("hp", []),
        ("medium-grain", ["--machine", "h100"]),
        ("hp", ["--machine", flat, "--dims", "30,12,9"]),
    ):
        words = [graph, "-p", 5, "--model", model, "--objective", "time", *words]
        made = as_json("compile", *words, "--effort", "fast", "-o", path)
        assert made["value"] == made["epoch"]["seconds"] == as_json("simulate", path)["seconds"]
        assert made["epoch"] == as_json("inspect", path)["epoch"]
        assert made["epoch"]["random_seconds"] > 0
        times = made["provenance"]
        assert times["epoch_seconds"] == made["value"]
        assert times["bound_seconds"] == made["epoch"]["bound_seconds"]
    refined = as_json("refine", path, "--objective", "time", "-o", better)
    assert refined["value"]["before"] == made["value"]
    assert refined["value"]["after"] == as_json("simulate", better)["seconds"]
    assert refined["value"]["after"] == as_json("inspect", better)["epoch"]["seconds"]
    assert as_json("inspect", better)["epoch"]["machine"]["name"] == "flat"
