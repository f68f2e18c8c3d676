"""The verifier: one damage for every invariant, which breaks exactly this one, by every reader."""

import contextlib
import re
from dataclasses import replace
from functools import partial

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing
import worlds
from cases import long

import plancc
from plancc.errors import PlanError
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower
from plancc.plan.plan import Plan
from plancc.plan.reader import load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify, verify_file
from plancc.report.plans import report
from plancc_runtime.slices import open_plan
from plancc_runtime.transport.local import run_ranks

# Two small plans whose tables can be written out; in both, row i uses itself.
#
# The row plan. Rows 0, 1 belong to part 0, rows 2, 3 to part 1, rows 4, 5 to part 2, and
#   0: -    1: 2, 3    2: 4    3: 0, 1    4: -    5: 0
# Interior rows stand first: plan order is 0 1 | 2 3 | 4 5.
#
#   part 0 sends  rows 0, 1 to part 1, row 0 to part 2; receives rows 2, 3 from part 1
#   part 1 sends  rows 0, 1 (vertices 2, 3) to part 0;  receives 0, 1 from part 0, 4 from part 2
#   part 2 sends  row 0 (vertex 4) to part 1;           receives 0 from part 0
#
# The edge plan. Rows 0, 1, 6 belong to part 0, rows 2, 3 to part 1, rows 4, 5 to part 2, and
#   0: 6    1: 2, 3    2: 4    3: 0, 1    4: -    5: 0    6: -
# Nonzeros are with the owner of the row, but (1, 2) and (1, 3) with part 1, (3, 0) with part 2 and
# (3, 1) with part 0. Interior rows stand first, folded rows last:
#
#   part 0: rows 0 1 6 | 3    columns 0 1 6        receives nothing, sends 3 to part 1
#   part 1: rows 3 2   | 1    columns 3 2   | 4    receives 4 from part 2, sends 1 to part 0
#   part 2: rows 4 5   | 3    columns 4 5   | 0    receives 0 from part 0, sends 3 to part 1
OWNER = {"row": [0, 0, 1, 1, 2, 2], "edge": [0, 0, 1, 1, 2, 2, 0]}
PATTERN = {"row": [(1, 2), (1, 3), (2, 4), (3, 0), (3, 1), (5, 0)]}
PATTERN["edge"] = [(0, 6), *PATTERN["row"]]
ELSEWHERE = {(1, 2): 1, (1, 3): 1, (3, 0): 2, (3, 1): 0}


def small_graph(layout, entries=()):
    """The matrix of a small plan, with other values of some entries."""
    array = np.diag(11.0 * np.arange(len(OWNER[layout])) + 1)
    for i, j in PATTERN[layout]:
        array[i, j] = 10 * i + j + 1
    for (i, j), value in dict(entries).items():
        array[i, j] = value
    return plan_helpers.graph_of(array)


def small_plan(layout="row", elsewhere=ELSEWHERE):
    graph, owner = small_graph(layout), np.array(OWNER[layout], np.int32)
    if layout == "row":
        plan = plan_helpers.lowered(graph, owner, 3)
        data = plan_helpers.data_of(6)
        return replace(plan, vertex_data=data, original_id=np.arange(6) + 100)
    row = np.repeat(np.arange(7), graph.row_nonzeros())
    nonzeros = zip(row.tolist(), graph.indices.tolist(), strict=True)
    held = np.array([elsewhere.get((i, j), owner[i]) for i, j in nonzeros], np.int32)
    return lower(graph, Owners(owner, held), 3, normalization="none", self_loops=False)


