"""Row plans (expand, multiply) and edge plans (and fold) against dense float64 matrices.

Training on them is in `test_trained_layouts`.
"""

from dataclasses import replace
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
from plancc_runtime.layouts.order import order_for_cache
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.nn import GATConv
from plancc_runtime.options import TrainOptions
from plancc_runtime.slices import check_slices
from plancc_runtime.testing import Layout, LayoutTests

DIMS = [worlds.WIDTH, 6, 3]
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


def matrix_of(kind: str) -> np.ndarray:
    """Return the matrix of a world, or the identity, for which nothing is sent."""
    return np.eye(N) if kind == "silent" else worlds.array(kind)


def plan_of(layout: str, p: int, kind: str = "undirected"):
    a = matrix_of(kind)
    owner, holder = owners(p, a)
    held = holder if layout == "edge" else None
    header, parts = reference.make_parts(a, owner, p, worlds.data(**DATA), held)
    return replace(header, self_loops=loops(kind)), parts


def gathered(parts, pieces) -> np.ndarray:
    """The rows of all ranks, in vertex order."""
    pieces = [np.asarray(piece) for piece in pieces]
    whole = np.full((N, *pieces[0].shape[1:]), np.nan)
    for part, piece in zip(parts, pieces, strict=True):
        whole[part.global_id] = piece
    return whole


# ---- products ----


QUICK = {
    *(("edge", *case) for case in ((1, "one way"), (2, "undirected"), (5, "directed"))),
    *(("row", *case) for case in ((2, "silent"), (6, "one way"))),
}


class TestProducts(LayoutTests):
    @pytest.fixture(
        scope="class",
        params=[
            pytest.param(case, marks=() if case in QUICK else long)
            for case in product(("row", "edge"), range(1, 9), (*KINDS, "silent"))
        ],
        ids=str,
    )
    @classmethod
    def layout(cls, request):
        """Messages are each on its own, in groups of a few, or in one; rows in any order."""
        layout, p, kind = request.param
        group = (1, 10, 2000)[p % 3]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(halo, "GROUP_ROWS", group)
            patch.setattr(matrices, "GROUP_NONZEROS", 2 * group)
            header, parts = plan_of(layout, p, kind)
            labels = worlds.data(**DATA).labels

            def make(transport, resources):
                part = order_for_cache(parts[transport.rank], ("none", "rcm", "degree")[p % 3])
                assert part.vertex_data.labels.tolist() == labels[part.global_id].tolist()
                block = Block.of_part(part, header.self_loops)
                return LocalGraph(with_whole_rows(block, transport), resources)

            dense = coefficients(matrix_of(kind), loops(kind))
            yield Layout(p, make, dense, width=(1, 10, 3)[p % 3])


@pytest.mark.parametrize("layout", ["row", "edge"])
@pytest.mark.parametrize("wire", ["fp32", "bf16"])
def test_compressed_rows_stay_within_their_bounds(wire, layout):
    p, width, a = 4, 6, worlds.array("directed")
    owner, holder = owners(p, a)
    holder = holder if layout == "edge" else np.tile(owner[:, None], N)
    _, parts = plan_of(layout, p, "directed")
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
    row_bytes = {"fp32": 8 * width, "bf16": 2 * width}[wire]
    volume = reference.volume(a, owner, *([holder] if layout == "edge" else []))
    assert (words, num_bytes) == (volume * width, volume * row_bytes)


# ---- training ----


def test_words_of_an_epoch_are_those_of_both_steps():
    header, parts = plan_of("edge", 4)
    a = worlds.array("undirected")
    volume = reference.volume(a, *owners(4, a))
    gcn = TrainOptions(
        **{"epochs": 2, "hidden": DIMS[1], "threads": 1, "dtype": "float64", "eval_every": 0}
    )
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


# ---- the library ----


def dense_aggregate(present, x, reduce, weight):
    """Row by row; present[i, j], weight[i, j, k]."""
    out = torch.zeros_like(x)
    for i in range(N):
        columns = np.flatnonzero(present[i])
        if len(columns):
            message = x[columns] if weight is None else x[columns] * weight[i, columns]
            out[i] = message.max(0).values if reduce == "max" else getattr(message, reduce)(0)
    return out


