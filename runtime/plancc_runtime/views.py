"""Which rows, nonzeros and messages a pass uses: the graphs of its layers.

`execution` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plancc_runtime.layouts.layer_graph import LayerGraph


@dataclass(eq=False)
class View:
    """What one forward pass works on.

    Attributes:
        graphs: One per layer: the outputs of one are the inputs of the next.
        inputs, outputs (int64[m] or None): Local rows of the slice that the first graph's inputs
            and the last one's outputs are; None: all.
        fixed: What the first layer needs of constant features, once it is known (`Network.fixed`).
        x: The features of the inputs, where they are kept (without rows if none is read); None:
            `rows_of` picks them.
    """

    graphs: Sequence[LayerGraph]
    inputs: Tensor | None = None
    outputs: Tensor | None = None
    fixed: Tensor | None = None
    x: Tensor | None = None

    def rows_of(self, features: Tensor) -> Tensor:
        """The features of the first graph's inputs."""
        if self.x is not None:
            return self.x
        return features if self.inputs is None else features.index_select(0, self.inputs)


def place_of(rows: Tensor, outputs: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which of the ascending local `rows` a view has as outputs, and their places there.

    Returns:
        rows: int64[m], places : int64[m]
    """
    if outputs is None:
        return rows, rows
    if torch.equal(rows, outputs):  # the seeds of a mini-batch, say
        return rows, torch.arange(len(rows), device=rows.device)
    if not len(outputs):
        return rows[:0], rows[:0]
    places = torch.searchsorted(outputs, rows)
    found = outputs[places.clamp(max=len(outputs) - 1)] == rows
    return rows[found], places[found]
