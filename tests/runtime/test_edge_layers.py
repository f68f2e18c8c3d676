"""Layers with features of edges, beside PyTorch Geometric's and the equations on all edges."""

from copy import deepcopy
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cases import pairs
from test_typed import COUNTS, WRITES, plan_of, relations
from torch import nn
from torch_geometric.nn import GINEConv as Theirs

import plancc
import plancc_runtime
from plancc.errors import InputError
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import read_tables
from plancc_cli.options import convolution_of
from plancc_runtime.nn import EdgeBlock, GINEConv
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nn.relations import TypesOfNetwork
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

WIDTH, D_EDGE, N = 4, 3, 50


def features(rows: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
    """Features of the edges with these ends."""
    return torch.sin((rows * 7 + columns)[:, None] * torch.arange(1.0, width + 1)).double()


def layer_of(kind: str) -> nn.Module:
    torch.manual_seed(3)
    if kind == "block":
        return EdgeBlock(WIDTH).double()
    return GINEConv(WIDTH, WIDTH, edge_width=D_EDGE, random=3, dtype=torch.float64)


def gine(maps: list, x: tuple, ends: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """PyG's layer with weights [d_out, d_in] and biases of the maps of vertices, and of edges."""
    (first, out), edge_dim = maps[0][0].shape[::-1], edges.shape[1]
    module = Theirs(
        nn.Sequential(nn.Linear(first, out), nn.ReLU(), nn.Linear(out, out)), 0.0, False, edge_dim
    )
    names = [f"{each}.{kind}" for each in ("nn.0", "nn.2", "lin") for kind in ("weight", "bias")]
    given = dict(zip(names, (tensor for each in maps for tensor in each), strict=True))
    return torch.func.functional_call(module.double(), given, (x, ends, edges))


def maps_of(conv) -> list:
    """Those of our layer for one type."""
    names = ("", "_out", "_edge")
    return [(getattr(conv, f"weight{each}").T, getattr(conv, f"bias{each}")) for each in names]


def reference(layer, x, target, ends, edges):
    """Outputs, by the equations."""
    if isinstance(layer, GINEConv):
        return gine(maps_of(layer), (x, target), ends, edges)
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
        given = {"edges": edges, "target": goal}
        y = layer(local, source, **given)
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


def dense_network(network, x: dict, relations: dict, features: dict) -> torch.Tensor:
    """Outputs of the last layer for the first type, by the equations, or PyG's layer."""
    target, edges = next(iter(x)), dict(features)
    one, hidden = len(x) == 1, dict(x)
    for k, conv in enumerate(network.convs):
        wanted = [target] if one else conv.types.wanted
        known = [r for r in relations if r[2] in wanted]
        found, totals = {}, {name: [] for name in wanted}
        if network.options.model == "meshgraphnet" and k == 0:
            encoders = [conv.encoder] if one else conv.encoders
            of_edges = [conv.edge_encoder] if one else conv.edge_encoders
            read = [target] if one else conv._read
            hidden = {n: e(hidden[n]) for n, e in zip(read, encoders, strict=True)}
            edges = {r: e(features[r]) for r, e in zip(known, of_edges, strict=True)}
        for number, relation in enumerate(known):
            source, goal, of_relation = (
                hidden[relation[0]],
                hidden[relation[2]],
                relations[relation],
            )
            if network.options.model == "gine":
                if one:
                    maps = maps_of(conv)
                else:
                    own = conv.maps[number]
                    source = own.source(source)
                    maps = [(each.weight, each.bias) for each in (own.first, own.out, own.edge)]
                totals[relation[2]].append(gine(maps, (source, goal), of_relation, edges[relation]))
            else:
                update = conv.block if one else conv.updates[number]
                columns, rows = of_relation
                e = edges[relation]
                both = (
                    source[columns] @ update.source.weight.T + goal[rows] @ update.target.weight.T
                )
                edges[relation] = e = e + update.message(both + update.edge(e))
                totals[relation[2]].append(torch.zeros_like(goal).index_add(0, rows, e))
        for number, name in enumerate(wanted):
            if network.options.model == "gine":
                found[name] = sum(totals[name])
                found[name] = found[name].relu() if k == 0 else found[name]
                continue
            vertex = conv.block.vertex if one else conv.vertices[number]
            y = hidden[name] + vertex(torch.cat([hidden[name], *totals[name]], 1))
            decoder = None if k == 0 else conv.decoder if one else conv.decoders[number]
            found[name] = y if decoder is None else decoder(y)
        hidden = found
    return hidden[target]


@pairs(model=("gine", "meshgraphnet"), graph=("typed", "square"), ranks=(1, 3, 8))
def test_networks_with_edges_are_the_equations(tmp_path, model, graph, ranks):
    typed, path = graph == "typed", tmp_path / "plan.h5"
    square = sp.csr_array(sp.random(N, N, 0.08, rng=5).toarray() * (1 - np.eye(N)))
    matrices = relations() if typed else {("v", "A", "v"): square}
    matrices = {r: sp.csr_array((m.toarray() != 0) * 1.0) for r, m in matrices.items()}
    widths = {"author": 4, "paper": 5, "venue": 3} if typed else {"v": 5}
    counts = COUNTS if typed else {"v": N}
    random, ends, features = np.random.default_rng(1), {}, {}
    for relation, matrix in matrices.items():
        coo = matrix.tocoo()
        ends[relation] = torch.from_numpy(np.stack([coo.col, coo.row]).astype(np.int64))
        features[relation] = random.standard_normal((coo.nnz, D_EDGE)).astype(np.float32)
    given = matrices if typed else matrices["v", "A", "v"]
    of_edges = features if typed else features["v", "A", "v"]
    plancc.compile(given, "hp", 8, edge_features=of_edges, normalize="none", seed=1).save(path)
    first = "paper" if typed else "v"
    order = dict(sorted(counts.items(), key=lambda each: each[0] != first))
    x = {n: torch.from_numpy(random.standard_normal((order[n], widths[n]))) for n in order}
    g = torch.from_numpy(random.standard_normal((order[first], 3)))
    known = asdict(TypesOfNetwork(widths, tuple(matrices), first)) if typed else {}
    options = NetworkOptions(model=model, conv={"edge_width": D_EDGE}, types=known)

    def new() -> Network:
        return Network([5, WIDTH, 3], options, 5, torch.float64)

    def on_rank(transport):
        torch.set_num_threads(1)
        how = {"transport": transport, "dtype": torch.float64, "threads": 1}
        network = new()
        if typed:
            opened = plancc_runtime.open_typed(path, **how)
            own = opened.joined({n: x[n][opened.vertices(n)] for n in counts})
            union, mine, graph = opened.union, opened.vertices(first), opened.stack
        else:
            graph = union = plancc_runtime.open(path, **how)
            mine = union.vertices.long()
            own = x[first][mine]
        y = network([graph] * 2, own)
        y = opened.by_type(y)[first] if typed else y
        with torch.autograd.set_multithreading_enabled(False):
            (y * g[mine]).sum().backward()
        union.sync_gradients(network)
        graph.edge_factors = torch.zeros(len(graph.edge_features))  # of a mini-batch
        with torch.no_grad():
            bare = network([graph] * 2, own)
        bare = opened.by_type(bare)[first] if typed else bare
        return mine, y.detach(), bare, {n: w.grad for n, w in network.named_parameters()}

    answers, network = run_ranks(ranks, on_rank, 180), new()
    of_all = {r: torch.from_numpy(each).double() for r, each in features.items()}
    out = dense_network(network, x, ends, of_all)
    (out * g).sum().backward()
    nothing = {r: e[:, :0] for r, e in ends.items()}, {r: each[:0] for r, each in of_all.items()}
    without = dense_network(network, x, *nothing).detach()
    close = {"rtol": 0, "atol": 1e-10}
    for mine, y, bare, gradients in answers:
        torch.testing.assert_close(y, out.detach()[mine], **close)
        torch.testing.assert_close(bare, without[mine], **close)
        for name, weight in network.named_parameters():
            torch.testing.assert_close(gradients[name], weight.grad, **close)


@pairs(
    model=("gine", "meshgraphnet"),
    layout=("hp", "medium-grain"),
    batches=({}, {"sampler": "uniform"}, {"sampler": "neighbour", "fanouts": (3, 2)}),
    passes=(("order", "constant", "dead-rows"), ("order",)),
    ranks=(3, 8),
)
def test_ranks_train_alike_and_send_the_words_that_are_predicted(
    tmp_path, model, layout, batches, passes, ranks
):
    path, random = tmp_path / "plan.h5", np.random.default_rng(2)
    ends = sp.random(N, N, 0.08, rng=5).nonzero()
    data = {"x": random.random((N, 5), np.float32), "y": random.integers(0, 3, N)}
    features = random.random((len(ends[0]), D_EDGE), np.float32)
    given = {"edge_features": features, "data": data, "seed": 1}
    plancc.compile((N, np.stack(ends)), layout, 8, **given).save(path)
    size = {"batch_size": 16} if batches else {}
    options = TrainOptions(
        model=model, hidden=8, epochs=3, dtype="float64", passes=passes, **batches, **size
    )
    if (layout != "hp" and (batches or model == "meshgraphnet")) or (
        model == "meshgraphnet" and "fanouts" in batches
    ):
        words = "needs a plan of layout row|draws other edges for every layer"
        with pytest.raises(InputError, match=words):
            train(path, options, SingleTransport())
        return
    alone = train(path, options, SingleTransport())
    found = run_ranks(ranks, lambda transport: train(path, options, transport), 180)[0]
    for mine, other in zip(found.epochs, alone.epochs, strict=True):
        assert mine.loss == pytest.approx(other.loss, abs=1e-10)
    if not batches:
        assert found.figures.planned == found.epochs[-1].words_sent > 0
    if not batches and layout == "hp":
        network, dims = convolution_of(model, {}, plan=str(path)), (5, 8, 3)
        predictor = Predictor(dims, find_machine("cpu-cluster"), passes, convolution=network)
        live = 2 if "dead-rows" in passes else 0
        epoch = predictor.epoch(read_tables(path, ranks, live_layers=live))
        assert epoch.words == found.epochs[-1].words_sent
        assert epoch.words_reduced == ranks * found.epochs[-1].words_reduced


@pytest.mark.parametrize(
    "option",
    [("bias", False), ("parametrization", "paper"), ("recompute", True), ("norm", "batch")],
)
def test_what_meshgraphnet_would_not_do_is_refused(tmp_path, option):
    path, ends = tmp_path / "plan.h5", sp.random(N, N, 0.08, rng=5).nonzero()
    features = np.ones((len(ends[0]), 1), np.float32)
    plancc.compile((N, np.stack(ends)), "block", 1, edge_features=features).save(path)
    options = TrainOptions(model="meshgraphnet", **dict([option]))
    with pytest.raises(InputError, match=f"^`{option[0]}`.* meshgraphnet"):
        train(path, options, SingleTransport())
