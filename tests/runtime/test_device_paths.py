"""What devices do, on the CPU: the torch operations that take the place of compiled kernels there,
names of devices, and which transport ranks have that share one.
"""

import numpy as np
import pytest
import torch
from cases import pairs

from plancc.errors import BackendUnavailable, InputError
from plancc.sampling.counter import key_of
from plancc_runtime import launch
from plancc_runtime.devices import own_device
from plancc_runtime.kernels import base, edges, masks
from plancc_runtime.nn import dropout as module
from plancc_runtime.transport import torch_dist
from plancc_runtime.transport.single import SingleTransport


@pairs(first=[0, 1, 6], width=[1, 2, 7], dtype=[torch.float32, torch.float64])
def test_a_device_draws_the_dropout_of_the_cpu(first, width, dtype, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 3 * width)  # several blocks of rows, the last a part
    vertices = torch.from_numpy(np.random.default_rng(0).permutation(50).astype(np.int32))
    x = torch.randn(50, width, dtype=dtype)
    mask = module._Mask(0.3, key_of(1, 2, 3), vertices, first)
    out = torch.full_like(x, torch.nan)
    mask._put(x, round(0.3 * 2**32), out)
    torch.testing.assert_close(
        out, mask.applied(x), rtol=1e-6 if dtype is torch.float32 else 1e-15, atol=0
    )
    assert 0 < (out == 0).sum() < out.numel() or width == 1


@pytest.mark.parametrize("heads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_device_drops_the_attention_that_the_cpu_drops(heads, dtype, monkeypatch):
    monkeypatch.setattr(masks, "AT_ONCE", 7 * heads)  # several pieces, the last a part
    random = np.random.default_rng(2)
    dense = random.random((9, 11)) < 0.4
    ptr = np.concatenate([[0], np.cumsum(dense.sum(1))])
    vertices = torch.from_numpy(random.permutation(2**31 - 1 - np.arange(11)).astype(np.int32))
    found = [
        masks.nonzero_mask(
            edges.Pattern.from_csr(ptr, np.nonzero(dense)[1], 11, native=native),
            *(vertices[:9], vertices, 0.3, key_of(1, 2, 3, 1), torch.empty(0, heads, dtype=dtype)),
        )
        for native in (True, False)
    ]
    tolerance = 1e-6 if dtype is torch.float32 else 1e-15
    torch.testing.assert_close(*found, rtol=tolerance, atol=0)
    assert found[0].shape == (dense.sum(), heads)
    assert 0 < (found[0] == 0).sum() < found[0].numel()


@pytest.mark.parametrize("temporary", [1, 100, 1 << 29])
def test_temporaries_are_bounded(temporary, monkeypatch):
    """Few rows at a time give the maxima of all of them."""
    monkeypatch.setattr(edges, "TEMPORARY", temporary)
    random = np.random.default_rng(1)
    dense = random.random((9, 11)) < 0.3
    dense[4] = False
    _row, column = np.nonzero(dense)
    ptr = np.concatenate([[0], np.cumsum(dense.sum(1))])
    pattern = edges.Pattern.from_csr(ptr, column.astype(np.int64), 11, native=False)
    x, y = torch.randn(11, 5).double(), torch.randn(9, 5).double()
    found = edges.first_extreme(pattern, "sub", x, y, by_row=True, largest=True)
    for i in range(9):
        edge = np.arange(ptr[i], ptr[i + 1])
        best = edge[x[column[edge]].argmax(0)] if len(edge) else -np.ones(5)
        np.testing.assert_array_equal(found[i], best)


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
    with pytest.raises(BackendUnavailable, match="this machine has 2 for 3 ranks: choose gloo"):
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
