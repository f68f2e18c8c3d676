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
        graphs: A graph for each layer; the outputs of a graph are the inputs of the next.
        inputs (int64[m] or None): Local rows of the slice that the first graph reads; None for all
            rows.
        outputs (int64[m] or None): Local rows of the slice that the last graph computes, ascending;
            None for all rows.
        fixed: The first layer's product with the features, if it does not change between steps and
            was computed once (`Network.fixed`); else None.
        x: A copy of the features of the rows `inputs`, or None if the view holds no copy. If no
            layer reads features, the copy has no rows.
    """

    graphs: Sequence[LayerGraph]
    inputs: Tensor | None = None
    outputs: Tensor | None = None
    fixed: Tensor | None = None
    x: Tensor | None = None

    def rows_of(self, features: Tensor) -> Tensor:
        """Return the features of the rows that the first graph reads.

        They are `x`, if the view holds this copy. Otherwise they are the rows `inputs` of
        `features`, which has the features of all rows of the slice.
        """
        if self.x is not None:
            return self.x
        return features if self.inputs is None else features.index_select(0, self.inputs)


def place_of(rows: Tensor, outputs: Tensor | None) -> tuple[Tensor, Tensor]:
    """Find which of the local rows `rows` a view computes, and where they are in its outputs.

    Parameters:
        rows (int64[n]): Local rows, ascending.
        outputs: `View.outputs`.

    Returns:
        int64[m]: The rows among `rows` that the view computes.
        int64[m]: For each of these rows, its place among the view's outputs.
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
