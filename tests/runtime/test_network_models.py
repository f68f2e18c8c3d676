"""Every convolution and norm, on any number of ranks, against dense matrices on one process."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
import worlds
from cases import long, turns
from reference import dense_convolution, key_of, make_parts, mix
from runs import on_ranks
from torch.nn import functional
from worlds import N

from plancc.errors import InputError
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.order import reordered
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.nn import BatchNorm, GATConv, GCNConv, GINConv, LayerNorm, SAGEConv, recompute
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.transport.single import SingleTransport

DIMS, SEED, STEP = [4, 6, 6, 3], 5, 7
KINDS = "directed", "undirected"


@dataclass
class Layer:
    """One layer's product, whole: rows `rows` of the vertices `inputs`, in columns of theirs."""

    inputs: np.ndarray
    rows: np.ndarray  # places among the inputs
    a: np.ndarray  # [inputs, inputs]; rows that are no output are 0
    self_loops: bool


def make_layers(kind: str, rectangular: bool) -> list[Layer]:
    a, self_loops = worlds.array(kind), kind == "undirected"
    sets = [np.arange(N)] * 4
    if rectangular:  # also without some of the columns that a row has
        random = np.random.default_rng(9)
        sets = [np.arange(N)]
        for size in (26, 20, 15):
            sets.append(np.sort(random.permutation(sets[-1])[:size]))
    layers = []
    for inputs, outputs in pairwise(sets):
        rows = np.searchsorted(inputs, outputs)
        part = np.zeros((len(inputs), len(inputs)))
        part[rows] = a[np.ix_(outputs, inputs)]
        layers.append(Layer(inputs, rows, part, self_loops))
    return layers


def blocks_of(layer: Layer, owner: np.ndarray, num_ranks: int) -> list[Block]:
    """This layer's blocks of all ranks."""
    _, parts = make_parts(layer.a, owner[layer.inputs], num_ranks)
    blocks = []
    for part in parts:
        part = reordered(part, np.argsort(part.global_id))  # outputs of a layer are the next inputs
        block = replace(
            Block.of_part(part, layer.self_loops), inputs=layer.inputs[part.global_id].astype("i4")
        )
        wanted = np.flatnonzero(np.isin(part.global_id, layer.rows))
        if len(layer.rows) < len(layer.inputs):
            degree = np.diff(block.row_ptr)[wanted]
            block = replace(block, outputs=wanted, row_ptr=np.concatenate([[0], degree.cumsum()]))
        blocks.append(block)
    return blocks


# ---- the reference: dense torch operations, float64 ----


def streams(vertices: np.ndarray, *numbers: int) -> list[int]:
    return [key_of(*numbers, v) for v in vertices.tolist()]


def scale(stream: int, place: int, upper: int, rate: float) -> float:
    """What multiplies a number that is drawn by one half of 64 bits."""
    word = mix((stream + place) % 2**64)
    half = word >> 32 if upper else word % 2**32
    return (half >= round(rate * 2**32)) / (1 - rate)


