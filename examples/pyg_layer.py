"""A message-passing layer of PyTorch Geometric on the local part of a plan.

    pip install torch_geometric
    mpirun -n 4 python -m mpi4py examples/pyg_layer.py cora.h5

On a rank the graph is bipartite: edges lead from columns, own and halo rows, to own rows.
`graph.columns(x)` fetches the halo rows, `graph.local_edge_index()` has the edges in PyG's form,
and PyG's layers take the pair (rows of the columns, rows of the targets). Gradients of halo rows
return to their owners. The script needs a row plan: in an edge plan a rank has only some edges of
a row.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import GATv2Conv, MessagePassing

import plancc_runtime

EPOCHS = 30


class Gated(MessagePassing):
    """A custom layer: every neighbour's row times a gate that both ends decide."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(aggr="mean")
        self.own = torch.nn.Linear(d_in, d_out)
        self.neighbour = torch.nn.Linear(d_in, d_out)
        self.gate = torch.nn.Linear(2 * d_in, 1)

    def forward(self, x: tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        size = len(x[0]), len(x[1])
        return self.own(x[1]) + self.propagate(edge_index, x=x, size=size)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j], dim=1))) * self.neighbour(x_j)


class Model(torch.nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(d_in, 32)
        self.gated = Gated(32, 32)
        self.attention = GATv2Conv((32, 32), d_out, add_self_loops=False)

    def forward(self, graph: plancc_runtime.Graph, x: Tensor) -> Tensor:
        x = torch.relu(self.embed(x))
        x = torch.relu(self.gated((graph.columns(x), x), graph.local_edge_index("edges")))
        return self.attention((graph.columns(x), x), graph.local_edge_index("closed"))


def main(path: str) -> None:
    graph = plancc_runtime.open(path)
    if graph.folds:
        sys.exit(f"{path} is an edge plan: this script needs a row plan")
    torch.manual_seed(0)
    model = Model(graph.features.shape[1], graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    labels, train = graph.labels, graph.train_mask & (graph.labels >= 0)

    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        out = model(graph, graph.features)
        losses = functional.cross_entropy(out[train], labels[train], reduction="none")
        loss = graph.mean_loss(losses)
        loss.backward()
        graph.sync_gradients(model)
        optimizer.step()
        if graph.rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.6f}")


main(sys.argv[1])
