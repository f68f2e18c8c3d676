"""The verifier: one test for every invariant, which breaks exactly this one."""

from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing

from plancc.errors import PlanError
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify, verify_file
from plancc.report.plans import report
from plancc_runtime.slices import checked_slice
from plancc_runtime.transport.local import run_ranks

GOLDEN = Path(__file__).parents[1] / "golden"

# A small plan whose tables can be written out. Rows 0, 1 belong to part 0, rows 2, 3 to part 1,
# rows 4, 5 to part 2; row i uses itself, and
#   0: -    1: 2, 3    2: 4    3: 0, 1    4: -    5: 0
# Interior rows stand first: plan order is 0 1 | 2 3 | 4 5.
#
#   part 0 sends  rows 0, 1 to part 1, row 0 to part 2; receives rows 2, 3 from part 1
#   part 1 sends  rows 0, 1 (vertices 2, 3) to part 0;  receives 0, 1 from part 0, 4 from part 2
#   part 2 sends  row 0 (vertex 4) to part 1;           receives 0 from part 0
PATTERN = [(1, 2), (1, 3), (2, 4), (3, 0), (3, 1), (5, 0)] + [(i, i) for i in range(6)]


def small_graph(**changes):
    array = np.zeros((6, 6))
    for i, j in PATTERN:
        array[i, j] = 10 * i + j + 1
    for (i, j), value in changes.pop("entries", {}).items():
        array[i, j] = value
    return plan_helpers.graph_of(array, **changes)


def small_plan():
    plan = plan_helpers.lowered(small_graph(), np.array([0, 0, 1, 1, 2, 2], np.int32), 3)
    data = plan_helpers.data_of(6)
    return replace(plan, vertex_data=data, original_id=np.arange(6) + 100)


def test_the_small_plan_is_as_drawn():
    found = {name: array.tolist() for name, array in small_plan().arrays().items()}
    assert found["rows/part_ptr"] == [0, 2, 4, 6]
    assert found["rows/global_id"] == [0, 1, 2, 3, 4, 5]
    assert found["rows/num_interior"] == [1, 0, 1]
    assert found["matrix/row_ptr"] == [0, 1, 4, 6, 9, 10, 12]
    assert found["matrix/column"] == [0, 1, 2, 3, 0, 4, 1, 2, 3, 0, 1, 2]
    assert found["expand/send_ptr"] == [0, 2, 3, 4]
    assert found["expand/send_peer"] == [1, 2, 0, 1]
    assert found["expand/send_row_ptr"] == [0, 2, 3, 5, 6]
    assert found["expand/send_row"] == [0, 1, 0, 0, 1, 0]
    assert found["expand/recv_ptr"] == [0, 1, 3, 4]
    assert found["expand/recv_peer"] == [1, 0, 2, 0]
    assert found["expand/recv_row_ptr"] == [0, 2, 4, 5, 6]
    assert found["expand/recv_row"] == [0, 1, 0, 1, 0, 0]


NAN = float("nan")
PART_PTR, GLOBAL_ID = "rows/part_ptr rises", "rows/global_id is a permutation"
INTERIOR = "rows/num_interior is within"
ROW_PTR, VALUE = "matrix/row_ptr rises", "matrix/value is finite"
SEND, RECV = "expand/send tables are well formed", "expand/recv tables are well formed"
MIRROR, HELD = "sends and receives mirror each other", "column is held where it is used"
DISTINCT, USED = "columns of a row are distinct", "every received row is used"
FIRST = "interior rows come first"