TABLES = {
    "row": {
        "rows/part_ptr": [0, 2, 4, 6],
        "rows/global_id": [0, 1, 2, 3, 4, 5],
        "rows/num_interior": [1, 0, 1],
        "matrix/row_ptr": [0, 1, 4, 6, 9, 10, 12],
        "matrix/column": [0, 1, 2, 3, 0, 4, 1, 2, 3, 0, 1, 2],
        "expand/send_ptr": [0, 2, 3, 4],
        "expand/send_peer": [1, 2, 0, 1],
        "expand/send_row_ptr": [0, 2, 3, 5, 6],
        "expand/send_row": [0, 1, 0, 0, 1, 0],
        "expand/recv_ptr": [0, 1, 3, 4],
        "expand/recv_peer": [1, 0, 2, 0],
        "expand/recv_row_ptr": [0, 2, 4, 5, 6],
        "expand/recv_row": [0, 1, 0, 1, 0, 0],
    },
    "edge": {
        "rows/part_ptr": [0, 3, 5, 7],
        "rows/global_id": [0, 1, 6, 3, 2, 4, 5],
        "rows/num_interior": [3, 1, 1],
        "matrix/row_ptr": [0, 2, 3, 4, 5, 6, 8, 10, 11, 13, 14],
        "matrix/column": [0, 2, 1, 2, 1, 0, 1, 2, 0, 1, 0, 1, 2, 2],
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
    },
}


@pytest.mark.parametrize("layout", TABLES)
def test_the_small_plans_are_as_drawn(layout):
    found = {name: array.tolist() for name, array in small_plan(layout).arrays().items()}
    if layout == "edge":  # the order of the two columns of a folded row is free
        found["matrix/column"][8:10] = sorted(found["matrix/column"][8:10])
    tables = ("rows/", "matrix/", "expand/", "fold/")
    others = {"rows/original_id", "matrix/value"}
    assert {n: a for n, a in found.items() if n.startswith(tables) and n not in others} == (
        TABLES[layout]
    )


NAN = float("nan")
PART_PTR, GLOBAL_ID = "rows/part_ptr rises", "rows/global_id is a permutation"
INTERIOR = "rows/num_interior is within"
ROW_PTR, VALUE = "matrix/row_ptr rises", "matrix/value is finite"
SEND, RECV = "expand/send tables are well formed", "expand/recv tables are well formed"
MIRROR, HELD = "sends and receives mirror each other", "parts have the columns that their"
DISTINCT, USED = "columns of a row are distinct", "every received row is used"
FIRST = "interior rows come first"
FOLD_SEND, FOLD_RECV = "fold/send tables are well formed", "fold/recv tables are well formed"
FOLD_MIRROR = "sends and receives of the fold mirror each other"
DIAGONAL = "owners of rows have the nonzeros of the diagonal"
ONCE, FOLDED = "every nonzero is in one part", "every folded row has a nonzero"

