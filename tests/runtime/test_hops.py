"""Rows in hops between nodes: the same numbers as straight from rank to rank, and what travels."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import runs
import torch
from cases import long, pairs
from launcher import alone

import plancc
from plancc.errors import InputError
from plancc.plan.slices import read_rank_slice
from plancc.plan.topology import Topology
from plancc.predict.schedules import schedule_of, tables_of
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.edge import with_whole_rows
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.order import in_cache_order
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.nodes import fits, with_exchange
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N, CLASSES = 90, 3
SHAPES = {"3x2": 6, "2x2+1x1+1x3": 8, "2x2": 4}


@cache
def dense() -> np.ndarray:
    """A directed matrix with empty rows and columns."""
    random = np.random.default_rng(5)
    a = np.where(random.random((N, N)) < 0.08, random.uniform(0.2, 1, (N, N)), 0)
    a[[0, 40, 41]] = a[:, [0, 41, 70]] = 0
    np.fill_diagonal(a, 0)
    return a


@cache
def data() -> plancc.VertexData:
    random = np.random.default_rng(6)
    return plancc.VertexData(
        features=random.standard_normal((N, 5)).astype(np.float32),
        labels=random.integers(0, CLASSES, N).astype(np.int32),
        train_mask=random.random(N) < 0.3,
        val_mask=random.random(N) < 0.3,
    )


def plan_of(model: str, topology: str, **options):
    rows, columns = np.nonzero(dense())
    graph = (N, np.stack([columns, rows]))
    return plancc.compile(
        graph,
        model,
        Topology.parse(topology).num_ranks,
        topology=topology,
        exchange="nodes",
        data=data(),
        value_dtype="float64",
        effort="fast" if model in ("hp", "medium-grain") else None,
        **options,
    )


@pytest.fixture(scope="module", autouse=True)
def opened_once():
    with runs.opened_once():
        yield


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Files of plans by model and topology."""
    folder = tmp_path_factory.mktemp("hops")

    @cache
    def path(model: str, topology: str) -> str:
        name = str(folder / f"{model}-{topology}.h5")
        plan_of(model, topology).save(name)
        return name

    return path


def on_ranks(ranks, work):
    return run_ranks(ranks, work, 180)


@pairs(overlap=[True, False], shape=SHAPES, model=["rp", "medium-grain"])
def test_product_and_adjoint_are_those_of_the_matrix(plans, model, shape, overlap):
    path, ranks = plans(model, shape), SHAPES[shape]
    random = np.random.default_rng(1)
    x, g = random.standard_normal((2, N, 4))
    matrix = plancc.load(path)
    a = np.zeros((N, N))
    for m in range(matrix.num_parts):
        part = matrix.part(m)
        vertex = np.concatenate(
            [
                part.global_id,
                *(
                    matrix.part(q).global_id[matrix.part(q).send_mask(m)]
                    for q in part.recv_peer.tolist()
                ),
            ]
        )
        own = [*part.global_id]
        if part.fold is not None:
            for q in part.fold.send_peer.tolist():
                other = matrix.part(q)
                at = other.fold.recv_peer.tolist().index(m)
                own += other.global_id[
                    other.fold.recv_row[other.fold.recv_ptr[at] : other.fold.recv_ptr[at + 1]]
                ].tolist()
        for r, i in enumerate(own):
            for k in range(part.row_ptr[r], part.row_ptr[r + 1]):
                a[i, vertex[part.column[k]]] += part.value[k]

    def work(transport):
        header, part = read_rank_slice(path, transport.rank, ranks)
        part = with_exchange(header, part, "nodes", transport)
        part = in_cache_order(part, "degree" if overlap else "none")
        resources = Resources(transport, torch.float64, overlap=overlap)
        block = with_whole_rows(Block.of_part(part, header.self_loops), transport)
        graph = LocalGraph(block, resources)
        rows = torch.from_numpy(x[part.global_id]).requires_grad_()
        found = []
        for _ in range(2):  # buffers are used again
            out = graph.product(rows)
            (back,) = torch.autograd.grad(out, rows, torch.from_numpy(g[part.global_id]))
            found.append((out.detach().numpy(), back.numpy()))
        assert [each.tobytes() for each in found[0]] == [each.tobytes() for each in found[1]]
        halo = graph.halo(torch.from_numpy(part.global_id.astype(np.float64))[:, None])
        vertices = graph.column_vertices()[part.num_rows :]
        np.testing.assert_array_equal(halo[:, 0].numpy(), vertices.numpy())
        return part.global_id, *found[0]

    for vertices, out, back in on_ranks(ranks, work):
        np.testing.assert_allclose(out, a[vertices] @ x, atol=1e-12)
        np.testing.assert_allclose(back, a.T[vertices] @ g, atol=1e-12)


