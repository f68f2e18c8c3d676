"""Norms, readouts, models and forwards of a user's own, on ranks and on one process."""

import pytest

pytest.importorskip("torch_geometric")

import torch
from cases import some
from convolutions import EDGE, OUT, PNA, TYPES, Called, W, mlp
from on_ranks import compare, on_ranks
from torch_geometric import nn, utils
from torch_geometric.nn import aggr, norm

from plancc.errors import InputError

pytestmark = pytest.mark.usefixtures("float64")
RANKS = (1, 3)
ALONE = ("BatchNorm", "GraphNorm batch", "GCN", "plain torch by sources", "mean", "Set2Set")
"""What is tried on one rank in every run."""
X, BATCH = "x", "x batch"
DEEP = {"hidden_channels": 6, "num_layers": 3, "out_channels": OUT, "jk": "cat"}
DEEP |= {"norm": "batch", "dropout": 0.0}


class Readout(torch.nn.Module):
    """Something per vertex before a readout."""

    def __init__(self, readout, width=W):
        super().__init__()
        self.lin, self.readout = torch.nn.Linear(W, width), readout

    def forward(self, x, *others, **named):
        return self.readout(self.lin(x).tanh(), *others, **named)


class BatchedMessages(nn.MessagePassing):
    """Batch normalisation of messages: over the edges of all ranks."""

    def __init__(self):
        super().__init__("max")
        layers = torch.nn.Linear(2 * W + EDGE, 7), torch.nn.BatchNorm1d(7), torch.nn.ReLU()
        self.mlp = torch.nn.Sequential(*layers, torch.nn.Linear(7, OUT))

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_i, x_j, edge_attr):
        return self.mlp(torch.cat([x_i, x_j - x_i, edge_attr], dim=-1))


class EdgeUpdates(nn.MessagePassing):
    """Attention by `edge_updater`, and an embedding of edges that goes on."""

    def __init__(self):
        super().__init__("add", node_dim=0)
        self.key, self.query = torch.nn.Linear(W, OUT), torch.nn.Linear(W, OUT)
        self.value = torch.nn.Linear(W, OUT)

    def forward(self, x, edge_index, edge_attr):
        alpha = self.edge_updater(edge_index, key=self.key(x), query=self.query(x))
        return self.propagate(edge_index, x=self.value(x), alpha=alpha + edge_attr.mean(1))

    def edge_update(self, key_j, query_i, index, ptr, size_i):
        return utils.softmax((key_j * query_i).sum(dim=-1), index, ptr, size_i)

    def message(self, x_j, alpha):
        return alpha.unsqueeze(-1) * x_j


class ByHand(torch.nn.Module):
    """Plain torch: mean, sum and maximum of neighbours by indexing."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4 * W, OUT)

    def forward(self, x, edge_index, edge_weight):
        source, target = edge_index
        taken = x[source] * edge_weight[:, None]
        total = torch.zeros_like(x).index_add_(0, target, taken)
        degree = x.new_zeros(x.size(0)).index_add(0, target, torch.ones_like(edge_weight))
        at = target.view(-1, 1).expand(-1, x.size(1))
        largest = torch.zeros_like(x).scatter_reduce(0, at, taken, "amax", include_self=False)
        least = torch.zeros_like(x).scatter_reduce(0, at, taken, "amin")
        means = total / degree.clamp(min=1)[:, None]
        return self.lin(torch.cat([means, largest, least, x - x.mean(0)], dim=1)).relu()


class BySource(torch.nn.Module):
    """The same at the sources of edges, which other ranks have too."""

    def forward(self, x, edge_index, edge_weight):
        source, target = edge_index
        taken = (x[target] * edge_weight[:, None]).round(decimals=1)  # so that there are ties
        at = source[:, None].expand(-1, x.shape[1])
        total = x.new_zeros(x.shape).scatter_add_(0, at, taken)
        found = [x, total]
        for reduce in ("amax", "amin", "mean", "sum"):
            for own in (True, False):
                found.append(x.scatter_reduce(0, at, taken, reduce, include_self=own))
        return torch.cat(found, dim=-1)


class Jumping(torch.nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.first, self.second = nn.GCNConv(W, W), nn.GCNConv(W, W)
        self.jump = nn.JumpingKnowledge(mode, W, 2)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index).relu()
        return self.jump([x, h, self.second(h, edge_index)])


class Static(torch.nn.Module):
    """Several samples over one graph: [samples, rows, width]."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, edge_index):
        return self.layer(torch.stack([x, x.sin(), 2 * x]), edge_index).transpose(0, 1)


