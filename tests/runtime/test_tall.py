"""Products of many rows with a small matrix, against float64."""

from __future__ import annotations

import pytest
import torch

from plancc_runtime.kernels import dense, tall

torch.manual_seed(0)


@pytest.mark.parametrize(("rows", "d_in", "d_out"), [(2571, 33, 41), (1031, 8, 128), (5, 1, 3)])
def test_the_compiled_product_and_its_gradients(rows: int, d_in: int, d_out: int) -> None:
    x, weight, bias = torch.randn(rows, d_in), torch.randn(d_in, d_out), torch.randn(d_out)
    onto, g = torch.randn(rows, d_out), torch.randn(rows, d_out)
    of_x, masked = torch.empty(rows, d_in), torch.empty(rows, d_out)
    exact = torch.relu(onto.double() + x.double() @ weight.double() + bias.double())
    out = onto.clone()
    tall.forward(x, weight, bias, out, add=True, rectified=True)
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    of_out = torch.where(out > 0, g, 0).double()
    wanted = x.double().T @ of_out, of_out.sum(0)
    for rest in ((None, None), (of_x, masked)):
        for found, each in zip(tall.backward(x, weight, g, out, *rest), wanted, strict=True):
            torch.testing.assert_close(found.double(), each, rtol=1e-4, atol=1e-4)
    assert torch.equal(masked.double(), of_out)
    torch.testing.assert_close(of_x.double(), of_out @ weight.double().T, rtol=1e-5, atol=1e-4)
    nothing = torch.full((rows, d_out), float("nan"))
    tall.forward(x, weight, None, nothing, add=False, rectified=False)
    assert not nothing.isnan().any()
    tall.forward(x * float("nan"), weight, None, nothing, add=False, rectified=True)
    assert nothing.isnan().all()  # a loss that diverged is seen


def test_the_bits_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tall, "THREAD_WORK", 1)
    x, weight, g = torch.randn(5000, 40), torch.randn(40, 24), torch.randn(5000, 24)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(tall.backward(x, weight, g, None, None, None))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


def test_a_layer_is_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [torch.randn(2000, 24), torch.randn(24, 16), torch.randn(2000, 16)]
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(dense, "LEAST_WORK", least)
        x, weight, onto = (each.clone().requires_grad_() for each in leaves)
        out = dense.linear(x, weight, None, rectified=True, onto=onto * 1)
        (out * torch.linspace(-1, 1, 16)).sum().backward()
        found.append((out, x.grad, weight.grad, onto.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_operands_that_do_not_fit_are_left_to_torch() -> None:
    """The compiled product would read beyond them, or numbers of another type."""
    x, weight, bias = torch.randn(2000, 24), torch.randn(24, 16), torch.randn(16)
    assert dense.quicker_compiled(x, weight, bias)
    assert not dense.quicker_compiled(x, torch.empty(24, 2**15))  # which torch packs
    for wrong in ((x[:, 1:], weight), (x, weight, bias[1:]), (x, weight, bias.double())):
        with pytest.raises(RuntimeError, match=r"must match|expected|same dtype|cannot be mult"):
            dense.linear(*wrong)
    apart, onto = torch.randn(16, 2)[:, 0], torch.randn(16, 2000).T.requires_grad_()
    found = dense.linear(x, weight, apart, rectified=True, onto=onto * 1)
    exact = torch.relu(onto + x @ weight + apart)
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-4)
    of_onto, wanted = (torch.autograd.grad(y.sum(), onto)[0] for y in (found, exact))
    assert torch.equal(of_onto, wanted)
