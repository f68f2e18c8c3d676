"""Rank slices, and parts merged onto fewer ranks."""

from dataclasses import replace

import numpy as np
import plan_helpers
import pytest
import worlds
from cases import long

from plancc.errors import InputError
from plancc.graph import vertexdata
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.slices import read_rank_slice


def slices_of(path, num_ranks):
    return [read_rank_slice(path, rank, num_ranks)[1] for rank in range(num_ranks)]


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
        for peer in part.expand.send.peer.tolist():
            sent = part.global_id[part.send_mask(peer)]
            assert place[sent].tolist() == sorted(place[sent].tolist())
            assert len(sent) == len(parts[peer].expand.receive.message(part.index))


def test_features_that_change_places_are_held_once(monkeypatch):
    monkeypatch.setattr(vertexdata, "COLUMNS_MOVED", 2)
    order = np.random.default_rng(4).permutation(worlds.N)
    features = worlds.data().features.copy()
    data = replace(worlds.data(), features=features)
    expected = worlds.data().take(order)
    found = data.reordered(order)
    assert found.features is features
    plan_helpers.assert_equal(found, expected)
    assert found.reordered(np.arange(worlds.N)) is found
    features.flags.writeable = False
    again = found.reordered(np.argsort(order))
    plan_helpers.assert_equal(again, worlds.data())
    np.testing.assert_array_equal(features, expected.features)


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
    for rank, num_ranks in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(InputError, match=f"rank {rank} of {num_ranks}"):
            read_rank_slice(tmp_path / "plan.h5", rank, num_ranks)
