"""Normalisation against dense arrays."""

from dataclasses import replace

import numpy as np
import pytest
import worlds
from graph_helpers import entries
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.graph import Source
from plancc.graph.normalize import normalize


def graph_of(array, *, directed=True, **fields):
    return worlds.graph_of(array, directed=directed, source=Source("test.mtx"), **fields)


def expected(array, normalization, self_loops):
    """The table of the docstring on dense arrays."""
    b = array + np.eye(len(array)) if self_loops else array.copy()
    d = b.sum(axis=1)
    inverse = np.divide(1, d, out=np.zeros_like(d), where=(b != 0).any(axis=1))
    if normalization == "row":
        return b * inverse[:, None]
    if normalization == "sym":
        return b * np.sqrt(np.outer(inverse, inverse))
    return b


@settings(max_examples=60)  # three ways, with loops and values or not, in two precisions
@given(data=st.data())
def test_equals_the_definition(data):
    n = data.draw(st.integers(1, 10))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    density = data.draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    normalization = data.draw(st.sampled_from(["sym", "row", "none"]))
    self_loops, valued = data.draw(st.booleans()), data.draw(st.booleans())
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    array = np.where(rng.random((n, n)) < density, rng.uniform(0.1, 9, (n, n)), 0)
    if normalization == "none":
        array *= rng.choice([-1, 1], (n, n))
    if not valued:
        array = (array != 0).astype(float)
    given = array if valued else array.astype(bool)
    graph = graph_of(given, directed=data.draw(st.booleans()))
    found = normalize(graph, normalization, self_loops=self_loops, dtype=dtype)

    want = expected(array, normalization, self_loops)
    pattern = (array != 0) | (np.eye(n, dtype=bool) if self_loops else False)
    if normalization == "sym" and not self_loops:
        pattern &= array.any(axis=1)[None, :]  # columns of empty rows are zero, hence dropped
    got = np.zeros((n, n))
    rows = np.repeat(np.arange(n), np.diff(found.indptr))
    got[rows, found.indices] = found.values
    assert set(zip(rows.tolist(), found.indices.tolist(), strict=True)) == {
        (int(i), int(j)) for i, j in np.argwhere(pattern)
    }
    assert (got[pattern] != 0).all()
    for r in range(n):
        columns = found.indices[found.indptr[r] : found.indptr[r + 1]]
        assert (np.diff(columns) > 0).all()
    assert found.values.dtype == dtype
    assert found.directed == graph.directed
    np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == np.float32 else 1e-14)


def test_values_are_rounded_once():
    """float32 values are the correctly rounded float64 results."""
    rng = np.random.default_rng(0)
    graph = graph_of(rng.uniform(0.1, 2, (20, 20)))
    exact = normalize(graph, "sym", dtype=np.float64).values
    assert normalize(graph, "sym").values.tolist() == exact.astype(np.float32).tolist()


def test_a_symmetric_matrix_stays_symmetric():
    rng = np.random.default_rng(1)
    array = rng.uniform(0.1, 2, (20, 20)) * (rng.random((20, 20)) < 0.3)
    found = entries(normalize(graph_of(array + array.T), "sym"))
    assert all(found[j, i] == value for (i, j), value in found.items())


def test_the_graph_is_left_as_it_was_and_its_fields_go_along():
    ids, weights = np.array([7, 9]), np.array([[1], [2]])
    graph = graph_of([[2.0, 1], [1, 0]], original_ids=ids, vertex_weights=weights)
    before = graph.values.copy()
    found = normalize(graph, "row")
    assert graph.values.tolist() == before.tolist()
    counts = "self loops of the source raised by the identity: 1"
    assert found.source == replace(graph.source, counts=counts)
    assert found.original_ids is ids
    assert found.vertex_weights is weights


@pytest.mark.parametrize("normalization", ["sym", "row"])
@pytest.mark.parametrize(
    ("row", "total"), [([1.0, -2, 0], "0"), ([-4.0, 0, 1], "-2"), ([1e308, 1e308, 0], "inf")]
)
def test_rows_without_a_positive_sum(normalization, row, total):
    array = np.ones((3, 3))
    array[1] = row
    with pytest.raises(InputError, match=rf"test\.mtx: .*vertex 1 .* sum to {total};") as caught:
        normalize(graph_of(array), normalization)
    assert "`normalize` none" in str(caught.value)
    normalize(graph_of(array), "none", dtype=np.float64)


def test_values_that_float32_cannot_hold():
    graph = graph_of([[1e300]])
    assert normalize(graph, "none", dtype=np.float64).values.tolist() == [1e300]
    with pytest.raises(InputError, match=r"test\.mtx: a value is too large for float32"):
        normalize(graph, "none")
    assert normalize(graph, "row").values.tolist() == [1.0]


def test_unknown_normalization():
    with pytest.raises(InputError, match="'mean'; choose from sym, row, none"):
        normalize(graph_of([[1.0]]), "mean")


def test_zeros_that_arise_are_dropped():
    cancelled = normalize(graph_of([[-1.0, 1.0], [1.0, 1.0]]), "none")
    assert entries(cancelled) == {(0, 1): 1, (1, 0): 1, (1, 1): 2}
    too_small = normalize(graph_of([[0.0, 1e-60], [1.0, 1.0]]), "none")
    assert entries(too_small) == {(0, 0): 1, (1, 0): 1, (1, 1): 2}


@pytest.mark.parametrize("normalization", ["sym", "row"])
def test_a_sum_that_cancels_is_zero(normalization):
    """0.1 + 0.2 - 0.3 is 5.6e-17 in float64: rounding, whose inverse would be 2e16."""
    values = np.array([0.1, 0.2, -0.3, 1.0, 1.0])
    graph = build_graph(3, np.array([0, 0, 0, 1, 2]), np.array([1, 2, 0, 0, 0]), values)
    with pytest.raises(InputError, match=r"vertex 0 .*sum to 0"):
        normalize(graph, normalization, self_loops=False)