def sequential():
    return nn.Sequential(
        "x, edge_index, batch",
        [
            (nn.GCNConv(W, 7), "x, edge_index -> x1"),
            torch.nn.ReLU(inplace=True),
            (nn.GraphConv(7, 7), "x1, edge_index -> x2"),
            (lambda x1, x2: [x1, x2], "x1, x2 -> xs"),
            (nn.JumpingKnowledge("cat"), "xs -> x"),
            nn.BatchNorm(14),
            torch.nn.Linear(14, OUT),
        ],
    )


def deep(block):
    layer = nn.DeepGCNLayer(nn.GENConv(W, W), nn.LayerNorm(W), torch.nn.ReLU(), block)
    return Called(layer, "x edge_index")


NORMS = {
    "BatchNorm": (lambda: norm.BatchNorm(W), X),
    "BatchNorm bare": (lambda: norm.BatchNorm(W, affine=False, track_running_stats=False), X),
    "BatchNorm cumulative": (lambda: norm.BatchNorm(W, momentum=None), X),
    "HeteroBatchNorm": (lambda: norm.HeteroBatchNorm(W, TYPES), "x node_type"),
    "InstanceNorm": (lambda: norm.InstanceNorm(W, affine=True), X),
    "InstanceNorm tracked": (lambda: norm.InstanceNorm(W, track_running_stats=True), X),
    "InstanceNorm tracked batch": (lambda: norm.InstanceNorm(W, track_running_stats=True), BATCH),
    "InstanceNorm batch": (lambda: norm.InstanceNorm(W, affine=True), BATCH),
    "LayerNorm": (lambda: norm.LayerNorm(W), X),
    "LayerNorm batch": (lambda: norm.LayerNorm(W), BATCH),
    "LayerNorm node": (lambda: norm.LayerNorm(W, mode="node"), X),
    "HeteroLayerNorm": (lambda: norm.HeteroLayerNorm(W, TYPES), "x node_type"),
    "GraphNorm": (lambda: norm.GraphNorm(W), X),
    "GraphNorm batch": (lambda: norm.GraphNorm(W), BATCH),
    "GraphSizeNorm": (norm.GraphSizeNorm, X),
    "GraphSizeNorm batch": (norm.GraphSizeNorm, BATCH),
    "PairNorm": (norm.PairNorm, X),
    "PairNorm individually": (lambda: norm.PairNorm(scale_individually=True), X),
    "PairNorm batch": (norm.PairNorm, BATCH),
    "MeanSubtractionNorm": (norm.MeanSubtractionNorm, X),
    "MeanSubtractionNorm batch": (norm.MeanSubtractionNorm, BATCH),
    "MessageNorm": (lambda: norm.MessageNorm(learn_scale=True), "x x_0"),
    "DiffGroupNorm": (lambda: norm.DiffGroupNorm(W, 3), X),
}
NETWORKS = {
    "GCN": (lambda: nn.GCN(W, **DEEP), "x edge_index"),
    "GraphSAGE": (lambda: nn.GraphSAGE(W, **DEEP), "x edge_index"),
    "GIN": (lambda: nn.GIN(W, **DEEP), "x edge_index"),
    "GAT": (lambda: nn.GAT(W, **DEEP, heads=2, v2=True), "x edge_index"),
    "PNA": (lambda: nn.PNA(W, **DEEP, **PNA), "x edge_index"),
    "EdgeCNN": (lambda: nn.EdgeCNN(W, **DEEP), "x edge_index"),
    "Sequential": (sequential, "x edge_index batch"),
    "MLP": (lambda: nn.MLP([W, 7, OUT], norm="batch_norm", dropout=0.0), X),
    "MLP graphs": (lambda: nn.MLP([W, 7, OUT], norm="graph_norm"), BATCH),
    **{f"Jumping {mode}": (lambda mode=mode: Jumping(mode), "x edge_index")
       for mode in ("cat", "max", "lstm")},
    **{f"DeepGCNLayer {block}": (lambda block=block: deep(block), "x=x edge_index=edge_index")
       for block in ("res+", "res", "dense", "plain")},
    "messages with BatchNorm": (BatchedMessages, "x edge_index edge_attr"),
    "edge_updater": (EdgeUpdates, "x edge_index edge_attr"),
    "plain torch": (ByHand, "x edge_index edge_weight"),
    "plain torch by sources": (BySource, "x edge_index edge_weight"),
    "static GCNConv": (lambda: Static(nn.GCNConv(W, OUT, node_dim=-2)), "x edge_index"),
    "static SAGEConv": (lambda: Static(nn.SAGEConv(W, OUT, node_dim=-2)), "x edge_index"),
    "static GraphConv": (lambda: Static(nn.GraphConv(W, OUT, "max", node_dim=-2)), "x edge_index"),
    "static ChebConv": (lambda: Static(nn.ChebConv(W, OUT, 3, node_dim=-2)), "x edge_index"),
}  # fmt: skip
READOUTS = {
    "sum": lambda: nn.global_add_pool,
    "mean": lambda: nn.global_mean_pool,
    "max": lambda: nn.global_max_pool,
    "Sum": aggr.SumAggregation,
    "Mean": aggr.MeanAggregation,
    "Max": aggr.MaxAggregation,
    "Min": aggr.MinAggregation,
    "Var": aggr.VarAggregation,
    "Std": aggr.StdAggregation,
    "Softmax": lambda: aggr.SoftmaxAggregation(learn=True),
    "PowerMean": lambda: aggr.PowerMeanAggregation(learn=True),
    "Multi": lambda: aggr.MultiAggregation(["mean", "max", "std"]),
    "Attentional": lambda: aggr.AttentionalAggregation(mlp(W, 1), mlp(W)),
    "DeepSets": lambda: aggr.DeepSetsAggregation(mlp(W), mlp(OUT)),
    "Set2Set": lambda: aggr.Set2Set(W, 2),
    "VariancePreserving": aggr.VariancePreservingAggregation,
    "DegreeScaler": lambda: aggr.DegreeScalerAggregation("mean", "linear", PNA["deg"]),
}
REFUSED_READOUTS = {
    "Mul": aggr.MulAggregation,
    "Median": aggr.MedianAggregation,
    "LSTM": lambda: aggr.LSTMAggregation(W, OUT),
    "GRU": lambda: aggr.GRUAggregation(W, OUT),
    "Sort": lambda: aggr.SortAggregation(3),
    "GraphMultisetTransformer": lambda: aggr.GraphMultisetTransformer(W, 3, heads=2),
    "SetTransformer": lambda: aggr.SetTransformerAggregation(W, heads=2),
    "MLP": lambda: aggr.MLPAggregation(W, OUT, 40, num_layers=1),
    "LCM": lambda: aggr.LCMAggregation(W, OUT),
    "PatchTransformer": lambda: aggr.PatchTransformerAggregation(W, OUT, 2, 4),
}