# layout: (invariant that the error names, dataset, {entry: new value})
BROKEN = {
    "row": [
        (PART_PTR, "rows/part_ptr", {0: 1}),
        (PART_PTR, "rows/part_ptr", {3: 5}),
        (PART_PTR, "rows/part_ptr", {1: -1}),
        (PART_PTR, "rows/part_ptr", {1: 2**62, 2: -(2**63)}),  # whose differences overflow
        (GLOBAL_ID, "rows/global_id", {0: 1}),
        (GLOBAL_ID, "rows/global_id", {0: -1}),
        (GLOBAL_ID, "rows/global_id", {5: 6}),
        (INTERIOR, "rows/num_interior", {0: -1}),
        (INTERIOR, "rows/num_interior", {1: 3}),
        (ROW_PTR, "matrix/row_ptr", {0: -1}),
        (ROW_PTR, "matrix/row_ptr", {6: 13}),
        (ROW_PTR, "matrix/row_ptr", {1: 2**62, 2: -(2**63), 3: -(2**62)}),
        (VALUE, "matrix/value", {3: NAN}),
        (SEND, "expand/send_ptr", {1: 5}),
        (SEND, "expand/send_peer", {0: 3}),
        (SEND, "expand/send_peer", {0: 0}),  # itself
        (SEND, "expand/send_peer", {0: 2}),  # twice
        (SEND, "expand/send_peer", {0: 2, 1: 1}),  # descending
        (SEND, "expand/send_row_ptr", {1: 3}),  # the next message is empty
        (SEND, "expand/send_row", {2: 2}),  # part 0 has rows 0, 1
        (SEND, "expand/send_row", {0: 1, 1: 0}),
        (RECV, "expand/recv_ptr", {1: 2**40}),
        (RECV, "expand/recv_peer", {1: 2, 2: 0}),
        (RECV, "expand/recv_row_ptr", {1: 0}),
        (RECV, "expand/recv_row", {4: 2}),
        (RECV, "expand/recv_row", {0: 1}),
        (MIRROR, "expand/send_row", {2: 1}),
        (MIRROR, "expand/send_peer", {3: 0}),
        (MIRROR, "expand/recv_peer", {3: 1}),
        (HELD, "matrix/column", {0: -1}),
        (HELD, "matrix/column", {3: 4}),  # part 0 holds 2 + 2
        (DISTINCT, "matrix/column", {3: 2}),
        (DISTINCT, "matrix/column", {1: 2, 2: 1}),  # received before own
        (USED, "matrix/column", {2: 0}),
        (FIRST, "rows/num_interior", {0: 2}),
        (FIRST, "rows/num_interior", {0: 0}),
        ("features are finite", "vertex_data/features", {(1, 2): NAN}),
        ("labels are classes or -1", "vertex_data/labels", {2: -2}),
        ("masks hold 0 and 1", "vertex_data/val_mask", {0: 2}),
        ("clusters are numbers from 0", "vertex_data/clusters", {5: 1024}),
    ],
    "edge": [
        (ROW_PTR, "matrix/row_ptr", {10: 13}),
        (FOLD_SEND, "fold/send_ptr", {1: 4}),
        (FOLD_SEND, "fold/send_peer", {0: 0}),  # itself: a part folds a row of its own
        (FOLD_SEND, "fold/send_row_ptr", {1: 2}),  # the next message is empty
        (FOLD_SEND, "fold/send_row", {0: 2}),  # part 1, the owner, has rows 0, 1
        (FOLD_RECV, "fold/recv_ptr", {1: 2**40}),
        (FOLD_RECV, "fold/recv_peer", {1: 2, 2: 0}),  # descending
        (FOLD_RECV, "fold/recv_row_ptr", {2: 1}),
        (FOLD_RECV, "fold/recv_row", {0: 3}),  # part 0 has rows 0, 1, 2
        (FOLD_MIRROR, "fold/send_row", {0: 1}),
        (FOLD_MIRROR, "fold/recv_row", {0: 2}),
        (DIAGONAL, "fold/send_peer", {2: 0}),  # part 2 has (0, 0) for part 0
        (FOLD_MIRROR, "fold/recv_peer", {0: 2}),
        (HELD, "matrix/column", {4: 3}),  # part 0 holds 3 columns
        (DISTINCT, "matrix/column", {8: 0, 9: 0}),  # in a folded row
        (DISTINCT, "matrix/column", {11: 2, 12: 1}),  # received before own
        (ONCE, "matrix/column", {4: 0}),  # (3, 0), which part 2 has
        (FOLDED, "matrix/row_ptr", {3: 5}),
        (FIRST, "matrix/column", {12: 0, 13: 0}),  # nor is the received row used
        (FIRST, "rows/num_interior", {0: 2}),
        (FIRST, "rows/num_interior", {2: 0}),
    ],
}
DAMAGES = [(layout, *damage) for layout in BROKEN for damage in BROKEN[layout]]
IDS = [f"{layout} {name} {edits}" for layout, _, name, edits in DAMAGES]


@pytest.fixture(scope="module")
def plans():
    """The small plans."""
    return {layout: small_plan(layout) for layout in BROKEN}


@pytest.fixture(scope="module")
def files(plans, tmp_path_factory):
    """The bytes of their files."""
    path = tmp_path_factory.mktemp("small") / "plan.h5"
    found = {}
    for layout, plan in plans.items():
        plan.save(path)
        found[layout] = path.read_bytes()
    return found


