"""PyTorch Geometric's GCNConv, with the adjacency as a torch CSR tensor and as edge_index.

The matrix is normalised already, which is what ``cached=True`` amounts to after the first epoch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import harness
import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

warnings.filterwarnings("ignore", "Sparse", UserWarning)  # "is in beta state"


def build_csr(problem: harness.Problem) -> Callable[[], float]:
    """``conv(x, adj_t)``: PyG multiplies with torch.sparse.mm, autograd makes the transpose."""
    n = problem.num_vertices
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(problem.indptr),
        torch.from_numpy(problem.indices).long(),  # as torch_geometric.transforms.ToSparseTensor
        torch.from_numpy(problem.values),
        size=(n, n),
    )
    return _build(problem, matrix, None)


def build_scatter(problem: harness.Problem) -> Callable[[], float]:
    """``conv(x, edge_index, edge_weight)``: one message per nonzero, added at its target."""
    target = np.repeat(np.arange(problem.num_vertices), np.diff(problem.indptr))
    edges = torch.from_numpy(np.stack([problem.indices.astype(np.int64), target]))
    return _build(problem, edges, torch.from_numpy(problem.values))


def _build(
    problem: harness.Problem, adjacency: Tensor, edge_weight: Tensor | None
) -> Callable[[], float]:
    features, target = torch.from_numpy(problem.features), torch.from_numpy(problem.target)
    layers = [GCNConv(*w.shape, bias=False, normalize=False) for w in problem.weights]
    with torch.no_grad():
        for layer, w in zip(layers, problem.weights, strict=True):
            layer.lin.weight.copy_(torch.from_numpy(w.T))
    parameters = [layer.lin.weight for layer in layers]
    optimizer = torch.optim.SGD(parameters, lr=problem.lr)

    def epoch() -> float:
        h = features
        for layer in layers[:-1]:
            h = torch.relu(layer(h, adjacency, edge_weight))
        h = layers[-1](h, adjacency, edge_weight)
        loss = torch.nn.functional.cross_entropy(h, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return epoch


if __name__ == "__main__":
    harness.main({"pyg-csr": build_csr, "pyg-scatter": build_scatter})
