"""Views: the rows, nonzeros and messages of one forward pass, as one graph for every layer.

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
    """The graphs on which one forward pass computes, with the rows that it reads and returns.

    Attributes:
        graphs: A graph for each layer; its outputs are the next graph's inputs.
        inputs (int64[m] or None): Local rows that the first graph reads; None for all rows.
        outputs (int64[m] or None): Local rows that are computed, ascending; None for all rows.
        fixed: The first layer's constant product with the features (`Network.fixed`), or None.
        x: Copy of the features of `inputs`, or None. It has 0 rows if no layer reads features.
    """

    graphs: Sequence[LayerGraph]
    inputs: Tensor | None = None
    outputs: Tensor | None = None
    fixed: Tensor | None = None
    x: Tensor | None = None

    def rows_of(self, features: Tensor) -> Tensor:
        """Return the first graph's input: `x` or, if `x` is None, rows `inputs` of `features`."""
        if self.x is not None:
            return self.x
        return features if self.inputs is None else features.index_select(0, self.inputs)


def place_of(rows: Tensor, outputs: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return which of `rows` (ascending) a view computes, and their places in `outputs`."""
    if outputs is None:
        return rows, rows
    if torch.equal(rows, outputs):  # for instance the seeds of a mini-batch
        return rows, torch.arange(len(rows), device=rows.device)
    if not len(outputs):
        return rows[:0], rows[:0]
    places = torch.searchsorted(outputs, rows)
    found = outputs[places.clamp(max=len(outputs) - 1)] == rows
    return rows[found], places[found]
