"""What parts share evenly, and how even they can be."""

import itertools

import numpy as np
import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models import MODELS
from plancc.models.limits import Limits, least_maximum, part_weights
from plancc.models.weights import MAX_TOTAL, Balance, combined, constraints, vertex_weights
from plancc.plan.metrics import imbalance

ARRAY = np.array([[1, 1, 1], [0, 0, 0], [0, 0, 1]])
MASK = np.array([True, False, True])


def graph_of(array=ARRAY, **fields) -> Graph:
    return worlds.graph_of(array.astype(bool), **fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nnz", [3, 0, 1]),
        ("rows", [1, 1, 1]),
        ("weights", [5, 0, 7]),
        ("train", [1, 0, 1]),
        # two layers, 10 -> 4 -> 3: nonzeros * (10 + 4) + 10 * 4 + 4 * 3
        ("work", [3 * 14 + 52, 52, 14 + 52]),
    ],
)
def test_one_constraint(text, expected):
    graph = graph_of(vertex_weights=np.array([[5], [0], [7]]))
    balance = Balance((text,), (10, 4, 3), MASK)
    found = vertex_weights(graph, balance)
    assert found.tolist() == expected
    assert found.dtype == np.int64
    assert list(constraints(graph, balance)) == [text]


def test_several_constraints():
    graph = graph_of(vertex_weights=np.array([[5, 1], [0, 1], [7, 2]]))
    assert vertex_weights(graph, "weights").tolist() == [[5, 1], [0, 1], [7, 2]]
    assert vertex_weights(graph, "rows, nnz").tolist() == [[1, 3], [1, 0], [1, 1]]
    both = Balance(("weights", "train"), train_mask=MASK)
    assert vertex_weights(graph, both).tolist() == [[5, 1, 1], [0, 1, 0], [7, 2, 1]]
    assert list(constraints(graph, both)) == ["weights 1", "weights 2", "train"]
    assert str(Balance.parse(" rows , nnz")) == "rows,nnz"


def test_limits_of_their_own():
    balance = Balance.parse(" nnz : 5e-2, rows,weights:0")
    assert balance.names == ("nnz", "rows", "weights")
    assert str(balance) == "nnz:0.05,rows,weights:0.0"
    again = Balance.parse(str(balance))
    assert vars(again) == vars(balance)
    names = ["nnz", "rows", "weights", "weights 2"]
    assert [balance.epsilon(name, 0.3) for name in names] == [0.05, 0.3, 0.0, 0.0]
    assert str(balance.without_limits()) == "nnz,rows,weights"
    graph = graph_of(vertex_weights=np.array([[5, 1], [0, 1], [7, 2]]))
    limits = balance.limits(graph, 2, 0.3)
    assert limits.names == ("nnz", "rows", "weights 1", "weights 2")
    assert limits.epsilon.tolist() == [0.05, 0.3, 0.0, 0.0]
    assert limits.described == "nnz 0.05, rows 0.3, weights 1 0, weights 2 0"
    assert limits.weights.tolist() == [[3, 1, 5, 1], [0, 1, 0, 1], [1, 1, 7, 2]]
    owner = np.array([0, 1, 1], np.int32)
    assert limits.load(owner).tolist() == [[3, 1, 5, 1], [1, 2, 7, 3]]
    # limits 3 (the heaviest), 2, 7 (the heaviest), 2
    assert limits.overload(limits.load(np.array([0, 0, 1], np.int32))) == 0
    assert limits.overload(limits.load(owner)) == 1 / 2  # weights 2: 3
    over = 1 / 2 + 1 / 2 + 5 / 6 + 2 / 2
    assert limits.overload(limits.load(np.zeros(3, np.int32))) == over


