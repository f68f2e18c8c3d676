"""One predicted epoch of every layout, whoever prints it: inspect, compare, compile, simulate."""

import json
from itertools import pairwise
from pathlib import Path

import cli_helpers
import figures
import pytest
from cli_helpers import as_json, fails, ok

from plancc.predict.machine_files import find_machine

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
