"""Fixtures of several tests of the runtime."""

import pytest


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


@pytest.fixture
def float64():
    """What torch makes without a type has 64 bits."""
    import torch

    held = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(held)
