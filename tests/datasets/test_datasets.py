"""The data sets: what they promise, that a seed fixes them, and what bad options get."""

import dataclasses
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from plancc.errors import BackendUnavailable, InputError
from plancc.graph.csr import write_csr
from plancc.graph.formats import read_graph
from plancc.graph.union import block_of
from plancc_datasets import DATASETS, dataset_options, load_dataset


def matrix(graph):
    values = np.ones(graph.num_nonzeros) if graph.values is None else graph.values
    return sp.csr_array((values, graph.indices, graph.indptr), shape=(graph.num_vertices,) * 2)


def check(dataset):
    graph, data = dataset.graph, dataset.data
    n = graph.num_vertices
    a = matrix(graph)
    assert a.has_canonical_format
    if not graph.directed:
        assert (a != a.T).nnz == 0
    if data.features is not None:
        assert data.features.dtype == np.float32
        assert len(data.features) == n
        assert np.isfinite(data.features).all()
    if data.labels is not None:
        assert data.labels.dtype == np.int32
        masks = np.stack([data.train_mask, data.val_mask, data.test_mask])
        assert masks.dtype == np.bool_
        assert (masks.sum(axis=0) == 1).all()
        assert set(data.labels[data.train_mask]) == set(data.labels)


@pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")
@pytest.mark.parametrize("name", ["academic", "ratings", "weather"])
def test_graphs_of_types_are_written_as_a_folder(name, tmp_path):
    graph = load_dataset(name).graph
    (tmp_path / "made").mkdir()
    write_csr(graph, tmp_path / "made")
    again = read_graph(tmp_path / "made")
    assert again.types == graph.types
    assert np.array_equal(again.indptr, graph.indptr)
    assert np.array_equal(again.indices, graph.indices)


def test_points_of_the_grid_take_the_nearest_of_the_mesh():
    graph = load_dataset("weather", height=4, width=3, num_mesh=5, neighbours=2).graph
    mesh = np.random.default_rng(0).random((5, 2))
    points = [((i + 0.5) / 4, (j + 0.5) / 3) for i in range(4) for j in range(3)]
    decode = block_of(graph, ("mesh", "decode", "grid")).toarray() != 0
    for point, taken in zip(points, decode, strict=True):
        far = np.hypot(*(mesh - point).T)
        assert taken.sum() == 2
        assert far[taken].max() <= far[~taken].min()


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_dataset(name):
    dataset = load_dataset(name)
    check(dataset)
    assert dataset.graph.source.name.startswith(name)
    again = load_dataset(name)
    assert np.array_equal(dataset.graph.indices, again.graph.indices)
    made = [{"": each.data, **each.data.of_type} for each in (dataset, again)]
    assert made[0].keys() == made[1].keys()
    for name_of_type, data in made[0].items():
        one, other = data.arrays(), made[1][name_of_type].arrays()
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key]) for key in one)
    for option in dataset_options(name):
        assert option.metadata["help"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        DATASETS[name]().seed = 1


@pytest.mark.parametrize("name", ["rmat", "sbm", "geometric"])
def test_seed_matters(name):
    one, other = (load_dataset(name, seed=seed).graph for seed in (1, 2))
    assert not np.array_equal(one.indices, other.indices)


def test_digits():
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    dataset = load_dataset("digits", neighbors=7, seed=3)
    pixels, classes = load_digits(return_X_y=True)
    assert dataset.data.features.shape == (1797, 64)
    assert dataset.data.features.min() == 0
    assert dataset.data.features.max() == 1
    assert np.array_equal(dataset.data.labels, classes)
    reference = kneighbors_graph(pixels, 7)
    reference = (reference + reference.T).astype(bool)
    # ties between equally distant images may go either way
    assert (matrix(dataset.graph).astype(bool) != reference).nnz < 0.01 * reference.nnz
    share = [getattr(dataset.data, f"{x}_mask").mean() for x in ("train", "val", "test")]
    assert share == pytest.approx([0.2, 0.2, 0.6], abs=0.01)
    for label in range(10):
        assert dataset.data.train_mask[classes == label].mean() == pytest.approx(0.2, abs=0.01)


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'plancc\[datasets\]'"):
        load_dataset("digits")


def test_karate():
    dataset = load_dataset("karate")
    reference = nx.karate_club_graph()
    assert (matrix(dataset.graph) != nx.to_scipy_sparse_array(reference, weight=None)).nnz == 0
    clubs = [reference.nodes[v]["club"] == "Officer" for v in reference]
    assert dataset.data.labels.tolist() == clubs


def test_rmat_quadrants():
    graph = load_dataset("rmat", scale=12, edge_factor=8, a=0.5, b=0.3, c=0.1, seed=5).graph
    a = matrix(graph)
    assert graph.num_vertices == 4096
    assert graph.directed
    m = 8 * 4096
    assert 0.8 * m < a.nnz < m
    half = 2048
    # duplicates thin out the dense quadrant a little
    shares = [a[:half, :half].nnz, a[:half, half:].nnz, a[half:, :half].nnz, a[half:, half:].nnz]
    assert np.array(shares) / m == pytest.approx([0.5, 0.3, 0.1, 0.1], abs=0.07)


def test_rmat_corners():
    assert matrix(load_dataset("rmat", scale=3, a=1, b=0, c=0).graph).nonzero() == ([0], [0])
    assert matrix(load_dataset("rmat", scale=3, a=0, b=1, c=0).graph).nonzero() == ([0], [7])
    assert matrix(load_dataset("rmat", scale=3, a=0, b=0, c=1).graph).nonzero() == ([7], [0])
    assert matrix(load_dataset("rmat", scale=3, a=0, b=0, c=0).graph).nonzero() == ([7], [7])


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 5), (4, 7), (6, 3)])
@pytest.mark.parametrize("periodic", [False, True])
def test_grid_against_networkx(rows, cols, periodic):
    graph = load_dataset("grid", rows=rows, cols=cols, periodic=periodic).graph
    if not periodic or min(rows, cols) > 2:
        reference = nx.grid_2d_graph(rows, cols, periodic=periodic)
        order = [(i, j) for i in range(rows) for j in range(cols)]
        expected = nx.to_numpy_array(reference, nodelist=order)
        assert np.array_equal(matrix(graph).toarray(), expected)
    assert matrix(graph).diagonal().sum() == 0


