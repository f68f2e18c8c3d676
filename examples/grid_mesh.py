"""Encode, process, decode: fields on a grid are learnt on a coarser mesh, as in weather models.

    python examples/grid_mesh.py plan plan.h5 4
    mpirun -n 4 python -m mpi4py examples/grid_mesh.py train plan.h5

A MeshGraphNet (Pfaff et al. 2021) in PyTorch Geometric. Every mesh vertex reads its nearest grid
vertices, and every grid vertex its nearest mesh vertices. All times of the field travel at once.
"""

import sys

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch.nn import LayerNorm, Linear, ModuleList, ReLU, Sequential
from torch_geometric.nn import MessagePassing

import plancc
import plancc_runtime
from plancc_runtime.pyg import distributed

GRID, MESH, TIMES, WIDTH, EPOCHS = 400, 60, 4, 16, 30
UP, ON, DOWN = range(3)


def compile_plan(path: str, parts: int) -> None:
    """Partition grid and mesh together, and write the field: [times, vertices, (seen, true)]."""
    places = np.random.default_rng(0).random((GRID + MESH, 2))
    grid, mesh = np.split(np.arange(GRID + MESH), [GRID])
    edges = []
    for kind, sources, targets, k in (
        (UP, grid, mesh, 9),
        (ON, mesh, mesh, 6),
        (DOWN, mesh, grid, 3),
    ):
        found = sources[cKDTree(places[sources]).query(places[targets], k)[1]]
        target = np.repeat(targets, k)
        edges.append([found.ravel(), target, np.full(len(target), kind)])
    source, target, kind = np.concatenate(edges, axis=1)
    way = places[source] - places[target]
    data = plancc.VertexData(features=np.c_[places, np.arange(GRID + MESH) < GRID])
    plan = plancc.compile(
        (GRID + MESH, np.stack([source, target])),
        num_parts=parts,
        normalize="none",
        self_loops=False,
        data=data,
        edge_features=np.c_[way, kind],
    )
    plan.save(path)
    true = np.sin(6 * places.prod(1) + np.arange(TIMES)[:, None])
    seen = np.where(np.arange(GRID + MESH) < GRID, true + 0.1 * np.cos(99 * true), 0)
    np.save(f"{path}.npy", np.stack([seen, true], axis=2))


def mlp(width: int) -> torch.nn.Module:
    return Sequential(Linear(width, WIDTH), ReLU(), Linear(WIDTH, WIDTH), LayerNorm(WIDTH))


class Block(MessagePassing):
    """e_uv = e_uv + MLP([h_u, h_v, e_uv]), then h_v = h_v + MLP([h_v, sum of e_uv])"""

    def __init__(self) -> None:
        super().__init__(aggr="sum", node_dim=-2)
        self.edge, self.vertex = mlp(3 * WIDTH), mlp(2 * WIDTH)

    def forward(self, h, edge_index, e):
        return h + self.vertex(torch.cat([h, self.propagate(edge_index, h=h, e=e)], dim=-1))

    def message(self, h_i, h_j, e):
        e = e.expand(len(h_i), -1, -1)
        return e + self.edge(torch.cat([h_i, h_j, e], dim=-1))


class Model(torch.nn.Module):
    """A block to the mesh, one on it, and one back to the grid."""

    def __init__(self) -> None:
        super().__init__()
        self.vertices, self.edges, self.out = Linear(4, WIDTH), Linear(2, WIDTH), Linear(WIDTH, 1)
        self.blocks = ModuleList(Block() for _ in (UP, ON, DOWN))

    def forward(self, x, edge_index, edge_attr):
        h, e = self.vertices(x), self.edges(edge_attr[:, :2])
        for kind, block in enumerate(self.blocks):
            chosen = edge_attr[:, 2] == kind
            h = block(h, edge_index[:, chosen], e[chosen])
        return self.out(h)


def train(path: str) -> None:
    """Learn the true field from the one that is seen."""
    graph = plancc_runtime.open(path)
    field = graph.take(np.load(f"{path}.npy", mmap_mode="r"), axis=1)
    on_grid = graph.features[:, 2] == 1
    x = torch.cat([graph.features.expand(TIMES, -1, -1), field[:, :, :1]], dim=2)
    torch.manual_seed(0)
    net = distributed(Model(), graph)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        out = net(x, graph.edge_index, graph.edge_attr)
        loss = graph.mean_loss((out - field[:, :, 1:])[:, on_grid] ** 2)
        optimizer.zero_grad()
        loss.backward()
        graph.sync_gradients(net)
        optimizer.step()
        if graph.rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.5f}")


if __name__ == "__main__":
    _, task, file, *number = sys.argv
    compile_plan(file, int(number[0])) if task == "plan" else train(file)