@pytest.mark.parametrize(
    ("text", "dims", "words"),
    [
        ("edges", None, "unknown balance 'edges'; choose from nnz, rows, weights, work, train"),
        ("", None, "unknown balance ''"),
        ("nnz,", None, "unknown balance ''"),
        ("nnz,rows,nnz", None, "balance 'nnz,rows,nnz' names 'nnz' twice"),
        ("nnz:0.1,nnz:0.2", None, "balance 'nnz,nnz' names 'nnz' twice"),
        ("nnz:", None, "balance 'nnz:': '' is not an allowed imbalance; give a number that is at"),
        ("rows,nnz:x", None, "balance 'nnz:x': 'x' is no"),
        ("nnz:0.1:0.2", None, "balance 'nnz:0.1:0.2': '0.1:0.2' is not an allowed imbalance"),
        ("nnz:-0.1", None, "balance 'nnz:-0.1': '-0.1' is no"),
        ("nnz:nan", None, "balance 'nnz:nan': 'nan' is no"),
        ("nnz:inf", None, "balance 'nnz:inf': 'inf' is no"),
        (":0.1", None, "unknown balance ''"),
        ("work", None, "balance 'work' needs the widths of the layers (`dims`)"),
        ("rows,work", None, "`dims`"),
        ("work", [16], "dims [16]: two or more"),
        ("nnz", [], "dims []"),
        ("work", [16, 0], "dims [16, 0]"),
        ("work", [16, 2.5], "dims [16, 2.5]"),
        ("work", [16, True], "dims"),
        ("work", "16,4", "dims"),
    ],
)
def test_wrong_balances(text, dims, words):
    with pytest.raises(InputError) as caught:
        Balance.parse(text, dims)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("balance", "words"),
    [
        ("weights", "memory: balance 'weights' needs vertex weights, but the graph has none; give"),
        ("train", "balance 'train' needs vertex data with a 'train_mask' (`data`)"),
        (Balance(("train",), train_mask=np.zeros(3, bool)), "holds no vertex"),
        (Balance(("work",), (2**31 - 1, 2**31 - 1)), f"exceed {MAX_TOTAL}"),
    ],
)
def test_balances_that_a_graph_cannot_have(balance, words):
    with pytest.raises(InputError) as caught:
        vertex_weights(graph_of(), balance)
    assert words in str(caught.value)


def test_weights_that_overflow_are_refused():
    weights = np.stack([np.ones(20), np.full(20, 9 * 10**17)], axis=1).astype(np.int64)
    with pytest.raises(InputError, match="sum to more than"):
        vertex_weights(graph_of(np.eye(20), vertex_weights=weights), "weights")


@pytest.mark.parametrize("model", [name for name in MODELS if MODELS[name].layout == "row"])
def test_every_row_model_takes_several_constraints(model):
    graph = graph_of(np.eye(12) + np.eye(12, k=1))
    options = {"part": np.arange(12) % 3} if model == "file" else {}
    problem = MODELS[model](**options).build(graph, 3, balance="nnz,rows", seed=0)
    if MODELS[model].problem is not None:
        assert problem.vertex_weights.shape == (12, 2)
        assert problem.num_vertices == 12
    else:
        assert np.bincount(problem.rows, minlength=3).tolist() == [4, 4, 4]


@given(data=st.data(), n=st.integers(1, 8), c=st.integers(2, 4))
def test_combined_weights_stand_for_all(data, n, c):
    high = data.draw(st.sampled_from([1, 9, MAX_TOTAL // 8]))
    weights = np.array(
        data.draw(
            st.lists(st.lists(st.integers(0, high), min_size=c, max_size=c), min_size=n, max_size=n)
        )
    )
    found = combined(weights)
    assert found.dtype == np.int64
    assert found.sum() <= MAX_TOTAL
    assert ((found > 0) == (weights > 0).any(axis=1)).all()
    total = weights.sum(axis=0)
    share = sum(weights[:, k] / total[k] for k in range(c) if total[k])
    np.testing.assert_allclose(found / (MAX_TOTAL / c), share, rtol=1e-12, atol=1e-12)
    assert combined(weights[:, 0]) is not found


def test_one_weight_stands_for_itself():
    weights = np.array([3, 0, 1])
    assert combined(weights) is weights


@given(n=st.integers(1, 20), p=st.integers(1, 5), c=st.integers(1, 3), seed=st.integers(0, 99))
def test_part_weights(n, p, c, seed):
    rng = np.random.default_rng(seed)
    owner, weights = rng.integers(p, size=n).astype(np.int32), rng.integers(2**50, size=(n, c))
    naive = [[sum(int(w) for w in weights[owner == m, k]) for k in range(c)] for m in range(p)]
    found = part_weights(owner, weights, p)
    assert found.tolist() == naive
    assert found.dtype == np.int64
    assert part_weights(owner, weights[:, 0], p).tolist() == [row[0] for row in naive]


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=7), num_parts=st.integers(1, 3))
def test_no_partition_is_below_the_bound(weights, num_parts):
    weights = np.array(weights)
    loads = [
        part_weights(np.array(owner), weights, num_parts)
        for owner in itertools.product(range(num_parts), repeat=len(weights))
    ]
    assert least_maximum(weights, num_parts) <= min(int(load.max()) for load in loads)
    assert Limits(weights, num_parts, 0).least_imbalance <= min(map(imbalance, loads)) + 1e-12


def test_bound_of_heavy_vertices():
    for weights, num_parts, least in (([10, 1, 1], 3, 1.5), ([0, 0], 2, 0), ([1] * 5, 4, 0.6)):
        limits = Limits(np.array(weights), num_parts, 0)
        assert limits.least_imbalance == pytest.approx([least])
    # the two lightest of the four heaviest share one of three parts
    assert least_maximum(np.array([5, 1, 4, 6, 4]), 3) == 8
    assert least_maximum(np.array([5, 5, 5]), 3) == 5
