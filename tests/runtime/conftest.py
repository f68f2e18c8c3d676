"""The tests of process grids use the closed forms of tests/predict."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "predict"))


@pytest.fixture
def cuda():
    """The device "cuda": that of the machine, or else one that is simulated."""
    import torch
    from simulated_device import simulated_device

    if torch.cuda.is_available():
        yield
        return
    with simulated_device():
        yield
