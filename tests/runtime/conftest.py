"""Fixtures of several tests of the runtime."""

import pytest


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
