"""The compiler as a whole: every model, every accepted graph, every wrong option."""

import hashlib
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace

import networkx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cases import long, pairs, turns
from worlds import epoch_seconds

import plancc
from plancc.cost.owners import random_traffic
from plancc.graph.normalize import normalize
from plancc.models import MODELS as REGISTRY
from plancc.models.base import Model
from plancc.models.problem import Assignment
from plancc.plan.matrix import matrix_of
from plancc.plan.metrics import summarize
from plancc.predict.machine_files import find_machine
from plancc.report.provenance import reached, read_tried

N = 48
MODELS = ["rp", "block", "gp", "hp", "stochastic-hp", "rcm", "file"]
PART = np.arange(N) % 4


def options_of(model):
    return {"file": {"part": PART}, "stochastic-hp": {"effort": "fast"}}.get(model, {})


def symmetric_matrix():
    """A ring with chords, without values that matter."""
    rng = np.random.default_rng(3)
    array = np.eye(N, k=1) + np.eye(N, k=N - 1) + (rng.random((N, N)) < 0.02)
    return sp.csr_array(((array + array.T) > 0).astype(np.float64))


def directed_matrix():
    rng = np.random.default_rng(4)
    array = np.where(rng.random((N, N)) < 0.08, rng.uniform(0.5, 2, (N, N)), 0)
    array[5] = array[:, 9] = 0
    return sp.csr_array(array)


@turns(model=MODELS, matrix=[directed_matrix, symmetric_matrix])
def test_every_model(model, matrix, tmp_path):
    matrix = matrix()
    plan = plancc.compile(matrix, model=model, num_parts=4, **options_of(model))
    graph = plancc.as_graph(matrix)
    assert plan.header.directed == graph.directed
    assert (np.bincount(plan.owner(), minlength=4) > 0).all()
    if model == "file":
        assert plan.owner().tolist() == PART.tolist()
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5", graph)
    assert plan.baseline == summarize(random_traffic(normalize(graph, "sym"), 4))
    if model == "hp":
        assert plan.metrics().volume < plan.baseline.volume


@pairs(
    normalization=["sym", "row", "none"],
    self_loops=[True, False],
    value_dtype=["float32", "float64"],
)
def test_normalization(normalization, self_loops, value_dtype):
    matrix, options = directed_matrix(), {"self_loops": self_loops, "value_dtype": value_dtype}
    plan = plancc.compile(matrix, "block", 3, normalize=normalization, **options)
    assert (plan.header.normalization, plan.header.self_loops) == (normalization, self_loops)
    assert plan.value.dtype == value_dtype
    b = matrix.toarray() + self_loops * np.eye(N)
    degree = b.sum(axis=1)
    degree[degree == 0] = np.inf
    if normalization == "row":
        b /= degree[:, None]
    elif normalization == "sym":
        b /= np.sqrt(np.outer(degree, degree))
    tolerance = 1e-6 if value_dtype == "float32" else 1e-14
    np.testing.assert_allclose(matrix_of(plan).toarray(), b, rtol=tolerance)


def test_every_kind_of_graph(tmp_path):
    """The same graph in every form that is accepted gives the same plan."""
    matrix = symmetric_matrix()
    scipy.io.mmwrite(tmp_path / "graph.mtx", matrix, field="pattern", symmetry="symmetric")
    row, column = matrix.tocoo().coords
    graph = networkx.Graph()
    graph.add_nodes_from(range(N))
    graph.add_edges_from(zip(row.tolist(), column.tolist(), strict=True))
    forms = [
        matrix,
        matrix.tocoo(),
        sp.csc_matrix(matrix),
        matrix.astype(bool),
        graph,
        (N, np.stack([column, row])),
        (N, [column.tolist(), row.tolist()]),
        tmp_path / "graph.mtx",
        str(tmp_path / "graph.mtx"),
        plancc.read_graph(tmp_path / "graph.mtx"),
    ]
    hashes = {
        plancc.compile(form, model="rp", num_parts=5).save(tmp_path / "plan.h5") for form in forms
    }
    assert len(hashes) == 1


