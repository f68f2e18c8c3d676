"""Edge plans that are damaged: one test for every invariant, and files that are refused."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing
import test_verify
from test_edge_plans import rich_edge_plan

from plancc.errors import PlanError
from plancc.plan.format import NODES
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify, verify_file
from plancc.report.plans import report

# Rows 0, 1, 6 belong to part 0, rows 2, 3 to part 1, rows 4, 5 to part 2. Row i uses itself, and
#   0: 6    1: 2, 3    2: 4    3: 0, 1    4: -    5: 0    6: -
# Nonzeros are with the owner of the row, but (1, 2) and (1, 3) with part 1, (3, 0) with part 2 and
# (3, 1) with part 0. Interior rows stand first, folded rows last:
#
#   part 0: rows 0 1 6 | 3    columns 0 1 6        receives nothing, sends 3 to part 1
#   part 1: rows 3 2   | 1    columns 3 2   | 4    receives 4 from part 2, sends 1 to part 0
#   part 2: rows 4 5   | 3    columns 4 5   | 0    receives 0 from part 0, sends 3 to part 1
OWNER = [0, 0, 1, 1, 2, 2, 0]
PATTERN = [(0, 6), (1, 2), (1, 3), (2, 4), (3, 0), (3, 1), (5, 0)] + [(i, i) for i in range(7)]
ELSEWHERE = {(1, 2): 1, (1, 3): 1, (3, 0): 2, (3, 1): 0}


def small_graph(**changed):
    array = np.zeros((7, 7))
    for i, j in PATTERN:
        array[i, j] = 10 * i + j + 1
    for (i, j), value in changed.pop("entries", {}).items():
        array[i, j] = value
    return plan_helpers.graph_of(array)


def small_plan(elsewhere=ELSEWHERE):
    graph = small_graph()
    of_pair = [elsewhere.get((i, j), OWNER[i]) for i, j in sorted(PATTERN)]
    owner, nonzero_owner = np.array(OWNER, np.int32), np.array(of_pair, np.int32)
    return plan_helpers.edges_lowered(graph, owner, nonzero_owner, 3)


def test_the_small_plan_is_as_drawn():
    found = {name: array.tolist() for name, array in small_plan().arrays().items()}
    columns = found.pop("matrix/column")
    del found["matrix/value"]
    assert sorted(columns[8:10]) == [0, 1]  # whose order is free
    columns[8:10] = [0, 1]
    assert columns == [0, 2, 1, 2, 1, 0, 1, 2, 0, 1, 0, 1, 2, 2]
    assert found == {
        "rows/part_ptr": [0, 3, 5, 7],
        "rows/global_id": [0, 1, 6, 3, 2, 4, 5],
        "rows/num_interior": [3, 1, 1],
        "matrix/row_ptr": [0, 2, 3, 4, 5, 6, 8, 10, 11, 13, 14],
        "expand/send_ptr": [0, 1, 1, 2],
        "expand/send_peer": [2, 1],
        "expand/send_row_ptr": [0, 1, 2],
        "expand/send_row": [0, 0],
        "expand/recv_ptr": [0, 0, 1, 2],
        "expand/recv_peer": [2, 0],
        "expand/recv_row_ptr": [0, 1, 2],
        "expand/recv_row": [0, 0],
        "fold/send_ptr": [0, 1, 2, 3],
        "fold/send_peer": [1, 0, 1],
        "fold/send_row_ptr": [0, 1, 2, 3],
        "fold/send_row": [0, 1, 0],
        "fold/recv_ptr": [0, 1, 3, 3],
        "fold/recv_peer": [1, 0, 2],
        "fold/recv_row_ptr": [0, 1, 2, 3],
        "fold/recv_row": [1, 0, 0],
    }


ROW_PTR, HELD = "matrix/row_ptr rises", "column is held where it is used"
SEND, RECV = "fold/send tables are well formed", "fold/recv tables are well formed"
MIRROR = "sends and receives of the fold mirror each other"
DISTINCT, ONCE = "columns of a row are distinct", "every nonzero is there once"
FOLDED, USED = "every folded row has a nonzero", "every received row is used"
FIRST = "interior rows come first"

# (invariant that the error names, dataset, {entry: new value})
BROKEN = [
    (ROW_PTR, "matrix/row_ptr", {10: 13}),
    (ROW_PTR, "matrix/row_ptr", {8: 5}),
    (SEND, "fold/send_ptr", {1: 4}),
    (SEND, "fold/send_ptr", {3: 2}),
    (SEND, "fold/send_peer", {0: 3}),
    (SEND, "fold/send_peer", {0: -1}),
    (SEND, "fold/send_peer", {0: 0}),  # itself: a part folds a row of its own
    (SEND, "fold/send_row_ptr", {1: 2}),  # the next message is empty
    (SEND, "fold/send_row_ptr", {3: 4}),
    (SEND, "fold/send_row", {0: 2}),  # part 1, the owner, has rows 0, 1
    (SEND, "fold/send_row", {0: -1}),
    (RECV, "fold/recv_ptr", {1: 2**40}),
    (RECV, "fold/recv_peer", {0: 0}),
    (RECV, "fold/recv_peer", {1: 2, 2: 0}),  # descending
    (RECV, "fold/recv_peer", {1: 2}),  # twice
    (RECV, "fold/recv_row_ptr", {2: 1}),
    (RECV, "fold/recv_row", {0: 3}),  # part 0 has rows 0, 1, 2
    (RECV, "fold/recv_row", {1: 2}),
    (MIRROR, "fold/send_row", {0: 1}),
    (MIRROR, "fold/recv_row", {0: 2}),
    (MIRROR, "fold/send_peer", {2: 0}),
    (MIRROR, "fold/recv_peer", {0: 2}),
    (HELD, "matrix/column", {4: 3}),  # part 0 holds 3 columns
    (HELD, "matrix/column", {13: 3}),  # part 2 holds 2 + 1
    (HELD, "matrix/column", {9: -1}),
    (DISTINCT, "matrix/column", {8: 0, 9: 0}),  # in a folded row
    (DISTINCT, "matrix/column", {11: 2, 12: 1}),  # received before own
    (ONCE, "matrix/column", {4: 0}),  # (3, 0), which part 2 has
    (FOLDED, "matrix/row_ptr", {3: 5}),
    (USED, "matrix/column", {12: 0, 13: 0}),
    (FIRST, "rows/num_interior", {0: 2}),
    (FIRST, "rows/num_interior", {1: 2}),
    (FIRST, "rows/num_interior", {2: 0}),
]
IDS = [f"{name} {edits}" for _, name, edits in BROKEN]


@pytest.mark.parametrize(("invariant", "name", "edits"), BROKEN, ids=IDS)
def test_of_a_value(invariant, name, edits):
    plan = small_plan()
    arrays = {key: array.copy() for key, array in plan.arrays().items()}
    for entry, value in edits.items():
        arrays[name][entry] = value
    with pytest.raises(PlanError, match=invariant):
        verify(Plan.from_arrays(plan.header, arrays))


@pytest.mark.parametrize(("invariant", "name", "edits"), BROKEN, ids=IDS)
def test_of_a_file(invariant, name, edits, tmp_path):
    """The same in a file whose checksums and content hash are right."""
    path = tmp_path / "plan.h5"
    small_plan().save(path)
    test_verify.edit_file(path, {name: edits})
    with pytest.raises(PlanError, match=invariant) as caught:
        verify_file(path)
    assert str(caught.value).startswith(str(path))
    for read in (
        load,
        report,
        *(
            lambda at, rank=rank, ranks=ranks: read_rank_slice(at, rank, ranks)
            for ranks in (1, 2, 3)
            for rank in range(ranks)
        ),
    ):
        with contextlib.suppress(PlanError):  # which is all that may be raised
            read(path)


def test_a_diagonal_elsewhere():
    plan = small_plan(ELSEWHERE | {(2, 2): 0})
    words = "diagonal are with the owner of their row: part 0 has that of vertex 2"
    with pytest.raises(PlanError, match=words):
        verify(plan)


def test_layout_and_fold():
    plan = small_plan()
    for header, fold in ((plan.header, None), (replace(plan.header, layout="row"), plan.fold)):
        with pytest.raises(PlanError, match="layout edge has a fold, layout row has none"):
            verify(replace(plan, header=header, fold=fold))


def test_local_rows():
    plan = small_plan()
    with pytest.raises(PlanError, match="matrix/row_ptr has every local row: it has 11"):
        verify(replace(plan, row_ptr=np.append(plan.row_ptr, 14)))


def test_against_the_graph(tmp_path):
    path = tmp_path / "plan.h5"
    small_plan().save(path)
    assert "the union of the parts" in " ".join(verify_file(path, small_graph()))
    for entries, words in (
        ({(3, 0): 0}, "vertex 3 has 3 nonzeros"),
        ({(3, 1): 7}, r"nonzero \(3, 1\)"),
        ({(3, 1): 0, (3, 2): 32}, r"nonzero \(3, 1\)"),
    ):
        with pytest.raises(PlanError, match=words):
            verify_file(path, small_graph(entries=entries))


@pytest.mark.parametrize("name", ["volume", "fold_volume", "fold_messages", "replication_factor"])
def test_of_the_stored_metrics(name, tmp_path):
    path = tmp_path / "plan.h5"
    small_plan().save(path)
    with h5py.File(path, "r+") as file:
        file["metrics"].attrs[name] += 1
    with pytest.raises(PlanError, match="/metrics is damaged: the digest does not match"):
        verify_file(path)
    sealing.seal(path)
    with pytest.raises(PlanError, match=f"/metrics says {name} = "):
        verify_file(path)
    with h5py.File(path, "r+") as file:
        del file["metrics"].attrs[name]
    sealing.seal(path)
    with pytest.raises(PlanError, match="/metrics lacks a figure"):
        verify_file(path)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "plan.h5"
    rich_edge_plan().save(path)
    return path


def refused(path, words):
    readers = (load, verify_file, report, lambda at: read_rank_slice(at, 1, 3))
    for read in readers:
        with pytest.raises(PlanError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert words in str(caught.value)


FOLD = [name for name in NODES if name.startswith("fold/")]


@pytest.mark.parametrize("name", FOLD)
def test_missing_node_and_links(path, name):
    with h5py.File(path, "r+") as file:
        array = file[name][()]
        del file[name]
    with pytest.raises(PlanError, match=f"/{name} is missing"):
        load(path)
    with h5py.File(path, "r+") as file:
        file[name] = h5py.ExternalLink("real.h5", f"/{name}")
    with pytest.raises(PlanError, match=f"/{name} is a soft or external link"):
        load(path)
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = array.astype(">i8")
    with pytest.raises(PlanError, match=f"/{name} has type"):
        load(path)


def test_no_fold(path):
    with h5py.File(path, "r+") as file:
        del file["fold"]
    refused(path, "/fold/recv_peer is missing")


def test_a_fold_in_a_row_plan(tmp_path):
    path = tmp_path / "plan.h5"
    test_verify.small_plan().save(path)
    shutil.copy(test_verify.GOLDEN / "plan-1.2.h5", tmp_path / "old.h5")
    for at in (path, tmp_path / "old.h5"):
        with h5py.File(at, "r+") as file:
            file.require_group("fold")
        refused(at, "/fold in a plan of layout 'row'")


def test_an_edge_plan_of_an_older_version(path):
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = sealing.text("1.2")
    refused(path, "layout 'edge' in a plan of version 1.2, which came with 1.3")


@pytest.mark.parametrize(("name", "most"), [("recv_peer", 6 * 5), ("recv_row", 5 * 40)])
def test_more_than_parts_can_exchange(path, name, most):
    """Refused by the size alone: nothing of it is stored."""
    with h5py.File(path, "r+") as file:
        del file[f"fold/{name}"]
        file.create_dataset(f"fold/{name}", (most + 1,), "<i4", chunks=(4,))
    refused(path, "/fold lists")


def test_row_ptr_of_own_rows_only(path):
    with h5py.File(path, "r+") as file:
        row_ptr = file["matrix/row_ptr"][: 40 + 1]
        del file["matrix/row_ptr"]
        file["matrix/row_ptr"] = row_ptr
    refused(path, "/matrix/row_ptr is of size 41; the header asks for ")
