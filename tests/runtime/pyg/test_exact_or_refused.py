"""Forwards that this rank's rows alone would answer wrongly: right on ranks, or refused."""

import random
from dataclasses import dataclass
from threading import current_thread
from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("torch_geometric")

import torch
import torch.nn.functional as F
from convolutions import METADATA, OUT, Called, W
from on_ranks import compare, on_ranks, opened, seeded, world
from torch_geometric import nn
from torch_geometric.utils import degree

from plancc.errors import InputError
from plancc_runtime.pyg import distributed
from plancc_runtime.pyg.marks import Message
from plancc_runtime.transport.local import run_ranks

pytestmark = pytest.mark.usefixtures("float64")
ROWS, WHOLE = True, False
"""Whether outputs are of rows, or of the whole graph."""


def in_place(x, **_):
    y = x.clone()
    y[:, 0] = 2.0
    y.mul_(x).add_(x.mean(0))
    y /= x.norm()
    return y


def masked(x, **_):
    chosen = x[:, 0] > 0
    y = x.clone()
    y[chosen] = 0.5
    return y + x[chosen].mean(0)


def set_rows(x, **_):
    y = x.clone()
    y[:3] = 0
    return y


def set_by_number(x, **_):
    y = x.clone()
    y[torch.tensor([0, 1])] = 0
    return y


def gated(x, edge_index, **_):
    h, conv = torch.tanh(x), nn.SimpleConv()
    with torch.no_grad():
        gate, h = conv(h, edge_index).sigmoid(), h.to(x.dtype)  # h itself
    return gate * conv(h, edge_index)


def hook_of_gradients(x, **_):
    y = x * 1.0
    y.register_hook(lambda g: g / g.norm())
    return y


def by_counts(x, **_):
    n = x.size(0)
    y = torch.mul(x.clamp(max=n / 40), other=n).add(x, alpha=n).addcmul(x, x, value=n)
    y = y.masked_fill(x > 0, value=n)
    y[:, 0] = n
    return y


def by_comparisons(x, edge_index, edge_weight, **_):
    sizes = x.size(0), edge_index.size(1)
    same = [n == len(world()) for n in sizes] + [sizes[1] == edge_weight.size(0)]
    ordered = [sizes[0] > 10, sizes[0] < sizes[1], sizes[0] == sizes[1], bool(sizes[1])]
    return x * sum(2**k * each for k, each in enumerate(same + ordered)) * float(f"{sizes[0]}")


def of_whole_numbers(x, batch, **_):
    whole = (batch - batch.min()).to(torch.uint8)
    by_graph = whole.new_full((3,), 9).scatter_reduce(
        0, batch, whole + batch.to(torch.uint8), "amin"
    )
    return x * (whole.amin() + 3 * whole.max() + by_graph.sum())


def of_equal(x, edge_index, edge_weight, **_):
    """Extremes of few values, whose gradient torch shares among all that are equal, or not."""
    few = x + (x.sign() - x).detach()
    at, taken = edge_index[0][:, None].expand(-1, W), few[edge_index[1]]
    by_edge = edge_weight + (edge_weight.round() - edge_weight).detach()
    found = few.max(0)[0] * few.amin(0) * few.min(dim=0)[0] * few.max() * by_edge.max(0)[0]
    for own in (True, False):
        found = few.scatter_reduce(0, at, taken, "amax", include_self=own) + found * x
    return found


GRU = torch.nn.GRU(2, 2, batch_first=True).double()