def trained(path, ranks, exchange, **settings):
    options = TrainOptions(
        epochs=2,
        threads=1,
        seed=2,
        exchange=exchange,
        **{"dtype": "float64", "hidden": 4, **settings},
    )

    def work(transport):
        result = train(path, options, transport)
        return result, transport.traffic

    return on_ranks(ranks, work)


SETTINGS = {
    "gcn": {},
    "no passes": {"passes": ()},
    "order only": {"passes": ("order",)},
    "sage, mean": {"model": "sage", "passes": ("overlap",)},
    "sage, max": {"model": "sage", "aggregator": "max", "passes": ("dead-rows",)},
    "gat": {"model": "gat", "heads": 2, "passes": ("order", "overlap")},
    "gin": {"model": "gin", "passes": ("constant", "dead-rows", "overlap")},
    "dead rows": {"passes": ("order", "dead-rows", "overlap")},
    "recompute": {"recompute": True, "passes": ("order", "overlap")},
    "rows by degree": {"row_order": "degree", "passes": ("order", "dead-rows")},
    "boundary sampling": {"boundary_sampling": 0.5, "passes": ("order", "overlap")},
    "edges dropped": {"drop_edge": 0.5, "passes": ("order",)},
    "mini-batches": {"sampler": "uniform", "batch_size": 20, "passes": ("order", "overlap")},
}


LESS = ("no passes", "order only", "recompute", "rows by degree", "edges dropped")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=long) if name in LESS else name for name in SETTINGS]
)
def test_training_is_that_of_straight_rows(plans, name):
    path, settings = plans("rp", "1x1+1x3"), SETTINGS[name]
    straight, hops = (trained(path, 4, each, **settings) for each in ("flat", "nodes"))
    losses = [[epoch.loss for epoch in found[0][0].epochs] for found in (straight, hops)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)
    for key, weights in straight[0][0].weights.items():
        np.testing.assert_allclose(hops[0][0].weights[key], weights, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["gcn", "no passes", "sage, mean", "order only"])
def test_edge_plans_train_alike(plans, name):
    path, settings = plans("medium-grain", "2x2"), SETTINGS[name]
    straight, hops = (trained(path, 4, each, **settings) for each in ("flat", "nodes"))
    losses = [[epoch.loss for epoch in found[0][0].epochs] for found in (straight, hops)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)


@pytest.mark.parametrize("wire", ["bf16", "fp16", "int8"])
def test_narrow_rows_are_near(plans, wire):
    path = plans("rp", "2x2")
    exact, narrow = (trained(path, 4, "nodes", wire=each) for each in ("fp32", wire))
    last = [found[0][0].epochs[-1].loss for found in (exact, narrow)]
    assert last[1] == pytest.approx(last[0], rel=0.05)
    assert last[1] != last[0]


def test_fewer_ranks_have_the_hops_of_their_parts(plans):
    path = plans("rp", "2x4")
    expected = [epoch.loss for epoch in trained(path, 8, "flat")[0][0].epochs]
    for ranks in (4, 2):
        found = trained(path, ranks, "nodes")
        np.testing.assert_allclose([e.loss for e in found[0][0].epochs], expected, rtol=1e-9)
    with pytest.raises(InputError, match=r"2x4; of 3 ranks some would have parts of several nodes"):
        trained(path, 3, "nodes")


@pytest.mark.parametrize(
    ("model", "passes"),
    [
        *(("rp", ()), ("medium-grain", ("order", "constant"))),
        pytest.param("rp", ("order", "constant"), marks=long),
        pytest.param("medium-grain", (), marks=long),
    ],
)
def test_what_travels_is_what_is_predicted(plans, model, passes):
    path = plans(model, "2x4")
    settings = {"passes": passes, "hidden": 4, "eval_every": 0}
    before = trained(path, 8, "nodes", **settings)
    plan = plancc.load(path)
    schedule = schedule_of(tables_of(plan), [5, 4, CLASSES], passes)
    inside, between = (
        schedule.counts(
            lambda each, far=far: (
                each.place.step != "all-reduce" and (each.place.step == "cross") == far
            )
        )
        for far in (False, True)
    )
    straight = schedule_of(tables_of(plan).flat(), [5, 4, CLASSES], passes)
    figures = before[0][0].figures
    words = int((inside.words_sent + between.words_sent).sum())
    assert figures.planned == words
    assert words != int(straight.counts().words_sent.sum())
    epochs = len(before[0][0].epochs)
    traffic = [each for _, each in before]
    # an evaluation at the end moves rows too, forward only; set-up moves some once
    assert sum(each.messages_between for each in traffic) >= epochs * between.messages_sent.sum()
    nodes = plan.header.topology.nodes
    rounds = sum(
        each.place.step == "cross" for each in schedule.operations if hasattr(each, "pairs")
    )
    assert between.messages_sent.sum() <= rounds * nodes * (nodes - 1)


