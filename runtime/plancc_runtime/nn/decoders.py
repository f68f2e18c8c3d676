"""Decoders for link prediction. A decoder scores a pair of vertices from their two outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from plancc_runtime.nn.conv import glorot, uniform


class Dot(nn.Module):
    """The score of a pair is the scalar product of the outputs of its two vertices."""

    def __init__(self, width: int, random: np.random.Generator) -> None:
        super().__init__()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the scores of pairs, Tensor[m].

        Parameters:
            source, target (Tensor[m, width]): Outputs of the pairs' first and second vertices.
        """
        return (source * target).sum(dim=1)


class DistMult(Dot):
    """A scalar product with trained weights (Yang et al. 2015), for pairs of one relation."""

    def __init__(self, width: int, random: np.random.Generator) -> None:
        super().__init__(width, random)
        self.relation = nn.Parameter(glorot(random, 1, width)[0])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return (source * target) @ self.relation


class Perceptron(Dot):
    """A perceptron with one hidden layer, which scores pairs of vertices.

    Its input is the element-wise product of the network's outputs for the two vertices. The Open
    Graph Benchmark (OGB) uses the same decoder.
    """

    def __init__(self, width: int, random: np.random.Generator) -> None:
        super().__init__(width, random)
        self.hidden = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)
        with torch.no_grad():
            for layer in (self.hidden, self.last):
                for each in (layer.weight, layer.bias):
                    each.copy_(uniform(random, tuple(each.shape), width))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        found: Tensor = self.last(functional.relu(self.hidden(source * target)))
        return found[:, 0]


DECODERS: dict[str, Callable[[int, np.random.Generator], nn.Module]] = {
    "dot": Dot,
    "distmult": DistMult,
    "mlp": Perceptron,
}
