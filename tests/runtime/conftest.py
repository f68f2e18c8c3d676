"""The tests of process grids use the closed forms of tests/predict."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "predict"))


@pytest.fixture(scope="module")
def small_measurements():
    """Profiles measure the machine with arrays of a megabyte, not of 256."""
    from plancc_runtime import profile

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile, "COPIED_BYTES", 1 << 20)
        patch.setattr(profile, "PRODUCT_SIZE", {"cpu": 128})
        yield


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