@pytest.mark.parametrize("name", REFUSED_READOUTS)
def test_readouts_that_depend_on_the_order_are_refused(name):
    with pytest.raises(InputError, match="readout"):
        on_ranks(lambda: Called(Readout(REFUSED_READOUTS[name]()), X), 2, of_rows=False)


def test_every_norm_has_a_case():
    assert {name.split()[0] for name in NORMS} == {*norm.__all__}


def differs(name, training, ranks):
    """Whether evaluation has a way of its own: some norms keep what they have seen."""
    kept = "Batch" in name or "tracked" in name or name == "DiffGroupNorm"
    return (training or kept) and (ranks > 1 or name in ALONE)


@some(differs, name=NORMS, training=[True, False], ranks=RANKS)
def test_norms(name, training, ranks):
    make, call = NORMS[name]
    compare(lambda: Called(Readout(make()), call).train(training), ranks)


@some(lambda name, ranks: ranks > 1 or name in ALONE, name=NETWORKS, ranks=RANKS)
def test_networks(name, ranks):
    make, call = NETWORKS[name]
    compare(lambda: Called(make(), call), ranks)


def without_batch(layer, x, **_):
    return layer(x, None)


@some(lambda name, _, n: n > 1 or name in ALONE, name=READOUTS, call=[X, BATCH], ranks=RANKS)
def test_readouts(name, call, ranks):
    if name in ("sum", "mean", "max") and call == X:
        call = without_batch
    compare(lambda: Called(Readout(READOUTS[name]()), call), ranks, of_rows=False)