EXACT = {
    "GRU": (lambda x, **_: GRU(x.view(x.size(0), -1, 2))[0].flatten(1), ROWS),
    "by counts": (by_counts, ROWS),
    "equal extremes": (of_equal, ROWS),
    "by comparisons": (by_comparisons, ROWS),
    "more than ten rows": (lambda x, **_: x * (x.size(0) > 10), ROWS),
    "made of shape": (lambda x, **_:
                      x + torch.ones(W).expand(x.shape).sum(0)
                      + torch.ones(W).broadcast_to(x.shape).sum(0)
                      + torch.ones(1).repeat((x.size(0), 1)).sum(0), ROWS),
    "rows of whole numbers": (of_whole_numbers, ROWS),
    "degrees": (lambda x, edge_index, **_: x * degree(edge_index[1])[:, None], ROWS),
    "named arguments": (lambda x, **_:
                        torch.cat(tensors=[torch.relu(input=x), F.dropout(input=x, p=0)], dim=1),
                        ROWS),
    "no dropout": (lambda x, **_: F.alpha_dropout(x, 0.5, training=False), ROWS),
    "mean": (lambda x, **_: x - x.mean(0), ROWS),
    "rows that came without gradient": (gated, ROWS),
    "over edges": (lambda x, edge_index, **_: x / edge_index.size(1), ROWS),
    "over ends": (lambda x, edge_index, **_: x / edge_index[0].shape[0], ROWS),
    "over numbers of ends": (lambda x, edge_index, **_: x / edge_index.numel(), ROWS),
    "all dropped": (lambda x, **_: F.dropout(x, 1.0) + x, ROWS),
    "sum": (lambda x, **_: x * x.sum(), ROWS),
    "sum by axis": (lambda x, **_: x.sum(axis=1, keepdims=True) * x, ROWS),
    "root of the mean of squares": (lambda x, **_: x / (x * x).mean().sqrt(), ROWS),
    "std": (lambda x, **_: x / x.std(0), ROWS),
    "var of axis": (lambda x, **_: x / x.var(dim=0, unbiased=False), ROWS),
    "norm": (lambda x, **_: x / x.norm(), ROWS),
    "norm of zeros": (lambda x, **_: x + (0 * x).norm(dim=0) + (0 * x).std(0), ROWS),
    "max": (lambda x, **_: x / x.abs().max(), ROWS),
    "max of axis": (lambda x, **_: x - x.max(dim=0).values, ROWS),
    "max of a line": (lambda x, **_: x - x[:, 0].max(0).values, ROWS),
    "halves of rows": (lambda x, **_: (x.view(-1, 4) - x.view(-1, 4).mean(0)).view_as(x), ROWS),
    "edges' max": (lambda x, edge_weight, **_: x * (edge_weight / edge_weight.max()).sum(), ROWS),
    "edges' mean": (lambda x, edge_attr, **_: x[:, :3] - edge_attr.mean(0), ROWS),
    "number of samples": (lambda x, **_: x * len(torch.stack([x, x])), ROWS),
    "divided by size": (lambda x, **_: x - x.sum(0) / x.size(0), ROWS),
    "divided by shape": (lambda x, **_: x * x.shape[0] ** -0.5, ROWS),
    "divided by numel": (lambda x, **_: x - x.sum() / x.numel(), ROWS),
    "divided by edges": (lambda x, edge_weight, edge_index, **_:
                         x * edge_weight.sum() / edge_index.size(1), ROWS),
    "zeros of size": (lambda x, **_: x.new_zeros(x.size(0), 1) + x, ROWS),
    "covariance": (lambda x, **_: x @ (x.t() @ x), ROWS),
    "einsum of three": (lambda x, **_: torch.einsum("ng,ng,nf->nf", x, x, x), ROWS),
    "einsum": (lambda x, **_: torch.einsum("nd,dk->nk", x, torch.einsum("nd,nk->dk", x, x)), ROWS),
    "where": (lambda x, **_: torch.where(x > x.mean(), x, 0.5), ROWS),
    "masks": (masked, ROWS),
    "in place": (in_place, ROWS),
    "flat": (lambda x, **_: x * x.view(-1).sum(), ROWS),
    "linear attention": (lambda x, **_: x.softmax(1) @ (x.exp().t() @ x), ROWS),
    "unique": (lambda x, node_type, **_: x + node_type.unique().double().sum(), ROWS),
    "batch": (lambda x, batch, **_: F.one_hot(batch, 3).double().t() @ x, WHOLE),
}  # fmt: skip
ALIASES = {
    "multiply": lambda x: torch.multiply(x, 2 * x),
    "divide": lambda x: x.divide(1 + x * x),
    "subtract": lambda x: torch.subtract(x, 0.5),
    "absolute": lambda x: torch.absolute(x).negative(),
    "arccos": lambda x: x.sin().arccos(),
    "clip": lambda x: x.clip(-1, 1),
    "nothing, then axes": lambda x: (+x).flatten(1) + x.view(x.size(0), -1, 2).flatten(1),
    "greater": lambda x: torch.greater(x, 0).not_equal(torch.less_equal(x, 1)),
    "concat": lambda x: torch.concat([x, x], 1),
    "concatenate": lambda x: torch.concatenate([x, x], -1),
    "axes": lambda x: torch.moveaxis(x.swapaxes(0, 1), 0, 1).mT.adjoint(),
    "sums of axes": lambda x: torch.multiply(torch.linalg.matmul(x.mT, x).sum(), x),
    "special": lambda x: torch.special.expit(x) + torch.special.softmax(x, 1),
    "in place": lambda x: x.clone().masked_fill_(x > 0, 7) + x.detach().floor_divide(3),
    "hardswish": lambda x: torch.nn.functional.hardswish(x),
}
REFUSED = {
    "softmax by its other name": lambda x, **_: torch.special.softmax(x, 0),
    "numbers of Python": lambda x, **_: x * random.random(),
    "branch of a rank": lambda x, **_: x.sin() if current_thread().name == "rank 1" else x * 2,
    "complex rows": lambda x, edge_index, **_: torch.complex(x, x)[edge_index[0]].imag,
    "tracked statistics by row": lambda x, **_: F.instance_norm(
        x.view(x.size(0), -1, 2), torch.zeros(W // 2), torch.ones(W // 2)
    ),
    "tensor of a list of rows": lambda x, **_: x / torch.tensor([x.size(0)]),
    "tensor of shape": lambda x, **_: x / torch.tensor(x.shape)[0],
    "like, of rows": lambda x, **_: torch.full_like(x, x.size(0)),
    "fill with rows": lambda x, **_: torch.zeros_like(x).fill_(x.size(0)),
    "more rows": lambda x, **_: x * +x.size(0),
    "largest end": lambda x, edge_index, **_: x / (int(edge_index.max()) + 1),
    "rows by group": lambda x, batch, **_: x.t()[batch % W].sum(1),
    "edges by group": lambda x, edge_index, batch, **_: x[edge_index[:, batch][0]],
    "ends by group": lambda x, edge_index, batch, **_: x[edge_index[0][batch]],
    "rows by rows": lambda x, **_: torch.ones(x.size(0), x.size(0)).sum(1),
    "expanded by rows": lambda x, **_: torch.ones(1).expand(x.size(0), x.size(0)).sum(1),
    "repeated by rows": lambda x, **_: torch.ones(2, W).repeat(x.size(0), 1).mean(0),
    "range from two": lambda x, **_: x[torch.arange(start=2, end=x.size(0))],
    "several indices": lambda x, edge_index, **_: x[edge_index[0][:, None], torch.tensor([0, 1])],
    "gradient by frequency": lambda x, node_type, **_: F.embedding(
        node_type, torch.ones(3, W), scale_grad_by_freq=True
    ),
    "normalize": lambda x, **_: F.normalize(x, dim=0),
    "softmax": lambda x, **_: x.softmax(dim=0),
    "layer norm of rows": lambda x, **_: F.layer_norm(x.t(), (x.size(0),)).t(),
    "permuted": lambda x, **_: x[torch.arange(20).flip(0)],
    "range": lambda x, **_: torch.arange(x.size(0)) * x[:, 0],
    "line": lambda x, **_: torch.linspace(0, 1, x.size(0)) * x[:, 0],
    "table by row": lambda x, edge_index, **_: torch.ones(99, 1)[edge_index[1]],
    "table by source": lambda x, edge_index, **_: torch.ones(99, 1)[edge_index[0]],
    "flip": lambda x, **_: x.flip(0),
    "flip of both": lambda x, **_: x.flip(1, 0),
    "roll": lambda x, **_: torch.roll(x, 1, dims=0),
    "cumsum": lambda x, **_: x.cumsum(0),
    "all pairs": lambda x, **_: x @ x.t() @ x,
    "distances": lambda x, **_: torch.cdist(x, x).sum(1),
    "einsum of pairs": lambda x, **_: torch.einsum("nd,md->nm", x, x).sum(1),
    "einsum of pairs in one call": lambda x, **_: torch.einsum("ng,mg,mf->nf", x, x, x),
    "sums of pairs": lambda x, **_: torch.einsum("nd,md->n", x, x),
    "among rows": lambda x, **_: torch.isin(x, x),
    "columns behind rows": lambda x, **_: torch.cat([x, x.t()]),
    "dropped halves of rows": lambda x, **_: F.dropout(x.view(-1, 4), 0.5),
    "topk": lambda x, **_: x.topk(3, dim=0).values,
    "argmax": lambda x, **_: x.argmax(0),
    "equal extremes of halves of rows": lambda x, **_: x.view(-1, 4).sign().mul(x.sum()).max(0)[0],
    "place of max": lambda x, **_: x.max(dim=0).indices + 1,
    "sorted edges": lambda edge_weight, **_: edge_weight.sort().values,
    "edges by number": lambda edge_attr, **_: edge_attr[torch.tensor([0, 1])],
    "as many edges as rows": lambda x, edge_attr, **_: edge_attr[: x.size(0)],
    "first edges": lambda edge_attr, **_: edge_attr[:5],
    "1-norm": lambda x, **_: x.norm(p=1),
    "linalg": lambda x, **_: torch.linalg.norm(x),
    "attention": lambda x, **_: torch.nn.MultiheadAttention(W, 2)(x, x, x)[0],
    "nonzero of edges": lambda edge_weight, **_: (edge_weight > 0.5).nonzero(),
    "where alone": lambda x, **_: torch.where(x > 0),
    "unique with counts": lambda batch, **_: batch.unique(return_counts=True),
    "numpy": lambda x, **_: torch.from_numpy(x.detach().numpy()),
    "item": lambda x, **_: x[:, :1].item(),
    "length": lambda x, **_: x.sum(0) / len(x),
    "order of ends": lambda x, edge_index, **_: (edge_index[0] < edge_index[1]).sum() * x,
    "ends below": lambda x, edge_index, **_: (edge_index[0] == 10).sum() * x,
    "first edges of all": lambda x, edge_index, **_: x[edge_index[:, :20][0]],
    "first ends": lambda x, edge_index, **_: x[edge_index[0][:20]],
    "edges by a range": lambda x, edge_index, **_: x[edge_index[:, torch.arange(20)][0]],
    "more rows than are here": lambda x, **_: x[:30].sum(0),
    "rows as a number": lambda x, **_: x * int(x.size(0)),
    "filled with rows": lambda x, **_: x / torch.full((1,), x.size(0)),
    "ends of this rank": lambda x, edge_index, **_: x / len(edge_index[0]),
    "data": lambda x, **_: x.data * 2,
    "hook of gradients": hook_of_gradients,
    "stride": lambda x, **_: x * x.t().contiguous().stride(0),
    "rows less one": lambda x, **_: x.sum(0) / (x.size(0) - 1),
    "out": lambda x, **_: torch.add(x, x, out=torch.empty_like(x)),
    "rows set": set_rows,
    "rows set by number": set_by_number,
    "first rows": lambda x, **_: x[:3],
    "random": lambda x, **_: x * torch.rand_like(x),
    "ends as numbers": lambda edge_index, **_: edge_index[0] * 1.0,
    "token": lambda x, **_: torch.cat([x, torch.ones(1, W)]),
    "gradient within": lambda x, **_: torch.autograd.grad((x * x).sum(), x)[0],
    "kron": lambda x, **_: torch.kron(x, x),
    "squeezed": lambda x, **_: x.squeeze(0),
    "both axes mixed": lambda x, **_: x.reshape(2, -1),
    "transposed and viewed": lambda x, **_: x.t().reshape(x.size(0), -1),
}  # fmt: skip


class Forward(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **tensors):
        return self.function(*args, **tensors)


@pytest.mark.parametrize(
    ("name", "ranks"), [*((name, 3) for name in EXACT), ("rows that came without gradient", 1)]
)
def test_gives_what_one_process_gives(name, ranks):
    function, of_rows = EXACT[name]
    compare(lambda: Forward(function), ranks, of_rows=of_rows)


@pytest.mark.parametrize("name", ALIASES)
def test_functions_with_other_names_are_as_good(name):
    compare(lambda: Forward(lambda x, **_: 1.0 * ALIASES[name](x)), 2)


@pytest.mark.parametrize("at", [slice(10), slice(2, None), 0])
def test_rows_by_place_are_named(at):
    with pytest.raises(InputError, match=r"selects rows or edges (:10|2:|0).* of every rank.*mask"):
        on_ranks(lambda: Forward(lambda x, **_: x[at]), 2)


def on_rows(model, call, ranks=3, seed=0):
    """Vertices of every rank, and what ``call(net, x, graph)`` returns on its rows."""

    def work(transport):
        graph = opened("directed", transport)
        net, vertices = distributed(seeded(model), graph, seed), graph.vertices.long()
        return vertices, call(net, world().by_vertex["x"][vertices], graph)

    return run_ranks(ranks, work, 180)


def by_vertex(answers):
    """A tensor that ranks return, in the order of vertices."""
    order = torch.cat([vertices for vertices, _ in answers]).argsort()
    return torch.cat([out for _, out in answers])[order].detach()


class Aggregating(nn.MessagePassing):
    """A layer whose `aggregate` is `function(layer, messages, index, dim_size)`."""

    def __init__(self, function):
        super().__init__("mean")
        self.function, self.norm = function, torch.nn.BatchNorm1d(W)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def aggregate(self, inputs, index, dim_size):
        return self.function(self, inputs, index, dim_size)


LAYERS = {
    "centred messages": lambda: Aggregating(
        lambda on, m, i, n: on.aggr_module(m - m.mean(0), i, None, n)
    ),
    "normed messages": lambda: Aggregating(
        lambda on, m, i, n: on.aggr_module(on.norm(m), i, dim_size=n)
    ),
    "centred sums": lambda: Aggregating(centred),
    "sums by the size": lambda: Aggregating(
        lambda on, m, i, n: on.aggr_module(m, i, dim_size=n) / n
    ),
    "normed sets": lambda: nn.SAGEConv(
        W, OUT, nn.DeepSetsAggregation(nn.MLP([W, W, W]), nn.MLP([W, 5, W]))
    ),
    "normed attention": lambda: nn.SAGEConv(
        W, OUT, ["mean", nn.AttentionalAggregation(nn.MLP([W, W, 1]))]
    ),
    "sorted": lambda: nn.SAGEConv(W, OUT, [nn.LSTMAggregation(W, W), "std"]),
    "transformer": lambda: nn.SAGEConv(W, W, nn.SetTransformerAggregation(W, heads=2)),
}
REFUSED_LAYERS = {
    "normed lists": lambda: nn.SAGEConv(
        W, W, nn.MLPAggregation(W, W, 20, num_layers=2, hidden_channels=5)
    ),
    "equilibrium": lambda: nn.SAGEConv(W, W, nn.EquilibriumAggregation(W, W, [5])),
    "script": lambda: torch.nn.Sequential(torch.jit.script(torch.nn.Linear(W, W))),
    "backward hook": lambda: hooked(torch.nn.Linear(W, W)),
    "dropout among lists": lambda: nn.SAGEConv(
        W, W, nn.SetTransformerAggregation(W, heads=2, dropout=0.5)
    ),
}


def hooked(layer):
    layer.register_full_backward_hook(lambda _, before, after: (before[0] / before[0].norm(),))
    return layer


def centred(layer, messages, index, size):
    out = layer.aggr_module(messages, index, dim_size=size)
    return out - out.mean(0)


@pytest.mark.parametrize("name", LAYERS)
def test_aggregations_give_what_one_process_gives(name):
    compare(lambda: Called(LAYERS[name](), "x edge_index"), 3)


@pytest.mark.parametrize("name", REFUSED_LAYERS)
def test_layers_are_refused(name):
    call = "x" if name in ("script", "backward hook") else "x edge_index"
    with pytest.raises(InputError):
        on_ranks(lambda: Called(REFUSED_LAYERS[name](), call), 3)


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name):
    with pytest.raises(InputError):
        on_ranks(lambda: Forward(REFUSED[name]), 3)


