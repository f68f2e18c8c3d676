"""Layers that read features of edges; between vertices of one type, or of the ends of a relation.

Edges are this rank's nonzeros, in the order of `Graph.local_edge_index` or `TypedGraph.edges`. In
an edge plan they are with any rank, and sums over them travel as those of products do.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn.aggregation import aggregate
from plancc_runtime.nn.operators import edge_scores


class GINEConv(nn.Module):
    """The isomorphism network with features of edges (Hu et al., ICLR 2020).

        h'_v = MLP((1 + eps) h_v + sum of ReLU(h_u + W e_uv) over the edges uv)

    It is PyTorch Geometric's GINEConv of Sequential(Linear, ReLU, Linear), with its `edge_dim`.

    Parameters:
        d_in, d_out, d_edge: Width of input, output and features of edges.
    """

    def __init__(self, d_in: int, d_out: int, d_edge: int, eps: float = 0.0) -> None:
        super().__init__()
        self.eps, self.edge = eps, nn.Linear(d_edge, d_in)
        self.mlp = nn.Sequential(nn.Linear(d_in, d_out), nn.ReLU(), nn.Linear(d_out, d_out))

    def forward(
        self, graph: LocalGraph, x: Tensor, edges: Tensor, target: Tensor | None = None
    ) -> Tensor:
        """Rows of the output. Collective.

        Parameters:
            graph: A graph of one type, or `TypedGraph.relation`.
            x: Tensor[num_inputs, d_in].
            edges: Tensor[nonzeros, d_edge].
            target (Tensor[num_outputs, d_in], optional): Rows of the destination; by default x.

        Returns:
            Tensor[num_outputs, d_out]
        """
        own = graph.targets(x) if target is None else target
        pattern = graph.local_pattern("edges")
        nothing = x.new_zeros(pattern.num_rows, x.shape[1])
        messages = torch.relu(edge_scores(pattern, graph.columns(x), nothing) + self.edge(edges))
        total = aggregate(graph, None, messages, "copy_e")
        return self.mlp((1 + self.eps) * own + total)


class EdgeBlock(nn.Module):
    """A step of MeshGraphNet (Pfaff et al., ICLR 2021), which updates edges, then vertices.

        e'_uv = e_uv + MLP([h_u, h_v, e_uv])
        h'_v  = h_v + MLP([h_v, sum of e'_uv over the edges uv])

    The maps are Linear, ReLU, Linear, LayerNorm. The first map of the edges is made on
    vertices, whose rows are fewer.

    Parameters:
        width: Of vertices and of edges.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source, self.target = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.edge = nn.Linear(width, width)
        self.message = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.LayerNorm(width))
        self.vertex = nn.Sequential(
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )

    def forward(
        self, graph: LocalGraph, x: Tensor, edges: Tensor, target: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """New rows of the destination, and of the edges. Collective.

        Parameters are those of `GINEConv.forward`, all of one width.

        Returns:
            Tensor[num_outputs, width], Tensor[nonzeros, width]
        """
        own = graph.targets(x) if target is None else target
        of_ends = edge_scores(
            graph.local_pattern("edges"),
            graph.columns(self.source(x)),
            graph.local_rows(self.target(own)),
        )
        edges = edges + self.message(of_ends + self.edge(edges))
        total = aggregate(graph, None, edges, "copy_e")
        return own + self.vertex(torch.cat([own, total], dim=1)), edges
