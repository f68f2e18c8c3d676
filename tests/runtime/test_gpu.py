"""Training on a CUDA device is training on the CPU; where there is none, on a simulated one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import worlds
from cases import long
from runs import file_of, slices_of, trained
from simulated_device import simulated_device

from plancc.plan.routes import with_routes
from plancc.plan.topology import Topology
from plancc_runtime.kernels import edges, masks
from plancc_runtime.nn import dropout
from plancc_runtime.options import TrainOptions
from plancc_runtime.repeated import RECORDED, Repeated

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """Blocks of few rows and nonzeros at a time, the last a part."""
    monkeypatch.setattr(dropout, "AT_ONCE", 100)
    monkeypatch.setattr(masks, "AT_ONCE", 70)
    monkeypatch.setattr(edges, "TEMPORARY", 500)


ROW = [
    {"dropout": 0.3, "optimizer": "adam"},
    {"norm": "batch", "residual": True},
    {"model": "sage", "aggregator": "max", "norm": "layer"},
    {"boundary_sampling": 0.5},
    {"batch_size": 20, "steps": 2},
    {"model": "gat", "heads": 2, "attention_dropout": 0.3, "optimizer": "adamw"},
    {"model": "sage", "batch_size": 20, "steps": 2, "feature_cache": 1000},
    {"drop_edge": 0.3, "recompute": True, "clip_norm": 0.1},
    {"boundary_edge_sampling": 0.5, "scale_features": "rows"},
]
EDGE = [{"model": "gin", "wire": "bf16"}, {"fold": "delayed", "delay": 1, "epochs": 3}]
OTHERS = [
    *(("1d 2", {"model": "gin", "dropout": 0.3}), ("1.5d 2x2 sparse", {})),
    *(("2d 2x2", {"dropout": 0.3}), ("3d 1x2x2", {"model": "gin"})),
    ("feature 1x2", {"model": "sage", "pipeline": "3"}),
    ("feature 1x2", {"model": "sage", "pipeline": "3", "aggregate_on": "cpu"}),
    *(
        pytest.param(*case, marks=long)
        for case in (
            *(("edge", ROW[0]), ("edge", ROW[2]), ("edge", {"model": "sage", "fold": "none"})),
            *(("1.5d 2x2", {}), ("feature 1x1", {"pipeline": "3"})),
            ("feature 1x2", {"model": "sage", "pipeline": "off", "aggregate_on": "cpu"}),
        )
    ),
]


@pytest.mark.parametrize(
    ("layout", "chosen"),
    [*(("row", each) for each in ROW), *(("edge", each) for each in EDGE), *OTHERS],
    ids=str,
)
def test_training_is_that_on_the_cpu(layout, chosen):
    slices = slices_of("undirected", layout, 2)
    options = TrainOptions(
        **{"epochs": 1, "hidden": 6, "optimizer": "sgd", "lr": 0.1, **chosen},
        **{"dtype": "float64", "threads": 1},
    )
    there, here = (trained(slices, replace(options, device=d))[0] for d in ("cuda", "cpu"))
    for name, w in here.weights.items():
        np.testing.assert_allclose(there.weights[name], w, rtol=1e-7, atol=1e-9)
    assert [e.words_sent for e in there.epochs] == [e.words_sent for e in here.epochs]
    assert there.figures == here.figures


def test_a_run_goes_on_and_predicts_as_on_the_cpu(tmp_path):
    plan = file_of("undirected", "edge", 2)
    found = {}
    for device in ("cpu", "cuda"):
        folder = tmp_path / device
        folder.mkdir()
        options = TrainOptions(
            **{"device": device, "dtype": "float64", "threads": 1, "epochs": 2, "eval_every": 1},
            **{"checkpoint": folder / "run", "every": 1, "predict": folder / "found.npz"},
        )
        trained(plan, replace(options, epochs=1, predict=None), 2)
        result = trained(plan, replace(options, resume=True), 2)[0]
        found[device] = result.weights, np.load(folder / "found.npz")["probability"]
    for name, weight in found["cpu"][0].items():
        np.testing.assert_allclose(found["cuda"][0][name], weight, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found["cuda"][1], found["cpu"][1], rtol=1e-6)


def test_rows_cross_nodes_in_hops_as_on_the_cpu(tmp_path):
    plan = tmp_path / "plan.h5"
    with_routes(worlds.plan("undirected", "row", 4), Topology.parse("2x2")).save(plan)
    options = TrainOptions(dtype="float64", threads=1, epochs=1)
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