@pytest.fixture
def path(tmp_path, files):
    """The file of the small row plan."""
    path = tmp_path / "plan.h5"
    path.write_bytes(files["row"])
    return path


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


@pytest.mark.parametrize(("layout", "invariant", "name", "edits"), DAMAGES, ids=IDS)
def test_of_a_value(layout, invariant, name, edits, plans):
    """By the kernels that readers of files use."""
    arrays = {key: array.copy() for key, array in plans[layout].arrays().items()}
    for entry, value in edits.items():
        arrays[name][entry] = value
    damaged = Plan.from_arrays(plans[layout].header, arrays)
    with pytest.raises(PlanError, match=invariant):
        verify(damaged)


def all_slices(path, ranks):
    run_ranks(ranks, lambda transport: open_plan(path, transport).read(transport))


READERS = [verify_file, load, report, partial(report, dims=[3, 4], num_ranks=2)]
READERS += [partial(all_slices, ranks=ranks) for ranks in (1, 2, 3)]


@pytest.mark.parametrize(
    ("k", "every"),
    [
        *((k, False) for k in range(0, len(DAMAGES), 6)),
        *(pytest.param(k, True, marks=long) for k in range(len(DAMAGES))),
    ],
)
def test_of_a_file(k, every, files, tmp_path):
    """The same in a file whose checksums and content hash are right: no reader takes it.

    But a nonzero that two parts have is seen only where all nonzeros are.
    """
    layout, invariant, name, edits = DAMAGES[k]
    path = tmp_path / "plan.h5"
    path.write_bytes(files[layout])
    edit_file(path, {name: edits})
    readers = READERS[:2] if invariant == ONCE else READERS
    for read in readers if every else [readers[k % len(readers)]]:
        with pytest.raises(PlanError, match=re.escape(str(path)) + "|the plan is damaged") as told:
            read(path)
        assert read is not verify_file or invariant in str(told.value)
    for ranks in (1, 2, 3) if every else ():
        for rank in range(ranks):
            with contextlib.suppress(PlanError):  # which is all that may be raised
                read_rank_slice(path, rank, ranks)


@pytest.mark.parametrize("layout", BROKEN)
def test_a_valid_plan_passes(layout, plans, tmp_path):
    plan, path = plans[layout], tmp_path / "plan.h5"
    assert {MIRROR, *([FOLD_MIRROR] if layout == "edge" else ())} <= set(verify(plan))
    plan.save(path)
    done = verify_file(path, small_graph(layout))
    assert len(done) > len(verify(plan))
    assert "the union of the parts" in " ".join(done)
    for read in READERS:
        read(path)


@pytest.mark.parametrize(
    ("layout", "entries", "words"),
    [
        ("edge", {(3, 0): 0}, "vertex 3 has 3 nonzeros"),
        ("edge", {(3, 1): 7}, r"nonzero \(3, 1\)"),
        ("edge", {(3, 1): 0, (3, 2): 32}, r"nonzero \(3, 1\)"),
        ("row", {(3, 0): 0}, "vertex 3 has 3 nonzeros"),
    ],
)
def test_against_another_graph(layout, entries, words, plans):
    with pytest.raises(PlanError, match=words):
        verify(plans[layout], small_graph(layout, entries))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_against_the_graph_that_was_compiled(tmp_path, dtype):
    """Which is normalised first, in the precision of the plan."""
    path = tmp_path / "plan.h5"
    array = abs(worlds.array("hubs")[:12, :12]) / 3
    graph = worlds.graph_of(array, directed=True)
    plancc.compile(graph, model="rp", num_parts=4, normalize="row", value_dtype=dtype).save(path)
    assert "the union of the parts" in " ".join(verify_file(path, graph))
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
            verify(load(path), worlds.graph_of(other, directed=True))


