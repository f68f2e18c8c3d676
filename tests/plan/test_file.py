"""The plan file: what is written is read again, and is what the format says."""

from __future__ import annotations

import fcntl
import os
from dataclasses import fields, replace

import h5py
import naive
import numpy as np
import plan_helpers
import pytest
import scipy.sparse as sp
import sealing
from hypothesis import given

import plancc
from plancc.plan.metrics import Metrics
from plancc.plan.parts import Claims, PartFold
from plancc.plan.reader import load
from plancc.plan.values import Exchange, Fold
from plancc.plan.verify import verify_file

DTYPES = {
    "rows/part_ptr": "<i8",
    "rows/global_id": "<i4",
    "rows/num_interior": "<i8",
    "rows/original_id": "<i8",
    "matrix/row_ptr": "<i8",
    "matrix/column": "<i4",
    "matrix/value": "<f4",
    "expand/send_ptr": "<i8",
    "expand/send_peer": "<i4",
    "expand/send_row_ptr": "<i8",
    "expand/send_row": "<i4",
    "expand/recv_ptr": "<i8",
    "expand/recv_peer": "<i4",
    "expand/recv_row_ptr": "<i8",
    "expand/recv_row": "<i4",
    "vertex_data/features": "<f4",
    "vertex_data/labels": "<i4",
    "vertex_data/train_mask": "|u1",
    "vertex_data/val_mask": "|u1",
    "vertex_data/test_mask": "|u1",
    "vertex_data/clusters": "<i4",
}

WHOLE = ("rows/part_ptr", "rows/num_interior", "expand/send_ptr", "expand/recv_ptr")
"""Datasets that are not cut into the slices of parts."""


def datasets_of(path) -> dict[str, np.ndarray]:
    with h5py.File(path, "r") as file:
        return sealing.datasets(file)


def assert_equal(found, expected):
    """Two plans, or parts of plans: equal in every field, dtypes included."""
    assert type(found) is type(expected)
    for field in fields(expected):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(b, np.ndarray):
            assert a.dtype == b.dtype, field.name
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        elif isinstance(b, Claims | Exchange | Fold | PartFold | plancc.VertexData):
            assert_equal(a, b)
        else:
            assert a == b, field.name


def rich_plan(seed=0, n=40, num_parts=4, dtype=np.float32):
    """A plan with everything optional in it."""
    rng = np.random.default_rng(seed)
    graph = plan_helpers.graph_of(plan_helpers.random_array(rng, n, 0.1), dtype=dtype)
    owner = rng.integers(0, num_parts, n).astype(np.int32)
    plan = plan_helpers.lowered(graph, owner, num_parts)
    baseline = plan_helpers.lowered(graph, rng.permutation(owner), num_parts).metrics()
    return replace(
        plan,
        vertex_data=plan_helpers.data_of(n, seed).take(plan.global_id),
        original_id=rng.permutation(n).astype(np.int64) * 10**12,
        provenance={"seed": 3, "epsilon": 0.25, "command": "plancc compile é→", "warnings": ""},
        baseline=baseline,
    )


