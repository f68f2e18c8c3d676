"""Edge plans, and files and slices of all plans, against sets and dictionaries."""

import naive
import numpy as np
import plan_helpers
import pytest
import sealing
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.cost.owners import traffic
from plancc.graph.owners import Owners
from plancc.plan.matrix import graph_of, matrix_of, owners_of
from plancc.plan.metrics import summarize
from plancc.plan.reader import load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify, verify_file
from plancc.report.plans import report


def naive_plan(graph, owner, nonzero_owner, num_parts):
    pairs = plan_helpers.owners_of_pairs(graph, nonzero_owner)
    return naive.NaiveEdgePlan(pairs, owner, num_parts)


def check_traffic(found, expected):
    of = expected.per_part()
    for name in ("rows", "nonzeros", "sent", "received", "messages_sent", "messages_received"):
        assert getattr(found, name).tolist() == of[name], name
    for name in ("sent", "received", "messages_sent", "messages_received"):
        assert getattr(found.fold, name).tolist() == of[f"fold_{name}"], name
    assert found.copies.tolist() == of["copies"]
    assert found.halo.tolist() == [len(halo) for halo in expected.halo]
    assert summarize(found).as_dict() == pytest.approx(expected.figures(), rel=1e-12)


def check_plan(case):
    graph, owner, nonzero_owner, num_parts = case
    expected = naive_plan(*case)
    plan = plan_helpers.edges_lowered(*case)
    assert plan.header.layout == "edge"
    assert plan.header.directed == graph.directed
    assert plan.value.dtype == graph.values.dtype
    assert plan.owner().tolist() == owner.tolist()
    naive.check_parts([plan.part(m) for m in range(num_parts)], expected, graph)
    check_traffic(plan.traffic(), expected)
    check_traffic(traffic(graph, Owners(owner, nonzero_owner), num_parts), expected)
    np.testing.assert_array_equal(matrix_of(plan).toarray(), naive.dense_of(graph))
    assert graph_of(plan).indices.tolist() == graph.indices.tolist()
    assert owners_of(plan).nonzeros.tolist() == nonzero_owner.tolist()
    verify(plan, graph)


@settings(max_examples=40)  # 20 meet few of the ways in which rows and parts may be empty
@given(case=plan_helpers.edge_cases())
def test_lowering_equals_the_naive_plan(case):
    check_plan(case)


@plan_helpers.costly(3)
@given(case=plan_helpers.edge_cases(max_vertices=150, densities=(0.01, 0.05)))
def test_lowering_of_larger_matrices(case):
    """Rows beyond one 64-bit word of the marks, and many parts."""
    check_plan(case)


@plan_helpers.costly(4)
@pytest.mark.parametrize("layout", ["row", "edge"])
@given(case=plan_helpers.edge_cases(), data=st.data())
def test_files_and_merged_slices(layout, case, data, tmp_path_factory):
    """What is written is read again; on r ranks the plan is that of the owners on r ranks."""
    graph, owner, nonzero_owner, num_parts = case
    if layout == "row":
        nonzero_owner = np.repeat(owner, np.diff(graph.indptr))
        plan = plan_helpers.lowered(graph, owner, num_parts)
    else:
        plan = plan_helpers.edges_lowered(*case)
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    digest = plan.save(path)
    plan_helpers.assert_equal(load(path), plan)
    assert sealing.content_hash(path) == digest
    verify_file(path, graph)
    num_ranks = data.draw(st.integers(1, num_parts))
    rank_of_part = np.repeat(
        np.arange(num_ranks), np.diff(np.arange(num_ranks + 1) * num_parts // num_ranks)
    )
    expected = naive_plan(graph, rank_of_part[owner], rank_of_part[nonzero_owner], num_ranks)
    parts = [read_rank_slice(path, rank, num_ranks)[1] for rank in range(num_ranks)]
    naive.check_parts(parts, expected, graph)
    told = report(path, num_ranks=num_ranks)
    if layout == "edge":
        check_traffic(told.parts, expected)
    assert told.metrics.as_dict() == pytest.approx(expected.figures(), rel=1e-12)
