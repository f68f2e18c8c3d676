"""Large arrays on the disk: the same numbers, and nothing left behind."""

import os

import numpy as np
import pytest
from cases import turns

import plancc
from plancc import scratch
from plancc.errors import OutputError, PlanccWarning
from plancc.graph.canonical import to_scipy
from plancc.graph.csr import write_csr
from plancc.graph.mapped import is_mapped
from plancc.plan.verify import verify
from plancc.search.footprint import ProblemSizes, ways
from plancc_datasets import load_dataset


def test_arrays_are_on_the_disk_only_where_that_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", None)
    numbers = np.arange(10, dtype=np.int32)
    with scratch.on_disk(True):
        there = scratch.moved(numbers)
        empty = scratch.large(0, np.int64)
        with scratch.on_disk(False):
            assert scratch.moved(numbers) is numbers
    assert is_mapped(there)
    assert not is_mapped(scratch.large(5, np.float32))
    assert there.dtype == np.int32
    np.testing.assert_array_equal(there, numbers)
    there[3] = 50
    assert there[3] == 50
    assert len(empty) == 0
    assert os.listdir(tmp_path) == []


def test_where_files_are(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", None)
    assert scratch.folder() == str(tmp_path)
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(scratch, "DISK", str(tmp_path / "none"))
    assert scratch.folder() != str(tmp_path / "none")


def test_a_disk_that_is_too_small():
    with pytest.raises(OutputError, match="GiB are needed beside the memory"):
        scratch.check_room(1 << 60)
    with scratch.on_disk(True), pytest.raises(OutputError, match="cannot write"):
        scratch.large(1 << 50, np.int64)


@turns(model=["hp", "rp"], weighted=[True, False])
def test_a_plan_made_on_the_disk_is_the_one_made_in_memory(model, weighted, tmp_path):
    graph = load_dataset("sbm", num_features=1).graph
    if weighted:
        matrix = to_scipy(graph)
        matrix.data[:] = np.random.default_rng(0).random(matrix.nnz)
        graph = plancc.as_graph(matrix)
    write_csr(graph, tmp_path)
    graph = plancc.read_graph(tmp_path)
    effort = None if model == "rp" else "fast"
    constraints = 2 if effort else 1
    sizes = ProblemSizes(
        2048, graph.num_nonzeros + 2048, 1.0, weighted, constraints, uneven=False, mapped=True
    )
    peaks = [way.peak for way in ways(sizes, effort or "", False)]
    limit = (peaks[-1] + peaks[-2]) // 2
    with pytest.warns(PlanccWarning, match="files in"):
        plan = plancc.compile(graph, model, 4, effort=effort, memory=limit)
    verify(plan)
    assert is_mapped(plan.column)
    assert plan.provenance["predicted_memory"] == peaks[-1]
    plain = plancc.compile(graph, model, 4, effort=effort)
    if model == "rp":
        assert plan.content_sha256() == plain.content_sha256()
    lean = plancc.compile(graph, model, 4, effort=effort, memory=peaks[-2])
    assert not is_mapped(lean.column)
    assert plan.content_sha256() == lean.content_sha256()


def test_the_disk_is_looked_at_before_anything_starts(monkeypatch, tmp_path):
    write_csr(load_dataset("sbm", num_features=1).graph, tmp_path)
    graph = plancc.read_graph(tmp_path)
    sizes = ProblemSizes(2048, graph.num_nonzeros + 2048, constraints=1, mapped=True)
    peaks = [way.peak for way in ways(sizes, "")]
    usage = type("usage", (), {"free": 10})
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OutputError, match="TMPDIR names another folder"):
        plancc.compile(graph, "rp", 4, memory=peaks[-1])