def dropout_mask(vertices: np.ndarray, width: int, rate: float, *numbers: int) -> torch.Tensor:
    rows = [
        [scale(stream, j - j % 2, j % 2, rate) for j in range(width)]
        for stream in streams(vertices, *numbers)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def attention_mask(layer: Layer, heads: int, rate: float, *numbers: int) -> torch.Tensor:
    """What multiplies the weight of every row, column and head: float64[rows, inputs, heads]."""
    pairs = (heads + 1) // 2
    rows = [
        [
            [scale(stream, j * pairs + h // 2, h % 2, rate) for h in range(heads)]
            for j in layer.inputs.tolist()
        ]
        for stream in streams(layer.inputs[layer.rows], *numbers)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def dense_conv(options, p, layer: Layer, x, last, k):
    a, rows = torch.tensor(layer.a), layer.rows
    if options.model != "gat":
        aggregator = options.conv.get("aggregator", "mean")
        return dense_convolution(options.model, aggregator, a, p, x, rows, layer.self_loops)
    closed = ((a != 0) | torch.eye(len(a), dtype=torch.bool))[rows]
    heads = options.conv.get("heads", 1)
    rate = options.conv.get("attention_dropout", 0.0)
    kept = attention_mask(layer, heads, rate, SEED, STEP, k, 1)
    outs = []
    for h, w in enumerate(p["weight"].chunk(heads, dim=1)):
        y = x @ w
        score = (y @ p["score_source"][h])[None, :] + (y @ p["score_target"][h])[rows, None]
        score = functional.leaky_relu(score, 0.2).masked_fill(~closed, -torch.inf)
        outs.append((torch.softmax(score, dim=1) * kept[:, :, h]) @ y)
    z = sum(outs) / heads if last else torch.cat(outs, 1)
    return z + p["bias"] if "bias" in p else z


def dense_network(options, parameters, layers, x):
    """Outputs of the last layer in training, step `STEP`."""
    for k, layer in enumerate(layers):
        last = k == len(layers) - 1
        rate = options.dropout if k else options.input_dropout
        if rate:
            x = x * dropout_mask(layer.inputs, x.shape[1], rate, SEED, STEP, k)
        prefix = f"convs.{k}."
        mine = {n.removeprefix(prefix): p for n, p in parameters.items() if n.startswith(prefix)}
        z = dense_conv(options, mine, layer, x, last, k)
        if not last:
            if options.norm != "none":
                dim = 0 if options.norm == "batch" else 1
                centred = z - z.mean(dim, keepdim=True)
                z = centred / torch.sqrt((centred**2).mean(dim, keepdim=True) + 1e-5)
                z = z * parameters[f"norms.{k}.weight"] + parameters[f"norms.{k}.bias"]
            z = torch.tanh(z) if options.activation == "tanh" else torch.relu(z)
            if options.residual:
                skip = parameters.get(f"skips.{k}.weight")
                own = x[layer.rows]
                z = z + (own if skip is None else own @ skip.T)
        x = z
    return x


# ---- both, side by side ----


def make_network(options, dtype=torch.float64) -> Network:
    network = Network(DIMS, options, SEED, dtype)
    random = np.random.default_rng(8)
    with torch.no_grad():  # zeros and ones would hide what multiplies or adds them
        for p in network.parameters():
            p += torch.as_tensor(0.3 * random.standard_normal(p.shape), dtype=dtype)
    return network.train()


def inputs(width: int = DIMS[0]) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(6)
    return random.standard_normal((N, width)), random.integers(0, DIMS[-1], N)


def gradients_of(parameters):
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]


def dense(options, layers):
    """Outputs, loss, and the gradients of all parameters and of x."""
    features, labels = inputs()
    x = torch.tensor(features, requires_grad=True)
    parameters = {
        name: p.detach().clone().requires_grad_()
        for name, p in make_network(options).named_parameters()
    }
    out = dense_network(options, parameters, layers, x)
    outputs = layers[-1].inputs[layers[-1].rows]
    chosen = outputs % 3 != 0
    loss = functional.cross_entropy(out[chosen], torch.tensor(labels[outputs[chosen]]))
    loss.backward()
    return [out.detach(), loss.detach(), x.grad, *gradients_of(parameters.values())]


def distributed(options, layers, num_ranks, dtype=torch.float64, fixed=False, again=False):
    """The same as `dense`, put together from all ranks."""
    owner = worlds.owners(N, num_ranks)
    blocks = [blocks_of(layer, owner, num_ranks) for layer in layers]
    features, labels = inputs()
    outputs = layers[-1].inputs[layers[-1].rows]
    num_chosen = int((outputs % 3 != 0).sum())

    def work(transport):
        graphs = [LocalGraph(of[transport.rank], Resources(transport, dtype)) for of in blocks]
        vertices = graphs[0].vertices.numpy()
        x = torch.tensor(features[vertices], dtype=dtype, requires_grad=True)
        network = make_network(options, dtype)
        known = network.fixed(graphs[0], x) if fixed else None
        forward = partial(recompute.recomputed, network) if again else network
        out = forward(graphs, x, known, STEP)
        block = graphs[-1].block
        mine = block.inputs[block.output_places()]
        chosen = mine % 3 != 0
        share = functional.cross_entropy(
            out[chosen], torch.tensor(labels[mine[chosen]]), reduction="sum"
        )
        loss = share / num_chosen
        loss.backward()
        gradients = gradients_of(network.parameters())
        return vertices, mine, out.detach(), loss.detach(), x.grad, gradients

    answers = on_ranks(num_ranks, work)
    out = torch.zeros(N, DIMS[-1], dtype=dtype)
    x_grad = torch.zeros(N, DIMS[0], dtype=dtype)
    for vertices, mine, rows, _, grad, _ in answers:
        out[mine] = rows
        x_grad[vertices] = 0 if grad is None else grad
    gradients = [sum(parts) for parts in zip(*(answer[5] for answer in answers), strict=True)]
    return [out[outputs], sum(answer[3] for answer in answers), x_grad, *gradients]


def assert_close(found, expected, tolerance):
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        scale = max(1.0, float(b.abs().max()))
        assert a.shape == b.shape
        assert float((a.double() - b).abs().max()) <= tolerance * scale, f"number {k}"


def network_options(model, norm="none", residual=False, dropout=0.0, activation="relu", **conv):
    return NetworkOptions(
        model=model,
        conv=conv,
        activation=activation,
        norm=norm,
        residual=residual,
        dropout=dropout,
        input_dropout=dropout / 2,
    )


CASES = {
    "gcn": network_options("gcn"),
    "gcn-paper": network_options("gcn", order="paper", bias=True, norm="batch"),
    "gcn-aggregate-first": network_options("gcn", order="aggregate-first", dropout=0.5),
    "gcn-project-first": network_options("gcn", order="project-first", residual=True),
    "sage-mean": network_options("sage", norm="layer", residual=True, dropout=0.5),
    "sage-mean-paper": network_options("sage", order="paper", bias=True),
    "sage-sum": network_options("sage", aggregator="sum", norm="batch", dropout=0.5),
    "sage-max": network_options("sage", aggregator="max", residual=True, norm="batch"),
    "sage-gcn": network_options("sage", aggregator="gcn", norm="layer"),
    "gin": network_options("gin", norm="batch", dropout=0.25),
    "gin-paper": network_options("gin", order="paper", residual=True, activation="tanh"),
    "gin-eps": network_options("gin", train_eps=True),
    "of-papers": network_options("sage", parametrization="paper"),
    "gat": network_options("gat"),
    "gat-layer": network_options("gat", residual=True, norm="layer"),
    "gat-heads": network_options("gat", heads=3, bias=True, norm="batch", dropout=0.5),
    "gat-dropped": network_options("gat", heads=3, attention_dropout=0.4, dropout=0.25),
    "gat-dropped-pairs": network_options("gat", heads=2, attention_dropout=0.6, residual=True),
}


@turns(case=CASES, kind=KINDS)
@pytest.mark.parametrize("ranks", [(1, 4), pytest.param((1, 2, 3, 8), marks=long)])
def test_equals_dense_on_any_number_of_ranks(case, kind, ranks):
    options, layers = CASES[case], make_layers(kind, rectangular=False)
    expected = dense(options, layers)
    one, *others = [distributed(options, layers, num_ranks) for num_ranks in ranks]
    assert_close(one, expected, 1e-9)
    for found in others:
        assert_close(found, one, 1e-12)
    assert_close(distributed(options, layers, 3, torch.float32), expected, 1e-5)


WAYS = {"plain": {}, "fixed": {"fixed": True}, "again": {"again": True}}
WAYS["both"] = WAYS["fixed"] | WAYS["again"]
"""An input that is exchanged once, activations that are computed again."""


def no_such_way(case, way, kind):
    return way in ("again", "both") and case.endswith("-paper")


@turns(no_such_way, case=CASES, way=WAYS, kind=KINDS)
def test_layers_with_fewer_outputs_than_inputs(case, way, kind, monkeypatch):
    monkeypatch.setattr(recompute, "AT_ONCE", 4 * max(DIMS))  # few rows at once
    options, layers = CASES[case], make_layers(kind, rectangular=True)
    fixed = WAYS[way].get("fixed")
    options = replace(options, input_dropout=0.0) if fixed else options
    found, expected = distributed(options, layers, 3, **WAYS[way]), dense(options, layers)
    if fixed:  # no gradient for x
        del expected[2], found[2]
    assert_close(found, expected, 1e-9)


def test_batch_norm_is_torch_on_all_rows():
    owner = worlds.owners(N, 4)
    random = np.random.default_rng(1)
    batches = random.standard_normal((3, N, 5)) * 0.01 + 1000  # small beside its mean
    gradients = random.standard_normal((3, N, 5))
    whole = torch.nn.BatchNorm1d(5, dtype=torch.float64)
    expected = []
    for batch, gradient in zip(batches, gradients, strict=True):
        z = torch.tensor(batch, requires_grad=True)
        y = whole(z)
        y.backward(torch.tensor(gradient))
        expected.append((y.detach(), z.grad))
    evaluated = whole.eval()(torch.tensor(batches[0])).detach()
    _, parts = make_parts(np.eye(N), owner, 4)

    def work(transport):
        block = Block.of_part(parts[transport.rank], False)
        graph = LocalGraph(block, Resources(transport, torch.float64))
        rows = block.inputs
        norm = BatchNorm(5).double()
        for batch, gradient, (y, z_grad) in zip(batches, gradients, expected, strict=True):
            z = torch.tensor(batch[rows], requires_grad=True)
            words = transport.traffic.words_reduced
            found = norm(z, graph)
            found.backward(torch.tensor(gradient[rows]))
            assert transport.traffic.words_reduced == words + (5 + 1) + 5 + 2 * 5
            torch.testing.assert_close(found.detach(), y[rows], rtol=0, atol=1e-7)
            torch.testing.assert_close(z.grad, z_grad[rows], rtol=1e-7, atol=1e-7)
        out = norm.eval()(torch.tensor(batches[0][rows]), graph)
        torch.testing.assert_close(out.detach(), evaluated[rows], rtol=0, atol=1e-7)
        return norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var

    weight, bias, mean, var = zip(*on_ranks(4, work), strict=True)
    torch.testing.assert_close(sum(weight), whole.weight.grad, rtol=0, atol=1e-7)
    torch.testing.assert_close(sum(bias), whole.bias.grad)
    for rank in range(4):
        torch.testing.assert_close(mean[rank], whole.running_mean)
        torch.testing.assert_close(var[rank], whole.running_var, rtol=1e-9, atol=0)


def test_closed_mean_of_a_sample_stays_unbiased():
    """Edges that a sample dropped still count in the mean; the row's own vertex is never scaled."""
    a = np.array([[0.0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
    _, (part,) = make_parts(a, np.zeros(4, int), 1)
    block = replace(
        Block.of_part(part, False), edges=np.array([4, 1, 3, 0]), scale=(2.0, 3.0)
    ).with_coefficients("closed-mean")
    found = np.zeros((4, 4))
    found[np.repeat(range(4), np.diff(block.row_ptr)), block.column] = block.value
    expected = [[1 / 5, 2 / 5, 2 / 5, 0], [2 / 2, 1 / 2, 0, 0], [0, 0, 1 / 3, 2 / 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(found, expected)


def test_attention_is_dropped_in_training_only():
    _, (part,) = make_parts(worlds.array("undirected"), np.zeros(N, int), 1)
    graph = LocalGraph(Block.of_part(part, True), Resources(SingleTransport(), torch.float64))
    x = torch.tensor(inputs()[0])
    conv = GATConv(4, 6, heads=2, attention_dropout=0.5, random=1, dtype=torch.float64)
    plain = GATConv(4, 6, heads=2, random=1, dtype=torch.float64)
    with pytest.raises(InputError, match="a training pass needs a `key`"):
        conv(graph, x)
    dropped = [conv(graph, x, key=key) for key in (1, 1, 2)]
    assert torch.equal(dropped[0], dropped[1])
    assert not torch.allclose(dropped[0], dropped[2])
    assert torch.equal(conv.eval()(graph, x), plain(graph, x))
    mean = sum(conv.train()(graph, x, key=key) for key in range(300)) / 300
    torch.testing.assert_close(mean, plain(graph, x), rtol=0, atol=0.2)


def test_options_of_a_layer():
    torch.manual_seed(1)
    first, second = GCNConv(4, 3), GCNConv(4, 3)
    assert first.weight.dtype == torch.float32
    assert not torch.equal(first.weight, second.weight)
    torch.manual_seed(1)
    assert torch.equal(GCNConv(4, 3).weight, first.weight)
    a, b = GATConv(4, 6, heads=2, random=3), GATConv(4, 6, heads=2, random=3, dtype=torch.float64)
    assert torch.equal(a.weight, b.weight.float())
    assert GATConv(4, 5, heads=2, last=True).weight.shape == (4, 10)
    assert GATConv(4, 3).bias.tolist() == [0, 0, 0]
    assert GATConv(4, 3, bias=False).bias is None
    assert GINConv(4, 3, train_eps="true").eps.requires_grad
    assert LayerNorm(3)(torch.tensor([[1.0, 2, 3]])).sum().abs() < 1e-6
    for make, words in (
        (
            lambda: GATConv(4, 5, heads=2),
            "`heads` 2: does not divide the width 5 .* each head, set `hidden` to 10",
        ),
        (lambda: GATConv(4, 5, heads=0), "`heads` 0: must be at least 1"),
        (lambda: GATConv(4, 5, attention_dropout=1.0), "`attention_dropout` 1.0: must be below 1"),
        (lambda: GCNConv(4, 5, heads=2), "unknown option of GCNConv 'heads'"),
        (lambda: SAGEConv(4, 5, aggregator="median"), "unknown aggregator 'median'"),
        (lambda: GINConv(4, 5, order="best"), "unknown order 'best'"),
    ):
        with pytest.raises(InputError, match=words):
            make()
