"""Names of devices, and which transport ranks have that share one."""

import pytest
import torch

from plancc.errors import BackendUnavailable, InputError
from plancc_runtime import launch
from plancc_runtime.devices import own_device
from plancc_runtime.kernels import base
from plancc_runtime.transport import torch_dist
from plancc_runtime.transport.single import SingleTransport


def test_a_device_has_the_name_that_its_tensors_have():
    """A matrix on "cuda" takes rows on "cuda:0": the two names are not equal."""
    assert torch.device("cuda") != torch.device("cuda", 0)
    for name in ("cpu", "meta"):
        device = torch.device(name)
        assert base.numbered(device) == torch.ones(3, device=device).device


def cards(monkeypatch, count, nccl=True):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: nccl)


def test_ranks_that_share_a_device_do_not_meet_by_nccl(monkeypatch):
    cards(monkeypatch, 2)
    assert [torch_dist.best_backend(ranks) for ranks in (None, 1, 2, 3)] == [*3 * ["nccl"], "gloo"]
    for variable, value in (("SIZE", 3), ("RANK", 0), ("LOCAL_SIZE", 3), ("LOCAL_RANK", 0)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{variable}", str(value))
    assert launch.ranks_here() == 3
    meeting = torch_dist.Meeting(0, 3, "localhost", 1)
    with pytest.raises(BackendUnavailable, match="this machine has 2 for 3 ranks; choose gloo"):
        torch_dist.join("nccl", meeting, 0, 1.0, launch.ranks_here())
    cards(monkeypatch, 2, nccl=False)
    assert torch_dist.best_backend(1) == "gloo"
    with pytest.raises(BackendUnavailable, match="built with NCCL"):
        torch_dist.join("nccl", meeting, 0, 1.0, 1)


def test_a_device_that_does_not_start(monkeypatch):
    def refuse(device):
        raise RuntimeError("the driver is too old\nmore")

    cards(monkeypatch, 2)
    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    with pytest.raises(InputError, match=r"`device` cuda:1: CUDA .* \(the driver is too old\)"):
        own_device("cuda:1", SingleTransport())
    with pytest.raises(InputError, match="`device` cuda:2: torch finds 2"):
        own_device("cuda:2", SingleTransport())
