"""A GCN by hand on torch's CSR product, full batch, nothing cached from epoch to epoch.

32-bit indices, a backward product with the same matrix because it is symmetric (autograd would
transpose it), and per layer the cheaper order of A(HW) and (AH)W. The first layer takes (AH)W where
the widths are equal: nothing asks for the gradient of the features, so its backward needs no
product.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import harness
import torch
from torch import Tensor

warnings.filterwarnings("ignore", "Sparse", UserWarning)  # "is in beta state"


class SymmetricProduct(torch.autograd.Function):
    """``A x`` for a symmetric A, whose adjoint is A."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ gradient


def build(problem: harness.Problem) -> Callable[[], float]:
    n = problem.num_vertices
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(problem.indptr).int(),
        torch.from_numpy(problem.indices),
        torch.from_numpy(problem.values),
        size=(n, n),
    )
    features = torch.from_numpy(problem.features)
    target = torch.from_numpy(problem.target)
    weights = [torch.from_numpy(w).requires_grad_() for w in problem.weights]
    optimizer = torch.optim.SGD(weights, lr=problem.lr)
    product = SymmetricProduct.apply

    def epoch() -> float:
        h = features
        for k, w in enumerate(weights):
            d_in, d_out = w.shape
            # columns multiplied, forward and backward
            before, after = d_in if k == 0 else 2 * d_in, 2 * d_out
            h = product(matrix, h) @ w if before <= after else product(matrix, h @ w)
            if k < len(weights) - 1:
                h = torch.relu(h)
        loss = torch.nn.functional.cross_entropy(h, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return epoch


if __name__ == "__main__":
    harness.main({"torch-csr": build})
