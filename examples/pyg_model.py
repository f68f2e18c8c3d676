"""A network of PyTorch Geometric, unchanged, on the ranks of a plan.

    pip install 'plancc[pyg]'
    mpirun -n 4 python -m mpi4py examples/pyg_model.py cora.h5

`distributed` runs it on this rank's rows: what messages read of sources comes from other ranks,
statistics of norms are of all vertices, masks of dropout do not depend on the ranks. `check`
compares a part of the graph with one rank alone. It needs a row plan.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import BatchNorm, GATv2Conv, MessagePassing

import plancc_runtime
from plancc_runtime.pyg import check, distributed

EPOCHS = 30


class Gated(MessagePassing):
    """A custom layer: every neighbour's row times a gate that both ends decide."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(aggr="mean")
        self.own = torch.nn.Linear(d_in, d_out)
        self.neighbour = torch.nn.Linear(d_in, d_out)
        self.gate = torch.nn.Linear(2 * d_in, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.own(x) + self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j], dim=1))) * self.neighbour(x_j)


class Net(torch.nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.gated, self.norm = Gated(d_in, 32), BatchNorm(32)
        self.attention = GATv2Conv(32, d_out)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.gated(x, edge_index)))
        x = functional.dropout(x, 0.5, self.training)
        return self.attention(x, edge_index)


def main(path: str) -> None:
    graph = plancc_runtime.open(path)
    torch.manual_seed(0)
    model = Net(graph.features.shape[1], graph.num_classes)
    agreement = check(model, graph, graph.features, graph.edge_index)
    if graph.rank == 0:
        print(f"equal to one rank: {agreement.exact}")
    net = distributed(model, graph)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    labels, train = graph.labels, graph.train_mask & (graph.labels >= 0)

    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        out = net(graph.features, graph.edge_index)
        losses = functional.cross_entropy(out[train], labels[train], reduction="none")
        loss = graph.mean_loss(losses)
        loss.backward()
        graph.sync_gradients(net)
        optimizer.step()
        if graph.rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.6f}")


main(sys.argv[1])
