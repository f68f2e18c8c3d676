"""Rows in hops between nodes: the same numbers as straight from rank to rank, and what travels."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import worlds
from cases import long
from launcher import alone

import plancc
from plancc.errors import InputError
from plancc.plan.slices import read_rank_slice
from plancc.plan.topology import Topology
from plancc.predict.schedules import schedule_of, tables_of
from plancc.report.plans import report
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.order import order_for_cache
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.nodes import exchange_of, fits, with_exchange
from plancc_runtime.options import TrainOptions
from plancc_runtime.testing import Layout, LayoutTests
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

SHAPES = {"2x2+1x1+1x3": 8, "relays 4x2 2": 8, "2x2": 4, "3x2": 6}
OFTEN = (("rp", "2x2+1x1+1x3"), ("rp", "relays 4x2 2"), ("medium-grain", "2x2"))


pytestmark = pytest.mark.usefixtures("opened_once")


def file_of(model: str, topology: str) -> Path:
    """A plan of the hubs as they are, by model and topology."""
    how = {"topology": topology, "exchange": "nodes"}
    if topology.startswith("relays "):
        _, topology, most = topology.split()
        how = {"exchange": f"relays:{most}"}
    return worlds.searched(
        "hubs",
        model,
        Topology.parse(topology).num_ranks,
        **how,
        normalize="none",
        self_loops=False,
        value_dtype="float64",
        effort="fast" if model == "medium-grain" else None,
    )


class TestProducts(LayoutTests):
    @pytest.fixture(
        scope="class",
        params=[
            pytest.param(case, marks=() if case in OFTEN else long)
            for case in product(("rp", "medium-grain"), SHAPES)
        ],
        ids=str,
    )
    @classmethod
    def layout(cls, request):
        model, shape = request.param
        path, ranks = file_of(model, shape), SHAPES[shape]

        def make(transport, resources):
            header, part = read_rank_slice(path, transport.rank, ranks)
            part = with_exchange(header, part, "nodes", transport)
            part = order_for_cache(part, "degree" if ranks % 2 else "none")
            block = with_whole_rows(Block.of_part(part, header.self_loops), transport)
            graph = LocalGraph(block, resources)
            halo = graph.halo(torch.from_numpy(part.global_id).to(resources.dtype)[:, None])
            vertices = graph.column_vertices()[part.num_rows :]
            np.testing.assert_array_equal(halo[:, 0].numpy(), vertices.numpy())
            return graph

        return Layout(ranks, make, {"plan": worlds.array("hubs")})


def trained(path, ranks, exchange, **settings):
    options = TrainOptions(
        threads=1,
        seed=2,
        exchange=exchange,
        **{"dtype": "float64", "hidden": 4, "epochs": 1, **settings},
    )

    def work(transport):
        result = train(path, options, transport)
        return result, transport.traffic

    return run_ranks(ranks, work, 180)


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
    "boundary sampling": {"boundary_sampling": 0.5, "epochs": 2, "passes": ("order", "overlap")},
    "edges dropped": {"drop_edge": 0.5, "passes": ("order",)},
    "mini-batches": {"sampler": "uniform", "batch_size": 20, "passes": ("order", "overlap")},
}


QUICK = ("sage, max", "gat", "boundary sampling", "mini-batches")
EDGE = ("no passes", "sage, mean", "gcn", "gin")
TRAINED = [
    *((("rp", "1x1+1x3", name), name in QUICK) for name in SETTINGS),
    *((("medium-grain", "2x2", name), name == "no passes") for name in EDGE),
    *((("rp", "relays 2x2 2", name), name == "gat") for name in ("gat", "rows by degree")),
]


@pytest.mark.parametrize(
    ("model", "topology", "name"),
    [pytest.param(*case, marks=() if quick else long) for case, quick in TRAINED],
)
def test_training_is_that_of_straight_rows(model, topology, name):
    path = file_of(model, topology)
    hops = "relays" if topology.startswith("relays") else "nodes"
    straight, hops = (trained(path, 4, each, **SETTINGS[name])[0][0] for each in ("flat", hops))
    losses = [[epoch.loss for epoch in found.epochs] for found in (straight, hops)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)
    for key, weights in straight.weights.items():
        np.testing.assert_allclose(hops.weights[key], weights, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", [pytest.param("rp", marks=long), "medium-grain"])
def test_relays_carry_the_words_that_are_predicted(model):
    path = file_of(model, "relays 4x2 2")
    plan, dims = plancc.load(path), [worlds.WIDTH, 4, worlds.CLASSES]
    found = trained(path, 8, "auto", passes=(), eval_every=0)
    schedule = schedule_of(tables_of(plan), dims, ())
    moved = schedule.counts(lambda each: each.place.step != "all-reduce").words_sent
    assert found[0][0].figures.planned == moved.sum()
    assert report(path).relays.relayed.volume == sum(
        hop.send.volume for step in ("expand", "fold") for hop in plan.exchanges.hops(step)
    )
    with pytest.raises(InputError, match="`exchange` relays: the plan's relays need 8 ranks, not"):
        trained(path, 4, "relays")
    fewer = trained(path, 4, "auto")[0][0].epochs[-1].loss
    assert fewer == pytest.approx(found[0][0].epochs[-1].loss, rel=1e-9)


def test_narrow_rows_are_near():
    exact, narrow = (
        trained(file_of("rp", "2x2"), 4, "nodes", wire=wire)[0][0].epochs[-1].loss
        for wire in ("fp32", "bf16")
    )
    assert narrow == pytest.approx(exact, rel=0.05)
    assert exact != narrow


def test_fewer_ranks_have_the_hops_of_their_parts():
    path = file_of("rp", "2x4")
    expected = [epoch.loss for epoch in trained(path, 2, "flat")[0][0].epochs]
    for ranks in (4, 2):
        found = trained(path, ranks, "nodes")
        np.testing.assert_allclose([e.loss for e in found[0][0].epochs], expected, rtol=1e-9)
    with pytest.raises(InputError, match="2x4; with 3 ranks, some ranks would have parts"):
        trained(path, 3, "nodes")


@pytest.mark.parametrize(
    ("model", "topology", "passes"),
    [
        ("rp", "2x2", ()),
        ("medium-grain", "2x2", ("order", "constant")),
        ("rp", "2x2", ("order", "constant", "dead-rows")),
        pytest.param("rp", "2x4", ("order", "constant"), marks=long),
        pytest.param("medium-grain", "2x2", (), marks=long),
    ],
)
def test_what_travels_is_what_is_predicted(model, topology, passes):
    path = file_of(model, topology)
    plan = plancc.load(path)
    found = trained(path, plan.num_parts, "nodes", passes=passes, eval_every=0)
    dims = [worlds.WIDTH, 4, worlds.CLASSES]
    tables = tables_of(plan, live_layers=2 if "dead-rows" in passes else 0)
    schedule = schedule_of(tables, dims, passes)
    inside, between = (
        schedule.counts(
            lambda each, far=far: (
                each.place.step != "all-reduce" and (each.place.step == "cross") == far
            )
        )
        for far in (False, True)
    )
    straight = schedule_of(tables.flat(), dims, passes)
    words = int((inside.words_sent + between.words_sent).sum())
    assert found[0][0].figures.planned == words
    training = report(path, dims=dims).training
    assert {tuple(each.passes): each.words for each in training.passes}[passes] == words
    assert training.in_hops
    assert words != int(straight.counts().words_sent.sum())
    # an evaluation at the end moves rows too, forward only; set-up moves some once
    sent = sum(traffic.messages_between for _, traffic in found)
    assert sent >= len(found[0][0].epochs) * between.messages_sent.sum()
    nodes = plan.header.topology.nodes
    rounds = sum(
        place.step == "cross" for place, work in schedule.operations if hasattr(work, "pairs")
    )
    assert between.messages_sent.sum() <= rounds * nodes * (nodes - 1)


def test_counted_between_nodes_is_what_crosses():
    path, width = file_of("rp", "2x2+1x1+1x3"), 7
    plan = plancc.load(path)
    cross = plan.exchanges["expand_cross"].send

    def work(transport):
        header, part = read_rank_slice(path, transport.rank, 8)
        part = with_exchange(header, part, "nodes", transport)
        graph = LocalGraph(Block.of_part(part, True), Resources(transport, torch.float64))
        x = torch.ones(part.num_rows, width, dtype=torch.float64, requires_grad=True)
        traffic = transport.traffic
        counted = []
        for step in (lambda: graph.product(x), lambda: graph.product(x).sum().backward()):
            before = np.array([traffic.words_between, traffic.messages_between, traffic.words_sent])
            step()
            counted.append(
                [traffic.words_between, traffic.messages_between, traffic.words_sent] - before
            )
        return counted

    forward, both = np.array(run_ranks(8, work, 180)).transpose(1, 0, 2)
    assert forward[:, 0].tolist() == (width * cross.rows_per_part()).tolist()
    assert forward[:, 1].tolist() == cross.messages_per_part().tolist()
    volume = sum(hop.send.volume for hop in plan.exchanges.hops("expand"))
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


def test_ranks_of_one_machine_send_straight():
    path = file_of("rp", "2x4")

    def work(transport):
        header, part = read_rank_slice(path, transport.rank, 8)
        found = [with_exchange(header, part, each, transport) for each in ("auto", "flat")]
        assert {exchange_of(header, each) for each in found} == {"flat"}
        transport.nodes_of_ranks = lambda: [str(rank // 4) for rank in range(8)]
        near = with_exchange(header, part, "auto", transport)
        assert exchange_of(header, near) == "nodes"
        assert transport.far == [rank // 4 != transport.rank // 4 for rank in range(8)]

    run_ranks(8, work, 180)


def test_the_line_that_says_so():
    run = alone(file_of("rp", "2x2"), "--ranks", 4, "--epochs", 1)
    assert run.returncode == 0, run.stderr
    assert "node-aware exchange is not used: the plan expects nodes x ranks 2x2" in run.stdout
