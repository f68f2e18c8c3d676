"""Third parties add models, partitioners, formats and data sets by entry points."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from plancc.errors import BackendUnavailable, InputError
from plancc.registry import Registry

ENTRY_POINTS = """
[plancc.models]
stripes = others:Stripes
absent = no_such_module:Model
nothing = others:Nothing
hp = others:Stripes
[plancc.partitioners]
dealt = others:DEALT
[plancc.formats]
pairs = others:PAIRS
absent = no_such_module:FORMAT
[plancc.datasets]
line = others:Line
"""

# without "from __future__ import annotations": the types of the fields are types, not strings
MODULE = """
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from plancc.graph.canonical import build_graph
from plancc.graph.formats import Format
from plancc.models.problem import Assignment, Hypergraph
from plancc.partitioners.adapter import Adapter
from plancc_datasets.dataset import Dataset


@dataclass(frozen=True)
class Stripes:
    partitioners: ClassVar[tuple] = ()

    def build(self, matrix, num_parts, *, balance, seed):
        return Assignment(np.arange(matrix.num_vertices, dtype=np.int32) % num_parts)


def deal(problem, num_parts, *, epsilon, seed, preset, threads):
    return np.arange(problem.num_vertices) % num_parts


DEALT = Adapter("dealt", deal, (Hypergraph,), ("only",))


def read_pairs(path, *, pattern, symmetrize, transpose):
    ends = np.loadtxt(path, dtype=np.int64, ndmin=2)
    return build_graph(int(ends.max()) + 1, ends[:, 0], ends[:, 1], None)


PAIRS = Format((".pairs",), read_pairs)


@dataclass(frozen=True)
class Line:
    \"\"\"A line.\"\"\"

    n: int = field(default=10, metadata={"help": "Vertices."})

    def build(self):
        i = np.arange(self.n - 1)
        return Dataset(build_graph(self.n, i, i + 1, None))
"""


@pytest.fixture
def package(tmp_path):
    """A folder as pip makes it, with the package `others`."""
    folder = tmp_path / "site"
    info = folder / "others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "others.py").write_text(MODULE)
    return folder


def test_names_and_errors(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    models = Registry("model", "plancc.models", {"hp": "plancc.models.hypergraph:HypergraphModel"})
    assert models.names() == ["hp", "stripes", "absent", "nothing"]
    assert models["hp"].__name__ == "HypergraphModel"  # not theirs
    assert models["stripes"].__name__ == "Stripes"
    with pytest.raises(InputError, match="unknown model 'best': choose from hp, stripes, absent"):
        models["best"]
    with pytest.raises(BackendUnavailable, match="model 'absent' of package others cannot be lo"):
        models["absent"]
    with pytest.raises(BackendUnavailable, match="model 'nothing' of package others cannot be lo"):
        models["nothing"]


def test_the_command_line_takes_them(package, tmp_path):
    (tmp_path / "ring.pairs").write_text("0 1\n1 2\n2 3\n3 4\n4 0\n")
    code = """
import sys
from plancc_cli.main import command
for line in sys.stdin:
    command.main(line.split(), standalone_mode=False)
"""
    lines = [
        "compile ring.pairs --model stripes -p 2 -o a.h5",
        "compile ring.pairs --model hp --partitioner dealt -p 2 -o b.h5",
        "dataset line --n 7 -o line.mtx",  # whatever the format that cannot be loaded
    ]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(lines),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "2 parts, model stripes" in done.stdout
    assert "2 parts, model hp by dealt (only)" in done.stdout
    assert "line.mtx: 7 vertices, 6 nonzeros" in done.stdout
