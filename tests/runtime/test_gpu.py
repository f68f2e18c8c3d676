"""Training on a CUDA device is training on the CPU; where there is none, on a simulated one."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
import worlds
from cases import long
from runs import file_of, trained
from simulated_device import simulated_device
from worlds import N

from plancc.plan.routing import with_routes
from plancc.plan.topology import Topology
from plancc_runtime.options import TrainOptions
from plancc_runtime.repeated import RECORDED, Repeated

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]
VARIANTS = [
    {"model": "gcn", "dropout": 0.3, "optimizer": "adam"},
    {"model": "gcn", "norm": "batch", "residual": True, "hidden": 6},
    {"model": "sage", "aggregator": "mean"},
    {"model": "sage", "aggregator": "max", "norm": "layer"},
    {"model": "gin"},
    {"model": "gat", "heads": 2, "hidden": 8},
    {"model": "gcn", "boundary_sampling": 0.5},
    {"model": "gcn", "wire": "int8"},
    {"model": "gcn", "batch_size": 20, "steps": 3},
    {"model": "gat", "heads": 2, "hidden": 8, "attention_dropout": 0.3, "optimizer": "adamw"},
    {"model": "sage", "batch_size": 20, "steps": 3, "feature_cache": 1000},
    {"model": "gcn", "drop_edge": 0.3, "recompute": True, "clip_norm": 0.1},
    {"model": "gcn", "boundary_edge_sampling": 0.5, "normalize_features": True},
]
LATE = [{"model": "gcn", "fold": "delayed", "delay": 1}, {"model": "sage", "fold": "none"}]
ON_EDGE_PLANS = [*(VARIANTS[k] for k in (0, 1, 2, 3, 4, 7)), *LATE]


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=long), 3])
@pytest.mark.parametrize(
    ("layout", "variant"),
    [*(("row", v) for v in VARIANTS), *(("edge", v) for v in ON_EDGE_PLANS)],
    ids=str,
)
def test_training_is_that_on_the_cpu(layout, variant, ranks):
    a, owner = worlds.array("undirected"), np.arange(N) * ranks // N
    holder = np.random.default_rng(4).integers(0, ranks, (N, N))
    np.fill_diagonal(holder, owner)
    plan = reference.make_parts(a, owner, ranks, worlds.data())
    if layout == "edge":
        plan = reference.make_parts(a, owner, ranks, worlds.data(), holder)
    options = TrainOptions(
        **{"layers": 3, "epochs": 3, "optimizer": "sgd", "lr": 0.1, **variant},
        **{"dtype": "float64", "threads": 1},
    )
    there, here = (trained(plan, replace(options, device=d))[0] for d in ("cuda", "cpu"))
    for name, w in here.weights.items():
        np.testing.assert_allclose(there.weights[name], w, rtol=1e-7, atol=1e-9)
    assert [e.words_sent for e in there.epochs] == [e.words_sent for e in here.epochs]


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_a_run_goes_on_and_predicts_as_on_the_cpu(layout, tmp_path):
    plan = file_of("undirected", layout)
    found = {}
    for device in ("cpu", "cuda"):
        folder = tmp_path / device
        folder.mkdir()
        options = TrainOptions(
            **{"device": device, "dtype": "float64", "threads": 1, "epochs": 4, "eval_every": 2},
            **{"checkpoint": folder / "run", "every": 2, "predict": folder / "found.npy"},
        )
        trained(plan, replace(options, epochs=2, predict=None), 4)
        result = trained(plan, replace(options, resume=True), 4)[0]
        found[device] = result.weights, np.load(folder / "found.npy")
    for name, weight in found["cpu"][0].items():
        np.testing.assert_allclose(found["cuda"][0][name], weight, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found["cuda"][1], found["cpu"][1], rtol=1e-6)


def test_rows_cross_nodes_in_hops_as_on_the_cpu(tmp_path):
    plan = tmp_path / "plan.h5"
    with_routes(worlds.plan("undirected", "row", 4), Topology.parse("2x2")).save(plan)
    options = TrainOptions(dtype="float64", threads=1, epochs=3)
    there, here = (trained(plan, replace(options, device=d), 4)[0] for d in ("cuda", "cpu"))
    assert here.figures == there.figures
    for name, weight in here.weights.items():
        np.testing.assert_allclose(there.weights[name], weight, rtol=1e-7, atol=1e-9)


def test_a_simulated_device_raises_where_tensors_of_two_devices_meet():
    with simulated_device():
        x = torch.ones(3, 2, device="cuda")
        assert (x + 1).device == torch.device("cuda", 0)
        with pytest.raises(RuntimeError, match="tensors of cuda:0 and of cpu meet"):
            x + torch.ones(3, 2)
        with pytest.raises(TypeError, match="can't convert"):
            x.numpy()


def test_repeated_work_is_recorded_once():
    x, calls = torch.zeros(3, device="cuda"), []

    def work():
        calls.append(len(calls))
        return x.add_(1)

    repeated = Repeated(work)
    for k in range(1, 6):
        assert repeated().tolist() == [k, k, k]
    assert len(calls) == (RECORDED if torch.cuda.is_available() else 5)
