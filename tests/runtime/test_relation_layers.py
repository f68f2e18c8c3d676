"""Layers by relation beside PyTorch Geometric's, and their training on ranks."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import numpy as np
import torch
from cases import pairs, turns
from test_typed import COUNTS, PARTS, plan_of, relations, traffic
from torch import nn
from torch_geometric.nn import GATConv, GINConv, HeteroConv, RGCNConv, SAGEConv

import plancc_runtime
from plancc.plan.relations import type_traffic
from plancc_runtime.nn import model_of
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nn.relations import TypesOfLayer, TypesOfNetwork
from plancc_runtime.transport.local import run_ranks

WIDTHS = {"author": 4, "paper": 6, "venue": 3}
DEEP = dict.fromkeys(WIDTHS, 6)
RELATIONS = tuple(relations())
D_OUT = 4


def edges(relation) -> torch.Tensor:
    matrix = relations()[relation].tocoo()
    return torch.from_numpy(np.stack([matrix.col, matrix.row]).astype(np.int64))


NAMES = {  # of weights, PyG's and ours
    "sage": {"lin_l.weight": "weight", "lin_l.bias": "bias", "lin_r.weight": "weight_self"},
    "gat": {
        **{"lin_src.weight": "weight", "lin_dst.weight": "weight_target", "bias": "bias"},
        **{"att_src": "score_source", "att_dst": "score_target"},
    },
    "gin": {
        **{"nn.0.weight": "weight", "nn.0.bias": "bias"},
        **{"nn.2.weight": "weight_out", "nn.2.bias": "bias_out"},
    },
}


def hetero(name: str, conv) -> Callable:
    """PyG's layer with the weights of ours, of rows by type."""
    made, widths = {}, conv.types.widths
    for relation, ours in zip(conv.types.relations, conv.convs, strict=True):
        ends = widths[relation[0]], widths[relation[2]]
        if name == "sage":
            each = SAGEConv(ends, conv.d_out)
        elif name == "gat":
            how = {"heads": conv.options.heads, "concat": not conv.last, "add_self_loops": False}
            each = GATConv(ends, ours.width, **how)
        else:
            first, last = (nn.Linear(*weight.shape) for weight in (ours.weight, ours.weight_out))
            each = GINConv(nn.Sequential(first, nn.ReLU(), last))  # which draws the weights
        for theirs, weight in each.named_parameters():
            value = getattr(ours, NAMES[name][theirs]).data
            weight.data = (value.T if theirs.endswith("weight") else value).reshape(weight.shape)
        made[relation] = each
    layer = HeteroConv(made, aggr="sum").double()
    return lambda x: layer(x, {each: edges(each) for each in made})


def gcn(conv) -> Callable:
    """The plan's values, which are those of the matrices."""

    def run(x: dict) -> dict:
        found = {name: 0 * rows.sum() for name, rows in x.items()}
        for relation, ours in zip(conv.types.relations, conv.convs, strict=True):
            a = torch.from_numpy(relations()[relation].toarray())
            found[relation[2]] = found[relation[2]] + a @ x[relation[0]] @ ours.weight + ours.bias
        return found

    return run


def rgcn(conv) -> Callable:
    """PyG's layer on the union, whose narrower features are filled up with zeros."""
    layer = RGCNConv(6, D_OUT, len(RELATIONS), conv.options.bases or None).double()
    pad = torch.nn.functional.pad
    if conv.coefficient is None:
        layer.weight.data = torch.stack([pad(w.data, (0, 0, 0, 6 - len(w))) for w in conv.weights])
    else:
        layer.weight.data, layer.comp.data = (
            torch.stack([*conv.weights]).data,
            conv.coefficient.data,
        )
    layer.root.data, layer.bias.data = conv.weight_self.data, conv.bias.data
    first = dict(zip(COUNTS, np.cumsum([0, *COUNTS.values()]).tolist(), strict=False))
    of = [edges(r) + torch.tensor([[first[r[0]]], [first[r[2]]]]) for r in RELATIONS]
    kinds = torch.repeat_interleave(torch.arange(len(of)), torch.tensor([e.shape[1] for e in of]))

    def run(x: dict) -> dict:
        rows = torch.cat([pad(each, (0, 6 - each.shape[1])) for each in x.values()])
        out = layer(rows, torch.cat(of, dim=1), kinds)
        return dict(zip(x, out.split([*COUNTS.values()]), strict=True))

    return run


LAYERS = {
    "rgcn": ("rgcn", rgcn, {}),
    "bases": ("rgcn", rgcn, {"bases": 2}),
    "sage": ("sage", partial(hetero, "sage"), {}),
    "gcn": ("gcn", gcn, {}),
    "gin": ("gin", partial(hetero, "gin"), {}),
    "gat": ("gat", partial(hetero, "gat"), {"heads": 2}),
    "gat-last": ("gat", partial(hetero, "gat"), {"heads": 3, "last": True}),
}


def opened(folder, transport) -> plancc_runtime.TypedGraph:
    torch.set_num_threads(1)
    how = {"transport": transport, "dtype": torch.float64, "threads": 1}
    return plancc_runtime.open_typed(folder / "plan.h5", **how)


