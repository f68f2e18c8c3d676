"""Model auto over all layouts: forms, prices, memory and hops."""

import json
import math
from dataclasses import replace

import pytest

import plancc
from plancc.errors import InputError
from plancc.models import MODELS, make_model
from plancc.owners.prices import MOST
from plancc.predict.machine import Node
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of
from plancc_datasets import load_dataset
from plancc_lab.contenders import Contender

GRAPH = load_dataset("rmat", scale=8, edge_factor=8, seed=1).graph
P, DIMS = 8, (32, 32, 8)
CLUSTER = find_machine("h100")
GRIDS = ("cagnet-1d", "cagnet-1.5d", "cagnet-2d", "cagnet-3d", "mop")


def chosen(machine=CLUSTER, **options):
    """The plan, its table by label, and the label of the chosen one."""
    common = {"effort": "fast", "machine": machine, "dims": DIMS}
    plan = plancc.compile(GRAPH, "auto", P, **(common | options))
    table = {each["model"]: each for each in json.loads(plan.provenance["candidates"])}
    [label] = [label for label, each in table.items() if each["chosen"]]
    return plan, table, label


def seconds_of(plan, machine):
    return Predictor(DIMS, machine).epoch(tables_of(plan)).seconds


def apart(**numbers):
    """The machine with one rank on a node, and these numbers."""
    return replace(CLUSTER, node=Node(memory=CLUSTER.node.memory), **numbers)


@pytest.mark.parametrize("num_ranks", [1, 7, 12, 64])
def test_forms_are_those_of_their_ranks(num_ranks):
    for name in GRIDS:
        for options in MODELS[name].forms(num_ranks):
            assert math.prod(make_model(name, options).shape(num_ranks)) == num_ranks
    assert MODELS["hp"].forms(num_ranks) == [{}]


def test_every_layout_competes_and_the_prediction_is_the_plans():
    """Latency of seconds leaves few messages; words that take for ever leave few rows."""
    kinds = []
    for machine in (apart(latency=1.0), apart(bandwidth=1e3)):
        plan, table, label = chosen(machine)
        assert {each.split(":")[0] for each in table} >= {"hp", "libra", *GRIDS}
        searched = [e for e in table.values() if not e["failed"] and e["objective"]]
        assert len(searched) <= MOST
        found = [e for e in table.values() if not e["failed"]]
        assert table[label]["epoch_seconds"] == min(e["epoch_seconds"] for e in found)
        assert seconds_of(plan, machine) == table[label]["epoch_seconds"]
        assert plan.provenance["chosen_model"] == label
        kinds.append(label)
        plancc.verify(plan, GRAPH)
    assert kinds[0] != kinds[1]


def test_the_form_is_what_its_label_compiles():
    """A grid that a user names has the same content, and no other of its forms is quicker."""
    machine = apart(latency=1.0)
    plan, table, label = chosen(machine, candidates="cagnet-1.5d,cagnet-2d")
    form = Contender.parse(label)
    common = {"effort": "fast", "objective": "time"} if form.options.get("sparse") else {}
    alone = plancc.compile(
        GRAPH, form.model, P, machine=machine, dims=DIMS, **form.options, **common
    )
    assert alone.content_sha256() == plan.content_sha256()
    assert len(table) == 2
    for options in MODELS[form.model].forms(P):
        if "blocks" not in options:
            other = plancc.compile(GRAPH, form.model, P, machine=machine, dims=DIMS, **options)
            assert seconds_of(plan, machine) <= seconds_of(other, machine)


def test_who_lacks_memory_is_not_taken():
    machine, few = apart(latency=1.0), {"candidates": "hp,cagnet-1.5d,cagnet-2d"}
    _, table, label = chosen(machine, **few)
    memory = table[label]["memory"]
    less = replace(machine, node=replace(machine.node, memory=memory - 1))
    _, smaller, other = chosen(less, **few)
    assert smaller[other]["memory"] < memory
    assert smaller[other]["epoch_seconds"] > table[label]["epoch_seconds"]
    none = replace(machine, node=replace(machine.node, memory=1))
    assert chosen(none, **few)[2] == label  # where none fits, the time decides alone


def test_hops_where_nodes_share_a_slow_link():
    node = Node(ranks=4, injection=1e6, latency=1e-6, bandwidth=1e11)
    machine = replace(CLUSTER, latency=1e-6, bandwidth=1e6, node=node)
    plan, table, label = chosen(machine, capacities=(1,) * P)  # without process grids
    assert label.endswith(":topology=2x4")
    assert str(plan.header.topology) == "2x4"
    assert seconds_of(plan, machine) == table[label]["epoch_seconds"]
    assert Predictor(DIMS, machine).epoch(tables_of(plan).flat()).seconds > seconds_of(
        plan, machine
    )
    flat, _, other = chosen(machine, capacities=(1,) * P, exchange="flat")
    assert flat.header.topology is None
    assert "topology" not in other


@pytest.mark.parametrize(
    "options", [{"objective": "volume"}, {"topology": "2x4"}, {"capacities": range(1, P + 1)}]
)
def test_grids_compete_for_the_time_of_even_ranks(options):
    assert chosen(**options)[0].header.layout in ("row", "edge")
    with pytest.raises(InputError, match="candidate 'mop': a process grid needs objective"):
        chosen(candidates="hp,mop", **options)


def test_graphs_of_types_train_by_row_plans():
    graph = load_dataset("ratings", num_users=64, num_items=16, per_user=4).graph
    plan = plancc.compile(graph, "auto", 2, effort="fast", machine=CLUSTER, dims=DIMS)
    assert plan.header.layout == "row"
    table = json.loads(plan.provenance["candidates"])
    assert {MODELS[each["model"].partition(":")[0]].layout for each in table} == {"row"}
    with pytest.raises(InputError, match="'libra': a typed graph needs a row plan"):
        plancc.compile(graph, "auto", 2, candidates="hp,libra")


def test_a_grid_that_these_ranks_do_not_make():
    with pytest.raises(InputError, match=r"candidates cagnet-1\.5d: no 1-rank grid suits"):
        plancc.compile(GRAPH, "auto", 1, candidates="cagnet-1.5d")
