"""Training on a CUDA device is training on the CPU; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch

from plancc.graph.vertexdata import VertexData
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
N = 60
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
]
ON_EDGE_PLANS = [VARIANTS[k] for k in (0, 1, 2, 3, 4, 7)]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    ("layout", "variant"),
    [*(("row", v) for v in VARIANTS), *(("edge", v) for v in ON_EDGE_PLANS)],
    ids=str,
)
def test_training_is_that_on_the_cpu(layout, variant, ranks):
    random = np.random.default_rng(4)
    a = reference.normalised(random.random((N, N)) < 0.1)
    data = VertexData(
        features=random.standard_normal((N, 7)).astype(np.float32),
        labels=random.integers(0, 4, N).astype(np.int32),
        train_mask=random.random(N) < 0.4,
    )
    owner = np.arange(N) * ranks // N
    header, parts = reference.make_parts(a, owner, ranks, data)
    if layout == "edge":
        holder = random.integers(0, ranks, (N, N))
        np.fill_diagonal(holder, owner)
        header, parts = reference.make_edge_parts(a, owner, holder, ranks, data)

    def trained(device: str):
        options = TrainOptions(
            **{"layers": 3, "epochs": 4, "optimizer": "sgd", "lr": 0.1, **variant},
            **{"dtype": "float64", "threads": 1},
            device=device,
        )
        return run_ranks(ranks, lambda t: train((header, parts[t.rank]), options, t))[0]

    there, here = trained("cuda"), trained("cpu")
    for name, w in here.weights.items():
        np.testing.assert_allclose(there.weights[name], w, rtol=1e-7, atol=1e-9)
    assert [e.words_sent for e in there.epochs] == [e.words_sent for e in here.epochs]
