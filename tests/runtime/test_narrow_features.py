"""Features of 16 and 8 bits in a plan: ranks compute with them as with the same numbers of 32."""

from dataclasses import replace

import numpy as np
import pytest
from cases import long

import plancc
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.single import SingleTransport


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        *(("block", np.float16), ("mop", np.int8)),
        pytest.param("block", np.int8, marks=long),
        pytest.param("mop", np.float16, marks=long),
    ],
)
def test_losses_are_those_of_wide_features(kind, model, tmp_path):
    rng = np.random.default_rng(2)
    graph = plancc.as_graph((40, rng.integers(0, 40, (2, 300))))
    data = plancc.VertexData(
        features=rng.integers(-9, 9, (40, 6)).astype(kind),
        labels=rng.integers(0, 3, 40).astype(np.int32),
    )
    losses = []
    for name, given in (("narrow", data), ("wide", replace(data, features=data.features * 1.0))):
        features = given.features if name == "narrow" else given.features.astype(np.float32)
        plan = plancc.compile(graph, model, 1, data=replace(given, features=features))
        plan.save(tmp_path / f"{name}.h5")
        read = plancc.load(tmp_path / f"{name}.h5")
        assert read.vertex_data.features.dtype == features.dtype
        plancc.verify_file(tmp_path / f"{name}.h5")
        result = train(
            tmp_path / f"{name}.h5", TrainOptions(epochs=3, threads=1), SingleTransport()
        )
        losses.append([epoch.loss for epoch in result.epochs])
    assert losses[0] == losses[1]