def test_a_missing_and_an_unwanted_message(plans):
    plan = plans["row"]
    send, receive = plan.send, plan.receive
    last = replace(  # part 2 does not send its row to part 1
        send,
        ptr=np.array([0, 2, 3, 3]),
        peer=send.peer[:3],
        row_ptr=send.row_ptr[:4],
        row=send.row[:5],
    )
    more = replace(  # part 2 expects row 1 of part 0 too
        receive, row_ptr=np.array([0, 2, 4, 5, 7]), row=np.append(receive.row, 1).astype(np.int32)
    )
    extra = replace(  # and part 0 sends it: nobody uses it
        send, row_ptr=np.array([0, 2, 4, 6, 7]), row=np.array([0, 1, 0, 1, 0, 1, 0], np.int32)
    )
    for tables, words in (
        ({"send": last}, "part 1 expects other rows than part 2 sends to it"),
        ({"receive": more}, USED),
        ({"receive": more, "send": extra}, USED),
    ):
        with pytest.raises(PlanError, match=words):
            verify(plan_helpers.with_steps(plan, expand=replace(plan.exchanges.expand, **tables)))


def test_of_an_edge_plan_alone(plans):
    plan = plans["edge"]
    row_layout = replace(plan.header, layout="row")
    layout = "layout edge has a fold, layout row has none"
    diagonal = f"{DIAGONAL}: local row 4 of part 0 is folded and has one"
    for damaged, words in (
        (small_plan("edge", ELSEWHERE | {(2, 2): 0}), diagonal),
        (plan_helpers.with_steps(plan, fold=None), layout),
        (replace(plan, header=row_layout), layout),
        (
            replace(plan, row_ptr=np.append(plan.row_ptr, 14)),
            "matrix/row_ptr has every local row: it has 11",
        ),
    ):
        with pytest.raises(PlanError, match=words):
            verify(damaged)


def test_of_the_content_hash(path, files):
    for edit in ({"matrix/value": {0: 5.0}}, {"vertex_data/labels": {0: 3}}):
        path.write_bytes(files["row"])
        edit_file(path, edit, rehash=False)
        with pytest.raises(PlanError, match="is damaged: the digest of part 0 does not match"):
            verify_file(path)
    path.write_bytes(files["row"])
    with h5py.File(path, "r+") as file:
        file.attrs["directed"] = 0
    with pytest.raises(PlanError, match="content_sha256 is"):
        verify_file(path)
    with h5py.File(path, "r+") as file:
        del file.attrs["content_sha256"]
    with pytest.raises(PlanError, match="content_sha256 is missing"):
        verify_file(path)


def set_figure(path, name, value, *, sealed=True):
    """Store another figure, or none (None); by default with the digest that it then has."""
    with h5py.File(path, "r+") as file:
        figures = file["metrics"].attrs
        if value is None:
            del figures[name]
        else:
            figures[name] = sealing.text(value) if isinstance(value, str) else value
    if sealed:
        sealing.seal(path)


@pytest.mark.parametrize("layout", BROKEN)
def test_of_the_stored_metrics(layout, plans, files, path):
    """Figures are compared with those of the tables, and their digest first."""
    figures = plans[layout].metrics().as_dict()
    for name, value in [*figures.items()][[*BROKEN].index(layout) * 3 :: 6]:
        path.write_bytes(files[layout])
        set_figure(path, name, value + 1)
        with pytest.raises(PlanError, match=f"/metrics says {name} = "):
            verify_file(path)
    set_figure(path, name, value + 2, sealed=False)
    with pytest.raises(PlanError, match="/metrics is damaged: the digest does not match"):
        verify_file(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("volume", value) for value in (NAN, 1e6, "many")),
        *(("row_imbalance", value) for value in ([1, 2], h5py.Empty("f8"), None)),
    ],
)
def test_of_what_is_no_figure(path, name, value):
    words = "says" if isinstance(value, float) else "lacks a figure"
    set_figure(path, name, value)
    with pytest.raises(PlanError, match=f"/metrics {words}"):
        verify_file(path)
