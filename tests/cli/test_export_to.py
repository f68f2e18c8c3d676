"""`plancc export --to`."""

from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import ok

import plancc as library
from plancc.export import export

pytestmark = pytest.mark.usefixtures("opened_once")


def test_the_command_writes_what_the_library_does(plan: Path, tmp_path: Path) -> None:
    said = ok("export", plan, "--to", "hypre", "-o", tmp_path / "a")
    assert "hypre, 90 vertices" in said
    export(library.load(plan), "hypre", tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in names:
        if not name.endswith(".npz"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("target", ["petsc", "hypre", "dgl-chunked"])
def test_doubles_of_single_precision_are_told(target: str, plan: Path, tmp_path: Path) -> None:
    said = ok("export", plan, "--to", target, "-o", tmp_path / "single")
    told = "values are float32; compile with --dtype float64 to keep doubles" in said
    assert told == (target != "dgl-chunked")
    double = tmp_path / "double.h5"
    replace(library.load(plan), value=library.load(plan).value.astype("float64")).save(double)
    assert "values" not in ok("export", double, "--to", target, "-o", tmp_path / "doubles")
