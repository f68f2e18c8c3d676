"""The benchmark against PyTorch Geometric, without it: what it says, and how it counts."""

import io
import sys

import pytest
from rich.console import Console

from benchmarks import against_pyg
from benchmarks.inputs import Inputs
from plancc.errors import BackendUnavailable


def test_a_python_without_the_library_is_named(monkeypatch, tmp_path):
    graph = tmp_path / "AmazonPhoto.npz"
    graph.touch()
    monkeypatch.setattr(against_pyg, "SHARED", tmp_path)
    monkeypatch.setenv(against_pyg.PYTHON, "/no/such/python")
    report = against_pyg.run(Inputs(tmp_path, quick=True))
    assert report.figures == []
    assert "/no/such/python has no torch_geometric" in report.notes[0]
    with pytest.raises(BackendUnavailable, match="pip install torch_geometric"):
        against_pyg.checked("/bin/false")
    graph.unlink()
    assert "skipped" in against_pyg.run(Inputs(tmp_path, quick=True)).notes[0]


def test_ratios_of_means_of_kept_runs(tmp_path):
    bench = against_pyg.Bench(
        Inputs(tmp_path, quick=False, kept=True), sys.executable, ("G",), ("gcn",), seeds=2
    )
    for seed, (ours, theirs) in enumerate([(0.9, 0.5), (0.7, 0.3)]):
        key = ("G", "gcn", seed, against_pyg.EPOCHS)
        bench._ours.put(("plancc", *key), ours)
        bench._theirs.put(("pyg", *key), theirs)
    printed = io.StringIO()
    report = against_pyg.report_of(bench, Console(file=printed, width=100))
    assert [figure.value for figure in report.figures] == pytest.approx(
        [0.8, 0.02**0.5, 0.4, 0.02**0.5, 2]
    )
    assert report.figures[-1].reached
    assert len(printed.getvalue().splitlines()) == 2  # a line per run
