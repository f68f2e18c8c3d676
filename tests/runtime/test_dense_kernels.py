"""Products with weights, and the loss, some rows at a time, against whole ones of float64."""

import pytest
import torch
from cases import pairs
from torch.nn import functional

from plancc_runtime.kernels import dense
from plancc_runtime.nn.loss import cross_entropy


@pytest.fixture(autouse=True)
def few_rows_at_once(monkeypatch):
    monkeypatch.setattr(dense, "AT_ONCE", 60)


@pairs(
    rows=[0, 1, 64],
    widths=[(5, 3), (3, 20)],
    biased=[False, True],
    rectified=[False, True],
    how=["linear", "finished", "onto"],
)
def test_weights_bias_and_relu(rows, widths, biased, rectified, how):
    random = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=random).requires_grad_()

    x, weight, bias = normal(rows, widths[0]), normal(*widths), normal(widths[1])
    g = normal(rows, widths[1]).detach()
    leaves = [x, weight, *([bias] if biased else [])]
    expected = x @ weight + (bias if biased else 0)
    expected = expected.clamp(min=0) if rectified else expected
    wanted = torch.autograd.grad(expected, leaves, g)
    given = bias if biased else None
    if how == "linear":
        found = dense.linear(x, weight, given, rectified)
    elif how == "finished":
        found = dense.finished(dense.linear(x, weight), given, rectified)
    else:  # the halves of two equal products, whose gradients are added in place
        first, second = dense.fork(x)
        onto = dense.linear(first, weight / 2)
        found = dense.linear(second, weight / 2, given, rectified, onto)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(torch.autograd.grad(found, leaves, g), wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("uses_all", [False, True])
def test_gradients_of_a_fork_to_some_rows(uses_all, dtype):
    x, rows = torch.arange(10, dtype=dtype).view(5, 2).requires_grad_(), torch.tensor([0, 3])
    every, some = dense.fork(x, rows)
    assert torch.equal(some, x[rows])
    total = 3 * some.sum() + (every.sum() if uses_all else 0)
    (found,) = torch.autograd.grad(total, x)
    assert found[:, 0].tolist() == [3.0 + uses_all, uses_all, uses_all, 3.0 + uses_all, uses_all]


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_the_loss_and_its_gradient(rows):
    random = torch.Generator().manual_seed(2)
    outputs = (30 * torch.randn(rows, 7, dtype=torch.float64, generator=random)).requires_grad_()
    labels = torch.randint(7, (rows,), generator=random)
    expected = functional.cross_entropy(outputs, labels, reduction="sum") / 90
    (wanted,) = torch.autograd.grad(3 * expected, outputs)
    found = cross_entropy(outputs, labels, 90)
    (mine,) = torch.autograd.grad(3 * found, outputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mine, wanted, rtol=1e-12, atol=1e-14)
