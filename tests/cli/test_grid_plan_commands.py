"""`compile`, `inspect`, `compare`, `verify`, `export` and `refine` of grid plans."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import as_json, ok

import plancc
from plancc.plan.grid import Grid

pytestmark = pytest.mark.usefixtures("opened_once")


@pytest.fixture(scope="module")
def folder(graph: Path, data: Path, tmp_path_factory) -> Path:
    """A plan of each kind, by options as a user gives them."""
    folder = tmp_path_factory.mktemp("grids")
    for name, options in {
        "1d": "--model cagnet-1d -p 3",
        "needed": "--model cagnet-1d -p 4 --sparse --blocks block --topology 2x2",
        "2d": f"--model cagnet-2d -p 6 --grid 2x3 --data {data}",
        "mop": "--model mop -p 4 --groups 2 --blocks rcm",
    }.items():
        ok("compile", graph, *options.split(), "-o", folder / f"{name}.h5")
    return folder


@pytest.mark.parametrize(
    ("name", "grid"),
    [("1d", Grid("1d", 3)), ("2d", Grid("2d", 2, 3)), ("mop", Grid("feature", 2, 2))],
)
def test_inspect(folder: Path, name: str, grid: Grid) -> None:
    path = folder / f"{name}.h5"
    found = as_json("inspect", "-v", path)
    assert (found["header"]["grid"], found["num_ranks"]) == (str(grid), grid.num_ranks)
    plan = plancc.load(path)
    assert found["metrics"]["volume"] == plan.send.volume
    product = {"width": 5 if name == "2d" else 128}
    nonzeros, n = plan.header.num_nonzeros, 90
    product |= {
        "1d": {"rows": n * 2 * 128},
        "2d": {"rows": n * 5, "matrix": 2 * (2 * nonzeros + 6 * (n + 2))},
        "mop": {"rows": plan.send.volume * 128, "swapped": n * 128},
    }[name]
    assert {key: value for key, value in found["product"].items() if value} == product
    same = as_json("inspect", "-v", path, "--ranks", grid.num_ranks)
    assert same == found


def test_verify_and_export(folder: Path, graph: Path, tmp_path: Path) -> None:
    path = folder / "2d.h5"
    assert "the grid fits layout" in ok("verify", path, "--against", graph)
    ok("export", path, "-o", tmp_path / "graph.part.2")
    owner = np.loadtxt(tmp_path / "graph.part.2", dtype=int)
    assert owner.tolist() == plancc.load(path).owner().tolist()
    # the vector makes the same plan, and the owners of another one
    words = ["--blocks", "file", "--part", tmp_path / "graph.part.2", "-o", tmp_path / "again.h5"]
    ok("compile", graph, "--model", "cagnet-2d", "-p", 6, "--grid", "2x3", *words)
    again = plancc.load(tmp_path / "again.h5")
    assert (again.owner() == owner).all()
    assert again.header == plancc.load(path).header


def test_refine_keeps_the_grid(folder: Path, tmp_path: Path) -> None:
    for name in ("needed", "mop"):
        path, better = folder / f"{name}.h5", tmp_path / f"{name}.h5"
        ok("refine", path, "-o", better, warned=True)
        ok("verify", better)
        before, after = plancc.load(path), plancc.load(better)
        assert after.header == before.header
        assert after.metrics().volume < before.metrics().volume
        assert after.provenance["model"] == before.provenance["model"]
    owners = tmp_path / "owners.part"
    np.savetxt(owners, np.arange(90) % 2, fmt="%d")
    ok("refine", folder / "mop.h5", "--part", owners, "-o", better, warned=True)
    said = plancc.load(better).provenance
    assert (said["model"], said["blocks"]) == ("mop", "file")
