"""The graph attention network of Velickovic et al. (ICLR 2018).

    score(v, u) = LeakyReLU(a_target . W h_v + a_source . W h_u),  u in N(v) and v itself   (Eq. 3)
    h'_v = sum of softmax_u(score(v, u)) W h_u                                       (Eq. 4 to 6)

Ranks send the rows W h. N(v) is the set of the columns of row v; the values of A are not read.
Dropout of the weights softmax_u (Section 3.3) depends only on (key, v, u, head).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from plancc.errors import InputError
from plancc.plan.convolutions import GATOptions
from plancc_runtime.kernels.dense import linear
from plancc_runtime.kernels.masks import nonzero_mask
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph, local_graph
from plancc_runtime.nn.conv import Conv, Halves, glorot
from plancc_runtime.nn.operators import graph_attention


class GATConv(Conv):
    """A layer of several attention heads.

    Hidden layers concatenate heads of width d_out / heads; the last layer averages heads of width
    d_out. As in PyTorch Geometric's GATConv, one Glorot matrix holds the W of all heads, the
    attention vectors of sources and targets, a_source and a_target, are Glorot matrices [heads,
    width], and the bias starts at 0. If the targets and their neighbours differ in vertex type
    (`d_target`), the targets have a separate W, and do not attend to themselves. With
    `parametrization` "paper", every head has separate Glorot matrices W and [a_source, a_target],
    and the layer has a bias only if the option `bias` is set.
    """

    Options = GATOptions
    whole_rows: ClassVar[bool] = True
    rectifies: ClassVar[bool] = True
    reads_values: ClassVar[bool] = False

    def _make(self, random: np.random.Generator) -> None:
        heads, d_in = self.options.heads, self.d_in
        self.draws = self.options.attention_dropout > 0
        self.width = width = self.options.head_width(self.d_out, self.last, "`hidden`")
        if self._is_pyg:
            weight = glorot(random, d_in, heads * width)
            if self.d_target is not None:
                self.weight_target = nn.Parameter(glorot(random, self.d_target, heads * width))
            source, target = (glorot(random, heads, width) for _ in range(2))
        else:
            weight = torch.cat([glorot(random, d_in, width) for _ in range(heads)], dim=1)
            scores = torch.cat([glorot(random, 2 * width, 1) for _ in range(heads)], dim=1).T
            source, target = scores[:, :width].clone(), scores[:, width:].clone()
        self.weight = nn.Parameter(weight)
        self.score_source, self.score_target = nn.Parameter(source), nn.Parameter(target)
        self.bias = self._new_bias()

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return own and halo rows of x: Tensor[num_columns, d_in]."""
        with torch.no_grad():
            return local_graph(graph, "model gat").columns(x)

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
        key: np.uint64 | int | None = None,
    ) -> Tensor:
        graph = local_graph(graph, "model gat")
        if self.d_target is not None:
            assert fixed is not None
            pattern, rows = graph.pattern("edges"), linear(fixed, self.weight)
            vectors = self.score_source.unsqueeze(0)
            y = graph_attention(pattern, rows, vectors, None, self.bias, self.last, target=x)
            return graph.finished(y if onto is None else onto.add_(y), None, rectified)
        projected = linear(x if fixed is None else fixed, self.weight)
        rows = graph.columns(projected) if fixed is None else projected
        heads = self._attention(graph, rows, key, self.bias, mean=self.last)
        return graph.finished(heads, None, rectified)

    @property
    def target_map(self) -> Tensor:
        """The matrix that maps a target's row to one score per head: Tensor[d_target, heads]."""
        score = self.score_target
        return (self.weight_target.unflatten(1, score.shape) * score).sum(2)

    def halves(
        self, graph: LocalGraph, fixed: bool, first: bool, key: np.uint64 | int | None = None
    ) -> Halves:
        def before(x: Tensor) -> tuple[Tensor]:
            return (graph.linear(x, self.weight),)

        def across(projected: Tensor) -> tuple[Tensor]:
            rows = projected if fixed else graph.columns(projected)
            return (self._attention(graph, rows, key),)

        return Halves(before, across, lambda heads: self._combined(graph, heads))

    def _attention(
        self,
        graph: LocalGraph,
        projected: Tensor,
        key: np.uint64 | int | None,
        bias: Tensor | None = None,
        mean: bool = False,
    ) -> Tensor:
        """Return the outputs of the heads: side by side or, if `mean`, their mean.

        `projected` has W h for every column of the matrix: Tensor[num_columns, heads width].
        """
        vectors = torch.stack([self.score_source, self.score_target])
        pattern, places = graph.pattern("closed"), graph.places
        scale = self._mask(graph, projected, key) if self.training and self.draws else None
        return graph_attention(pattern, projected, vectors, places, bias, mean, scale)

    def _mask(self, graph: LocalGraph, like: Tensor, key: np.uint64 | int | None) -> Tensor:
        """Return the dropout mask of the attention weights: [nnz, heads] in the dtype of `like`."""
        rate = self.options.attention_dropout
        if key is None:
            raise InputError(
                f"attention_dropout {rate}: a training pass needs a `key`; give a different key in "
                "every layer and every update"
            )
        columns = graph.column_vertices()
        rows = columns if graph.places is None else columns.index_select(0, graph.places)
        rows, heads = rows[: graph.num_outputs], self.options.heads
        return nonzero_mask(
            graph.pattern("closed"), rows, columns, rate, np.uint64(key), like.new_empty(0, heads)
        )

    def _combined(self, graph: LayerGraph, heads: Tensor) -> Tensor:
        """Return the heads plus bias: side by side or, in the last layer, their mean."""
        if self.last:
            heads = heads.unflatten(1, (self.options.heads, self.width)).mean(dim=1)
        return graph.finished(heads, self.bias)
