"""Your own model and training loop on a plan, on any number of ranks.

    plancc compile Cora.mtx.gz --data Cora.npz -p 4 -o cora.h5
    python examples/own_model.py cora.h5
    mpirun -n 4 python -m mpi4py examples/own_model.py cora.h5
    torchrun --nproc-per-node 4 examples/own_model.py cora.h5

Four lines differ from a script for one process: `open`, the graph as the first argument of a layer,
`mean_loss`, and `sync_gradients` before the optimiser's step. Everything else, the linear layer and
the optimiser included, is plain PyTorch on this rank's rows. `python -m mpi4py` ends all ranks if
one of them fails.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional

import plancc_runtime
from plancc_runtime.nn import BatchNorm, GCNConv, SAGEConv

EPOCHS, SEED = 30, 0


class Model(torch.nn.Module):
    """A linear layer, GraphSAGE, batch normalisation and a graph convolution."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(d_in, 32)
        self.sage = SAGEConv(32, 32, aggregator="max")
        self.norm = BatchNorm(32)
        self.out = GCNConv(32, d_out, bias=True)

    def forward(self, graph: plancc_runtime.Graph, x: Tensor, epoch: int) -> Tensor:
        x = torch.relu(self.embed(x))
        if self.training:
            x = graph.dropout(x, 0.5, SEED, epoch)  # the same mask on any number of ranks
        x = torch.relu(self.norm(self.sage(graph, x), graph))
        return self.out(graph, x)


def main(path: str) -> None:
    graph = plancc_runtime.open(path)
    print(graph)
    torch.manual_seed(SEED)  # the same initial weights on all ranks
    model = Model(graph.features.shape[1], graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    labels, train = graph.labels, graph.train_mask & (graph.labels >= 0)

    for epoch in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        out = model(graph, graph.features, epoch)
        losses = functional.cross_entropy(out[train], labels[train], reduction="none")
        loss = graph.mean_loss(losses)
        loss.backward()
        graph.sync_gradients(model)
        optimizer.step()
        if graph.rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.6f}")

    model.eval()
    with torch.no_grad():
        out = model(graph, graph.features, EPOCHS)
    test = graph.test_mask & (labels >= 0)
    right = (out.argmax(dim=1) == labels)[test]
    hits, total = graph.all_reduce(torch.tensor([right.sum(), len(right)])).tolist()
    if graph.rank == 0:
        print(f"test accuracy {hits / total:.4f}")


main(sys.argv[1])
