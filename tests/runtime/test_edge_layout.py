"""Edge plans (expand, multiply, fold) against dense float64 matrices, on any number of ranks."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import reference
import torch
import worlds
from cases import long
from reference import bound, close, coefficients
from runs import on_ranks, trained
from worlds import N

import plancc_runtime
from plancc.errors import InputError, PlanError
from plancc_runtime.layouts import halo, matrices
from plancc_runtime.layouts.block import NONZEROS, Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.order import in_cache_order
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.layouts.wire import WIRES
from plancc_runtime.nn import GATConv, SAGEConv
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.options import TrainOptions
from plancc_runtime.slices import check_slices
from plancc_runtime.testing import Layout, LayoutTests
from plancc_runtime.train import train
from plancc_runtime.transport.single import SingleTransport

DIMS, EPOCHS, LR = [worlds.WIDTH, 6, 3], 2, 0.3
DATA = {"classes": DIMS[-1]}
KINDS = ("undirected", "directed", "one way")


def loops(kind: str) -> bool:
    """Whether the diagonal is no edge."""
    return kind == "undirected"


def owners(p: int, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of rows and of nonzeros; random, part 2 without rows, part 4 without nonzeros if it can."""
    random = np.random.default_rng(p)
    owner, holder = random.integers(0, p, N), random.integers(0, p, (N, N))
    owner[owner == 2] = 0
    holder[holder == 4] = 0
    diagonal = np.diag(a) != 0
    holder[diagonal, diagonal] = owner[diagonal]
    return owner, holder


def edge_plan(p: int, kind: str = "undirected"):
    a = worlds.array(kind)
    owner, holder = owners(p, a)
    header, parts = reference.make_parts(a, owner, p, worlds.data(**DATA), holder)
    return replace(header, self_loops=loops(kind)), parts


def gathered(parts, pieces) -> np.ndarray:
    """The rows of all ranks, in vertex order."""
    pieces = [np.asarray(piece) for piece in pieces]
    whole = np.full((N, *pieces[0].shape[1:]), np.nan)
    for part, piece in zip(parts, pieces, strict=True):
        whole[part.global_id] = piece
    return whole


# ---- products ----


QUICK = {(1, "one way"), (2, "undirected"), (5, "directed"), (6, "one way")}


class TestProducts(LayoutTests):
    @pytest.fixture(
        scope="class",
        params=[
            pytest.param(case, marks=() if case in QUICK else long)
            for case in product(range(1, 9), KINDS)
        ],
        ids=str,
    )
    @classmethod
    def layout(cls, request):
        """Messages are each on its own, or in groups; rows as planned, or in another order."""
        p, kind = request.param
        group = 1 if p % 2 else 1000
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(halo, "GROUP_ROWS", group)
            patch.setattr(matrices, "GROUP_NONZEROS", group)
            header, parts = edge_plan(p, kind)
            labels = worlds.data(**DATA).labels

            def make(transport, resources):
                part = in_cache_order(parts[transport.rank], ("none", "rcm", "degree")[p % 3])
                assert part.vertex_data.labels.tolist() == labels[part.global_id].tolist()
                block = Block.of_part(part, header.self_loops)
                return LocalGraph(with_whole_rows(block, transport), resources)

            yield Layout(p, make, coefficients(worlds.array(kind), loops(kind)))


@pytest.mark.parametrize("layout", ["row", "edge"])
@pytest.mark.parametrize("wire", WIRES)
def test_compressed_rows_stay_within_their_bounds(wire, layout):
    p, width, a = 4, 6, worlds.array("directed")
    owner, holder = owners(p, a)
    if layout == "row":
        holder = np.tile(owner[:, None], N)
        _, parts = reference.make_parts(a, owner, p)
    else:
        _, parts = edge_plan(p, "directed")
    h, g = np.random.default_rng(p).standard_normal((2, N, width))

    def work(transport):
        part = parts[transport.rank]
        resources = Resources(transport, torch.float64, wire=wire)
        graph = LocalGraph(Block.of_part(part, False), resources)
        x, y = (torch.tensor(rows[part.global_id]) for rows in (h, g))
        before = transport.traffic.as_array()
        out = graph.multiplied(x, "plan")
        sent = transport.traffic.as_array() - before
        return out, graph.multiplied(y, "plan", back=True), sent[1:3]

    ranks = on_ranks(p, work)
    errors = []
    for dense, held, x in ((a, holder, h), (a.T, holder.T, g)):
        error = np.full((N, width), 1e-12)
        for m in range(p):
            local = np.where(held == m, np.abs(dense), 0)
            arrived = local[:, owner != m] @ bound(wire, x[owner != m])
            partial = np.abs(np.where(held == m, dense, 0) @ x) + arrived
            error += arrived + np.where((owner != m)[:, None], bound(wire, partial), 0)
        errors.append(np.abs(gathered(parts, [r[len(errors)] for r in ranks]) - dense @ x) / error)
    assert max(error.max() for error in errors) <= 1
    assert (max(error.max() for error in errors) > 0.01) == (wire != "fp32")
    words, num_bytes = sum(sent for *_, sent in ranks)
    row_bytes = {"fp32": 8 * width, "bf16": 2 * width, "fp16": 2 * width, "int8": width + 4}[wire]
    volume = reference.volume(a, owner, *([holder] if layout == "edge" else []))
    assert (words, num_bytes) == (volume * width, volume * row_bytes)