@pytest.mark.parametrize(("layout", "kind"), [*product(("row", "edge"), KINDS[:2])])
def test_aggregation_in_the_library(layout, kind):
    """Every reduction, with the gradients of all operands; values of the plan too."""
    a = worlds.array(kind)
    header, parts = plan_of(layout, 4, kind)
    x, g = np.random.default_rng(2).standard_normal((2, N, 3))
    wide = np.array([1.0, -2.0, 3.0])
    asked = [(None, "sum"), (None, "mean"), (None, "max"), ("own", "sum"), ("own", "mean")]
    cases = [(*each, nonzeros) for each in asked for nonzeros in NONZEROS]
    cases.append(("plan", "sum", "plan"))

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float64)
        own = graph.vertices.numpy()
        vertices = graph.vertices.double()
        column, row = graph.columns(vertices).long(), graph.local_rows(vertices).long()
        answers = []
        for given, reduce, nonzeros in cases:
            mine = torch.tensor(x[own], requires_grad=True)
            source, place = graph.local_edge_index(nonzeros)
            i, j = row[place], column[source]
            weight = torch.cos((7 * i + j).double()).unsqueeze(1) * torch.tensor(wide)
            weight.requires_grad_()
            chosen = weight if given == "own" else given
            out = graph.aggregate(mine, reduce, chosen, nonzeros)
            out.backward(torch.tensor(g[own]))
            gradients = [0 * z if z.grad is None else z.grad for z in (mine, weight)]
            answers.append((out, *gradients, i, j, graph.edge_values(nonzeros)))
        return [[z.detach().numpy() for z in answer] for answer in answers]

    ranks = on_ranks(4, work)
    for k, (given, reduce, nonzeros) in enumerate(cases):
        values = a.copy()
        if nonzeros != "plan" and loops(kind):
            np.fill_diagonal(values, 0)
        if nonzeros == "closed":
            values[range(N), range(N)] = np.where(np.diag(values) == 0, 1, np.diag(values))
        weight = np.cos(7 * np.arange(N)[:, None] + np.arange(N))[:, :, None] * wide
        weight = np.tile(values[:, :, None], 3) if given == "plan" else weight
        weight = torch.tensor(weight, requires_grad=given == "own")
        source = torch.tensor(x, requires_grad=True)
        out = dense_aggregate(values != 0, source, reduce, None if given is None else weight)
        out.backward(torch.tensor(g))
        expected = [0 * z if z.grad is None else z.grad for z in (source, weight)]
        expected = [z.detach().numpy() for z in (out, *expected)]
        for m in range(2):
            close(gathered(parts, [rank[k][m] for rank in ranks]), expected[m], 1e-12)
        of_weight, i, j, value = (
            np.concatenate([rank[k][m] for rank in ranks]) for m in range(2, 6)
        )
        assert sorted(zip(i, j, strict=True)) == list(zip(*values.nonzero(), strict=True))
        close(of_weight, expected[2][i, j], 1e-12)
        close(value, values[i, j], 1e-15)


def test_a_gradient_of_a_maximum_goes_to_one_of_those_that_attain_it():
    """Row i of the gradient is 2^i, so that what arrives says from which rows."""
    a = worlds.array("undirected")
    header, parts = plan_of("edge", 5)
    x = np.random.default_rng(8).integers(0, 3, (N, 4)).astype(float)  # nearly all rows have ties
    power = 2.0 ** np.arange(N)

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float64)
        own = graph.vertices.numpy()
        mine = torch.tensor(x[own], requires_grad=True)
        out = graph.aggregate(mine, "max", nonzeros="plan")
        out.backward(torch.tensor(power[own, None]).expand_as(out))
        return out.detach(), mine.grad

    ranks = on_ranks(5, work)
    out, gradient = (gathered(parts, [r[k] for r in ranks]) for k in (0, 1))
    attained = 0
    for i in range(N):
        most = x[a[i] != 0].max(axis=0)
        assert out[i].tolist() == most.tolist()
        attains = (a[i] != 0)[:, None] & (x == most)
        attained += attains.sum()
        chosen = gradient // power[i] % 2 == 1
        assert chosen.sum(axis=0).tolist() == [1] * 4
        assert not (chosen & ~attains).any()
    assert gradient.sum(axis=0).tolist() == [power.sum()] * 4
    assert attained > 2 * N * 4


# ---- what is refused ----


def test_attention_in_the_library_needs_a_row_plan():
    header, parts = plan_of("edge", 2)

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport, torch.float32)
        GATConv(DIMS[0], 4)(graph, graph.features)

    with pytest.raises(InputError, match="attention, need a row plan"):
        on_ranks(2, work)


def test_tables_of_the_fold_that_do_not_fit_are_found():
    header, parts = plan_of("edge", 3)
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