@plan_helpers.costly(2)
@given(case=plan_helpers.cases())
def test_round_trip(case, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    plan = plan_helpers.lowered(*case)
    digest = plan.save(path)
    assert_equal(load(path), plan)
    assert sealing.content_hash(path) == digest
    verify_file(path, case[0])


@pytest.mark.parametrize("compress", [False, True])
def test_round_trip_of_everything_optional(tmp_path, compress):
    plan = rich_plan()
    path = tmp_path / "plan.h5"
    digest = plan.save(path, compress=compress)
    assert_equal(load(path), plan)
    assert sealing.content_hash(path) == digest == rich_plan().save(tmp_path / "again.h5")
    assert sorted(os.listdir(tmp_path)) == ["again.h5", "plan.h5"]
    verify_file(path)


@pytest.mark.parametrize("compress", [False, True])
def test_types_chunks_and_filters(tmp_path, compress):
    path = tmp_path / "plan.h5"
    rich_plan().save(path, compress=compress)
    with h5py.File(path, "r") as file:
        names = []
        file.visit(
            lambda name: names.append(name) if isinstance(file[name], h5py.Dataset) else None
        )
        assert sorted(names) == sorted(
            [*DTYPES, *(f"digests/{name}" for name in (*DTYPES, "metrics", "provenance"))]
        )
        for name, dtype in DTYPES.items():
            dataset = file[name]
            assert dataset.dtype.str == dtype, name
            assert (dataset.chunks is not None) == compress
            assert dataset.shuffle == compress
            assert dataset.compression == ("gzip" if compress else None)
            assert file[f"digests/{name}"].dtype == np.uint8
            assert file[f"digests/{name}"].shape == (1 if name in WHOLE else 4, 32)
        attributes = dict(file.attrs)
    assert {name: type(value) for name, value in attributes.items()} == {
        "format": np.bytes_,
        "format_version": np.bytes_,
        "layout": np.bytes_,
        "num_vertices": np.int64,
        "num_nonzeros": np.int64,
        "num_parts": np.int64,
        "directed": np.int64,
        "normalization": np.bytes_,
        "self_loops": np.int64,
        "content_sha256": np.bytes_,
    }
    assert attributes["format"] == b"plancc-plan"
    assert attributes["format_version"] == b"1.7"
    assert (attributes["directed"], attributes["self_loops"]) == (1, 0)


def test_double_precision(tmp_path):
    plan = rich_plan(dtype=np.float64)
    plan.save(tmp_path / "plan.h5")
    with h5py.File(tmp_path / "plan.h5", "r") as file:
        assert file["matrix/value"].dtype.str == "<f8"
    assert_equal(load(tmp_path / "plan.h5"), plan)


def test_vertex_data_and_original_ids_stand_in_plan_order(tmp_path):
    plan, data = rich_plan(), plan_helpers.data_of(40)
    plan.save(tmp_path / "plan.h5")
    found = datasets_of(tmp_path / "plan.h5")
    order = found["rows/global_id"]
    np.testing.assert_array_equal(found["rows/original_id"], plan.original_id[order])
    np.testing.assert_array_equal(found["vertex_data/features"], data.features[order])
    np.testing.assert_array_equal(found["vertex_data/labels"], data.labels[order])
    for name in ("train_mask", "val_mask", "test_mask", "clusters"):
        np.testing.assert_array_equal(found[f"vertex_data/{name}"], getattr(data, name)[order])


def test_metrics_and_provenance_attributes(tmp_path):
    plan = rich_plan()
    plan.save(tmp_path / "plan.h5")
    with h5py.File(tmp_path / "plan.h5", "r") as file:
        provenance, metrics = dict(file["provenance"].attrs), dict(file["metrics"].attrs)
    texts = {k: v.decode() for k, v in provenance.items() if isinstance(v, bytes)}
    assert provenance | texts == plan.provenance
    own = {name: value for name, value in metrics.items() if not name.startswith("random_")}
    assert own == plan.metrics().as_dict()
    assert {n: v for n, v in metrics.items() if n not in own} == {
        f"random_{name}": value for name, value in plan.baseline.as_dict().items()
    }
    for name, value in metrics.items():
        assert isinstance(value, np.int64 | np.float64), name
    assert {f.name for f in fields(Metrics)} == set(own)


def test_two_saves_are_the_same_bytes(tmp_path):
    plan = rich_plan()
    for compress in (False, True):
        plan.save(tmp_path / "a.h5", compress=compress)
        plan.save(tmp_path / "b.h5", compress=compress)
        assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_content_hash_covers_content_only(tmp_path):
    plan = rich_plan()
    digest = plan.save(tmp_path / "plan.h5")
    other_words = replace(plan, provenance={"seed": 4}, baseline=None)
    assert other_words.save(tmp_path / "other.h5") == digest
    values = plan.value.copy()
    values[-1] = np.nextafter(values[-1], 9)
    labels = replace(plan.vertex_data, labels=plan.vertex_data.labels + 1)
    for changed in (
        replace(plan, value=values),
        replace(plan, original_id=None),
        replace(plan, vertex_data=labels),
        replace(plan, vertex_data=replace(plan.vertex_data, clusters=None)),
        replace(plan, header=replace(plan.header, directed=False)),
        replace(plan, header=replace(plan.header, normalization="row")),
    ):
        assert changed.save(tmp_path / "changed.h5") != digest
        assert sealing.content_hash(tmp_path / "changed.h5") != digest


def test_the_matrix_comes_back_with_h5py_alone(tmp_path):
    """docs/plan-format.md, "Reading a plan with h5py alone", for every part."""
    rng = np.random.default_rng(8)
    graph = plan_helpers.graph_of(plan_helpers.random_array(rng, 30, 0.15), dtype=np.float64)
    owner = rng.integers(0, 5, 30).astype(np.int32)
    plan_helpers.lowered(graph, owner, 5).save(tmp_path / "plan.h5")
    found = np.zeros((30, 30))
    with h5py.File(tmp_path / "plan.h5", "r") as file:
        part_ptr, global_id = file["rows/part_ptr"][:], file["rows/global_id"][:]
        row_ptr = file["matrix/row_ptr"][:]
        recv_ptr, recv_peer = file["expand/recv_ptr"][:], file["expand/recv_peer"][:]
        recv_row_ptr, recv_row = file["expand/recv_row_ptr"][:], file["expand/recv_row"][:]
        for m in range(5):
            own = global_id[part_ptr[m] : part_ptr[m + 1]]
            halo = [
                global_id[part_ptr[recv_peer[k]] + recv_row[recv_row_ptr[k] : recv_row_ptr[k + 1]]]
                for k in range(recv_ptr[m], recv_ptr[m + 1])
            ]
            columns = np.concatenate([own, *halo])
            ptr = row_ptr[part_ptr[m] : part_ptr[m + 1] + 1]
            span = slice(ptr[0], ptr[-1])
            local = sp.csr_array(
                (file["matrix/value"][span], file["matrix/column"][span], ptr - ptr[0]),
                shape=(len(own), len(columns)),
            )
            found[np.ix_(own, columns)] += local.toarray()
    np.testing.assert_array_equal(found, naive.dense_of(graph))


def test_a_file_is_read_without_locking_it(tmp_path):
    """Many ranks open it at once, on file systems whose locks may be stale."""
    path = tmp_path / "plan.h5"
    plan = rich_plan()
    plan.save(path)
    with open(path, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert_equal(load(path), plan)


def test_save_replaces_a_plan_and_follows_a_link(tmp_path):
    old, new = rich_plan(1), rich_plan(2)
    old.save(tmp_path / "plan.h5")
    (tmp_path / "latest.h5").symlink_to("plan.h5")
    new.save(tmp_path / "latest.h5")
    assert (tmp_path / "latest.h5").is_symlink()
    assert_equal(load(tmp_path / "plan.h5"), new)


def test_odd_names(tmp_path):
    """A path with spaces, a source name that is not UTF-8."""
    plan = replace(rich_plan(), provenance={"source_name": os.fsdecode(b"gr\xffph.mtx")})
    plan.save(tmp_path / "a plan")
    name = load(tmp_path / "a plan").provenance["source_name"]
    assert name.encode()  # can be printed
    assert name.startswith("gr")
    verify_file(tmp_path / "a plan")