# ---- training ----


MODELS = {
    "gcn": {"model": "gcn"},
    "mean": {"model": "sage"},
    "sum": {"model": "sage", "aggregator": "sum"},
    "closed mean": {"model": "sage", "aggregator": "gcn"},
    "max": {"model": "sage", "aggregator": "max"},
    "gin": {"model": "gin", "model_options": {"train_eps": True}},
}
COMMON = {
    "epochs": EPOCHS,
    "hidden": DIMS[1],
    "optimizer": "sgd",
    "lr": LR,
    "dtype": "float64",
    "threads": 1,
    "eval_every": 0,
}


@cache
def dense_training(name: str) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and final weights on one process."""
    model, aggregator = MODELS[name]["model"], MODELS[name].get("aggregator", "mean")
    conv = {"aggregator": aggregator} if model == "sage" else MODELS[name].get("model_options", {})
    start = Network(DIMS, NetworkOptions(model, conv), 0, torch.float64).state_dict()
    vertices = worlds.data(**DATA)
    return reference.train_model(
        *(model, aggregator, worlds.array("undirected"), vertices.features, vertices.labels),
        *(vertices.train_mask, {k: w.numpy() for k, w in start.items()}, EPOCHS, LR),
    )


def check_training(result, name: str, tolerance: float = 1e-11) -> None:
    losses, weights = dense_training(name)
    close([epoch.loss for epoch in result.epochs], np.array(losses), tolerance)
    assert list(result.weights) == list(weights)
    for key, weight in weights.items():
        close(result.weights[key], weight, 10 * tolerance)
    if result.figures.planned:
        assert {epoch.words_sent for epoch in result.epochs} == {result.figures.planned}


@pytest.mark.parametrize(
    ("p", "name"),
    [
        pytest.param(p, name, marks=() if p == 3 or (p, name) == (1, "gin") else long)
        for p, name in product((1, 2, 3, 4, 8), MODELS)
    ],
)
def test_models_learn_what_they_do_on_one_process(p, name):
    header, parts = edge_plan(p)
    variants = [TrainOptions(**COMMON, **MODELS[name])]
    if p == 3 and name in ("gcn", "mean"):
        variants.append(replace(variants[0], passes=()))
        variants.append(replace(variants[0], dtype="float32"))
        variants.append(replace(variants[0], row_order="rcm", kernel="torch"))

    def work(transport):
        mine = header, parts[transport.rank]
        return [train(mine, options, transport) for options in variants]

    for results in on_ranks(p, work):
        for result, options in zip(results, variants, strict=True):
            check_training(result, name, 1e-5 if options.dtype == "float32" else 1e-11)
            assert list(result.passes_off) == (["dead-rows"] if options.passes else [])


def test_words_of_an_epoch_are_those_of_both_steps():
    header, parts = edge_plan(4)
    a = worlds.array("undirected")
    volume = reference.volume(a, *owners(4, a))
    gcn = TrainOptions(**COMMON)
    for passes, words in (
        ((), 7 + 6 + 6 + 3),  # d_{k-1} forward and d_k back
        (("order",), 6 + 6 + 3 + 3),  # the narrower side of both layers
        (("order", "constant"), 3 + 3),
    ):
        for result in trained((header, parts), replace(gcn, passes=passes)):
            assert result.figures.plain == volume * 22
            assert result.figures.planned == volume * words
            assert {epoch.words_sent for epoch in result.epochs} == {volume * words}
        if "constant" in passes:  # one exchange of the features; and 16 bytes a row for the means
            folded = sum(map(len, reference.partial_rows(a, *owners(4, a)).values()))
            assert result.setup.words_sent == volume * 7 + 2 * 2 * folded


@pytest.mark.parametrize("p", [4, *(pytest.param(p, marks=long) for p in (1, 3))])
def test_norms_dropout_and_residuals_do_not_depend_on_the_ranks(p):
    a = worlds.array("undirected")
    whole = reference.make_parts(a, np.zeros(N, int), 1, worlds.data(**DATA))
    variants = [
        # batch norm takes a bias out again: its gradient is rounding errors
        TrainOptions(**COMMON, norm="batch", dropout=0.3, bias=False),
        TrainOptions(**COMMON, model="gin", norm="layer", dropout=0.2, residual=True),
        TrainOptions(
            **{**COMMON, "optimizer": "adam"}, model="sage", residual=True, weight_decay=0.01
        ),
    ]
    for options in variants:
        one, result = trained(whole, options)[0], trained(edge_plan(p), options)[0]
        losses = np.array([epoch.loss for epoch in one.epochs])
        close([epoch.loss for epoch in result.epochs], losses, 1e-11)
        close(result.final.accuracy["test"], one.final.accuracy["test"], 0)
        for key, weight in one.weights.items():
            close(result.weights[key], weight, 1e-10)


# ---- the library ----


OPERANDS = {
    "copy": None,
    "copy_e": "weight",
    "add": "weight",
    "sub": "target",
    "mul": "weight",
    "div": "target",
}


def dense_aggregate(present, x, op, reduce, weight, target):
    """Row by row; present[i, j], weight[i, j, k]."""
    out = torch.zeros_like(x)
    for i in range(N):
        columns = np.flatnonzero(present[i])
        if not len(columns):
            continue
        rows, w = x[columns], weight[i, columns]
        message = {"copy": rows, "copy_e": w, "add": rows + w, "mul": rows * w}
        message |= {"sub": rows - target[i], "div": rows / target[i]}
        if reduce in ("max", "min"):
            out[i] = getattr(message[op], reduce)(0).values
        else:
            out[i] = getattr(message[op], reduce)(0)
    return out


@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_aggregation_in_the_library(kind):
    """Every operator and reduction, with the gradients of all operands."""
    a = worlds.array(kind)
    header, parts = edge_plan(4, kind)
    x, y, g = np.random.default_rng(2).standard_normal((3, N, 3))
    wide = np.array([1.0, -2.0, 3.0])
    cases = [
        (op, reduce, NONZEROS[(k + k // 4 + len(kind)) % 3])
        for k, (op, reduce) in enumerate(product(OPERANDS, ("sum", "mean", "max", "min")))
    ]

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float64)
        own = graph.vertices.numpy()
        vertices = graph.vertices.double()
        column, row = graph.columns(vertices).long(), graph.local_rows(vertices).long()
        answers = []
        for op, reduce, nonzeros in cases:
            mine, target = (torch.tensor(rows[own], requires_grad=True) for rows in (x, y))
            source, place = graph.local_edge_index(nonzeros)
            i, j = row[place], column[source]
            weight = torch.cos((7 * i + j).double()).unsqueeze(1) * torch.tensor(wide)
            operands = {"weight": weight.requires_grad_(), "target": target}
            chosen = {name: z for name, z in operands.items() if name == OPERANDS[op]}
            out = graph.aggregate(mine, op, reduce, nonzeros=nonzeros, **chosen)
            out.backward(torch.tensor(g[own]))
            gradients = [0 * z if z.grad is None else z.grad for z in (mine, target, weight)]
            answers.append((out, *gradients, i, j, graph.edge_values(nonzeros)))
        return [[z.detach().numpy() for z in answer] for answer in answers]

    ranks = on_ranks(4, work)
    for k, (op, reduce, nonzeros) in enumerate(cases):
        values = a.copy()
        if nonzeros != "plan" and loops(kind):
            np.fill_diagonal(values, 0)
        if nonzeros == "closed":
            values[range(N), range(N)] = np.where(np.diag(values) == 0, 1, np.diag(values))
        weight = np.cos(7 * np.arange(N)[:, None] + np.arange(N))[:, :, None] * wide
        weight = torch.tensor(weight, requires_grad=True)
        source, target = (torch.tensor(rows, requires_grad=True) for rows in (x, y))
        out = dense_aggregate(values != 0, source, op, reduce, weight, target)
        out.backward(torch.tensor(g))
        expected = [0 * z if z.grad is None else z.grad for z in (source, target, weight)]
        expected = [z.detach().numpy() for z in (out, *expected)]
        for m in range(3):
            close(gathered(parts, [rank[k][m] for rank in ranks]), expected[m], 1e-12)
        of_weight, i, j, value = (
            np.concatenate([rank[k][m] for rank in ranks]) for m in range(3, 7)
        )
        assert sorted(zip(i, j, strict=True)) == list(zip(*values.nonzero(), strict=True))
        close(of_weight, expected[3][i, j], 1e-12)
        close(value, values[i, j], 1e-15)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_a_gradient_of_an_extreme_goes_to_one_of_those_that_attain_it(reduce):
    """Row i of the gradient is 2^i, so that what arrives says from which rows."""
    a = worlds.array("undirected")
    header, parts = edge_plan(5)
    x = np.random.default_rng(8).integers(0, 3, (N, 4)).astype(float)  # nearly all rows have ties
    power = 2.0 ** np.arange(N)

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float64)
        own = graph.vertices.numpy()
        mine = torch.tensor(x[own], requires_grad=True)
        out = graph.aggregate(mine, "copy", reduce, nonzeros="plan")
        out.backward(torch.tensor(power[own, None]).expand_as(out))
        return out.detach(), mine.grad

    ranks = on_ranks(5, work)
    out, gradient = (gathered(parts, [r[k] for r in ranks]) for k in (0, 1))
    attained = 0
    for i in range(N):
        rows = x[a[i] != 0]
        extreme = rows.max(axis=0) if reduce == "max" else rows.min(axis=0)
        assert out[i].tolist() == extreme.tolist()
        attains = (a[i] != 0)[:, None] & (x == extreme)
        attained += attains.sum()
        chosen = gradient // power[i] % 2 == 1
        assert chosen.sum(axis=0).tolist() == [1] * 4
        assert not (chosen & ~attains).any()
    assert gradient.sum(axis=0).tolist() == [power.sum()] * 4
    assert attained > 2 * N * 4


def test_a_script_of_ones_own_learns_on_an_edge_plan():
    header, parts = edge_plan(3)

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float64)
        torch.manual_seed(0)
        conv = SAGEConv(DIMS[0], DIMS[-1], last=True, aggregator="sum", random=1)
        out = conv(graph, graph.features)
        loss = graph.mean_loss((out**2).sum(dim=1))
        loss.backward()
        graph.sync_gradients(conv)
        weights = conv.weight, conv.weight_self, conv.bias
        return loss.item(), *(w.detach() for w in weights), conv.weight.grad

    torch.set_default_dtype(torch.float64)
    try:
        ranks = on_ranks(3, work)
    finally:
        torch.set_default_dtype(torch.float32)
    x = torch.tensor(worlds.data(**DATA).features, dtype=torch.float64)
    total = torch.tensor(coefficients(worlds.array("undirected"), True)["sum"]) @ x
    for loss, weight, weight_self, bias, gradient in ranks:
        out = total @ weight + x @ weight_self + bias
        close(loss, (out**2).sum(dim=1).mean().item(), 1e-12)
        close(gradient, (2 / N * total.T @ out).numpy(), 1e-12)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        ({"model": "gat"}, "`model` gat: "),
        ({"boundary_sampling": 0.5}, "`boundary_sampling` 0.5: "),
        ({"boundary_edge_sampling": 0.25}, "`boundary_edge_sampling` 0.25: "),
        ({"drop_edge": 0.9}, "`drop_edge` 0.9: "),
        ({"sampler": "uniform", "batch_size": 8}, "`sampler` uniform: "),
        ({"batch_size": 8}, "`batch_size` 8: "),
    ],
)
def test_what_needs_a_row_plan_says_so(chosen, named):
    with pytest.raises(InputError, match=f"^{named}needs a plan of layout row.* edge plan"):
        trained(edge_plan(2), TrainOptions(epochs=1, threads=1, **chosen))


def test_attention_in_the_library_needs_a_row_plan():
    header, parts = edge_plan(2)

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float32)
        GATConv(DIMS[0], 4)(graph, graph.features)

    with pytest.raises(InputError, match="attention, needs a plan of layout row"):
        on_ranks(2, work)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.ones(N, 3, dtype=torch.float32), "target is of type torch.float32"),
        (torch.ones(N + 1, 3, dtype=torch.float64), "target has the shape"),
        (torch.ones((), dtype=torch.float64), "target has the shape"),
    ],
)
def test_a_target_that_does_not_fit_is_refused_before_it_travels(target, message):
    header, parts = edge_plan(1)
    graph = plancc_runtime.open((header, parts[0]), SingleTransport(), torch.float64)
    with pytest.raises(InputError, match=message):
        graph.aggregate(torch.ones(N, 3, dtype=torch.float64), "sub", target=target)


def test_tables_of_the_fold_that_do_not_fit_are_found():
    header, parts = edge_plan(3)
    fold = parts[1].fold
    send = replace(fold.send, row_ptr=fold.send.row_ptr - (fold.send.row_ptr > 0))
    torn = replace(parts[1], fold=replace(fold, send=send))
    for other, message in (
        (torn, "rank 1 sends [0-9]+ partial rows where [0-9]+ are expected"),
        (replace(parts[1], fold=None), "different plans"),
    ):
        mixed = [parts[0], other, parts[2]]
        with pytest.raises(PlanError, match=message):
            on_ranks(
                3, lambda transport, mixed=mixed: check_slices(mixed[transport.rank], transport)
            )
    with pytest.raises(PlanError, match="layout row, edge, grid, feature, not face"):
        trained((replace(header, layout="face"), parts), TrainOptions(epochs=1))
