"""Views: the rows, nonzeros and messages of a pass, as a graph for every layer.

The package `execution` makes views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plancc_runtime.layouts.layer_graph import LayerGraph


@dataclass(eq=False)
class View:
    """The input of one forward pass beside weights and features.

    Attributes:
        graphs: A graph for each layer; the outputs of a graph are the inputs of the next.
        inputs, outputs (int64[m] or None): Local rows of the slice that are the first graph's
            inputs, and the last graph's outputs; None: all rows.
        fixed: Product of the first layer with constant features, once it is known
            (`Network.fixed`).
        x: Features of the inputs if the view keeps them (without rows if no layer reads them);
            None: `rows_of` selects them.
    """

    graphs: Sequence[LayerGraph]
    inputs: Tensor | None = None
    outputs: Tensor | None = None
    fixed: Tensor | None = None
    x: Tensor | None = None

    def rows_of(self, features: Tensor) -> Tensor:
        """Return the features of the first graph's inputs."""
        if self.x is not None:
            return self.x
        return features if self.inputs is None else features.index_select(0, self.inputs)


def place_of(rows: Tensor, outputs: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the ascending local `rows` that a view has as outputs, and their places there.

    Returns:
        rows: int64[m], places : int64[m]
    """
    if outputs is None:
        return rows, rows
    if torch.equal(rows, outputs):  # for instance the seeds of a mini-batch
        return rows, torch.arange(len(rows), device=rows.device)
    if not len(outputs):
        return rows[:0], rows[:0]
    places = torch.searchsorted(outputs, rows)
    found = outputs[places.clamp(max=len(outputs) - 1)] == rows
    return rows[found], places[found]
