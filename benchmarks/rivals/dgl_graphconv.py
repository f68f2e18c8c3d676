"""DGL's GraphConv with ``norm="both"``, its default and its fastest form.

It scales by the square roots of the degrees and adds up rows without edge weights (with weights an
epoch takes several times as long), so an entry 2 of A + I (a self loop that the graph had) is two
parallel edges.
"""

from __future__ import annotations

from collections.abc import Callable

import dgl
import harness
import numpy as np
import torch
from dgl.nn import GraphConv


def build(problem: harness.Problem) -> Callable[[], float]:
    copies = np.concatenate([[0], np.cumsum(problem.adjacency)])
    indptr = torch.from_numpy(copies[problem.indptr].astype(np.int32))
    indices = torch.from_numpy(np.repeat(problem.indices, problem.adjacency))
    # a column of DGL's CSC is the target of its edges: row i, which gathers from its indices
    graph = dgl.graph(("csc", (indptr, indices, indices.new_empty(0))))
    graph.create_formats_()  # forward takes one, backward the other
    features, target = torch.from_numpy(problem.features), torch.from_numpy(problem.target)
    layers = [GraphConv(*w.shape, norm="both", bias=False) for w in problem.weights]
    with torch.no_grad():
        for layer, w in zip(layers, problem.weights, strict=True):
            layer.weight.copy_(torch.from_numpy(w))
    optimizer = torch.optim.SGD([layer.weight for layer in layers], lr=problem.lr)

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
    harness.main({"dgl": build})
