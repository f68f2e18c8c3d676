"""Digests of a plan's slices: whoever reads a slice finds what was changed in it."""

from dataclasses import replace

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing
from cases import long

from plancc.errors import PlanError
from plancc.plan.format import DATASETS
from plancc.plan.reader import PlanFile, load
from plancc.plan.slices import read_rank_slice
from plancc.plan.values import STEPS

LAYOUTS = ("row", "edge")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The bytes of a row plan's and an edge plan's file."""
    path, found = tmp_path_factory.mktemp("files") / "plan.h5", {}
    for layout in LAYOUTS:
        plan_helpers.rich_plan(layout).save(path)
        found[layout] = path.read_bytes()
    return found


@pytest.fixture
def path(files, tmp_path):
    """The file of the edge plan, which has every table."""
    (tmp_path / "plan.h5").write_bytes(files["edge"])
    return tmp_path / "plan.h5"


def changed_entry(path, name, entry):
    """Change one entry, and leave digests and hash as they are."""
    with h5py.File(path, "r+") as file:
        array = file[name][()]
        flat = array.reshape(len(array), -1)
        flat[entry, 0] = 1 - flat[entry, 0] if flat.dtype == np.uint8 else flat[entry, 0] + 1
        file[name][...] = array


def readers_that_refuse(path, num_parts):
    refuse = set()
    for rank in range(num_parts):
        try:
            read_rank_slice(path, rank, num_parts)
        except PlanError as error:
            if str(error).startswith(f"{path}: "):
                refuse.add(rank)
    return refuse


def names_of_layouts():
    """All names of both plans; `long` where the edge plan, or another name, has the same way."""
    for name, node in DATASETS.items():
        if node.when in ("", *STEPS) and name != "vertex_data/targets":
            for layout in ("edge",) if node.when == "fold" else LAYOUTS:
                same = layout == "row" or name.endswith(("_mask", "clusters"))
                same |= name.startswith(("expand/send", "fold/recv"))
                yield pytest.param(layout, name, marks=long if same else ())


@pytest.mark.parametrize(("layout", "name"), list(names_of_layouts()))
def test_a_changed_entry_is_found_by_the_rank_that_reads_it(layout, name, files, tmp_path):
    path = tmp_path / "plan.h5"
    path.write_bytes(files[layout])
    with h5py.File(path, "r") as file:
        arrays = sealing.datasets(file)
    expected = sealing.leaves_of(arrays)[name]
    entry = len(arrays[name]) - 1
    changed_entry(path, name, entry)
    with h5py.File(path, "r") as file:
        found = file[name][()]
    now = sealing.leaves_of(arrays | {name: found})[name]
    for read in (load, lambda at: PlanFile(at).check_content()):
        with pytest.raises(PlanError, match=f"/{name} "):
            read(path)
    refuse = readers_that_refuse(path, 4)
    if name == "rows/original_id":  # which ranks read where they write predictions
        assert refuse == set()
    elif DATASETS[name].cut:
        assert refuse == set(np.flatnonzero((now != expected).any(axis=1)).tolist())
    else:
        assert refuse == set(range(4))


def test_a_changed_digest_or_header_is_found_by_everybody(path):
    plan = load(path)
    content = path.read_bytes()
    for change in ("digest", "hash", "directed"):
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            if change == "digest":
                file["digests/matrix/value"][0, 5] ^= 1
            elif change == "hash":
                file.attrs["content_sha256"] = sealing.text("0" * 64)
            else:
                file.attrs["directed"] = 1 - plan.header.directed
        for rank in range(2):
            with pytest.raises(PlanError, match="content_sha256 is"):
                read_rank_slice(path, rank, 2)


def other_digest(file):
    del file["digests/matrix/value"]
    file["digests/matrix/value"] = np.zeros((1, 32), np.uint8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.__delitem__("digests/matrix/value"), "/digests/matrix/value is missing"),
        (
            lambda f: f.__delitem__("rows/original_id"),
            "/rows/original_id is missing, but its digest is there",
        ),
        (
            lambda f: f.create_dataset("digests/matrix/other", data=np.zeros((1, 32), np.uint8)),
            "unknown node /digests/matrix/other",
        ),
        (other_digest, "/digests/matrix/value is of size 1 x 32"),
    ],
)
def test_digests_of_no_dataset_and_datasets_without_digests(path, change, words):
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(PlanError, match=words):
        load(path)


def test_no_byte_touches_the_global_heap(path):
    """A text that is too long for a header of HDF5 included."""
    plan = replace(load(path), provenance={"tried": "long é " * 20_000, "warnings": ""})
    plan.save(path)
    assert b"GCOL" not in path.read_bytes()
    assert load(path).provenance == plan.provenance


@pytest.mark.parametrize("group", ["/", "provenance", "metrics"])
def test_text_of_variable_length_is_refused_and_not_read(path, group):
    with h5py.File(path, "r+") as file:
        file[group].attrs["command"] = "words"
    with pytest.raises(PlanError, match=r"'command' of /.* is neither a number nor a text of"):
        PlanFile(path).check_attributes()
