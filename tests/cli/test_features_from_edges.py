"""Features of vertices from those of their edges: against sums over a list of edges."""

import gzip

import numpy as np
import pytest
import scipy.sparse
import torch
from cli_helpers import ok

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.plan.reader import PlanFile

N, EDGES, WIDTH = 40, 260, 8


@pytest.fixture(scope="module")
def edges():
    random = np.random.default_rng(5)
    pair = random.integers(0, N - 2, (2, EDGES))  # the last vertices have no edge
    pair[:, :3] = 7  # a loop, three times
    return pair, random.standard_normal((EDGES, WIDTH))


def expected(target, source, values, how, flags=()):
    """The reduction over the edges that end at every vertex: float64[N, width]."""
    found, listed = [[] for _ in range(N)], {*zip(target, source, strict=True)}
    for i, j, value in zip(target, source, values, strict=True):
        i, j = (j, i) if "--transpose" in flags else (i, j)
        found[i].append(value)
        if "--symmetrize" in flags and (j, i) not in listed:
            found[j].append(value)
    reduce = {"mean": np.mean, "sum": np.sum}[how]
    zero = np.zeros(values.shape[1])
    return np.stack([reduce(each, axis=0) if each else zero for each in found])


def check(plan, wanted):
    found = plan.vertex_data.features
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted[plan.global_id], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("how", ["mean", "sum"])
@pytest.mark.parametrize("name", ["edge_attr", "edge_feat"])
def test_features_of_an_object(how, name, edges):
    (source, target), values = edges
    labels = np.arange(N) % 3
    obj = {"edge_index": edges[0], name: values, "num_nodes": N, "y": labels}
    plan = plancc.compile(obj, num_parts=3, features_from_edges=how)
    check(plan, expected(target, source, values, how))
    np.testing.assert_array_equal(plan.vertex_data.labels, labels[plan.global_id])


@pytest.mark.parametrize("how", ["mean", "sum"])
@pytest.mark.parametrize("flag", [None, "--symmetrize", "--transpose"])
def test_features_of_a_folder_of_ogb(how, flag, edges, tmp_path):
    (source, target), values = edges
    raw = tmp_path / "proteins" / "raw"
    raw.mkdir(parents=True)
    for table, rows in {
        "edge": edges[0].T.tolist(),
        "edge-feat": values.tolist(),
        "num-node-list": [[N]],
    }.items():
        text = "".join(",".join(map(repr, row)) + "\n" for row in rows)
        (raw / f"{table}.csv.gz").write_bytes(gzip.compress(text.encode()))
    flags = [] if flag is None else [flag]
    out = tmp_path / "plan.h5"
    words = "compile", raw.parent, "-p", 2, "-o", out, "--features-from-edges", how, *flags
    ok(*words, warned=True)
    with PlanFile(out) as file:
        check(file.read_plan(), expected(target, source, values, how, flags))


@pytest.mark.filterwarnings("error::plancc.errors.PlanccWarning")
def test_features_that_are_taken_are_not_called_left_out(edges):
    obj = {"edge_index": edges[0], "edge_attr": edges[1], "num_nodes": N}
    assert plancc.compile(obj, num_parts=1, features_from_edges="sum").vertex_data.features.any()
    with pytest.raises(PlanccWarning, match="is left out; a graph has one value per edge"):
        plancc.compile(obj, num_parts=1)


def test_the_sum_of_weights_is_of_the_symmetrized_matrix(edges, tmp_path):
    """Weights of an edge that is listed both ways are added, A + A^T, and so are the features."""
    (source, target), values = edges
    obj = {"edge_index": edges[0], "edge_weight": values[:, 0], "num_nodes": N}
    torch.save({name: torch.as_tensor(each) for name, each in obj.items()}, tmp_path / "g.pt")
    matrix = scipy.sparse.coo_array((values[:, 0], (target, source)), shape=(N, N)).toarray()
    matrix += matrix.T - np.diag(matrix.diagonal())
    out, how = (
        tmp_path / "plan.h5",
        ("--features-from-edges", "sum", "--symmetrize", "--normalize", "none"),
    )
    ok("compile", tmp_path / "g.pt", "-p", 2, "-o", out, *how, warned=True)
    with PlanFile(out) as file:
        check(file.read_plan(), matrix.sum(axis=1)[:, None])


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_weights_are_features_of_one_column(how, tmp_path):
    random = np.random.default_rng(2)
    matrix = scipy.sparse.random_array((N, N), density=0.1, rng=random, format="coo")
    row, column = matrix.coords
    plan = plancc.compile(matrix, num_parts=2, features_from_edges=how)
    check(plan, expected(row, column, matrix.data[:, None], how))


@pytest.mark.parametrize(
    ("obj", "options", "words"),
    [
        ((4, np.array([[0, 1], [1, 2]])), {}, "edges have neither features nor weights"),
        ({"edge_index": [[0], [1]], "edge_attr": [[1.0]], "x": np.ones((3, 2))}, {}, "leave out"),
        ({"edge_index": [[0], [1]], "edge_attr": np.ones((2, 3)), "num_nodes": 3}, {}, r"\(2, 3\)"),
        ({"edge_index": [[0], [1]], "edge_feat": [["a"]], "num_nodes": 3}, {}, "type <U1"),
        ({"edge_index": [[0], [1]], "edge_feat": [[np.nan]], "num_nodes": 3}, {}, "nan"),
        (
            {("user", "rates", "item"): scipy.sparse.eye_array(3, 4, format="csr")},
            {},
            "`features_from_edges` mean is for graphs of one type",
        ),
        ((4, np.array([[0, 1], [1, 2]])), {"features_from_edges": "max"}, "mean, sum"),
    ],
)
def test_what_is_refused(obj, options, words):
    with pytest.raises(InputError, match=words):
        plancc.compile(obj, **{"features_from_edges": "mean"} | options)