# (invariant that the error names, dataset, {entry: new value})
BROKEN = [
    (PART_PTR, "rows/part_ptr", {0: 1}),
    (PART_PTR, "rows/part_ptr", {3: 5}),
    (PART_PTR, "rows/part_ptr", {1: 5}),
    (PART_PTR, "rows/part_ptr", {1: -1}),
    (PART_PTR, "rows/part_ptr", {1: 2**62, 2: -(2**63)}),  # whose differences overflow
    (GLOBAL_ID, "rows/global_id", {0: 1}),
    (GLOBAL_ID, "rows/global_id", {0: -1}),
    (GLOBAL_ID, "rows/global_id", {5: 6}),
    (GLOBAL_ID, "rows/global_id", {5: 2**31 - 1}),
    (INTERIOR, "rows/num_interior", {0: -1}),
    (INTERIOR, "rows/num_interior", {1: 3}),
    (ROW_PTR, "matrix/row_ptr", {0: -1}),
    (ROW_PTR, "matrix/row_ptr", {6: 13}),
    (ROW_PTR, "matrix/row_ptr", {2: 7}),
    (ROW_PTR, "matrix/row_ptr", {1: 2**62, 2: -(2**63), 3: -(2**62)}),
    (VALUE, "matrix/value", {3: NAN}),
    (VALUE, "matrix/value", {3: np.inf}),
    (SEND, "expand/send_ptr", {1: 5}),
    (SEND, "expand/send_ptr", {3: 3}),
    (SEND, "expand/send_peer", {0: 3}),
    (SEND, "expand/send_peer", {0: -1}),
    (SEND, "expand/send_peer", {0: 0}),  # itself
    (SEND, "expand/send_peer", {0: 2}),  # twice
    (SEND, "expand/send_peer", {0: 2, 1: 1}),  # descending
    (SEND, "expand/send_row_ptr", {1: 3}),  # the next message is empty
    (SEND, "expand/send_row_ptr", {1: 7}),
    (SEND, "expand/send_row", {2: 2}),  # part 0 has rows 0, 1
    (SEND, "expand/send_row", {2: -1}),
    (SEND, "expand/send_row", {0: 1, 1: 0}),
    (SEND, "expand/send_row", {1: 0}),
    (RECV, "expand/recv_ptr", {1: 2**40}),
    (RECV, "expand/recv_peer", {0: 3}),
    (RECV, "expand/recv_peer", {0: 0}),
    (RECV, "expand/recv_peer", {1: 2, 2: 0}),
    (RECV, "expand/recv_row_ptr", {1: 0}),
    (RECV, "expand/recv_row_ptr", {4: 5}),
    (RECV, "expand/recv_row", {4: 2}),
    (RECV, "expand/recv_row", {0: 1}),
    (MIRROR, "expand/send_row", {2: 1}),
    (MIRROR, "expand/recv_row", {4: 1}),
    (MIRROR, "expand/send_peer", {3: 0}),
    (MIRROR, "expand/recv_peer", {3: 1}),
    (HELD, "matrix/column", {0: -1}),
    (HELD, "matrix/column", {3: 4}),  # part 0 holds 2 + 2
    (HELD, "matrix/column", {11: 3}),  # part 2 holds 2 + 1
    (DISTINCT, "matrix/column", {3: 2}),
    (DISTINCT, "matrix/column", {1: 2, 2: 1}),  # received before own
    (USED, "matrix/column", {2: 0}),
    (FIRST, "rows/num_interior", {0: 2}),
    (FIRST, "rows/num_interior", {0: 0}),
    (FIRST, "rows/num_interior", {2: 2}),
    ("features are finite", "vertex_data/features", {(1, 2): NAN}),
    ("labels are classes or -1", "vertex_data/labels", {2: -2}),
    ("masks hold 0 and 1", "vertex_data/val_mask", {0: 2}),
    ("clusters are numbers from 0", "vertex_data/clusters", {5: -1}),
    ("clusters are numbers from 0", "vertex_data/clusters", {5: 1024}),
]
IDS = [f"{name} {edits}" for _, name, edits in BROKEN]


def broken_arrays(name, edits):
    arrays = {key: array.copy() for key, array in small_plan().arrays().items()}
    for entry, value in edits.items():
        arrays[name][entry] = value
    return arrays


def edit_file(path, edits, *, rehash=True):
    """Overwrite entries {dataset: {entry: value}} in place; by default digests and hash too."""
    with h5py.File(path, "r+") as file:
        for name, entries in edits.items():
            array = file[name][()]
            for entry, value in entries.items():
                array[entry] = value
            file[name][...] = array
    if rehash:
        sealing.seal(path)


@pytest.mark.parametrize(("invariant", "name", "edits"), BROKEN, ids=IDS)
def test_of_a_value(invariant, name, edits):
    plan = Plan.from_arrays(small_plan().header, broken_arrays(name, edits))
    with pytest.raises(PlanError, match=invariant):
        verify(plan)


@pytest.mark.parametrize(("invariant", "name", "edits"), BROKEN, ids=IDS)
def test_of_a_file(invariant, name, edits, tmp_path):
    """The same in a file whose checksums and content hash are right."""
    path = tmp_path / "plan.h5"
    small_plan().save(path)
    edit_file(path, {name: edits})
    with pytest.raises(PlanError, match=invariant) as caught:
        verify_file(path)
    assert str(caught.value).startswith(str(path))
    for read in (
        load,
        report,
        lambda at: report(at, dims=[3, 2], num_ranks=2),
        *(
            lambda at, ranks=ranks: run_ranks(ranks, partial(checked_slice, at))
            for ranks in (1, 2, 3)
        ),
    ):
        with pytest.raises(PlanError, match=re.escape(str(path)) + "|the plan is damaged"):
            read(path)
    for ranks in (1, 2, 3):
        for rank in range(ranks):
            with contextlib.suppress(PlanError):  # which is all that may be raised
                read_rank_slice(path, rank, ranks)


def test_a_valid_plan_passes(tmp_path):
    plan = small_plan()
    assert MIRROR in verify(plan)
    plan.save(tmp_path / "plan.h5")
    assert len(verify_file(tmp_path / "plan.h5", small_graph())) > len(verify(plan))


