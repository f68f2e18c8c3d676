"""Features of 16 and 8 bits in a plan: ranks compute with them as with the same numbers of 32."""

from dataclasses import replace

import numpy as np
from cases import turns

import plancc
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.single import SingleTransport


@turns(model=("block", "mop"), kind=(np.float16, np.int8))
def test_losses_are_those_of_wide_features(kind, model, tmp_path):
    rng = np.random.default_rng(2)
    graph = plancc.as_graph((40, rng.integers(0, 40, (2, 300))))
    data = plancc.VertexData(
        features=rng.integers(-9, 9, (40, 6)).astype(kind),
        labels=rng.integers(0, 3, 40).astype(np.int32),
    )
    losses = []
    for dtype in (kind, np.float32):
        features, path = data.features.astype(dtype), tmp_path / f"{np.dtype(dtype)}.h5"
        plancc.compile(graph, model, 1, data=replace(data, features=features)).save(path)
        assert plancc.load(path).vertex_data.features.dtype == dtype
        plancc.verify_file(path)
        result = train(path, TrainOptions(epochs=3, threads=1), SingleTransport())
        losses.append([epoch.loss for epoch in result.epochs])
    assert losses[0] == losses[1]
