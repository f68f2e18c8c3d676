"""Standardised features: numpy's mean and deviation, whatever the ranks and layouts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import worlds
from launcher import alone
from runs import on_ranks, trained, with_data
from worlds import N

import plancc_runtime
from plancc.errors import InputError
from plancc_runtime.nn import Standardization
from plancc_runtime.options import TrainOptions
from plancc_runtime.weights import save_weights

PLANS = {  # layout, parts and ranks
    "alone": ("row", 1, 1),
    "rows": ("row", 3, 3),
    "edges": ("edge", 3, 3),
    "1.5d": ("1.5d 2x2", 2, 4),
    "2d": ("2d 2x2", 2, 4),
    "feature": ("feature 2x2", 2, 4),
}
COMMON = {"epochs": 2, "hidden": 8, "dtype": "float64", "threads": 1}
COMMON |= {"optimizer": "sgd", "lr": 0.05}


def vertex_features() -> np.ndarray:
    """Columns: plain, constant, constant and not 0, far from 0, rare ones, of large scale."""
    random = np.random.default_rng(2)
    columns = random.standard_normal((N, 9))
    columns[:, 1] = 0
    columns[:, 2] = 0.1
    columns[:, 3] = 1000 + random.standard_normal(N) / 100
    columns[:, 4] = np.arange(N) == 7
    columns[:, 5] *= 1e6
    return columns.astype(np.float32)


def standardized(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    constant = (x == x[0]).all(axis=0)
    return np.where(constant, 0, (x - x.mean(axis=0)) / np.where(constant, 1, x.std(axis=0)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Plans of one graph; "done" has the features standardised already."""
    folder = tmp_path_factory.mktemp("plans")
    data = replace(worlds.data(), features=vertex_features())
    for name, (layout, parts, _) in PLANS.items():
        with_data(worlds.plan("undirected", layout, parts), data, folder / f"{name}.h5")
    ready = replace(data, features=standardized(data.features).astype(np.float32))
    with_data(worlds.plan("undirected", "row", 1), ready, folder / "done.h5")
    return folder


def run(plan, **options):
    ranks = PLANS[plan.stem][-1] if plan.stem in PLANS else 1
    return trained(plan, TrainOptions(**{**COMMON, **options}), ranks)[0]


@pytest.fixture(scope="module")
def ready(folder):
    return run(folder / "done.h5")


@pytest.fixture(scope="module")
def first(folder):
    return run(folder / "alone.h5", scale_features="columns")


@pytest.mark.parametrize("name", PLANS)
def test_training_is_that_on_columns_which_numpy_standardised(name, folder, ready, first):
    found = run(folder / f"{name}.h5", scale_features="columns")
    x = vertex_features().astype(np.float64)
    mean, scale = (found.weights[f"standardization.{key}"] for key in ("mean", "scale"))
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-13)
    varies = x.max(axis=0) > x.min(axis=0)
    assert varies.sum() == 7
    np.testing.assert_allclose(scale[varies], 1 / x.std(axis=0)[varies], rtol=1e-12)
    assert not scale[~varies].any()
    losses, expected = ([e.loss for e in result.epochs] for result in (found, ready))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)  # whose file has float32
    np.testing.assert_allclose(losses, [e.loss for e in first.epochs], rtol=1e-10)
    for key, weight in ready.weights.items():
        np.testing.assert_allclose(found.weights[key], weight, rtol=0, atol=1e-5)


def test_rows_are_scaled_first(folder):
    options = {"scale_features": "rows,columns"}
    found = run(folder / "2d.h5", **options)
    x = vertex_features().astype(np.float64)
    x /= np.abs(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.weights["standardization.mean"], x.mean(axis=0), rtol=1e-12)


def test_some_ranks_may_have_no_rows():
    def work(transport):
        rows = torch.tensor([[1.0, 4], [3, 4]]) if transport.rank == 1 else torch.zeros(0, 2)
        layer = Standardization(2)
        layer.fit(rows, transport)
        return layer(rows)

    found = on_ranks(3, work)
    assert [len(rows) for rows in found] == [0, 2, 0]
    assert found[1].tolist() == [[-1, 0], [1, 0]]


def test_a_saved_network_standardises_as_in_training(folder):
    """Also on a graph with other features, with the mean and scale of the training."""
    weights, results = folder / "weights.npz", folder / "results.json"
    done = alone(
        *(folder / "alone.h5", "--epochs", 2, "--scale-features", "columns", "--dtype", "float64"),
        *("--save", weights, "--json", results),
    )
    assert done.returncode == 0, done.stderr
    network = plancc_runtime.load_network(weights, torch.float64)
    graph = plancc_runtime.open(folder / "alone.h5", "single", torch.float64, threads=1)
    assert network.network.standardization.mean.dtype == torch.float64
    found = network(graph)
    ready = torch.tensor(standardized(vertex_features()))[graph.vertices.long()]
    network.network.standardization = None
    torch.testing.assert_close(found, network(graph, ready), rtol=1e-9, atol=1e-9)


def test_weights_are_trained_on_with_their_own_mean_and_scale(folder, first, tmp_path):
    changed = {**first.weights}
    changed["standardization.mean"] = first.weights["standardization.mean"] + 1
    save_weights(tmp_path / "weights.npz", changed)
    again = run(folder / "rows.h5", scale_features="columns", init=tmp_path / "weights.npz")
    for key in ("mean", "scale"):
        name = f"standardization.{key}"
        assert again.weights[name].tolist() == changed[name].tolist()
    with pytest.raises(InputError, match="were trained on standardised features; set `scale"):
        run(folder / "rows.h5", init=tmp_path / "weights.npz")
    plain = {k: w for k, w in first.weights.items() if "standardization" not in k}
    save_weights(tmp_path / "plain.npz", plain)
    started = run(
        folder / "rows.h5", epochs=0, scale_features="columns", init=tmp_path / "plain.npz"
    )
    for key, weight in first.weights.items():
        np.testing.assert_allclose(started.weights[key], weight, rtol=1e-12)
