"""The plan file: what is written is read again, and is what the format says."""

import fcntl
import os
import re
from dataclasses import fields, replace
from pathlib import Path

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing
import worlds

from plancc.plan.format import DATASETS, LINK_DATASETS, TYPE_PTR
from plancc.plan.metrics import Metrics
from plancc.plan.reader import load
from plancc.plan.values import STEPS
from plancc.plan.verify import verify_file

DTYPES = {
    name: each.dtypes[0]
    for name, each in DATASETS.items()
    if each.when in ("", "expand") and name != "vertex_data/targets"
}
"""Datasets of a row plan that has labels and everything else that is optional."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "plan-format.md"

WHOLE = ("rows/part_ptr", "rows/num_interior", "expand/send_ptr", "expand/recv_ptr")
"""Datasets that are not cut into the slices of parts."""


def test_the_page_of_the_format_has_its_datasets():
    """Names, types, sizes; hops are as the expand, and the sizes of the fold have names there."""
    page, found = PAGE.read_text(), {}
    row = r"^\| (`/(\w+)/\w+`[^|\n]*) \| ([^|\n]*) \| `([^|\n]*)` \|"
    for names, group, types, shape in re.findall(row, page, re.M):
        for name in re.findall(r"(\w+)`", names):
            found[f"{group}/{name}"] = {*re.findall(r"u?int\d+|float\d+|string", types)}, shape
    called = {"rows+1": "n+F+1", "fold volume": "F"}
    for name, each in DATASETS.items():
        types = {"string" if kind == "|S" else np.dtype(kind).name for kind in each.dtypes}
        dims = (called.get(size, size).removeprefix(f"{each.when} ") for size in each.shape)
        if each.when in ("", *STEPS) or name in LINK_DATASETS:
            assert found.pop(name) == (types, ", ".join(dims)), name
        elif name in (TYPE_PTR, "matrix/relation"):
            assert f"`/{name}`, {types.pop()}, of shape `{', '.join(dims)}`" in page
    assert not found


def datasets_of(path) -> dict[str, np.ndarray]:
    with h5py.File(path, "r") as file:
        return sealing.datasets(file)


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_round_trip_of_everything_optional(tmp_path, layout):
    plan, path = plan_helpers.rich_plan(layout), tmp_path / "plan.h5"
    again = plan_helpers.rich_plan(layout).save(tmp_path / "again.h5")
    for compress in (False, True):
        digest = plan.save(path, compress=compress)
        plan_helpers.assert_equal(load(path), plan)
        assert sealing.content_hash(path) == digest == again == plan.content_sha256()
        assert sorted(os.listdir(tmp_path)) == ["again.h5", "plan.h5"]
        verify_file(path)


@pytest.mark.parametrize("compress", [False, True])
def test_types_chunks_and_filters(tmp_path, compress):
    path = tmp_path / "plan.h5"
    plan_helpers.rich_plan().save(path, compress=compress)
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
    texts = {"format", "format_version", "layout", "normalization", "content_sha256"}
    numbers = {"num_vertices", "num_nonzeros", "num_parts", "directed", "self_loops"}
    assert {name: type(value) for name, value in attributes.items()} == (
        dict.fromkeys(texts, np.bytes_) | dict.fromkeys(numbers, np.int64)
    )
    assert attributes["format"] == b"plancc-plan"
    assert attributes["format_version"] == b"1.12"
    assert (attributes["directed"], attributes["self_loops"]) == (1, 0)


def test_metrics_and_provenance_attributes(tmp_path):
    plan = plan_helpers.rich_plan()
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
    plan = plan_helpers.rich_plan()
    for compress in (False, True):
        plan.save(tmp_path / "a.h5", compress=compress)
        plan.save(tmp_path / "b.h5", compress=compress)
        assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_content_hash_covers_content_only(tmp_path):
    plan = plan_helpers.rich_plan()
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


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_the_matrix_comes_back_with_h5py_alone(tmp_path, layout):
    """From the tables alone, as docs/reference/plan-format.md describes them, for every part."""
    worlds.plan("directed", layout, 5).save(tmp_path / "plan.h5")
    found, row = np.zeros((worlds.N, worlds.N)), 0
    table = datasets_of(tmp_path / "plan.h5")
    part_ptr, vertex, row_ptr = (
        table[name] for name in ("rows/part_ptr", "rows/global_id", "matrix/row_ptr")
    )

    def foreign(prefix, m):
        places = []
        for k in range(*table[f"{prefix}_ptr"][m : m + 2]):
            span = slice(*table[f"{prefix}_row_ptr"][k : k + 2])
            places += (part_ptr[table[f"{prefix}_peer"][k]] + table[f"{prefix}_row"][span]).tolist()
        return places

    for m in range(5):
        own = list(range(part_ptr[m], part_ptr[m + 1]))
        columns = vertex[own + foreign("expand/recv", m)]
        for i in own + (foreign("fold/send", m) if layout == "edge" else []):
            span = slice(*row_ptr[row : row + 2])
            np.add.at(
                found[vertex[i]], columns[table["matrix/column"][span]], table["matrix/value"][span]
            )
            row += 1
    assert row == len(row_ptr) - 1
    np.testing.assert_array_equal(found, worlds.array("directed"))


def test_a_file_is_read_without_locking_it(tmp_path):
    """Many ranks open it at once, on file systems whose locks may be stale."""
    path = tmp_path / "plan.h5"
    plan = plan_helpers.rich_plan()
    plan.save(path)
    with open(path, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        plan_helpers.assert_equal(load(path), plan)


def test_odd_names(tmp_path):
    """A path with spaces, a source name that is not UTF-8."""
    plan = replace(
        plan_helpers.rich_plan(), provenance={"source_name": os.fsdecode(b"gr\xffph.mtx")}
    )
    plan.save(tmp_path / "a plan")
    name = load(tmp_path / "a plan").provenance["source_name"]
    assert name.encode()  # can be printed
    assert name.startswith("gr")
    verify_file(tmp_path / "a plan")
