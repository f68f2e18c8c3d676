"""Features of edges in layers of one's own: PyTorch Geometric's, and one of `plancc-run`."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cases import turns
from test_typed import WRITES, relations
from torch import nn
from torch_geometric.nn import GINEConv

import plancc
import plancc_runtime
from plancc.errors import InputError
from plancc.plan.convolutions import ConvOptions
from plancc.plan.layers import GatherNeighbours, Linear
from plancc_runtime.nn import MODELS
from plancc_runtime.nn.conv import Conv, glorot
from plancc_runtime.nn.operators import aggregate
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

WIDTH, D_EDGE, N = 4, 3, 50
TO = "v", "to", "v"


def square() -> sp.coo_array:
    """Without a diagonal, whose entries would be no edges."""
    return sp.coo_array(sp.random(N, N, 0.08, rng=5).toarray() * (1 - np.eye(N)))


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """From a name, a graph and features of its edges to the file of a plan, searched for once."""
    folder = tmp_path_factory.mktemp("plans")

    def made(name, graph, features, **more):
        path = folder / f"{name}.h5"
        if not path.exists():
            given = {"edge_features": features, "normalize": "none", "seed": 1, **more}
            plancc.compile(graph, "hp", 4, **given).save(path)
        return path

    return made


@turns(graph=("typed", "square"), ranks=(1, 3, 4))
def test_a_layer_of_pyg_takes_the_edges_of_a_rank(plans, graph, ranks):
    typed, random = graph == "typed", np.random.default_rng(1)
    matrix = relations()[WRITES].tocoo() if typed else square()
    edges = random.standard_normal((matrix.nnz, D_EDGE)).astype(np.float32)
    given = relations() | {WRITES: matrix} if typed else matrix
    path = plans(graph, given, {WRITES: edges} if typed else edges)
    ends = torch.from_numpy(np.stack([matrix.col, matrix.row]).astype(np.int64))
    m, n = matrix.shape
    x, target, g = (torch.from_numpy(random.random((k, WIDTH))) for k in (n, m, m))
    target = target if typed else x
    torch.manual_seed(3)
    made = GINEConv(nn.Linear(WIDTH, WIDTH), edge_dim=D_EDGE).double()

    def on_rank(transport):
        torch.set_num_threads(1)
        how = {"transport": transport, "dtype": torch.float64, "threads": 1}
        layer = deepcopy(made)  # torch has one generator for all threads
        if typed:
            opened = plancc_runtime.open_typed(path, **how)
            local, union = opened.relation(WRITES), opened.union
            own, mine = opened.vertices("author"), opened.vertices("paper")
            found = opened.edges(WRITES), opened.edge_features(WRITES)
        else:
            local = union = plancc_runtime.open(path, **how)
            own = mine = union.vertices.long()
            found = union.local_edge_index(), union.edge_features
        source = x[own].requires_grad_()
        y = layer((local.columns(source), target[mine]), *found)
        with torch.autograd.set_multithreading_enabled(False):
            (y * g[mine]).sum().backward()
        union.sync_gradients(layer)
        return mine, y.detach(), own, source.grad, [w.grad for w in layer.parameters()]

    answers = run_ranks(ranks, on_rank, 180)
    whole = x.clone().requires_grad_()
    y = made((whole, target), ends, torch.from_numpy(edges).double())
    (y * g).sum().backward()
    close = {"rtol": 0, "atol": 1e-10}
    for mine, out, own, of_source, gradients in answers:
        torch.testing.assert_close(out, y.detach()[mine], **close)
        torch.testing.assert_close(of_source, whole.grad[own], **close)
        for found, weight in zip(gradients, made.parameters(), strict=True):
            torch.testing.assert_close(found, weight.grad, **close)


@dataclass(frozen=True)
class WeighingOptions(ConvOptions):
    def steps(self, d_in, d_out, last):
        return [GatherNeighbours(d_in), Linear(d_in, d_out)]


class Weighing(Conv):
    """(sum of h_u * (e_uv W_e) over the edges uv) W."""

    Options = WeighingOptions
    reads_edges = whole_rows = True

    def _make(self, random):
        self.weight_edge = nn.Parameter(glorot(random, D_EDGE, self.d_in))
        self.weight = nn.Parameter(glorot(random, self.d_in, self.d_out))

    def fixed(self, graph, x):
        with torch.no_grad():
            return graph.columns(x)

    def forward(self, graph, x, fixed=None):
        columns, factors = graph.columns(x) if fixed is None else fixed, graph.edge_factors
        by = graph.edge_features @ self.weight_edge
        by = by if factors is None else by * factors[:, None]
        return graph.linear(aggregate(graph.pattern("edges"), columns, by), self.weight)


@turns(
    batches=({}, {"sampler": "uniform"}, {"sampler": "neighbour", "fanouts": (3, 2)}),
    typed=(False, True),
    passes=(("order", "constant", "dead-rows"), ("order",)),
    ranks=(3, 4),
)
def test_a_layer_of_a_run_reads_them(plans, monkeypatch, batches, typed, passes, ranks):
    monkeypatch.setitem(MODELS._targets, "weighing", f"{__name__}:Weighing")
    random, matrix = np.random.default_rng(2), square()
    data = {"x": random.random((N, 5), np.float32), "y": random.integers(0, 3, N)}
    edges = random.random((matrix.nnz, D_EDGE), np.float32)
    features = {TO: edges} if typed else edges
    graph, of_all = ({TO: matrix}, {"v": data}) if typed else (matrix, data)
    path = plans(f"run, {typed}", graph, features, data=of_all)
    options = {"model": "weighing", "hidden": 8, "epochs": 3, "dtype": "float64", "passes": passes}
    size = {"batch_size": 16} if batches else {}
    asked = TrainOptions(**options, **batches, **size)
    alone = train(path, asked, SingleTransport())
    found = run_ranks(ranks, lambda transport: train(path, asked, transport), 180)[0]
    for mine, other in zip(found.epochs, alone.epochs, strict=True):
        assert mine.loss == pytest.approx(other.loss, abs=1e-10)
    with pytest.raises(InputError, match=r"boundary_sampling.*(sampled edges|of one vertex type)"):
        train(path, TrainOptions(**options, boundary_sampling=0.5), SingleTransport())
    if batches:
        return
    assert found.figures.planned == found.epochs[-1].words_sent > 0
    h, a = torch.from_numpy(data["x"]).double(), torch.zeros(N, N, D_EDGE, dtype=torch.float64)
    a[matrix.row, matrix.col] = torch.from_numpy(edges).double()
    first, last = (Weighing(*widths) for widths in ((5, 8), (8, 3)))
    random = np.random.default_rng(asked.seed)
    for conv in (first, last):
        conv._make(random)
        h = torch.einsum("vue,ed,ud->vd", a, conv.weight_edge, h) @ conv.weight
        h = h.relu() if conv is first else h
    loss = nn.functional.cross_entropy(h, torch.from_numpy(data["y"])).item()
    assert alone.epochs[0].loss == pytest.approx(loss, abs=1e-10)