def curved(x, edge_index):
    source, target = edge_index
    x = F.dropout(x, 0.0)
    h = nn.SimpleConv()(x.tanh(), edge_index)
    told = torch.zeros_like(h).index_add(0, source, h[target].sin())
    message = torch.mul(x.index_select(0, source), other=h[target][:, :1])
    return told * x.exp().mean(0) + torch.zeros_like(h).index_add(0, target, message)


def slope_of_slope(net, x, edge_index):
    """The gradient of the gradient's squares."""
    x = x.requires_grad_()
    [slope] = torch.autograd.grad(net(x, edge_index).sin().sum(), [x], create_graph=True)
    return torch.autograd.grad(slope.square().sum(), [x])[0]


def test_second_derivatives():
    expected = slope_of_slope(curved, world().by_vertex["x"].clone(), world().edge_index)
    found = on_rows(
        lambda: Forward(curved), lambda net, x, graph: slope_of_slope(net, x, graph.edge_index)
    )
    torch.testing.assert_close(by_vertex(found), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.GCNConv(W, OUT),
        lambda: nn.SAGEConv(W, OUT),
        lambda: nn.GraphConv(W, OUT),
        lambda: nn.GATConv(W, OUT, heads=2),
    ],
)
def test_sums_form_no_message(layer, monkeypatch):
    def formed(message):
        assert message.shape[1:] == (2,), "more is formed than scores of heads"
        return message.rows.index_select(0, message.source.as_subclass(torch.Tensor))

    monkeypatch.setattr(Message, "formed", formed)
    compare(lambda: Called(layer(), "x edge_index"), 3)