def test_vertex_data_in_plan_order(tmp_path):
    rng = np.random.default_rng(0)
    data = {"features": rng.random((N, 3)), "labels": rng.integers(0, 4, N)}
    data["train_mask"] = rng.random(N) < 0.5
    np.savez(tmp_path / "data.npz", **data)
    from_file = plancc.compile(symmetric_matrix(), "rp", 4, data=tmp_path / "data.npz")
    from_arrays = plancc.compile(symmetric_matrix(), "rp", 4, data=plancc.VertexData(**data))
    for plan in (from_file, from_arrays):
        plan.save(tmp_path / "plan.h5")
        found = plancc.load(tmp_path / "plan.h5").vertex_data
        order = plan.global_id
        assert found.features.tolist() == data["features"].astype(np.float32)[order].tolist()
        assert found.labels.tolist() == data["labels"][order].tolist()
        assert found.train_mask.tolist() == data["train_mask"][order].tolist()
        assert found.val_mask is None
        plancc.verify_file(tmp_path / "plan.h5")
    assert from_file.save(tmp_path / "a.h5") == from_arrays.save(tmp_path / "b.h5")


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("features", np.zeros((N - 1, 3)), f"'features' has '{N - 1}' rows, but the graph has {N}"),
        ("labels", np.zeros(N + 1, int), f"'labels' has '{N + 1}' rows"),
        ("train_mask", np.zeros(1, bool), "'train_mask' has '1' rows"),
        ("features", np.zeros(N), "features"),
        ("features", np.zeros((N, 0)), "features"),
        ("features", np.full((N, 1), np.nan), "finite"),
        ("features", np.full((N, 1), 1e39), "finite"),
        ("features", np.full((N, 1), 1j), "complex128"),
        ("labels", np.zeros(N), "float64"),
        ("labels", np.full(N, -2), ">= -1"),
        ("labels", np.full(N, 2**33), "the largest possible number is 2,147,483,647"),
        ("labels", np.zeros((N, 2), int), "labels"),
        ("val_mask", np.zeros(N, np.uint8), "uint8"),
        ("test_mask", np.zeros((N, 1), bool), "test_mask"),
    ],
)
def test_vertex_data_that_cannot_be(name, array, words):
    with pytest.raises(plancc.InputError, match=words):
        plancc.compile(symmetric_matrix(), "rp", 2, data=plancc.VertexData(**{name: array}))


