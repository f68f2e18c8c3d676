"""A library that is not installed is one sentence, and only where it is needed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import turns

PARTITIONERS = ("pymetis", "kahypar", "mtkahypar", "kaminpar")
IN_MEMORY = """
import numpy as np, plancc
from plancc.plan.merge import merge
from plancc.plan.rank_parts import RankParts
edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
for model in ("rcm", "rp", "block", "hp"):
    plan = plancc.compile((4, edges), model=model, num_parts=2)
    held = RankParts(plan.header, 0, np.array([0, 2]))
    print(model, merge(plan.all_parts, held, plan.vertex_data).num_rows)
"""


@pytest.fixture
def without(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python with these arguments where some libraries cannot be imported."""

    def run(libraries: tuple[str, ...], *words: object) -> subprocess.CompletedProcess[str]:
        for name in libraries:
            text = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
            (tmp_path / f"{name}.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return run


@turns(module=["plancc_cli", "plancc_cli.run"], library=["click", "rich"])
def test_what_a_program_is_made_of(without, library, module):
    done = without((library,), "-m", module, "--help")
    program = "plancc-run" if module.endswith("run") else "plancc"
    # the help of plancc itself needs no tables
    if (library, program) == ("rich", "plancc"):
        done = without((library,), "-m", module, "compile", "graph.mtx", "-p", 2, "-o", "plan.h5")
    assert done.returncode == 1
    expected = f"needs the library {library}, which is not installed: pip install {library}"
    assert done.stderr == f"{program}: error: {expected}\n"


def test_plan_files_need_blake3(without, tmp_path):
    (tmp_path / "graph.csv").write_text("0 1\n1 0\n")
    done = without(
        ("blake3",),
        *("-m", "plancc_cli", "compile", tmp_path / "graph.csv", "--format", "edgelist", "-q"),
        *("--model", "block", "-p", 2, "-o", tmp_path / "plan.h5"),
    )
    assert done.returncode == 1
    assert done.stderr.endswith(
        "plancc: error: plan files are written and read with blake3, which is not installed: "
        "pip install blake3\n"
    )
    assert not (tmp_path / "plan.h5").exists()


def test_plans_in_memory_need_neither_blake3_nor_a_partitioner(without):
    done = without(("blake3", "networkx", "rich", *PARTITIONERS), "-W", "ignore", "-c", IN_MEMORY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["rcm", "4", "rp", "4", "block", "4", "hp", "4"]