def changed_between(x, edge_index):
    y = x.clone()
    message = y.index_select(0, edge_index[0])
    y.mul_(2)
    return y.index_add(0, edge_index[1], message)


def test_rows_that_change_before_their_sum_are_refused():
    with pytest.raises(InputError, match="the network changes rows in place"):
        on_rows(lambda: Forward(changed_between), lambda net, x, graph: net(x, graph.edge_index), 1)


def test_rows_set_in_inference_mode_travel_again():
    def set_between(x, edge_index):
        y, source = x.clone(), edge_index[0]
        before = y[source]
        y[:, 0] = 2
        return torch.cat([before, y[source]], 1)

    def call(net, x, graph):
        with torch.inference_mode():
            found = net(x, graph.edge_index)
        assert not found.requires_grad
        return found

    expected = set_between(world().by_vertex["x"], world().edge_index)
    for vertices, found in on_rows(lambda: Forward(set_between), call):
        assert torch.equal(found, expected[world().edges_of(vertices)])


class Named(NamedTuple):
    pos: torch.Tensor


@dataclass
class Fields:
    pos: torch.Tensor


def with_position(net, x, graph):
    return net(x, SimpleNamespace(pos=x))


def with_attribute(net, x, graph):
    net.model.pos = x
    return net(x)


