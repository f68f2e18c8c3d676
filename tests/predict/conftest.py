"""What the tests of predictions compile once."""

import numpy as np
import pytest
from predict_helpers import matrix, rmat

import plancc

__all__ = ["matrix", "plan"]


@pytest.fixture(scope="session")
def plan():
    """A row plan of four parts; one in twenty vertices is for training, three in four of them
    have one of three classes."""
    random, n = np.random.default_rng(0), rmat().num_vertices
    data = plancc.VertexData(
        features=random.random((n, 12), dtype=np.float32),
        labels=random.integers(-1, 3, n, dtype=np.int32),
        train_mask=random.random(n) < 0.05,
    )
    return plancc.compile(rmat(), "gp", 4, partitioner="metis", data=data)