@turns(layer=tuple(LAYERS), ranks=(1, 3, 4), widths=("own", "equal"))
def test_layers_are_those_of_pyg(tmp_path, layer, ranks, widths):
    name, reference, options = LAYERS[layer]
    width = WIDTHS if widths == "own" and name != "gin" else DEEP  # which adds rows to rows
    plan = plan_of("hp")
    plan.save(tmp_path / "plan.h5")
    types = TypesOfLayer(width, RELATIONS, tuple(COUNTS))
    random = np.random.default_rng(3)
    x = {n: torch.from_numpy(random.standard_normal((c, width[n]))) for n, c in COUNTS.items()}
    g = {n: torch.from_numpy(random.standard_normal((c, D_OUT))) for n, c in COUNTS.items()}
    make = {"types": types, "random": 5, "dtype": torch.float64, **options}

    def on_rank(transport):
        graph = opened(tmp_path, transport)
        conv, rows = model_of(name, True)(6, D_OUT, **make), {n: graph.vertices(n) for n in COUNTS}
        own = {n: x[n][rows[n]].requires_grad_() for n in COUNTS}
        stack, before = graph.stack, traffic(transport)
        y = conv(stack, graph.joined(own))
        moved = traffic(transport)[1] - before[1]
        with torch.autograd.set_multithreading_enabled(False):
            (y * torch.cat([g[n][rows[n]] for n in COUNTS])).sum().backward()
        of_types = {
            n: (rows[n], each.detach(), own[n].grad) for n, each in graph.by_type(y).items()
        }
        return of_types, moved

    answers = run_ranks(ranks, on_rank, 180)
    conv = model_of(name, True)(6, D_OUT, **make)
    theirs = {n: each.clone().requires_grad_() for n, each in x.items()}
    out = reference(conv)(theirs)
    sum((out[n] * g[n]).sum() for n in COUNTS).backward()
    for n, count in COUNTS.items():
        found = torch.full((count, D_OUT), torch.nan, dtype=torch.float64)
        gradient = torch.full((count, width[n]), torch.nan, dtype=torch.float64)
        for of_types, _ in answers:
            rows, y, own = of_types[n]
            found[rows], gradient[rows] = y, own
        torch.testing.assert_close(found, out[n].detach(), rtol=0, atol=1e-10)
        torch.testing.assert_close(gradient, theirs[n].grad, rtol=0, atol=1e-10)
    if ranks == PARTS:  # one exchange for all relations
        rows = sum(each.volume for each in type_traffic(plan))
        assert sum(moved for _, moved in answers) == 6 * rows


@pairs(model=("sage", "gat"), norm=("layer", "batch", "none"), residual=(True, False), ranks=(1, 3))
def test_norms_residuals_and_standardised_features_are_of_every_type(
    tmp_path, model, norm, residual, ranks
):
    plan_of("hp").save(tmp_path / "plan.h5")
    known = TypesOfNetwork(WIDTHS, RELATIONS, "paper")
    options = NetworkOptions(
        model=model,
        norm=norm,
        residual=residual,
        standardize_features=True,
        activation="tanh",
        types=asdict(known),
    )
    random = np.random.default_rng(3)
    x = {n: torch.from_numpy(random.gamma(2.0, 3.0, (c, WIDTHS[n]))) for n, c in COUNTS.items()}
    g = torch.from_numpy(random.standard_normal((COUNTS["paper"], 3)))

    def on_rank(transport):
        graph = opened(tmp_path, transport)
        network = Network([6, D_OUT, 3], options, 5, torch.float64)
        own, stack = graph.joined({n: x[n][graph.vertices(n)] for n in COUNTS}), graph.stack
        network.standardization.fit(own, transport, stack.row_type)
        y = network([stack] * 2, network.standardized(own, stack.row_type))
        y, rows = graph.by_type(y)["paper"], graph.vertices("paper")
        with torch.autograd.set_multithreading_enabled(False):
            (y * g[rows]).sum().backward()
        graph.union.sync_gradients(network)
        return rows, y.detach(), {n: w.grad for n, w in network.named_parameters()}

    answers = run_ranks(ranks, on_rank, 180)
    network = Network([6, D_OUT, 3], options, 5, torch.float64)
    rows = {n: (each - each.mean(0)) / each.std(0, correction=0) for n, each in x.items()}
    first, last = (hetero(model, conv) for conv in network.convs)
    before = {n: rows[n] for n in network.convs[0].types.wanted}
    found = first(rows)
    hidden = {n: found[n] for n in before}
    for k, (name, z) in enumerate(hidden.items()):
        ours = network.norms[0].of_types[k] if norm != "none" else None
        if norm == "layer":
            z = torch.nn.functional.layer_norm(z, (D_OUT,), ours.weight, ours.bias)
        elif norm == "batch":
            normalise = torch.nn.functional.batch_norm
            z = normalise(z, None, None, ours.weight, ours.bias, training=True)
        hidden[name] = z.tanh()
        if residual:
            skip, width = network.skips[0].of_types[k], WIDTHS[name]
            own = before[name]
            hidden[name] = hidden[name] + (own if width == D_OUT else own @ skip.weight.T)
    out = last(hidden)["paper"]
    (out * g).sum().backward()
    for own, y, gradients in answers:
        torch.testing.assert_close(y, out[own].detach(), rtol=0, atol=1e-10)
        for name, w in network.named_parameters():
            if name.startswith(("norms", "skips")):
                torch.testing.assert_close(gradients[name], w.grad, rtol=0, atol=1e-10)
