"""Owners for nodes first, and for the ranks of every node then."""

import json
from functools import cache

import numpy as np
import pytest
from cases import long

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.owners import Owners
from plancc.models import make_model
from plancc.models.limits import Limits
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners.nodes import pays, search_on_nodes
from plancc.owners.numbering import mapped
from plancc.owners.task import Task, Unowned
from plancc.plan.lowering import lower
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.routes import hops_of
from plancc.plan.topology import Route, Topology
from plancc.plan.verify import verify
from plancc.predict.machine import Machine, Node
from plancc.predict.schedules import tables_of
from plancc.report.epochs import EpochTimes
from plancc.search.effort import search


@pytest.fixture(scope="module")
def graph():
    """12 communities of 100 vertices, by threes close to each other, and a few hubs."""
    rng = np.random.default_rng(0)
    n = 1200
    group, near = np.arange(n) // 100, np.arange(n) // 300
    density = 0.001 + 0.01 * (near[:, None] == near) + 0.08 * (group[:, None] == group)
    pattern = rng.random((n, n)) < density
    pattern[:, :3] |= rng.random((n, 3)) < 0.5
    shuffled = rng.permutation(n)
    pattern = pattern[np.ix_(shuffled, shuffled)]
    return n, np.stack(np.nonzero(pattern))


def compiled(graph, model, parts, effort="fast", **options):
    return plancc.compile(graph, model, parts, effort=effort, seed=3, **options)


def crossing(plan, topology):
    """Rows between nodes, each once to a node."""
    steps = [plan.send] if plan.fold is None else [plan.send, plan.fold.receive]
    return sum(hops_of(each, plan.part_ptr, topology)[1].send.volume for each in steps)


@pytest.fixture(scope="module")
def plain(graph):
    """Plans of 12 parts without nodes, each made once."""
    return cache(lambda model, effort="fast": compiled(graph, model, 12, effort))


@pytest.mark.parametrize(
    ("model", "effort", "shape"),
    [
        ("hp", "fast", "4x3"),
        ("medium-grain", "fast", "2x4+2x2"),
        *(
            pytest.param(model, effort, shape, marks=long)
            for model, effort in (("hp", "balanced"), ("medium-grain", "fast"))
            for shape in ("4x3", "2x6", "2x4+2x2")
        ),
    ],
)
def test_nodes_come_first(graph, plain, model, effort, shape):
    topology = Topology.parse(shape)
    plan = compiled(graph, model, 12, effort, topology=shape, exchange="nodes")
    verify(plan)
    assert plan.header.topology == topology
    flat = plain(model, effort)
    owners = mapped(owners_of(flat), graph_of(flat), topology)
    renumbered = lower(graph_of(flat), owners, 12, normalization="sym", self_loops=True)
    assert crossing(plan, topology) < 1.05 * crossing(renumbered, topology)
    alone = compiled(graph, model, topology.nodes, effort)
    assert crossing(plan, topology) <= 1.5 * alone.metrics().volume
    tried = json.loads(plan.provenance["tried"])
    assert tried[-1]["step"] == "ranks of every node"
    assert [each["best"] for each in tried] == [False] * (len(tried) - 1) + [True]
    assert tried[-1]["volume"] == plan.metrics().volume
    matrix = graph_of(plan)
    balance = Balance.parse(plan.provenance["balance"])
    if model == "hp":
        limits = balance.limits(matrix, 12, 0.01)
        assert limits.overload(limits.load(plan.owner())) == 0
    else:
        held = np.bincount(owners_of(plan).of_nonzeros(matrix), minlength=12)
        assert held.max() <= 1.02 * held.mean() + 1


def test_every_node_has_its_ranks_in_a_block(graph):
    """Capacities count: a node of fast ranks gets more."""
    capacities = (2.0, 2.0, 2.0, 1.0, 1.0, 1.0)
    plan = compiled(graph, "hp", 6, topology="2x3", exchange="nodes", capacities=capacities)
    nonzeros = np.diff(plan.row_ptr[plan.part_ptr])
    share = nonzeros / nonzeros.sum()
    assert share[:3].sum() == pytest.approx(2 / 3, abs=0.05)
    assert share == pytest.approx(np.array(capacities) / 9, abs=0.03)


def test_the_same_seed_gives_the_same_owners(graph):
    one, two = (compiled(graph, "hp", 12, topology="4x3").owner() for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("shape", ["1x12", "12x1"])
def test_where_there_is_one_level(graph, plain, shape):
    plan = compiled(graph, "hp", 12, topology=shape)
    assert plan.header.topology is None
    assert plan.metrics().volume == plain("hp").metrics().volume


def test_few_rows_are_mapped():
    n = 20
    graph = n, np.stack([np.arange(n), (np.arange(n) + 1) % n])
    assert not pays(graph_of(compiled(graph, "hp", 2)), Topology.parse("4x3"))
    plan = compiled(graph, "hp", 12, topology="4x3", exchange="nodes")
    verify(plan)


def test_a_node_without_enough_rows_is_no_answer():
    n = 48  # one row has nearly all nonzeros: nodes of one row each
    rows = np.concatenate([np.zeros(n, int), np.arange(n)])
    graph = plancc.compile((n, np.stack([np.r_[:n, :n], rows])), "rp", 4)
    matrix = graph_of(graph)
    heavy = np.where(np.arange(n) < 3, 1000, 1).astype(np.int64)
    options = SearchOptions(topology="4x4", effort="fast")
    limits = Limits(heavy, 16, 0.01)

    def find(matrix, num_parts, options, limits, report):
        return search(matrix, num_parts, options, limits=limits)

    asked = Unowned(matrix, Task("hp", make_model("hp", {}), 16, options))
    found = search_on_nodes(find, asked, limits)
    assert isinstance(found.owners, Owners)
    assert found.how.get("topology", "4x4") == "4x4"
    plan = compiled((n, np.stack([np.r_[:n, :n], rows])), "hp", 16, topology="4x4")
    verify(plan)


def test_flat_where_hops_do_not_pay(graph):
    node = Node(ranks=3, latency=1e-3, bandwidth=1e6)
    slow_inside = Machine(latency=1e-9, bandwidth=1e12, multiply_adds=1e9, node=node)
    with pytest.warns(PlanccWarning, match="node-aware exchange .*4x3. is not used.*` nodes uses"):
        plan = compiled(graph, "hp", 12, topology="4x3", machine=slow_inside)
    assert plan.header.topology is None
    assert plan.provenance["topology"] == "4x3"
    assert compiled(graph, "hp", 12, topology="4x3", exchange="flat").header.topology is None


def test_relays_are_tried_for_the_busiest_of_many_parts(graph):
    many, few = (compiled(graph, "hp", p, objective="max-volume") for p in (64, 12))
    assert many.header.route == Route()
    assert few.header.route is None
    epoch = EpochTimes.of_plan(many).basis.predictor.epoch
    assert epoch(tables_of(many)).seconds < epoch(tables_of(many).flat()).seconds
    assert compiled(graph, "rp", 12, None, exchange="relays:2").header.route == Route()
    assert compiled(graph, "rp", 64, None).header.route is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topology": "4x4"}, "topology 4x4 has 16 ranks for 12 parts; give it one rank for"),
        ({"exchange": "relays:4"}, "unknown exchange 'relays:4'"),
        ({"topology": "4x3", "exchange": "some"}, "unknown exchange 'some'"),
    ],
)
def test_what_makes_no_sense(graph, options, words):
    with pytest.raises(InputError, match=words):
        compiled(graph, **{"model": "hp", "parts": 12} | options)