def with_new_attribute(net, x, graph):
    net.model.pos = torch.ones(1, W)
    net(x)
    return with_attribute(net, x, graph)


def with_list(net, x, graph):
    net.model.more = [x]
    return net(x, SimpleNamespace(pos=1))


class Centred(torch.nn.Module):
    """A row less the mean of a second argument, or of an attribute."""

    def forward(self, x, extra=None):
        return x - (self if extra is None else extra).pos.mean(0)


@pytest.mark.parametrize("kind", [Named, Fields])
def test_rows_in_tuples_with_names_and_dataclasses_are_rows(kind):
    x = world().by_vertex["x"]
    found = on_rows(Centred, lambda net, x, _: net(x, kind(x)))
    torch.testing.assert_close(by_vertex(found), x - x.mean(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("call", [with_position, with_attribute, with_new_attribute, with_list])
def test_rows_in_other_objects_are_refused(call):
    sentence = r"SimpleNamespace, which has tensors|in the network's '(pos|more\.0)'"
    with pytest.raises(InputError, match=sentence):
        on_rows(Centred, call)


class Dropping(torch.nn.Module):
    """Dropout of rows, and of attention on edges."""

    def __init__(self):
        super().__init__()
        self.conv = nn.GATConv(W, OUT, heads=2, dropout=0.3)

    def forward(self, x, edge_index):
        return self.conv(F.dropout(x, 0.4, self.training), edge_index)


class Again(torch.nn.Module):
    """Layers with dropout and statistics, two that read the same rows, and those of types."""

    def __init__(self):
        super().__init__()
        self.norm, self.hgt = nn.CGConv(W, batch_norm=True), nn.HGTConv(W, W, METADATA, heads=2)
        self.convs = torch.nn.ModuleList(nn.GATConv(W, W, dropout=0.3) for _ in range(2))

    def forward(self, x, edge_index):
        x = F.dropout(self.norm(x, edge_index), 0.2)
        x = self.hgt({"v": x}, dict.fromkeys(METADATA[1], edge_index))["v"]
        y = sum(conv(x, edge_index) for conv in self.convs).relu()
        return F.dropout(self.norm(y, edge_index), 0.2)


class Counting(nn.MessagePassing):
    """Counts its calls in place, anew and as a number, and reads them."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(W, dtype=torch.float64))

    def forward(self, x, edge_index):
        self.calls += 1
        self.steps += 1
        self.mean = 0.9 * self.mean + x.detach().mean(0)
        return self.propagate(edge_index, x=x.sin() / (self.steps + self.calls)) - self.mean


class CountingTwice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = Counting()

    def forward(self, x, edge_index):
        return self.conv(self.conv(x, edge_index), edge_index)


def passed_again(recompute, model=Again):
    """Outputs, the gradient, and statistics; and how many numbers are kept outside of layers."""

    def call(net, x, graph):
        net.recompute, kept = recompute, []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda saved: kept.append(saved.numel()) or saved, lambda saved: saved
        ):
            out = net(x.requires_grad_(), graph.edge_index)
        out.square().sum().backward()
        found = [out, x.grad, *(p.grad for p in net.parameters()), *net.buffers()]
        return [k for k in found if k is not None], sum(kept)

    return [found for _, found in on_rows(model, call)]


@pytest.mark.parametrize("model", [Again, CountingTwice])
def test_layers_that_are_computed_again_give_the_same_to_the_bit(model):
    answers = zip(passed_again(False, model), passed_again(True, model), strict=True)
    for (kept, size), (again, least) in answers:
        assert all(map(torch.equal, kept, again))
        assert least < size / (4 if model is Again else 1)


class Changing(Again):
    def forward(self, x, edge_index):
        x = x * 1.0
        y = self.convs[0](x, edge_index)
        x.mul_(2)
        return x + y


def test_rows_that_change_before_they_are_computed_again_are_refused():
    with pytest.raises(InputError, match=r"recompute.*changes an argument of its GATConv in place"):
        passed_again(True, Changing)


def test_dropout_does_not_depend_on_the_ranks():
    def twice(ranks, seed=4):
        def call(net, x, graph):
            return torch.stack([net(x, graph.edge_index) for _ in range(2)], 1)

        return by_vertex(on_rows(Dropping, call, ranks, seed))

    one, three = twice(1), twice(3)
    assert (one - three).abs().max() < 1e-12
    assert (one[:, 0] - one[:, 1]).abs().max() > 0.1
    assert (one - twice(1, 5)).abs().max() > 0.1


def test_dropout_keeps_the_mean():
    def drop(x):
        return F.dropout(torch.ones_like(x).repeat(1, 50), 0.25)

    found = by_vertex(on_rows(lambda: Forward(drop), lambda net, x, _: net(x)))
    assert {*found.unique().tolist()} == {0.0, 1 / 0.75}
    assert abs(found.mean() - 1) < 0.02


WIDTHS = {
    # the sources' part alone, once for the attention and for the messages
    "GATv2Conv": (lambda: nn.GATv2Conv(W, 3, heads=2), [6]),
    # of each layer the degrees' roots, then the messages
    "GCN": (lambda: nn.GCN(W, 5, 2, OUT, dropout=0.0), [1, 5, 1, OUT]),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_words_are_those_that_messages_read_of_sources_once(name):
    make, widths = WIDTHS[name]

    def call(net, x, graph):
        before = graph.transport.traffic.as_array()
        net(x, graph.edge_index)
        send = graph.block.expand.send
        return graph.transport.traffic.as_array() - before, send.volume, len(send.peer)

    for _, (counted, rows, peers) in on_rows(make, call):
        messages, words = counted[:2]  # that were sent
        assert (messages, words) == (peers * len(widths), rows * sum(widths))


def test_eight_samples_need_an_eighth_of_the_messages():
    def call(net, x, graph):
        x = torch.stack([k * x for k in range(1, 9)]).requires_grad_()
        found = []
        for pieces in ([x], x.split(1)):
            before = graph.transport.traffic.messages_sent
            out = torch.cat([net(each, graph.edge_index) for each in pieces])
            [gradient] = torch.autograd.grad(out.sin().sum(), [x])
            found.append((graph.transport.traffic.messages_sent - before, out, gradient))
        return found

    answers = on_rows(lambda: nn.GraphSAGE(W, 5, 2, OUT, node_dim=-2), call)
    for _, ((once, *at_once), (singly, *one_by_one)) in answers:
        assert 8 * once == singly > 0
        torch.testing.assert_close(at_once, one_by_one, rtol=1e-12, atol=1e-12)