def test_counted_between_nodes_is_what_crosses(plans):
    path, width = plans("rp", "2x2+1x1+1x3"), 7
    plan = plancc.load(path)
    cross = plan.route.cross.send

    def work(transport):
        header, part = read_rank_slice(path, transport.rank, 8)
        part = with_exchange(header, part, "nodes", transport)
        graph = LocalGraph(Block.of_part(part, True), Resources(transport, torch.float64))
        x = torch.ones(part.num_rows, width, dtype=torch.float64, requires_grad=True)
        counted = []
        for step in (lambda: graph.product(x), lambda: graph.product(x).sum().backward()):
            before = replace(transport.traffic)
            step()
            now = transport.traffic
            counted.append(
                (
                    now.words_between - before.words_between,
                    now.messages_between - before.messages_between,
                    now.words_sent - before.words_sent,
                )
            )
        return counted

    forward, both = np.array(on_ranks(8, work)).transpose(1, 0, 2)
    assert forward[:, 0].tolist() == (width * cross.rows_per_part()).tolist()
    assert forward[:, 1].tolist() == cross.messages_per_part().tolist()
    volume = sum(hop.send.volume for hop in plan.route.hops)
    assert forward[:, 2].sum() == width * volume
    assert both.sum(axis=0).tolist() == (2 * forward.sum(axis=0)).tolist()


@pytest.mark.parametrize(
    ("topology", "nodes", "fit"),
    [
        ("2x2", "aabb", True),
        ("2x2", "bbaa", True),
        ("2x2", "abab", False),
        ("2x2", "aaaa", False),
        ("2x2", "abcd", False),
        ("2x2", "aab", True),
        ("2x2", "ab", True),
        ("1x1+1x3", "abbb", True),
        ("1x1+1x3", "aaab", False),
        ("2x4", "aabb", True),
    ],
)
def test_which_ranks_fit(topology, nodes, fit):
    assert fits(Topology.parse(topology), list(nodes)) == fit


def test_ranks_of_one_machine_send_straight(plans):
    path = plans("rp", "2x4")

    def work(transport):
        header, part = read_rank_slice(path, transport.rank, 8)
        found = [with_exchange(header, part, each, transport) for each in ("auto", "flat")]
        assert all(each.route is None and each.fold_route is None for each in found)
        transport.nodes_of_ranks = lambda: [str(rank // 4) for rank in range(8)]
        near = with_exchange(header, part, "auto", transport)
        assert near.route is not None
        assert transport.far == [rank // 4 != transport.rank // 4 for rank in range(8)]

    on_ranks(8, work)


def test_plans_without_hops_refuse_them(plans, tmp_path):
    flat = plancc.compile((4, np.array([[0, 1, 2], [1, 2, 3]])), "block", 2)
    flat.save(tmp_path / "flat.h5")
    with pytest.raises(InputError, match="`exchange` nodes: the plan has no hops"):
        trained(str(tmp_path / "flat.h5"), 2, "nodes")


@pytest.mark.mpi
def test_ranks_of_mpi(plans, tmp_path, ranks):
    path = plans("medium-grain", "2x2")
    found = {}
    for exchange in ("flat", "nodes"):
        result = tmp_path / f"{exchange}.json"
        words = [path, "--epochs", 3, "--exchange", exchange, "--threads", 1, "--json", result]
        run = ranks.run(4, *words) if exchange == "nodes" else alone(*words, "--ranks", 4)
        assert run.returncode == 0, run.stderr
        found[exchange] = json.loads(result.read_text())
    for one, two in zip(found["flat"]["epochs"], found["nodes"]["epochs"], strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)


def test_the_line_that_says_so(plans):
    run = alone(plans("rp", "3x2"), "--ranks", 6, "--epochs", 1)
    assert run.returncode == 0, run.stderr
    assert "straight from rank to rank: these ranks are not on nodes x ranks 3x2" in run.stdout