@pytest.mark.parametrize("periodic", [False, True])
def test_nine_points(periodic):
    graph = load_dataset("grid", rows=5, cols=6, points=9, periodic=periodic).graph
    down, right = np.divmod(np.arange(30), 6)
    i, j = abs(down[:, None] - down), abs(right[:, None] - right)
    if periodic:
        i, j = np.minimum(i, 5 - i), np.minimum(j, 6 - j)
    assert np.array_equal(matrix(graph).toarray(), np.maximum(i, j) == 1)


def test_sbm():
    dataset = load_dataset("sbm", blocks=4, size=200, p_in=0.2, p_out=0.01, seed=1)
    a = matrix(dataset.graph).toarray()
    labels = np.repeat(np.arange(4), 200)
    assert np.array_equal(dataset.data.labels, labels)
    inside = labels[:, None] == labels
    assert a[inside].mean() == pytest.approx(0.2 * 199 / 200, rel=0.05)
    assert a[~inside].mean() == pytest.approx(0.01, rel=0.1)
    # every block and every pair of blocks has its share
    blocks = a.reshape(4, 200, 4, 200).mean(axis=(1, 3))
    assert blocks == pytest.approx(np.where(np.eye(4), 0.199, 0.01), rel=0.3)
    assert a.diagonal().sum() == 0
    means = np.stack([dataset.data.features[labels == k].mean(axis=0) for k in range(4)])
    nearest = ((dataset.data.features[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.9


@pytest.mark.parametrize(("p_in", "p_out"), [(0, 0), (1, 1), (1, 0), (0, 1), (0.9, 0.6)])
def test_sbm_extremes(p_in, p_out):
    graph = load_dataset("sbm", blocks=3, size=7, p_in=p_in, p_out=p_out).graph
    a = matrix(graph).toarray()
    block = np.arange(21) // 7
    inside = (block[:, None] == block) & ~np.eye(21, dtype=bool)
    outside = block[:, None] != block
    for mask, p in ((inside, p_in), (outside, p_out)):
        assert a[mask].mean() == (p if p in (0, 1) else pytest.approx(p, abs=0.2))
    assert a.diagonal().sum() == 0


def test_sbm_single_vertices():
    assert load_dataset("sbm", blocks=1, size=1).graph.num_nonzeros == 0
    assert load_dataset("sbm", blocks=5, size=1, p_out=1).graph.num_nonzeros == 20


def test_geometric():
    dataset = load_dataset("geometric", num_vertices=300, radius=0.1)
    points = dataset.data.features.astype(float)
    distance = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    expected = (distance <= 0.1) & ~np.eye(300, dtype=bool)
    sure = abs(distance - 0.1) > 1e-6
    assert np.array_equal(matrix(dataset.graph).toarray()[sure], expected[sure])
    degree = load_dataset("geometric", num_vertices=20000).graph.row_nonzeros().mean()
    assert degree == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("nothing", {}, "unknown dataset 'nothing'; choose from digits, karate"),
        ("digits", {"k": 3}, "no option 'k'; choose from neighbors, seed"),
        ("digits", {"neighbors": 0}, r"`neighbors` '?0'?: "),
        ("digits", {"neighbors": 1797}, r"`neighbors` '?1797'?: "),
        ("karate", {"seed": -1}, r"`seed` '?-1'?: "),
        ("rmat", {"scale": 40}, r"`scale` '?40'?: "),
        ("rmat", {"a": 0.9, "b": 0.9}, "add up to at most 1"),
        ("rmat", {"a": -0.1}, r"`a` '?-0.1'?: "),
        ("rmat", {"edge_factor": 1.5}, r"`edge_factor` '?1.5'?: "),
        ("grid", {"rows": 0}, r"`rows` '?0'?: "),
        ("grid", {"rows": 2**20, "cols": 2**20}, "the limit is 2147483647"),
        ("grid", {"points": 7}, r"`points` '?7'?: "),
        ("grid", {"periodic": "maybe"}, r"`periodic` '?maybe'?: "),
        ("sbm", {"p_in": 2}, r"`p_in` '?2'?: "),
        ("sbm", {"p_out": float("nan")}, r"`p_out` '?nan'?: "),
        ("sbm", {"blocks": 2**20, "size": 2**20}, "the limit is 2147483647"),
        ("geometric", {"num_vertices": "ten"}, r"`num_vertices` '?ten'?: "),
        ("geometric", {"radius": -1}, r"`radius` '?-1'?: "),
    ],
)
def test_bad_options(name, options, words):
    with pytest.raises(InputError, match=words):
        load_dataset(name, **options)
