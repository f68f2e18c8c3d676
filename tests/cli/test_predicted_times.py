"""One predicted epoch of every layout, whoever prints it: inspect, compare, compile, simulate."""

import json
from pathlib import Path

import cli_helpers
import pytest
from cli_helpers import as_json, ok

from plancc.predict.machine_files import find_machine

pytestmark = pytest.mark.usefixtures("opened_once")

MODELS = {
    **{"row": "--model hp -p 6", "edge": "--model medium-grain -p 6"},
    **{"1d": "--model cagnet-1d -p 6", "needed": "--model cagnet-1d -p 6 --sparse --blocks hp"},
    "1.5d": "--model cagnet-1.5d -p 8 --replication 2",
    **{"2d": "--model cagnet-2d -p 6 --grid 2x3", "feature": "--model mop -p 4"},
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
