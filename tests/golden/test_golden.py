"""Plan files of formats 1.5 and newer: later versions read all but pieces; none is ever replaced.

All were made under SOURCE_DATE_EPOCH=1700000000 with the owners [0, 0, 1, 1, 2, 2, 0] of seven
rows: row-1.7 by ``plancc.compile(..., model="file", normalize="row")`` of the edges (1, 2), (1, 3),
(2, 4), (3, 0), (3, 1), (5, 0), (0, 6), of weights 1 to 7 by row, with labels; grid-1.7 with targets
and clusters on a grid; plan-1.5 by `lower` with the nonzeros (1, 2), (1, 3) at part 1, (3, 0) at
part 2 and (3, 1) at part 0. plan-1.6 is plan-1.5 saved again, plan-1.7 has hops for two nodes too,
targets-1.8 real targets. typed-1.8 has types and relations, data-1.9 data by type too, edges-1.10
also features of edges; parallel-1.9 has a second relation from authors to papers, and links-1.10 is
row-1.7 with links. pieces-1.6 is read no more: the head and the first piece of a plan in pieces.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest

import plancc
from plancc.plan.grid import Grid
from plancc.plan.links import places_of
from plancc.plan.matrix import ends_of, matrix_of
from plancc.plan.slices import read_rank_slice
from plancc.report.plans import report

HERE = Path(__file__).parent
FILES = {  # the content hash that the file holds
    "plan-1.5": "0ada9a89b4e4bb0975b70506fc1cca44265f7123e0a8164652d8f6f2362c20b7",
    "plan-1.6": "0ada9a89b4e4bb0975b70506fc1cca44265f7123e0a8164652d8f6f2362c20b7",
    "plan-1.7": "48fbdeb95dfae7169190f2bf689e54eddf5bca689858092375120a96f9efeb72",
    "targets-1.8": "b5d93ddf19eb432e2b759de054e78b154104da4512868a38f2afae51915d8116",
    "row-1.7": "5836ac1cb374fdab849fff49b90ff13384606dd78a65165272182cb88176d02d",
    "edges-1.10": "ce85bc62e37d36a30445ca7d2c82236137d9d791048dad41888074a89855776d",
    "data-1.9": "dbbf40c14bdbce98e0a2980ce140cd6f4d673ae98583f3ce6e31abdd5795266f",
    "links-1.10": "a92600b53572abc17e2efd61a044a867a9bc5c7759e606a5926f26d31c415c02",
    "parallel-1.9": "4c90ccec95e07a9f68b308a9126d07ebfb66406d4705a37e740f0a1233b91258",
    "typed-1.8": "f8a9fc70445de4f5fe5c27056ee2489c9d28af78a06e25c08e71882dd256adec",
    "grid-1.7": "043c3040ec69855ea54b336e883d321370b27140fa7ba77018e9c042d6554b97",
}


def file(name: str) -> Path:
    return HERE / f"{name}.h5"


@cache
def loaded(name: str) -> plancc.Plan:
    return plancc.load(file(name))


def tables(name: str) -> dict[str, list]:
    return {name: array.tolist() for name, array in loaded(name).arrays().items()}


def targets_of(vertices: np.ndarray) -> list:
    """The targets of these vertices."""
    return (np.arange(28).reshape(7, 4) % 3 == 0)[vertices].tolist()


@pytest.mark.parametrize(("name", "digest"), FILES.items())
def test_every_file_verifies_and_has_its_hash(name, digest, tmp_path):
    """Also when it is saved again."""
    plan = loaded(name)
    assert report(file(name)).content_sha256 == digest
    plancc.verify_file(file(name))
    assert plan.save(tmp_path / "plan.h5") == plan.content_sha256() == digest


def test_a_row_plan_has_its_header_and_provenance():
    plan = loaded("row-1.7")
    header = plan.header
    assert (header.layout, header.normalization) == ("row", "row")
    assert (header.num_vertices, header.num_nonzeros, header.num_parts) == (7, 14, 3)
    assert (header.directed, header.self_loops) == (True, True)
    for name, value in {
        "balance": "nnz",
        "command": "plancc.compile(...)",
        "created": "2023-11-14T22:13:20Z",
        "model": "file",
        "model_part": "[0, 0, 1, 1, 2, 2, 0]",
        "plancc_version": "0.1.0",
        "seed": 1,
        "source_format": "edgelist",
        "source_name": "golden.txt",
        "source_reading": "",
        "source_sha256": "0" * 64,
        "warnings": "",
    }.items():
        assert plan.provenance[name] == value


def test_a_row_plan_has_its_matrix():
    """Row 1 needs 2 and 3 with weights 2 and 3, and itself with 1: divided by 6, and so on."""
    expected = np.zeros((7, 7), np.float32)
    expected[0, [0, 6]] = [1 / 2, 1 / 2]
    expected[1, [1, 2, 3]] = [1 / 6, 2 / 6, 3 / 6]
    expected[2, [2, 4]] = [1 / 5, 4 / 5]
    expected[3, [0, 1, 3]] = [5 / 12, 6 / 12, 1 / 12]
    expected[4, 4] = 1
    expected[5, [0, 5]] = [7 / 8, 1 / 8]
    expected[6, 6] = 1
    assert matrix_of(loaded("row-1.7")).toarray().tolist() == expected.tolist()


def test_a_row_plan_has_its_figures():
    told = report(file("row-1.7"))
    assert told.metrics.as_dict() == pytest.approx(
        {
            "volume": 6,
            "average_volume": 2.0,
            "max_sent": 3,
            "max_received": 3,
            "max_exchanged": 5,
            "messages": 4,
            "average_messages": 4 / 3,
            "max_messages_sent": 2,
            "max_messages_received": 2,
            "nonzero_imbalance": 2 / 7,
            "row_imbalance": 2 / 7,
            "boundary_ratio": 6 / 7,
            "max_boundary_ratio": 1.5,
            "fold_volume": 0,
            "fold_messages": 0,
            "replication_factor": 13 / 7,
        }
    )
    assert told.random.volume == 7


def test_a_row_plan_is_read_by_ranks():
    header, part = read_rank_slice(file("row-1.7"), 1, 2)  # parts 1 and 2 on one rank
    assert header.num_parts == 3
    assert sorted(part.global_id.tolist()) == [2, 3, 4, 5]
    assert part.expand.send.peer.tolist() == part.expand.receive.peer.tolist() == [0]
    assert part.global_id[part.send_mask(0)].tolist() == [2, 3]
    assert part.num_halo == 2  # vertices 0 and 1


def test_format_1_5_has_an_edge_plan():
    """Nonzeros (1, 2), (1, 3) are with part 1, (3, 0) with part 2, (3, 1) with part 0."""
    plan, before = loaded("plan-1.5"), loaded("row-1.7")
    assert plan.header == replace(before.header, layout="edge")
    assert tables("plan-1.5")["rows/original_id"] == [10, 20, 2**40, 40, 30, 50, 60]
    assert matrix_of(plan).toarray().tolist() == matrix_of(before).toarray().tolist()
    assert plan.vertex_data.targets.tolist() == targets_of(plan.global_id)
    assert b"GCOL" not in file("plan-1.5").read_bytes()  # HDF5's global heap


def test_format_1_5_figures_and_ranks():
    told = report(file("plan-1.5"))
    assert told.metrics.as_dict() == pytest.approx(
        {
            "volume": 5,
            "average_volume": 5 / 3,
            "max_sent": 2,
            "max_received": 3,
            "max_exchanged": 4,
            "messages": 5,
            "average_messages": 5 / 3,
            "max_messages_sent": 2,
            "max_messages_received": 3,
            "nonzero_imbalance": 1 / 14,
            "row_imbalance": 2 / 7,
            "boundary_ratio": 2 / 7,
            "max_boundary_ratio": 1 / 2,
            "fold_volume": 3,
            "fold_messages": 3,
            "replication_factor": 12 / 7,
        }
    )
    assert (told.random.volume, told.random.fold_volume) == (7, 0)
    _, part = read_rank_slice(file("plan-1.5"), 1, 2)  # parts 1 and 2 on one rank
    assert sorted(part.global_id.tolist()) == [2, 3, 4, 5]
    assert part.fold.send.peer.tolist() == part.fold.receive.peer.tolist() == [0]
    assert part.global_id[part.fold.receive.row].tolist() == [3]
    assert (part.num_halo, part.fold.send.volume) == (1, 1)


def test_a_grid_plan_is_a_row_plan_and_a_grid():
    plan, found, row = loaded("grid-1.7"), tables("grid-1.7"), tables("row-1.7")
    assert plan.header == replace(loaded("row-1.7").header, layout="grid", grid=Grid("2d", 3, 2))
    assert found.pop("vertex_data/clusters") == [2, 0, 0, 0, 1, 1, 2]
    assert found.pop("vertex_data/targets") == np.uint8(targets_of(plan.global_id)).tolist()
    del row["vertex_data/labels"]
    assert found == row
    assert report(file("grid-1.7")).metrics == report(file("row-1.7")).metrics


def test_a_grid_plan_is_read_by_ranks():
    """Rank 3 of 3 x 2 has part 1, rows 2 and 3, and the columns of the second process column.

    Parts have 3, 2, 2 rows and two pieces each, of 1 + 2, 1 + 1 and 1 + 1 rows; the second process
    column has the last three pieces, places 4, 5 and 6 in plan order: vertices 3, 4 and 5.
    """
    with pytest.raises(plancc.InputError, match="grid '2d 3x2', which runs on exactly 6 ranks"):
        read_rank_slice(file("grid-1.7"), 0, 3)
    _, part = read_rank_slice(file("grid-1.7"), 3, 6)
    assert (part.index, part.num_parts, part.first_row) == (3, 6, 3)
    assert part.global_id.tolist() == [2, 3]
    assert part.vertex_data.targets.tolist() == targets_of([2, 3])
    share = part.grid
    assert (share.grid, share.rank, share.block) == (Grid("2d", 3, 2), 3, None)
    assert share.part_ptr.tolist() == [0, 3, 5, 7]
    assert share.row_ptr.tolist() == [0, 1, 2]
    assert share.place.tolist() == [5, 4]  # row 2 needs 4, row 3 itself, of what is in the column
    np.testing.assert_allclose(share.value, [4 / 5, 1 / 12], rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "targets", "broken"),
    [
        (None, np.full((7, 2), 2, np.uint8).view(np.bool_), "targets hold 0 and 1"),
        (np.zeros(7, np.int32), np.zeros((7, 2), np.bool_), "labels or targets"),
    ],
)
def test_wrong_targets_are_found(tmp_path, labels, targets, broken):
    plan = loaded("plan-1.5")
    data = replace(plan.vertex_data, labels=labels, targets=targets)
    replace(plan, vertex_data=data).save(tmp_path / "plan.h5")
    with pytest.raises(plancc.PlanError, match=broken):
        plancc.verify_file(tmp_path / "plan.h5")


def test_format_1_6_is_format_1_5():
    plan, before = loaded("plan-1.6"), loaded("plan-1.5")
    assert (plan.header, plan.provenance) == (before.header, before.provenance)


@pytest.mark.parametrize("name", ["pieces-1.6.h5", "pieces-1.6.pieces-0ada9a89b4e4/0.h5"])
def test_a_plan_in_pieces_is_refused(name):
    with pytest.raises(plancc.PlanError) as refused:
        plancc.load(HERE / name)
    assert str(refused.value) == (
        f"{HERE / name}: a plan in pieces, which plancc 0.1.0 of 29 November 2026 was the last "
        "version to read: make one file of it there (plancc join), or compile the graph again"
    )


def test_format_1_10_has_links():
    """Owners as in row-1.7; by part links in the order of their kinds and numbers."""
    plan, found = loaded("links-1.10"), tables("links-1.10")
    assert plan.header.links == 2
    assert found["links/pair_ptr"] == [0, 5, 6, 12]
    vertices = plan.global_id[np.stack(places_of(plan.links, plan.part_ptr, 0, linked(plan)))]
    assert [*zip(*vertices.tolist(), found["links/kind"], found["links/number"], strict=True)] == [
        *((0, 3, 0, 0), (6, 1, 0, 1), (0, 5, 2, 1), (0, 6, 4, 2), (0, 4, 4, 3)),
        (2, 5, 0, 2),
        *((4, 2, 1, 0), (5, 0, 2, 0), (4, 0, 3, 0), (4, 6, 3, 1), (5, 1, 4, 0), (5, 2, 4, 1)),
    ]
    assert found["links/recv_peer"] == [1, 2, 2, 0, 1]
    assert found["links/recv_row_ptr"] == [0, 1, 3, 4, 7, 8]


def linked(plan):
    return plan.exchanges["links"].receive


def test_format_1_10_has_features_of_edges():
    plan, before = loaded("edges-1.10"), tables("data-1.9")
    features = tables("edges-1.10").pop("matrix/edge_features")
    assert (np.stack(ends_of(plan), axis=1) / 4).tolist() == features
    assert tables("edges-1.10") == before | {"matrix/edge_features": features}
    for rank in (0, 1):
        _, part = read_rank_slice(file("edges-1.10"), rank, 2)
        rows = np.repeat(part.global_id, np.diff(part.row_ptr)) / 4
        assert part.edge_features[:, 0].tolist() == rows.tolist()


def test_format_1_9_has_vertex_data_by_type():
    """Author 2 is at part 1; papers 1, 2, 0, 3 are at parts 2, 2, 1, 0."""
    plan = loaded("data-1.9")
    found = tables("data-1.9")
    authors = plan.global_id[plan.global_id < 3]
    papers = plan.global_id[plan.global_id >= 3] - 3
    expected = np.arange(6).reshape(3, 2) / 4
    assert found["rows/type_ptr"] == [[0, 2, 3, 3], [0, 1, 2, 4]]
    assert found["vertex_data/features_of_0"] == expected[authors].tolist()
    assert found["vertex_data/features_of_1"] == np.eye(4)[papers].tolist()
    assert found["vertex_data/labels_of_1"] == np.array([0, -1, 1, 2])[papers].tolist()
    _, part = read_rank_slice(file("data-1.9"), 1, 2)
    at = part.global_id[part.global_id >= 3] - 3
    assert part.vertex_data.of_type["paper"].train_mask.tolist() == (at % 2 == 0).tolist()


def test_format_1_9_has_parallel_relations():
    """Author 0 writes papers 0 and 1, and likes 1 and 2; author 1 writes 3; author 2 likes 3."""
    plan = loaded("parallel-1.9")
    rows, columns = ends_of(plan)
    number = plan.header.types.relations.index(("author", "likes", "paper"))
    of_two = (rows > 2) & (columns < 3)
    found = zip(rows, columns, plan.relation, plan.value, strict=True)
    of_authors = sorted(
        (int(i) - 3, int(j), int(r) == number, float(v))
        for (i, j, r, v), of in zip(found, of_two, strict=True)
        if of
    )
    assert of_authors == [
        *((0, 0, False, 1), (1, 0, False, 1), (1, 0, True, 1)),
        *((2, 0, True, 1), (3, 1, False, 1), (3, 2, True, 1)),
    ]


def test_format_1_8_has_real_targets():
    plan = loaded("targets-1.8")
    expected = np.arange(14, dtype=np.float32).reshape(7, 2) / 8 - 0.5
    expected[3] = np.nan
    assert plan.vertex_data.targets.dtype == np.float32
    np.testing.assert_array_equal(plan.vertex_data.targets, expected[plan.global_id])


def test_format_1_8_has_types():
    """Papers 0 to 3 are vertices 3 to 6; every row's nonzeros are 1 over those of its relation."""
    plan = loaded("typed-1.8")
    with h5py.File(file("typed-1.8")) as stored:
        assert stored.attrs["types"] == b'[["author",3],["paper",4]]'
        assert stored.attrs["relations"] == (
            b'[["author","writes","paper"],["paper","by","author"],["paper","cites","paper"]]'
        )
    expected = np.zeros((7, 7))
    expected[[3, 4, 6], [0, 0, 1]] = 1
    expected[[0, 0, 1], [3, 4, 6]] = [0.5, 0.5, 1]
    expected[[3, 3, 5], [4, 5, 6]] = [0.5, 0.5, 1]
    assert matrix_of(plan).toarray().tolist() == expected.tolist()
    assert plan.header.types.relation("by") == ("paper", "by", "author")


def test_format_1_7_has_hops():
    plan, found = loaded("plan-1.7"), tables("plan-1.7")
    assert str(plan.header.topology) == "1x2+1x1"
    assert found.items() >= tables("plan-1.6").items()
    assert found["expand_cross/send_row"] == [0, 5]
    assert (found["fold_collect/send_row"], found["fold_cross/send_row"]) == ([1, 3], [3])
    assert [found[f"{step}_spread/send_row"] for step in ("expand", "fold")] == [[], []]
    _, part = read_rank_slice(file("plan-1.7"), 2, 3)
    cross, back = (each.route.hops[1] for each in (part.expand, part.fold))
    assert cross.send.row.tolist() == cross.receive.peer.tolist() == [0]
    assert back.receive.peer.tolist() == [1]
