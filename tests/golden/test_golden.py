"""Plan files of every format version so far, made by make.py: every later version reads them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import long

import plancc
from plancc.plan.digests import former_content_sha256
from plancc.plan.grid import Grid
from plancc.plan.matrix import matrix_of
from plancc.plan.slices import read_rank_slice
from plancc.report.plans import report

HERE = Path(__file__).parent
FILES = {
    # the content hash that the file holds, and a rule that came with its version
    "1.0": ("95e3464f5a91ac68e6e28c972499ada74119384b8dba4ff0b4dad695766c0d6e", ""),
    "1.1": (
        "11f1533ab3aa87a70c426c998a24b748a2af747022f303b8470178659cd6db2d",
        "clusters are numbers from 0",
    ),
    "1.2": (
        "4d1067ba927f413e0535499b5f9857b9d022ccd5fa7cf0996d61812844d2e500",
        "targets hold 0 and 1",
    ),
    "1.3": (
        "0fcc3f7407a4924aeaee5962d27cbbfb149d6613609d376902aff4d49fab312f",
        "every folded row has a nonzero",
    ),
    "1.4": (
        "406ff79c2b40e4873f75ef21f9683d9ba43687112f860656f7d907962f14b71f",
        "the grid fits layout, parts and vertices",
    ),
    "1.5": ("0ada9a89b4e4bb0975b70506fc1cca44265f7123e0a8164652d8f6f2362c20b7", ""),
    "1.6": ("0ada9a89b4e4bb0975b70506fc1cca44265f7123e0a8164652d8f6f2362c20b7", ""),
    "1.7": ("48fbdeb95dfae7169190f2bf689e54eddf5bca689858092375120a96f9efeb72", ""),
}
PIECES = HERE / "pieces-1.6.h5"


def file(version: str) -> Path:
    return HERE / f"plan-{version}.h5"


@cache
def loaded(version: str) -> plancc.Plan:
    return plancc.load(file(version))


def tables(version: str) -> dict[str, list]:
    return {name: array.tolist() for name, array in loaded(version).arrays().items()}


def targets_of(vertices: np.ndarray) -> list:
    """What make.py gives these vertices."""
    return (np.arange(28).reshape(7, 4) % 3 == 0)[vertices].tolist()


def former_hash(plan):
    """The content hash as it was before version 1.5, which makes it of digests."""
    return former_content_sha256(plan.header, plan.arrays())


@pytest.mark.parametrize(
    ("version", "digest", "rule"),
    [
        pytest.param(version, *how, marks=long if version in ("1.1", "1.2", "1.6") else ())
        for version, how in FILES.items()  # what those have, a later one has too
    ],
)
def test_every_file_verifies_and_has_its_hash(version, digest, rule, tmp_path):
    """Also when it is saved again, with the hash of its time or of today."""
    plan = loaded(version)
    assert report(file(version)).content_sha256 == digest
    assert any(rule in each for each in plancc.verify_file(file(version)))
    again = plan.save(tmp_path / "plan.h5")
    if version < "1.5":
        assert former_hash(plan) == former_hash(plancc.load(tmp_path / "plan.h5")) == digest
    else:
        assert again == plan.content_sha256() == digest


def test_format_1_0_header_and_provenance():
    plan = loaded("1.0")
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


def test_format_1_0_tables():
    found = tables("1.0")
    for name, expected in {
        "rows/part_ptr": [0, 3, 5, 7],
        "rows/global_id": [0, 6, 1, 2, 3, 4, 5],
        "rows/num_interior": [2, 0, 1],
        "rows/original_id": [10, 2**40, 20, 30, 40, 50, 60],
        "matrix/row_ptr": [0, 2, 3, 6, 8, 11, 12, 14],
        "matrix/column": [0, 1, 1, 2, 3, 4, 0, 4, 1, 2, 3, 0, 1, 2],
        "expand/send_ptr": [0, 2, 3, 4],
        "expand/send_peer": [1, 2, 0, 1],
        "expand/send_row_ptr": [0, 2, 3, 5, 6],
        "expand/send_row": [0, 2, 0, 0, 1, 0],
        "expand/recv_ptr": [0, 1, 3, 4],
        "expand/recv_peer": [1, 0, 2, 0],
        "expand/recv_row_ptr": [0, 2, 4, 5, 6],
        "expand/recv_row": [0, 1, 0, 2, 0, 0],
        "vertex_data/features": [
            [0.0, 0.25],
            [3.0, 3.25],
            [0.5, 0.75],
            [1.0, 1.25],
            [1.5, 1.75],
            [2.0, 2.25],
            [2.5, 2.75],
        ],
        "vertex_data/labels": [0, 2, 1, 2, -1, 0, 1],
        "vertex_data/train_mask": [1, 1, 0, 0, 1, 0, 0],
        "vertex_data/val_mask": [0, 0, 1, 0, 0, 1, 0],
        "vertex_data/test_mask": [0, 0, 0, 1, 0, 0, 1],
    }.items():
        assert found[name] == expected, name


def test_format_1_0_matrix():
    """Row 1 needs 2 and 3 with weights 2 and 3, and itself with 1: divided by 6, and so on."""
    expected = np.zeros((7, 7), np.float32)
    expected[0, [0, 6]] = [1 / 2, 1 / 2]
    expected[1, [1, 2, 3]] = [1 / 6, 2 / 6, 3 / 6]
    expected[2, [2, 4]] = [1 / 5, 4 / 5]
    expected[3, [0, 1, 3]] = [5 / 12, 6 / 12, 1 / 12]
    expected[4, 4] = 1
    expected[5, [0, 5]] = [7 / 8, 1 / 8]
    expected[6, 6] = 1
    assert matrix_of(loaded("1.0")).toarray().tolist() == expected.tolist()


def test_format_1_0_figures():
    told = report(file("1.0"))
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


def test_format_1_0_is_read_by_ranks():
    header, part = read_rank_slice(file("1.0"), 1, 2)  # parts 1 and 2 on one rank
    assert header.num_parts == 3
    assert sorted(part.global_id.tolist()) == [2, 3, 4, 5]
    assert part.expand.send.peer.tolist() == part.expand.receive.peer.tolist() == [0]
    assert part.global_id[part.send_mask(0)].tolist() == [2, 3]
    assert part.num_halo == 2  # vertices 0 and 1


def test_format_1_1_is_format_1_0_and_clusters():
    plan, found = loaded("1.1"), tables("1.1")
    assert found.pop("vertex_data/clusters") == [2, 0, 0, 0, 1, 1, 2]
    assert found == tables("1.0")
    assert plan.header == loaded("1.0").header
    without = replace(plan, vertex_data=replace(plan.vertex_data, clusters=None))
    assert former_hash(without) == FILES["1.0"][0]
    _, part = read_rank_slice(file("1.1"), 1, 2)
    clusters = dict(zip(part.global_id.tolist(), part.vertex_data.clusters.tolist(), strict=True))
    assert clusters == {2: 0, 3: 1, 4: 1, 5: 2}


def test_format_1_2_has_targets_in_place_of_labels():
    plan, found, before = loaded("1.2"), tables("1.2"), tables("1.1")
    assert plan.arrays()["vertex_data/targets"].dtype == np.uint8
    assert found.pop("vertex_data/targets") == targets_of(plan.global_id)
    del before["vertex_data/labels"]
    assert found == before
    _, part = read_rank_slice(file("1.2"), 1, 2)
    assert part.vertex_data.targets.tolist() == targets_of(part.global_id)


def test_format_1_3_tables_of_an_edge_plan():
    """Nonzeros (1, 2), (1, 3) are with part 1, (3, 0) with part 2, (3, 1) with part 0."""
    plan, before, found = loaded("1.3"), loaded("1.2"), tables("1.3")
    assert plan.header == replace(before.header, layout="edge")
    for name, expected in {
        "rows/part_ptr": [0, 3, 5, 7],
        "rows/global_id": [0, 1, 6, 3, 2, 4, 5],
        "rows/num_interior": [3, 1, 1],
        "rows/original_id": [10, 20, 2**40, 40, 30, 50, 60],
        "matrix/row_ptr": [0, 2, 3, 4, 5, 6, 8, 10, 11, 13, 14],
        "matrix/column": [0, 2, 1, 2, 1, 0, 1, 2, 1, 0, 0, 1, 2, 2],
        "expand/send_ptr": [0, 1, 1, 2],
        "expand/send_peer": [2, 1],
        "expand/send_row": [0, 0],
        "expand/recv_ptr": [0, 0, 1, 2],
        "expand/recv_peer": [2, 0],
        "fold/send_ptr": [0, 1, 2, 3],
        "fold/send_peer": [1, 0, 1],
        "fold/send_row_ptr": [0, 1, 2, 3],
        "fold/send_row": [0, 1, 0],
        "fold/recv_ptr": [0, 1, 3, 3],
        "fold/recv_peer": [1, 0, 2],
        "fold/recv_row_ptr": [0, 1, 2, 3],
        "fold/recv_row": [1, 0, 0],
    }.items():
        assert found[name] == expected, name
    assert matrix_of(plan).toarray().tolist() == matrix_of(before).toarray().tolist()
    assert plan.vertex_data.targets.tolist() == targets_of(plan.global_id)


def test_format_1_3_figures_and_ranks():
    told = report(file("1.3"))
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
    _, part = read_rank_slice(file("1.3"), 1, 2)  # parts 1 and 2 on one rank
    assert sorted(part.global_id.tolist()) == [2, 3, 4, 5]
    assert part.fold.send.peer.tolist() == part.fold.receive.peer.tolist() == [0]
    assert part.global_id[part.fold.receive.row].tolist() == [3]
    assert (part.num_halo, part.fold.send.volume) == (1, 1)


def test_format_1_4_is_a_row_plan_and_a_grid():
    plan, before = loaded("1.4"), loaded("1.2")
    assert plan.header == replace(before.header, layout="grid", grid=Grid("2d", 3, 2))
    assert tables("1.4") == tables("1.2")
    told, told_before = report(file("1.4")), report(file("1.2"))
    assert (told.metrics, told.random) == (told_before.metrics, told_before.random)
    assert former_hash(replace(plan, header=before.header)) == FILES["1.2"][0]


def test_format_1_4_is_read_by_ranks():
    """Rank 3 of 3 x 2 has part 1, rows 2 and 3, and the columns of the second process column.

    Parts have 3, 2, 2 rows and two pieces each, of 1 + 2, 1 + 1 and 1 + 1 rows; the second process
    column has the last three pieces, places 4, 5 and 6 in plan order: vertices 3, 4 and 5.
    """
    with pytest.raises(plancc.InputError, match="grid '2d 3x2', which runs on exactly 6 ranks"):
        read_rank_slice(file("1.4"), 0, 3)
    _, part = read_rank_slice(file("1.4"), 3, 6)
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
    plan = loaded("1.2")
    data = replace(plan.vertex_data, labels=labels, targets=targets)
    replace(plan, vertex_data=data).save(tmp_path / "plan.h5")
    with pytest.raises(plancc.PlanError, match=broken):
        plancc.verify_file(tmp_path / "plan.h5")


def same_slices(path: Path, before: Path, where: list[tuple[int, int]]) -> None:
    """These ranks, of so many, read the same of both files."""
    for rank, ranks in where:
        _, part = read_rank_slice(path, rank, ranks)
        _, old = read_rank_slice(before, rank, ranks)
        assert part.global_id.tolist() == old.global_id.tolist()
        assert part.value.tolist() == old.value.tolist()


def test_format_1_5_is_format_1_3_with_digests():
    plan, before = loaded("1.5"), loaded("1.3")
    assert (plan.header, plan.provenance) == (before.header, before.provenance)
    assert tables("1.5") == tables("1.3")
    assert b"GCOL" not in file("1.5").read_bytes()  # HDF5's global heap
    same_slices(file("1.5"), file("1.3"), [(0, 2), (1, 2), (2, 3)])


def test_format_1_6_is_format_1_5_and_may_be_in_pieces():
    plan, before, pieces = loaded("1.6"), loaded("1.5"), plancc.load(PIECES)
    assert (plan.header, plan.provenance) == (before.header, before.provenance)
    assert report(PIECES).content_sha256 == FILES["1.6"][0]
    assert pieces.provenance == plan.provenance
    found = {name: array.tolist() for name, array in pieces.arrays().items()}
    assert found == tables("1.6")
    plancc.verify_file(PIECES)
    same_slices(PIECES, file("1.5"), [(0, 2), (1, 2), (2, 3)])


def test_format_1_7_has_hops(tmp_path):
    plan, found = loaded("1.7"), tables("1.7")
    plan.save(tmp_path / "plan.h5")
    assert (tmp_path / "plan.h5").read_bytes() == file("1.7").read_bytes()
    assert str(plan.header.topology) == "1x2+1x1"
    assert found.items() >= tables("1.6").items()
    assert found["expand_cross/send_row"] == [0, 5]
    assert (found["fold_collect/send_row"], found["fold_cross/send_row"]) == ([1, 3], [3])
    assert [found[f"{step}_spread/send_row"] for step in ("expand", "fold")] == [[], []]
    _, part = read_rank_slice(file("1.7"), 2, 3)
    assert part.route.hops[1].send.row.tolist() == part.route.hops[1].receive.peer.tolist() == [0]
    assert part.fold_route.hops[1].receive.peer.tolist() == [1]