def test_provenance(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    path = tmp_path / "graph.mtx"
    scipy.io.mmwrite(path, symmetric_matrix())
    options = {"objective": "volume", "partitioner": "metis", "seed": 7, "command": "told"}
    plan = plancc.compile(path, "gp", 4, **options)
    found = dict(plan.provenance)
    assert found.pop("search_seconds") > 0
    assert found.pop("partitioner_version")
    assert found == {
        "source_name": "graph.mtx",
        "source_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "source_format": "mtx",
        "source_reading": "",
        "source_weights": "the values, all 1",
        "source_counts": "self loops of the source raised by the identity: 1",
        "plancc_version": plancc.__version__,
        "created": "2023-11-14T22:13:20Z",
        "command": "told",
        "model": "gp",
        "model_objective": "volume",
        "objective": "volume",
        "balance": "nnz",
        "balance_imbalance": f"{plan.metrics().nonzero_imbalance:.6g}",
        "machine": find_machine("cpu-cluster").to_json(),
        "dims": "128,128,16",
        "epoch_seconds": epoch_seconds(plan, (128, 128, 16)),
        "random_epoch_seconds": epoch_seconds(plancc.compile(path, "rp", 4), (128, 128, 16)),
        "bound_seconds": found["bound_seconds"],
        "seed": 7,
        "partitioner": "metis",
        "preset": found["preset"],
        "epsilon": 0.01,
        "threads": 1,
        "predicted_memory": found["predicted_memory"],
        "warnings": found["warnings"],
    }


def test_provenance_of_a_search():
    seen = []
    options = {"objective": "max-volume", "effort": "fast", "budget": 60, "topology": "2x2"}
    plan = plancc.compile(symmetric_matrix(), num_parts=4, report=seen.append, **options)
    found = plan.provenance
    assert found | options | {"partitioner": "plancc"} == found
    assert "preset" not in found
    assert "model_objective" not in found
    tried = read_tried(found)
    assert [each["step"] for each in tried] == [trial.step for trial in seen]
    assert reached(tried) == plan.metrics().max_volume


@pytest.mark.filterwarnings("ignore::plancc.PlanccWarning")
@pytest.mark.parametrize(
    "model",
    [each if each in ("rp", "gp", "hp") else pytest.param(each, marks=long) for each in MODELS],
)
def test_balance_is_measured_by_constraint(model, tmp_path):
    """The imbalances in the provenance are those of the plan, whatever the model did for them."""
    matrix, mask = symmetric_matrix(), np.arange(N) % 3 == 0
    nonzeros = (matrix.toarray() + np.eye(N) > 0).sum(axis=1)
    loads = {"nnz": nonzeros, "rows": np.ones(N), "work": nonzeros * 20 + 16 * 4 + 4 * 3}
    options = {"dims": [16, 4, 3], "epsilon": 0.1, "data": plancc.VertexData(train_mask=mask)}
    loads |= {"train": mask}
    plan = plancc.compile(matrix, model, 4, balance=",".join(loads), **options, **options_of(model))
    plan.save(tmp_path / "plan.h5")
    found = plancc.load(tmp_path / "plan.h5").provenance
    assert found["balance"] == "nnz,rows,work,train"
    assert found["dims"] == "16,4,3"
    measured = [float(word) for word in found["balance_imbalance"].split(",")]
    parts = [np.bincount(plan.owner(), weights=load, minlength=4) for load in loads.values()]
    assert measured == pytest.approx(
        [part.max() / part.mean() - 1 for part in parts], rel=1e-5, abs=1e-6
    )
    assert measured[:2] == pytest.approx(
        [plan.metrics().nonzero_imbalance, plan.metrics().row_imbalance], rel=1e-5, abs=1e-6
    )
    if model == "gp":
        assert max(measured) < 0.2


def test_a_missed_constraint_is_named():
    """Half of the rows are full, half are not: one weight for both constraints misses each."""
    array = np.eye(N)
    array[: N // 8] = 1
    with pytest.warns(plancc.PlanccWarning, match="^(nnz|rows): ") as caught:
        plan = plancc.compile(
            sp.csr_array(array), "hp", 5, balance="nnz,rows", partitioner="builtin"
        )
    notes = [str(note.message) for note in caught]
    assert "\n".join(notes) == plan.provenance["warnings"]


@pytest.mark.parametrize("part", [PART, PART.tolist(), tuple(PART.tolist())])
def test_provenance_holds_no_array(part):
    found = plancc.compile(symmetric_matrix(), model="file", num_parts=4, part=part).provenance
    assert found["model_part"] == f"<{type(part).__name__}>"


def test_numpy_booleans_are_hashed_as_they_are_read(tmp_path):
    graph = replace(plancc.as_graph(symmetric_matrix()), directed=np.bool_(True))
    plan = plancc.compile(graph, model="rp", num_parts=2, self_loops=np.bool_(True))
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5")


@dataclass(frozen=True)
class WrongModel(Model):
    """Of a third party."""

    owner: object

    def build(self, matrix, num_parts, *, balance, seed):
        return Assignment(self.owner)


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (np.full(N, 10**6, np.int32), "part numbers 1000000..1000000 instead of 0..3"),
        (np.full(N, -1, np.int32), "part numbers -1..-1"),
        (np.zeros(N - 1, np.int32), f"instead of {N} part numbers"),
        (np.zeros(N), "float64"),
    ],
)
def test_a_model_that_assigns_wrongly(owner, words, monkeypatch):
    monkeypatch.setitem(REGISTRY._targets, "wrong", f"{__name__}:WrongModel")
    with pytest.raises(plancc.BackendError, match="model 'wrong' gave a wrong answer") as caught:
        plancc.compile(symmetric_matrix(), "wrong", 4, owner=owner)
    assert words in str(caught.value)


