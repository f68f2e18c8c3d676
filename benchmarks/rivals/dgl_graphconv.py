"""DGL's GraphConv with ``norm="both"``, its default and its fastest form, and its SAGEConv.

GraphConv scales by the square roots of the degrees and adds up rows without edge weights (with
weights an epoch takes several times as long), so an entry 2 of A + I (a self loop that the graph
had) is two parallel edges. SAGEConv takes means over A without self loops, from weights of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import dgl
import harness
import numpy as np
import torch
from dgl.nn import GraphConv, SAGEConv


def build(problem: harness.Problem) -> Callable[[], float]:
    copies = np.concatenate([[0], np.cumsum(problem.adjacency)])
    graph = _graph(copies[problem.indptr], np.repeat(problem.indices, problem.adjacency))
    layers = [GraphConv(*w.shape, norm="both", bias=False) for w in problem.weights]
    with torch.no_grad():
        for layer, w in zip(layers, problem.weights, strict=True):
            layer.weight.copy_(torch.from_numpy(w))
    return _training(problem, graph, layers)


def build_sage(problem: harness.Problem) -> Callable[[], float]:
    row = np.repeat(np.arange(problem.num_vertices), np.diff(problem.indptr))
    others = row != problem.indices
    sizes = np.bincount(row[others], minlength=problem.num_vertices)
    graph = _graph(np.concatenate([[0], np.cumsum(sizes)]), problem.indices[others])
    return _training(problem, graph, [SAGEConv(*w.shape, "mean") for w in problem.weights])


def _graph(indptr: np.ndarray, indices: np.ndarray) -> dgl.DGLGraph:
    """A column of DGL's CSC is the target of its edges: row i, which gathers from its indices."""
    ends = torch.from_numpy(indptr.astype(np.int32)), torch.from_numpy(indices)
    graph = dgl.graph(("csc", (*ends, ends[1].new_empty(0))))
    graph.create_formats_()  # forward takes one, backward the other
    return graph


def _training(
    problem: harness.Problem, graph: dgl.DGLGraph, layers: list[torch.nn.Module]
) -> Callable[[], float]:
    features, target = torch.from_numpy(problem.features), torch.from_numpy(problem.target)
    weights = [weight for layer in layers for weight in layer.parameters()]
    optimizer = torch.optim.SGD(weights, lr=problem.lr)

    def epoch() -> float:
        h = features
        for layer in layers[:-1]:
            h = torch.relu(layer(graph, h))
        h = layers[-1](graph, h)
        loss = torch.nn.functional.cross_entropy(h, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return epoch


if __name__ == "__main__":
    harness.main({"dgl": build, "dgl-sage": build_sage})
