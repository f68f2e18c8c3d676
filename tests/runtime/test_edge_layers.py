"""Layers with features of edges, beside PyTorch Geometric's and the equations on all edges."""

from copy import deepcopy

import numpy as np
import scipy.sparse as sp
import torch
from cases import pairs
from test_typed import WRITES, plan_of, relations
from torch import nn
from torch_geometric.nn import GINEConv as Theirs

import plancc
import plancc_runtime
from plancc_runtime.nn import EdgeBlock, GINEConv
from plancc_runtime.transport.local import run_ranks

WIDTH, D_EDGE, N = 4, 3, 50


def features(rows: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
    """Features of the edges with these ends."""
    return torch.sin((rows * 7 + columns)[:, None] * torch.arange(1.0, width + 1)).double()


def layer_of(kind: str) -> nn.Module:
    torch.manual_seed(3)
    made = EdgeBlock(WIDTH) if kind == "block" else GINEConv(WIDTH, WIDTH, D_EDGE, eps=0.5)
    return made.double()


def reference(layer, x, target, ends, edges):
    """Outputs, by the equations."""
    if isinstance(layer, GINEConv):
        theirs = Theirs(layer_of("gine").mlp, eps=0.5, edge_dim=D_EDGE)
        theirs.nn, theirs.lin = layer.mlp, layer.edge  # it draws weights again when it is made
        return theirs((x, target), ends, edges)
    columns, rows = ends
    first = x[columns] @ layer.source.weight.T + target[rows] @ layer.target.weight.T
    edges = edges + layer.message(first + layer.edge(edges))
    total = torch.zeros_like(target).index_add(0, rows, edges)
    return target + layer.vertex(torch.cat([target, total], 1))


@pairs(
    kind=("gine", "block"), graph=("typed", "square"), model=("hp", "medium-grain"), ranks=(1, 3, 8)
)
def test_layers_with_edges_are_the_equations(tmp_path, kind, graph, model, ranks):
    typed, width = graph == "typed", WIDTH if kind == "block" else D_EDGE
    path = tmp_path / "plan.h5"
    square = sp.random(N, N, 0.08, "csr", rng=5).toarray()
    square = sp.csr_array(square * (1 - np.eye(N)))  # whose diagonal would be no edges
    how = {"normalize": "none", "value_dtype": "float64", "seed": 1}
    plan = plan_of(model) if typed else plancc.compile(square, model, 8, **how)
    plan.save(path)
    matrix = (relations()[WRITES] if typed else square).tocoo()
    rows, columns = (torch.from_numpy(each.astype(np.int64)) for each in (matrix.row, matrix.col))
    m, n = matrix.shape
    random = np.random.default_rng(1)
    x, target, g = (torch.from_numpy(random.random((k, WIDTH))) for k in (n, m, m))
    target = target if typed else x

    made = layer_of(kind)

    def on_rank(transport):
        torch.set_num_threads(1)
        how = {"transport": transport, "dtype": torch.float64, "threads": 1}
        layer = deepcopy(made)  # torch has one generator for all threads
        if typed:
            opened = plancc_runtime.open_typed(path, **how)
            local, union = opened.relation(WRITES), opened.union
            own, mine = opened.vertices("author"), opened.vertices("paper")
            ends = opened.edges(WRITES)
        else:
            local = union = plancc_runtime.open(path, **how)
            own = mine = union.vertices.long()
            ends = union.local_edge_index()
        at_columns = local.columns(own[:, None].double()).long()[:, 0]
        at_rows = local.local_rows(mine[:, None].double()).long()[:, 0]
        edges = features(at_rows[ends[1]], at_columns[ends[0]], width)
        source = x[own].requires_grad_()
        goal = target[mine].requires_grad_() if typed else None
        y = layer(local, source, edges, goal)
        y = y[0] if kind == "block" else y
        with torch.autograd.set_multithreading_enabled(False):
            (y * g[mine]).sum().backward()
        union.sync_gradients(layer)
        gradients = [w.grad for w in layer.parameters()]
        return mine, y.detach(), own, source.grad, None if goal is None else goal.grad, gradients

    answers = run_ranks(ranks, on_rank, 180)
    layer = made
    x.requires_grad_()
    target = target.clone().requires_grad_() if typed else x
    y = reference(layer, x, target, torch.stack([columns, rows]), features(rows, columns, width))
    (y * g).sum().backward()
    close = {"rtol": 0, "atol": 1e-10}
    for mine, out, own, of_source, of_target, gradients in answers:
        torch.testing.assert_close(out, y.detach()[mine], **close)
        torch.testing.assert_close(of_source, x.grad[own], **close)
        if of_target is not None:
            torch.testing.assert_close(of_target, target.grad[mine], **close)
        for found, weight in zip(gradients, layer.parameters(), strict=True):
            torch.testing.assert_close(found, weight.grad, **close)
