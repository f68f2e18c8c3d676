"""The lowering against sets and dictionaries."""

import os

import naive
import numpy as np
import plan_helpers
import pytest
from hypothesis import given, settings

from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower
from plancc.plan.matrix import graph_of, matrix_of, owners_of
from plancc.plan.metrics import summarize


def check_plan(plan, graph, owner, num_parts):
    """Everything a plan says, against the naive plan."""
    n = graph.num_vertices
    expected = naive.NaivePlan(naive.pattern_of(graph), owner, num_parts)
    parts = [plan.part(m) for m in range(num_parts)]

    header = plan.header
    assert (header.num_vertices, header.num_parts) == (n, num_parts)
    assert header.num_nonzeros == len(graph.indices)
    assert header.directed == graph.directed
    assert plan.owner().tolist() == owner.tolist()
    assert plan.value.dtype == graph.values.dtype
    for name in ("part_ptr", "num_interior", "row_ptr"):
        assert getattr(plan, name).dtype == np.int64, name
    for name in ("global_id", "column"):
        assert getattr(plan, name).dtype == np.int32, name

    naive.check_parts(parts, expected, graph)
    for m, part in enumerate(parts):
        ids = part.global_id.tolist()
        outer = expected.boundary[m]
        assert ids == sorted(expected.rows[m] - outer) + sorted(outer)
        table = plan.receive.of_parts(m, m + 1).row.tolist()
        senders = np.repeat(part.expand.receive.peer, np.diff(part.expand.receive.row_ptr)).tolist()
        sent = [int(parts[q].global_id[r]) for q, r in zip(senders, table, strict=True)]
        assert sent == naive.halo_vertices(parts, m)

    figures = plan.metrics().as_dict()
    assert figures == pytest.approx(expected.figures(), rel=1e-12)
    assert figures.keys() == expected.figures().keys()

    np.testing.assert_array_equal(matrix_of(plan).toarray(), naive.dense_of(graph))


@settings(max_examples=60)  # 20 meet few of the ways in which rows and parts may be empty
@given(case=plan_helpers.cases())
def test_lowering_equals_the_naive_plan(case):
    check_plan(plan_helpers.lowered(*case), *case)


@plan_helpers.costly(3)
@given(case=plan_helpers.cases(max_vertices=200, densities=(0.005, 0.02, 0.1)))
def test_lowering_of_larger_matrices(case):
    """Rows beyond one 64-bit word of the marks, and many parts."""
    check_plan(plan_helpers.lowered(*case), *case)


@pytest.mark.parametrize("num_vertices", [63, 64, 65, 127, 128, 129])
def test_word_boundaries(num_vertices):
    """Every vertex needs every other one, with the part borders at, before and after words."""
    graph = plan_helpers.graph_of(np.ones((num_vertices, num_vertices)))
    for cut in {1, 63, 64, 65, num_vertices - 1} & set(range(num_vertices)):
        owner = (np.arange(num_vertices) >= cut).astype(np.int32)
        plan = plan_helpers.lowered(graph, owner, 2)
        assert plan.part(0).send_mask(1).tolist() == list(range(cut))
        assert plan.part(1).send_mask(0).tolist() == list(range(num_vertices - cut))
        assert matrix_of(plan).toarray().tolist() == np.ones((num_vertices,) * 2).tolist()


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_the_plan_does_not_depend_on_the_number_of_threads(layout, monkeypatch):
    def made():
        plan = plan_helpers.rich_plan(layout, n=150, num_parts=20)
        return plan, summarize(traffic(graph_of(plan), owners_of(plan), 20))

    expected, figures = made()
    for threads in (1, 2, 7):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, n=threads: set(range(n)))
        found, again = made()
        plan_helpers.assert_equal(found, expected)
        assert again == figures


def test_the_input_is_left_as_it_was():
    rng = np.random.default_rng(5)
    graph = plan_helpers.graph_of(plan_helpers.random_array(rng, 20, 0.2))
    owner = rng.integers(0, 3, 20).astype(np.int32)
    before = [array.copy() for array in (graph.indptr, graph.indices, graph.values, owner)]
    lower(graph, Owners(owner), 3, normalization="sym", self_loops=True)
    for array, copy in zip((graph.indptr, graph.indices, graph.values, owner), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_part_out_of_range():
    graph = plan_helpers.graph_of(np.eye(4))
    plan = plan_helpers.lowered(graph, np.array([0, 1, 0, 1], np.int32), 2)
    for index in (-1, 2):
        with pytest.raises(InputError, match=r"0\.\.1"):
            plan.part(index)
    assert plan.part(0).send_mask(1).tolist() == []
    assert plan.part(0).expand.receive.message(7).tolist() == []