def test_a_missing_and_an_unwanted_message():
    plan = small_plan()
    send, receive = plan.send, plan.receive
    last = replace(  # part 2 does not send its row to part 1
        send,
        ptr=np.array([0, 2, 3, 3]),
        peer=send.peer[:3],
        row_ptr=send.row_ptr[:4],
        row=send.row[:5],
    )
    with pytest.raises(PlanError, match=r"part 2 sends 0 rows to 1, which expects 1"):
        verify(replace(plan, send=last))
    more = replace(  # part 2 expects row 1 of part 0 too
        receive, row_ptr=np.array([0, 2, 4, 5, 7]), row=np.append(receive.row, 1).astype(np.int32)
    )
    with pytest.raises(PlanError, match=r"part 0 sends 1 rows to 2, which expects 2"):
        verify(replace(plan, receive=more))
    extra = replace(  # and part 0 sends it: nobody uses it
        send,
        row_ptr=np.array([0, 2, 4, 6, 7]),
        row=np.array([0, 1, 0, 1, 0, 1, 0], np.int32),
    )
    with pytest.raises(PlanError, match=USED):
        verify(replace(plan, receive=more, send=extra))


def test_of_the_content_hash(tmp_path):
    path = tmp_path / "plan.h5"
    for edit in ({"matrix/value": {0: 5.0}}, {"vertex_data/labels": {0: 3}}):
        small_plan().save(path)
        edit_file(path, edit, rehash=False)
        with pytest.raises(PlanError, match="is damaged: the digest of part 0 does not match"):
            verify_file(path)
    small_plan().save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["directed"] = 0
    with pytest.raises(PlanError, match="content_sha256 is"):
        verify_file(path)
    with h5py.File(path, "r+") as file:
        del file.attrs["content_sha256"]
    with pytest.raises(PlanError, match="content_sha256 is missing"):
        verify_file(path)


def test_of_the_checksums(tmp_path):
    """Files before the digests had checksums in HDF5, which must be there."""
    path = tmp_path / "plan.h5"
    shutil.copy(GOLDEN / "plan-1.0.h5", path)
    with h5py.File(path, "r+") as file:
        data = file["rows/global_id"][()]
        del file["rows/global_id"]
        file.create_dataset("rows/global_id", data=data, chunks=True, compression="gzip")
    load(path)
    with pytest.raises(PlanError, match=r"/rows/global_id is stored without checksums"):
        verify_file(path)


@pytest.mark.parametrize("name", list(small_plan().metrics().as_dict()))
def test_of_the_stored_metrics(name, tmp_path):
    path = tmp_path / "plan.h5"
    small_plan().save(path)
    for wrong in (1e6, NAN):
        with h5py.File(path, "r+") as file:
            file["metrics"].attrs[name] = wrong
        with pytest.raises(PlanError, match="/metrics is damaged: the digest does not match"):
            verify_file(path)
        sealing.seal(path)
        with pytest.raises(PlanError, match=f"/metrics says {name} = "):
            verify_file(path)
    for wrong in ("many", [1, 2], h5py.Empty("f8")):
        with h5py.File(path, "r+") as file:
            text = isinstance(wrong, str)
            file["metrics"].attrs[name] = sealing.text(wrong) if text else wrong
        sealing.seal(path)
        with pytest.raises(PlanError, match="/metrics lacks a figure"):
            verify_file(path)
    with h5py.File(path, "r+") as file:
        del file["metrics"].attrs[name]
    sealing.seal(path)
    with pytest.raises(PlanError, match="/metrics lacks a figure"):
        verify_file(path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_against_the_graph(tmp_path, dtype):
    import plancc

    path = tmp_path / "plan.h5"
    rng = np.random.default_rng(6)
    graph = plan_helpers.graph_of(abs(plan_helpers.random_array(rng, 12, 0.3)), dtype=np.float64)
    plancc.compile(graph, model="rp", num_parts=4, normalize="row", value_dtype=dtype).save(path)
    assert "the union of the parts" in " ".join(verify_file(path, graph))
    array = np.zeros((12, 12))
    for i in range(12):
        for k in range(graph.indptr[i], graph.indptr[i + 1]):
            array[i, graph.indices[k]] = graph.values[k]
    i, j = np.argwhere((array != 0) & ~np.eye(12, dtype=bool))[3]
    missing, changed, moved = array.copy(), array.copy(), array.copy()
    missing[i, j] = 0
    changed[i, j] *= 1.001
    free = np.flatnonzero((array[i] == 0) & (np.arange(12) != i))[0]
    moved[i, free], moved[i, j] = moved[i, j], 0
    for other, words in (
        (missing, f"vertex {i} has"),
        (changed, rf"nonzero \({i}, "),
        (moved, rf"nonzero \({i}, "),
        (array[:11, :11], "11 vertices, the plan 12"),
    ):
        with pytest.raises(PlanError, match=words):
            verify_file(path, plan_helpers.graph_of(other, dtype=np.float64))
