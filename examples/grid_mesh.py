"""Encode, process, decode: values of a grid are learnt on a coarser mesh, as in weather models.

    python examples/grid_mesh.py plan plan.h5 4
    mpirun -n 4 python -m mpi4py examples/grid_mesh.py train plan.h5

Every mesh vertex reads its nearest grid vertices, and every grid vertex its nearest mesh vertices.
Features of edges are the way from end to end. The targets are real numbers.
"""

import sys

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch.nn import LayerNorm, Linear, ModuleList, ReLU, Sequential

import plancc
import plancc_runtime

GRID, MESH, WIDTH, EPOCHS = 400, 60, 16, 30
RELATIONS = {("grid", "up", "mesh"): 9, ("mesh", "on", "mesh"): 6, ("mesh", "down", "grid"): 3}
random = np.random.default_rng(0)
PLACES = {"grid": random.random((GRID, 2)), "mesh": random.random((MESH, 2))}


def compile_plan(path: str, parts: int) -> None:
    """Partition grid and mesh together."""
    graph = {name: len(places) for name, places in PLACES.items()}
    for (source, name, destination), k in RELATIONS.items():
        found = cKDTree(PLACES[source]).query(PLACES[destination], k)[1]
        rows = np.repeat(np.arange(len(found)), k)
        graph[source, name, destination] = np.stack([found.ravel(), rows])
    plancc.compile(graph, num_parts=parts, normalize="none").save(path)


class Block(torch.nn.Module):
    """A layer of one's own, the step of MeshGraphNet (Pfaff et al. 2021) over the edges uv.

    e_uv = e_uv + MLP([h_u, h_v, e_uv]), then h_v = h_v + MLP([h_v, sum of e_uv])
    """

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.vertex = mlp(3 * WIDTH), mlp(2 * WIDTH)

    def forward(self, columns, h: torch.Tensor, edges: torch.Tensor, ends) -> torch.Tensor:
        source, target = ends
        edges = edges + self.edge(torch.cat([columns[source], h[target], edges], 1))
        total = torch.zeros_like(h).index_add(0, target, edges)
        return h + self.vertex(torch.cat([h, total], 1))


def mlp(width: int) -> torch.nn.Module:
    return Sequential(Linear(width, WIDTH), ReLU(), Linear(WIDTH, WIDTH), LayerNorm(WIDTH))


class Model(torch.nn.Module):
    """A block for every relation: to the mesh, on it, and back to the grid."""

    def __init__(self) -> None:
        super().__init__()
        self.vertices, self.out = Linear(3, WIDTH), Linear(WIDTH, 1)
        self.edges = ModuleList(Linear(2, WIDTH) for _ in RELATIONS)
        self.blocks = ModuleList(Block() for _ in RELATIONS)

    def forward(self, graph: plancc_runtime.TypedGraph, x: dict) -> torch.Tensor:
        h = {name: self.vertices(rows) for name, rows in x.items()}
        for block, edge, relation in zip(self.blocks, self.edges, RELATIONS, strict=True):
            source, _, destination = relation
            local, ends = graph.relation(relation), graph.edges(relation)
            way = local.columns(x[source][:, :2])[ends[0]] - x[destination][ends[1], :2]
            h[destination] = block(local.columns(h[source]), h[destination], edge(way), ends)
        return self.out(h["grid"])


def train(path: str) -> None:
    """Learn a smooth function of the places from a noisy one."""
    graph = plancc_runtime.open_typed(path)
    places = {name: torch.tensor(PLACES[name]).float()[graph.vertices(name)] for name in PLACES}
    target = torch.sin(6 * places["grid"].prod(1, keepdim=True))
    seen = {"grid": target + 0.1 * torch.cos(99 * target), "mesh": 0 * places["mesh"][:, :1]}
    x = {name: torch.cat([places[name], seen[name]], 1) for name in PLACES}
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        loss = graph.union.mean_loss((model(graph, x) - target) ** 2)
        optimizer.zero_grad()
        loss.backward()
        graph.union.sync_gradients(model)
        optimizer.step()
        if graph.union.rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.5f}")


if __name__ == "__main__":
    _, task, file, *number = sys.argv
    compile_plan(file, int(number[0])) if task == "plan" else train(file)
