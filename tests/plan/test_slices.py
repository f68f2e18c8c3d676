"""Rank slices, and parts merged onto fewer ranks."""

from __future__ import annotations

import naive
import numpy as np
import plan_helpers
import pytest
import worlds
from cases import long
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.plan.slices import block_of_parts, read_rank_slice
from plancc.report.plans import report


def slices_of(path, num_ranks):
    return [read_rank_slice(path, rank, num_ranks)[1] for rank in range(num_ranks)]


@plan_helpers.costly(2)
@given(case=plan_helpers.cases(), data=st.data())
def test_merged_slices_are_the_plan_of_the_merged_owners(case, data, tmp_path_factory):
    graph, owner, num_parts = case
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    plan_helpers.lowered(*case).save(path)
    n = graph.num_vertices
    dense, pattern = naive.dense_of(graph), naive.pattern_of(graph)
    h = np.random.default_rng(n).standard_normal((n, 2))
    num_ranks = data.draw(st.integers(1, num_parts))
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


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_unmerged_slices_equal_the_parts_of_the_plan(tmp_path, layout):
    plan = plan_helpers.rich_plan(layout, num_parts=6)
    plan.save(tmp_path / "plan.h5")
    for m, part in enumerate(slices_of(tmp_path / "plan.h5", 6)):
        plan_helpers.assert_equal(part, plan.part(m))


@pytest.mark.parametrize("layout", ["row", "edge"])
@pytest.mark.parametrize("num_ranks", [2, 5, *(pytest.param(k, marks=long) for k in (1, 3, 4, 6))])
def test_vertex_data_follow_their_rows(tmp_path, layout, num_ranks):
    """And in a row plan both ends of a message agree on its order."""
    plan = worlds.plan("directed", layout, 6)
    plan.save(tmp_path / "plan.h5")
    data = worlds.data()
    parts = slices_of(tmp_path / "plan.h5", num_ranks)
    for part in parts:
        plan_helpers.assert_equal(part.vertex_data, data.take(part.global_id))
    assert sorted(vertex for part in parts for vertex in part.global_id) == list(range(worlds.N))
    place = np.argsort(plan.global_id)  # of every vertex in plan order
    for part in parts if layout == "row" else ():
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
    plan_helpers.rich_plan(num_parts=3).save(tmp_path / "plan.h5")
    with pytest.raises(InputError, match="at most 3 ranks"):
        read_rank_slice(tmp_path / "plan.h5", 0, 4)
    for num_ranks in (0, 4):
        with pytest.raises(InputError, match="ranks"):
            report(tmp_path / "plan.h5", num_ranks=num_ranks)
    for rank, num_ranks in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(InputError, match=f"rank {rank} of {num_ranks}"):
            read_rank_slice(tmp_path / "plan.h5", rank, num_ranks)
