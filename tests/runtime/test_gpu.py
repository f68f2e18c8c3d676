"""Training on a CUDA device is training on the CPU; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
import worlds
from runs import trained
from worlds import N

from plancc_runtime.options import TrainOptions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
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
    a, owner = worlds.array("undirected"), np.arange(N) * ranks // N
    holder = np.random.default_rng(4).integers(0, ranks, (N, N))
    np.fill_diagonal(holder, owner)
    plan = reference.make_parts(a, owner, ranks, worlds.data())
    if layout == "edge":
        plan = reference.make_edge_parts(a, owner, holder, ranks, worlds.data())
    options = TrainOptions(
        **{"layers": 3, "epochs": 4, "optimizer": "sgd", "lr": 0.1, **variant},
        **{"dtype": "float64", "threads": 1},
    )
    there, here = (trained(plan, replace(options, device=d))[0] for d in ("cuda", "cpu"))
    for name, w in here.weights.items():
        np.testing.assert_allclose(there.weights[name], w, rtol=1e-7, atol=1e-9)
    assert [e.words_sent for e in there.epochs] == [e.words_sent for e in here.epochs]
