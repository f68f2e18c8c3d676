"""What every convolution offers. Knows a layer's parameters and the graph as `LocalGraph`; must not
know transports, epochs or files.

A convolution maps the rows of a layer's input to the rows of its output:

    y = conv(graph, x)                     x: [num_inputs, d_in] -> y: [num_outputs, d_out]

What of it depends on the input alone, `fixed(graph, x)`, can be computed once where the input never
changes, and handed to every call: `conv(graph, x, fixed)`. That is the whole exchange of the first
layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from plancc_runtime.layouts.local import LocalGraph

ORDERS = ("auto", "aggregate-first", "project-first", "paper")


@dataclass(frozen=True)
class ConvOptions:
    """How convolutions are made; those of `TrainOptions` that concern them.

    Attributes
    ----------
    heads : int
        Of attention.
    aggregator : str
        Of GraphSAGE: "mean", "sum", "max" or "gcn".
    bias : bool or None
        None: as the model's paper has it.
    order : str
        Of a product A H W. "aggregate-first": (A H) W. "project-first": A (H W). "auto": the one
        that moves fewer columns, min(d_in, d_out). "paper": as Algorithms 1 and 2 of paper 000
        have it, d_in columns forward and d_out back.
    """

    heads: int = 1
    aggregator: str = "mean"
    bias: bool | None = None
    order: str = "auto"


class Conv(nn.Module, ABC):
    """One layer.

    Parameters
    ----------
    d_in, d_out : int
        Width of input and output.
    options : ConvOptions
    random : numpy Generator
        For the initial weights: drawn in float64, so that all ranks and dtypes start alike.
    last : bool
        Whether this is the last layer.
    """

    d_in: int
    d_out: int

    @abstractmethod
    def __init__(
        self,
        d_in: int,
        d_out: int,
        options: ConvOptions,
        random: np.random.Generator,
        last: bool,
    ) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, d_out

    @abstractmethod
    def fixed(self, graph: LocalGraph, x: Tensor) -> Tensor:
        """What depends on x and the graph alone, without gradient. Collective."""

    @abstractmethod
    def forward(self, graph: LocalGraph, x: Tensor, fixed: Tensor | None = None) -> Tensor:
        """Output rows; with `fixed`, without any exchange and without a gradient for x.

        Collective.

        Parameters
        ----------
        graph : LocalGraph
        x : Tensor[num_inputs, d_in]
        fixed : Tensor, optional
            What `fixed` returned for the same graph and x.

        Returns
        -------
        Tensor[num_outputs, d_out]
        """

    @abstractmethod
    def widths(self) -> tuple[int, int]:
        """Columns that one call moves forward, and back (without `fixed`)."""


def glorot(random: np.random.Generator, d_in: int, d_out: int) -> nn.Parameter:
    """Uniform in +-sqrt(6 / (d_in + d_out)) (Glorot and Bengio 2010): float64[d_in, d_out]."""
    values = random.uniform(-1, 1, (d_in, d_out)) * np.sqrt(6 / (d_in + d_out))
    return nn.Parameter(torch.from_numpy(values))
