"""Rank slices, and parts merged onto fewer ranks."""

from __future__ import annotations

import naive
import numpy as np
import plan_helpers
import pytest
import test_file
from hypothesis import HealthCheck, given, settings

from plancc.errors import InputError
from plancc.plan.slices import block_of_parts, read_rank_slice
from plancc.report.plans import report

QUICK = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}


def slices_of(path, num_ranks):
    return [read_rank_slice(path, rank, num_ranks)[1] for rank in range(num_ranks)]


@settings(max_examples=15, **QUICK)
@given(case=plan_helpers.cases())
def test_merged_slices_are_the_plan_of_the_merged_owners(case, tmp_path):
    graph, owner, num_parts = case
    path = tmp_path / "plan.h5"
    plan_helpers.lowered(*case).save(path)
    n = graph.num_vertices
    dense, pattern = naive.dense_of(graph), naive.pattern_of(graph)
    h = np.random.default_rng(n).standard_normal((n, 2))
    for num_ranks in sorted({1, 2, num_parts // 2, num_parts - 1, num_parts}):
        if not 1 <= num_ranks <= num_parts:
            continue
        rank_of_part = [
            k
            for k in range(num_ranks)
            for _ in range(k * num_parts // num_ranks, (k + 1) * num_parts // num_ranks)
        ]
        merged = [rank_of_part[m] for m in owner]
        expected = naive.NaivePlan(pattern, merged, num_ranks)
        parts = slices_of(path, num_ranks)

        np.testing.assert_allclose(naive.product(parts, h), dense @ h, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(naive.adjoint(parts, h), dense.T @ h, rtol=1e-12, atol=1e-12)
        for m, part in enumerate(parts):
            ids = part.global_id.tolist()
            assert (part.index, part.num_parts) == (m, num_ranks)
            assert set(ids) == expected.rows[m]
            assert part.first_row == sum(len(rows) for rows in expected.rows[:m])
            assert set(ids[: part.num_interior]) == expected.interior[m]
            assert part.send_peer.tolist() == sorted(expected.send[m])
            assert part.recv_peer.tolist() == sorted(expected.receive[m])
            for peer, rows in expected.send[m].items():
                assert sorted(ids[r] for r in part.send_mask(peer)) == sorted(rows)
            found = naive.entries_of_part(parts, m)
            assert len(found) == expected.nonzeros[m]
            for r in range(len(ids)):
                foreign = part.column[part.row_ptr[r] : part.row_ptr[r + 1]] >= len(ids)
                assert foreign.tolist() == sorted(foreign.tolist())
            assert part.column.dtype == part.send_row.dtype == part.send_peer.dtype == np.int32
            assert part.row_ptr.dtype == part.send_ptr.dtype == part.recv_ptr.dtype == np.int64

        told = report(path, num_ranks=num_ranks)
        assert told.num_ranks == num_ranks
        assert told.metrics.as_dict() == pytest.approx(expected.figures(), rel=1e-12)


def test_unmerged_slices_equal_the_parts_of_the_plan(tmp_path):
    plan = test_file.rich_plan(num_parts=6)
    plan.save(tmp_path / "plan.h5")
    for m, part in enumerate(slices_of(tmp_path / "plan.h5", 6)):
        test_file.assert_equal(part, plan.part(m))


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 6])
def test_vertex_data_follow_their_rows(tmp_path, num_ranks):
    test_file.rich_plan(num_parts=6).save(tmp_path / "plan.h5")
    data = plan_helpers.data_of(40)
    seen = []
    for part in slices_of(tmp_path / "plan.h5", num_ranks):
        ids = part.global_id
        seen += ids.tolist()
        np.testing.assert_array_equal(part.vertex_data.features, data.features[ids])
        np.testing.assert_array_equal(part.vertex_data.labels, data.labels[ids])
        np.testing.assert_array_equal(part.vertex_data.train_mask, data.train_mask[ids])
        np.testing.assert_array_equal(part.vertex_data.val_mask, data.val_mask[ids])
        np.testing.assert_array_equal(part.vertex_data.test_mask, data.test_mask[ids])
        np.testing.assert_array_equal(part.vertex_data.clusters, data.clusters[ids])
    assert sorted(seen) == list(range(40))


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 6])
def test_both_ends_of_a_message_agree_on_its_order(tmp_path, num_ranks):
    plan = test_file.rich_plan(num_parts=6)
    plan.save(tmp_path / "plan.h5")
    parts = slices_of(tmp_path / "plan.h5", num_ranks)
    place = np.argsort(plan.global_id)  # of every vertex in plan order
    for part in parts:
        for peer in part.send_peer.tolist():
            sent = part.global_id[part.send_mask(peer)]
            assert place[sent].tolist() == sorted(place[sent].tolist())
            assert len(sent) == len(parts[peer].receive_set(part.index))


def test_blocks_of_parts():
    for num_parts in range(1, 12):
        for num_ranks in range(1, num_parts + 1):
            sizes = np.diff(block_of_parts(num_parts, num_ranks))
            assert sizes.sum() == num_parts
            assert sizes.min() >= 1
            assert sizes.max() - sizes.min() <= 1


def test_more_ranks_than_parts(tmp_path):
    test_file.rich_plan(num_parts=3).save(tmp_path / "plan.h5")
    with pytest.raises(InputError, match="at most 3 ranks"):
        read_rank_slice(tmp_path / "plan.h5", 0, 4)
    for num_ranks in (0, 4):
        with pytest.raises(InputError, match="ranks"):
            report(tmp_path / "plan.h5", num_ranks=num_ranks)
    for rank, num_ranks in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(InputError, match=f"rank {rank} of {num_ranks}"):
            read_rank_slice(tmp_path / "plan.h5", rank, num_ranks)