def test_provenance_of_rcm():
    found = plancc.compile(symmetric_matrix(), model="rcm", num_parts=3).provenance
    assert 1 <= found["bandwidth_after"] <= found["bandwidth_before"] == N - 1
    assert "partitioner" not in found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_parts": 0}, "0 parts: at least 1"),
        ({"balance": "edges"}, "unknown balance 'edges'; choose from nnz, rows, weights"),
        ({"balance": "nnz,train"}, "balance 'train' needs vertex data with a 'train_mask'"),
        ({"dims": [16]}, "dims [16]: two or more"),
        ({"value_dtype": "float16"}, "'float16' (did you mean float64?); choose from float32"),
        ({"partitioner": "metis"}, "'metis' cannot partition"),
        ({"preset": "fast"}, "preset"),
        ({"epsilon": -0.1}, "`epsilon` -0.1: must be"),
        ({"epsilon": float("nan")}, "`epsilon` nan: must be"),
        ({"epsilon": float("inf")}, "`epsilon` inf: must be"),
        ({"seed": 2**31}, "`seed` 2147483648: must be"),
        ({"time_limit": 0}, "`time_limit` 0: must be"),
        ({"balance": "weights"}, "needs vertex weights, but the graph has none"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(plancc.InputError) as caught:
        plancc.compile(symmetric_matrix(), **{"num_parts": 4, **options})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@turns(
    model=["rp", "block", "rcm"],
    options=[
        {"seed": -1},
        {"epsilon": -1},
        {"threads": 0},
        {"partitioner": "no"},
        {"balance": "no"},
    ],
)
def test_wrong_options_are_refused_by_models_that_do_not_use_them(model, options):
    with pytest.raises(plancc.InputError):
        plancc.compile(symmetric_matrix(), model=model, num_parts=2, **options)


def test_warnings():
    with pytest.warns(plancc.PlanccWarning, match="2 of 6 parts have no rows") as caught:
        plan = plancc.compile(symmetric_matrix(), model="file", num_parts=6, part=PART)
    first, second = plan.provenance["warnings"].split("\n")
    assert first == "2 of 6 parts have no rows"
    assert second.startswith(
        "this plan is predicted to train slower than an even random partition, by 5%"
    )
    assert [str(each.message) for each in caught] == [first, second]
    assert {each.filename for each in caught} == {__file__}  # point at the user's line
    star = np.eye(N)
    star[0] = 1
    with pytest.warns(plancc.PlanccWarning, match="heav|imbalance"):
        plancc.compile(sp.csr_array(star), model="hp", num_parts=8)


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plancc.compile(symmetric_matrix(), model="rp", num_parts=4)


@pytest.mark.parametrize("model", ["rp", "hp"])
def test_the_same_seed_gives_the_same_bytes(model, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    files = []
    for name in ("a.h5", "b.h5"):
        plan = plancc.compile(
            directed_matrix(), model=model, num_parts=4, seed=11, **options_of(model)
        )
        for measured in ("search_seconds", "tried"):  # the latter with seconds too
            plan.provenance.pop(measured, None)
        plan.save(tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


def test_the_same_plan_in_another_process(tmp_path):
    """Neither hash randomisation, which differs here, nor the number of threads decide."""
    scipy.io.mmwrite(tmp_path / "graph.mtx", directed_matrix())
    code = "import plancc, sys\nprint(plancc.compile(sys.argv[1], 'hp', 4).content_sha256())"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "graph.mtx"],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        **{"capture_output": True, "text": True, "timeout": 240},
        check=True,
    )
    here = plancc.compile(tmp_path / "graph.mtx", "hp", 4, threads=2)
    assert done.stdout.strip() == here.content_sha256()


@turns(model=MODELS, n_and_parts=[(1, 1), (3, 1), (3, 3)], self_loops=[True, False])
def test_trivial_graphs(model, n_and_parts, self_loops, tmp_path):
    """One vertex; no edges at all; as many parts as vertices."""
    n, num_parts = n_and_parts
    options = {"part": np.arange(n) % num_parts} if model == "file" else {}
    plan = plancc.compile(sp.csr_array((n, n)), model, num_parts, self_loops=self_loops, **options)
    assert plan.metrics().volume == 0
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5")


def test_the_observer_sees_every_stage():
    seen = []

    @contextmanager
    def observer(stage):
        seen.append(stage)
        yield
        seen.append("done")

    plancc.compile(symmetric_matrix(), model="rp", num_parts=2, observer=observer)
    stages = [
        "load",
        "normalize",
        "model rp",
        "partition",
        "number",
        "lower",
        "baseline",
        "predict",
    ]
    assert seen[::2] == stages
    assert set(seen[1::2]) == {"done"}
