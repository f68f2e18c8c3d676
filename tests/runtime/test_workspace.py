"""Memory that is used again, and what a user of large tensors may do with them."""

import numpy as np
import pytest
import reference
import torch

from plancc_runtime import workspace
from plancc_runtime.kernels.dense import linear, relu
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.nn.dropout import dropout
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.workspace import Workspace

LIKE = torch.zeros(1)


@pytest.fixture(autouse=True)
def _even_for_small_tensors(monkeypatch):
    monkeypatch.setattr(workspace, "LEAST_BYTES", 0)


def graph() -> tuple[LocalGraph, torch.Tensor]:
    random = np.random.default_rng(0)
    a = reference.normalised(random.random((9, 9)) < 0.3)
    header, [part] = reference.make_parts(a, np.zeros(9, int), 1)
    block = Block.of_part(part, header.self_loops)
    return LocalGraph(block, Resources(SingleTransport(), torch.float64)), torch.tensor(a)


def test_memory_is_used_again_once_nobody_holds_it():
    pool = Workspace()
    first = pool.empty(8, 4, LIKE)
    place = first.data_ptr()
    view = first[2:, 1]
    array = view.numpy()
    del first, view
    assert pool.empty(8, 4, LIKE).data_ptr() != place  # the array still has it
    del array
    assert {pool.empty(8, 4, LIKE).data_ptr() for _ in range(2)} >= {place}
    smaller = pool.empty(7, 4, LIKE)
    assert smaller.shape == (7, 4)
    assert smaller.is_contiguous()
    assert pool.empty(2, 4, LIKE).data_ptr() != smaller.data_ptr()
    assert pool.empty(8, 2, torch.zeros(1, dtype=torch.float64)).dtype == torch.float64


def test_what_autograd_saves_is_not_used_again():
    local, a = graph()
    random = torch.Generator().manual_seed(1)
    x, w = (torch.randn(s, dtype=torch.float64, generator=random) for s in ((9, 5), (5, 5)))
    x.requires_grad_(True)
    w.requires_grad_(True)

    def network(product, mm, activate):
        h = x
        for _ in range(3):
            h = activate(mm(product(h), w))
        return (h**2).sum()

    ours = network(local.product, linear, relu)
    for _ in range(5):
        linear(x.detach(), w.detach())  # asks for memory in between
    found = torch.autograd.grad(ours, (x, w))
    expected = torch.autograd.grad(network(lambda h: a @ h, torch.mm, torch.relu), (x, w))
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_results_may_be_changed_in_place():
    local, a = graph()
    x = torch.ones(9, 3, dtype=torch.float64, requires_grad=True)
    y = local.product(x)
    y += 1
    y.relu_()
    y.sum().backward()
    torch.testing.assert_close(x.grad, a.T @ torch.ones(9, 3, dtype=torch.float64))


def test_memory_of_inference_serves_training():
    pool = Workspace()
    with torch.inference_mode():
        pool.empty(6, 3, LIKE).fill_(1)
    pool.empty(6, 3, LIKE).add_(1)
    assert not pool.empty(6, 3, LIKE).is_inference()


def test_second_derivatives_are_refused():
    local, _ = graph()
    x = torch.ones(9, 3, dtype=torch.float64, requires_grad=True)
    w = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    for y in (local.product(x), linear(x, w), relu(x * 1)):
        (gradient,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient.sum().backward()


def test_dropout_has_second_derivatives():
    local, _ = graph()
    x = torch.ones(9, 3, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.5, np.uint64(1), local.vertices)
    (gradient,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
    gradient.sum().backward()
    torch.testing.assert_close(x.grad, 4 * y.detach())  # 2 k^2 where y = k x, k of 0 or 2


def test_free_memory_is_given_back():
    pool = Workspace()
    for size in range(10, 10 + 4 * workspace.PATIENCE):
        pool.empty(size * size, 3, LIKE)
    assert len(pool._kept) <= 2 * workspace.PATIENCE
    pool.release()
    assert pool._kept == []
