"""Layers that read features of edges; between vertices of one type, or of the ends of a relation.

Edges are this rank's nonzeros, in the order of `Graph.local_edge_index` or `TypedGraph.edges`. In
an edge plan they are with any rank, and sums over them travel as those of products do.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from plancc.errors import InputError
from plancc.plan.convolutions import GINEOptions
from plancc_runtime.kernels.dense import fork, linear
from plancc_runtime.kernels.edges import Pattern
from plancc_runtime.kernels.layer_norm import normalised
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph, local_graph
from plancc_runtime.nn.aggregation import aggregate
from plancc_runtime.nn.conv import Halves, unchanged
from plancc_runtime.nn.gin import GINConv
from plancc_runtime.nn.operators import edge_scores, edge_sources


class GINEConv(GINConv):
    """The isomorphism network with features of edges (Hu et al., ICLR 2020).

        h'_v = MLP((1 + eps) h_v + sum of ReLU(h_u + W e_uv) over the edges uv)

    It is PyTorch Geometric's GINEConv of Sequential(Linear, ReLU, Linear), with its `edge_dim`.
    """

    Options = GINEOptions
    takes_bfloat16: ClassVar[bool] = False

    def _make(self, random: np.random.Generator) -> None:
        super()._make(random)
        self.weight_edge, self.bias_edge = self._new_linear(
            random, self.options.edge_width, self.d_in
        )

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Own and halo rows of x: Tensor[num_columns, d_in]."""
        with torch.no_grad():
            return local_graph(graph, "model gine").columns(x)

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        edges: Tensor | None = None,
        target: Tensor | None = None,
    ) -> Tensor:
        """Rows of the output. Collective.

        Parameters:
            graph: A graph of one type, or `TypedGraph.relation`.
            x: Tensor[num_inputs, d_in].
            fixed, rectified: As of `Conv.forward`.
            edges (Tensor[edges, edge_width], optional): By default `graph.edge_features`.
            target (Tensor[num_outputs, d_in], optional): Rows of the destination; by default x.

        Returns:
            Tensor[num_outputs, d_out]

        Raises:
            InputError: If the plan has no features of edges, and none are given.
        """
        graph = local_graph(graph, "model gine")
        columns = graph.columns(x) if fixed is None else fixed
        edges = edge_features_of(graph) if edges is None else edges
        total = self._sums(graph, columns, edges)
        own = graph.targets(x) if target is None else target
        z = graph.linear((1 + self.eps) * own + total, self.weight)
        return self._mapped(graph, z, rectified)

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        def across(columns: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
            return self._sums(graph, columns, edge_features_of(graph)), own

        def across_moved(x: Tensor) -> tuple[Tensor, Tensor]:
            return across(graph.columns(x), graph.targets(x))

        def after(total: Tensor, own: Tensor) -> Tensor:
            return self._mapped(graph, graph.linear((1 + self.eps) * own + total, self.weight))

        return Halves(unchanged, across if fixed else across_moved, after)

    def _sums(self, graph: LocalGraph, columns: Tensor, edges: Tensor) -> Tensor:
        """The sums of messages, from rows of all columns: Tensor[num_outputs, d_in]."""
        pattern = graph.local_pattern("edges")
        found = messages(pattern, columns, linear(edges, self.weight_edge, self.bias_edge))
        return aggregate(graph, None, scaled(found, graph), "copy_e")


class EdgeUpdate(nn.Module):
    """The update of edges in MeshGraphNet (Pfaff et al., ICLR 2021).

        e'_uv = e_uv + MLP([h_u, h_v, e_uv])

    The map is Linear, ReLU, Linear, LayerNorm; its first one is made on vertices, whose rows are
    fewer: `source` of h_u and `target` of h_v.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source, self.target = (LinearMap(width, width, bias=False) for _ in range(2))
        self.edge = LinearMap(width, width)
        self.message = nn.Sequential(nn.ReLU(), LinearMap(width, width), nn.LayerNorm(width))

    def forward(self, pattern: Pattern, source: Tensor, target: Tensor, edges: Tensor) -> Tensor:
        """New rows of edges, Tensor[edges, width], from mapped rows of both ends."""
        layers: list[Any] = [*self.message]
        _, last, norm = layers
        before, edges = fork(edges)
        of_ends = edge_scores(pattern, source, target)
        found = last(self.edge(edges, rectified=True, onto=of_ends))
        return normalised(found, norm.weight, norm.bias, norm.eps, before)


class EdgeBlock(EdgeUpdate):
    """A step of MeshGraphNet, which updates edges, then vertices.

        e'_uv = e_uv + MLP([h_u, h_v, e_uv])
        h'_v  = h_v + MLP([h_v, sum of e'_uv over the edges uv])

    Parameters:
        width: Of vertices and of edges.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.vertex = MLP(2 * width, width)

    def forward(  # type: ignore[override]
        self, graph: LocalGraph, x: Tensor, edges: Tensor, target: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """New rows of the destination, and of the edges. Collective.

        Parameters:
            graph, target: As of `GINEConv.forward`.
            x, edges: Tensor[num_inputs, width], Tensor[edges, width].

        Returns:
            Tensor[num_outputs, width], Tensor[nonzeros, width]
        """
        own = graph.targets(x) if target is None else target
        ends = graph.columns(self.source(x)), graph.local_rows(self.target(own))
        edges = super().forward(graph.local_pattern("edges"), *ends, edges)
        total = aggregate(graph, None, scaled(edges, graph), "copy_e")
        return self.vertex(own, total, onto=own), edges


class LinearMap(nn.Linear):
    """torch.nn.Linear, compiled where that is quicker (`kernels.dense.linear`)."""

    def forward(self, x: Tensor, rectified: bool = False, onto: Tensor | None = None) -> Tensor:
        """Tensor[m, in_features] to Tensor[m, out_features]; parameters as of `linear`."""
        return linear(x, self.weight.T, self.bias, rectified, onto)


class MLP(nn.Sequential):
    """A map of MeshGraphNet: Linear, ReLU, Linear; a LayerNorm, but for a map to `d_out`."""

    def __init__(self, d_in: int, width: int, d_out: int | None = None) -> None:
        norms = [nn.LayerNorm(width)] if d_out is None else []
        super().__init__(
            LinearMap(d_in, width), nn.ReLU(), LinearMap(width, d_out or width), *norms
        )

    def forward(self, *parts: Tensor, onto: Tensor | None = None) -> Tensor:
        """Rows of the output, of parts that stand side by side: Tensor[m, ...] each.

        With a LayerNorm they are added to `onto`, Tensor[m, width].
        """
        layers: list[Any] = [*self]
        first, _, last, *norms = layers
        weights = first.weight.T.split([each.shape[1] for each in parts])
        hidden = None
        for x, weight in zip(parts[:-1], weights, strict=False):
            hidden = linear(x, weight, onto=hidden)
        y: Tensor = last(linear(parts[-1], weights[-1], first.bias, True, hidden))
        for norm in norms:
            y = normalised(y, norm.weight, norm.bias, norm.eps, onto)
        return y


def messages(pattern: Pattern, columns: Tensor, of_edges: Tensor) -> Tensor:
    """ReLU of x_u + y_uv for every edge: Tensor[edges, d].

    Parameters:
        columns, of_edges: Tensor[num_columns, d], Tensor[edges, d].
    """
    return edge_sources(pattern, columns).add_(of_edges).relu_()


def scaled(rows: Tensor, graph: LocalGraph, edges: slice = slice(None)) -> Tensor:
    """Rows of some of the graph's edges, times the factors of a mini-batch: Tensor[edges, d]."""
    factors = graph.edge_factors
    return rows if factors is None else rows * factors[edges].unsqueeze(1)


def edge_features_of(graph: LocalGraph) -> Tensor:
    """Features of the graph's edges; InputError if it has none."""
    found = graph.edge_features
    if found is None:
        raise InputError(
            "the plan has no features of edges: compile the graph with `edge_features`, or pass "
            "edges"
        )
    return found
