"""Layers begin and compute as PyTorch Geometric's of the same name, or as the papers have them.

That they compute the formulas to more digits is in `test_network_models`.
"""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
import worlds

import plancc_runtime
from plancc.errors import InputError
from plancc_runtime.nn import GATConv, GCNConv, GINConv, SAGEConv
from plancc_runtime.transport.single import SingleTransport

N, D_IN, D_OUT, HEADS = worlds.N, worlds.WIDTH, 6, 3
WIDE_IN, WIDE_OUT = 300, 200


@pytest.fixture(scope="module")
def nn():
    from torch_geometric import nn  # whose import takes seconds

    return nn


@pytest.fixture(scope="module")
def adjacency():
    """A directed graph without self loops: float64[N, N], row i has what i reads, some nothing."""
    a = (worlds.array("directed") != 0).astype(np.float64)
    np.fill_diagonal(a, 0)
    return torch.tensor(a)


@pytest.fixture(scope="module")
def x():
    return torch.tensor(worlds.data().features, dtype=torch.float64)


def opened(matrix, self_loops):
    header, [part] = reference.make_parts(matrix.numpy(), np.zeros(N, int), 1)
    plan = replace(header, self_loops=self_loops), part
    return plancc_runtime.open(plan, SingleTransport(), torch.float64)


def with_random_biases(conv):
    """Zeros would hide a bias that is left out."""
    with torch.no_grad():
        for name, weight in conv.named_parameters():
            if "bias" in name:
                weight.copy_(torch.linspace(-1, 1, weight.numel()).reshape(weight.shape))
    return conv


def gcn_norm(adjacency):
    """D^-1/2 (A + I) D^-1/2, D of the rows (gcn_norm of an edge_index whose targets are rows)."""
    closed = adjacency + torch.eye(N)
    scale = closed.sum(dim=1).rsqrt()
    return scale[:, None] * closed * scale[None, :]


def own_layers():
    same = {"random": 3, "dtype": torch.float64}
    return {
        "gcn": GCNConv(D_IN, D_OUT, **same),
        "sage": SAGEConv(D_IN, D_OUT, **same),
        "gin": GINConv(D_IN, D_OUT, **same),
        "gat": GATConv(D_IN, D_OUT, heads=HEADS, **same),
        "gat last": GATConv(D_IN, D_OUT, heads=HEADS, last=True, **same),
    }


def pyg_layer(nn, name, conv):
    """PyTorch Geometric's layer with the weights of ours."""
    w = {key: value.clone() for key, value in conv.state_dict().items()}
    if name == "gcn":
        layer, state = nn.GCNConv(D_IN, D_OUT), {"lin.weight": w["weight"].T, "bias": w["bias"]}
    elif name == "sage":
        layer = nn.SAGEConv(D_IN, D_OUT)
        state = {
            "lin_l.weight": w["weight"].T,
            "lin_l.bias": w["bias"],
            "lin_r.weight": w["weight_self"].T,
        }
    elif name == "gin":
        layers = torch.nn.Linear(D_IN, D_OUT), torch.nn.ReLU(), torch.nn.Linear(D_OUT, D_OUT)
        layer = nn.GINConv(torch.nn.Sequential(*layers))
        state = {"nn.0.weight": w["weight"].T, "nn.0.bias": w["bias"], "eps": w["eps"].reshape(1)}
        state |= {"nn.2.weight": w["weight_out"].T, "nn.2.bias": w["bias_out"]}
    else:
        layer = nn.GATConv(D_IN, conv.width, heads=HEADS, concat=not conv.last)
        state = {
            "lin.weight": w["weight"].T,
            "att_src": w["score_source"][None],
            "att_dst": w["score_target"][None],
            "bias": w["bias"],
        }
    layer = layer.double()
    layer.load_state_dict(state)
    return layer


@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "gat", "gat last"])
def test_a_layer_computes_what_the_library_itself_does(nn, name, adjacency, x):
    conv = with_random_biases(own_layers()[name])
    graph = opened(gcn_norm(adjacency) if name == "gcn" else adjacency, name == "gcn")
    target, source = adjacency.nonzero().T
    expected = pyg_layer(nn, name, conv)(x, torch.stack([source, target]))
    torch.testing.assert_close(conv(graph, x), expected, rtol=1e-5, atol=1e-7)


def is_uniform(values, bound):
    """Whether many values look uniform in +-bound: all within, some near, and their deviation."""
    values = np.asarray(values.detach(), np.float64).ravel()
    error = 5 / np.sqrt(len(values))  # five deviations of a mean, in units of its own
    assert 0.95 * bound < np.abs(values).max() <= bound * (1 + 1e-12)
    assert abs(values.std() / (bound / np.sqrt(3)) - 1) < error
    assert abs(values.mean()) < error * bound


def glorot(*sizes):
    return np.sqrt(6 / sum(sizes))


def layer(kind, **options):
    return kind(WIDE_IN, WIDE_OUT, random=1, dtype=torch.float64, **options)


def test_initial_weights_are_drawn_as_pyg_does():
    gcn = layer(GCNConv)
    is_uniform(gcn.weight, glorot(WIDE_IN, WIDE_OUT))
    assert not gcn.bias.any()
    for aggregator in ("mean", "max"):
        sage = layer(SAGEConv, aggregator=aggregator)
        for weight in (sage.weight, sage.weight_self, sage.bias):  # torch.nn.Linear's
            is_uniform(weight, 1 / np.sqrt(WIDE_IN))
    gin = layer(GINConv)
    is_uniform(gin.weight, 1 / np.sqrt(WIDE_IN))
    is_uniform(gin.bias, 1 / np.sqrt(WIDE_IN))
    is_uniform(gin.weight_out, 1 / np.sqrt(WIDE_OUT))
    is_uniform(gin.bias_out, 1 / np.sqrt(WIDE_OUT))
    assert gin.eps == 0
    assert "eps" not in dict(gin.named_parameters())
    for last, width in ((False, WIDE_OUT // 4), (True, WIDE_OUT)):
        gat = layer(GATConv, heads=4, last=last)
        is_uniform(gat.weight, glorot(WIDE_IN, 4 * width))
        is_uniform(gat.score_source, glorot(4, width))
        is_uniform(gat.score_target, glorot(4, width))
        assert gat.bias.tolist() == [0] * WIDE_OUT


def test_the_papers_parametrization_is_an_option():
    paper = {"parametrization": "paper"}
    gcn, sage = layer(GCNConv, **paper), layer(SAGEConv, **paper)
    is_uniform(gcn.weight, glorot(WIDE_IN, WIDE_OUT))
    for weight in (sage.weight, sage.weight_self):
        is_uniform(weight, glorot(2 * WIDE_IN, WIDE_OUT))
    gin, gat = layer(GINConv, **paper), layer(GATConv, heads=4, **paper)
    is_uniform(gin.weight, glorot(WIDE_IN, WIDE_OUT))
    assert not gin.bias.any()
    assert gin.eps.requires_grad
    is_uniform(gat.weight, glorot(WIDE_IN, WIDE_OUT // 4))
    is_uniform(torch.cat([gat.score_source, gat.score_target]), glorot(2 * WIDE_OUT // 4, 1))
    assert [conv.bias for conv in (gcn, sage, gat)] == [None] * 3
    assert layer(GCNConv, bias=True, **paper).bias.tolist() == [0] * WIDE_OUT
    with pytest.raises(InputError, match="unknown parametrization 'dgl'"):
        layer(GCNConv, parametrization="dgl")
