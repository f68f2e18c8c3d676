"""Parts under numbers that suit a machine: the same parts, an epoch that takes no longer."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import some
from test_ownership import DIMS, clustered, compiled
from worlds import epoch_seconds

import plancc
from plancc.cost.owners import traffic
from plancc.models import make_model
from plancc.options import SearchOptions
from plancc.owners.numbering import STEP, numbered, with_better_numbers
from plancc.owners.task import Ownership, Task, Unowned
from plancc.plan.lowering import lower
from plancc.plan.metrics import summarize
from plancc.predict.machine import Compute, Machine, Node
from plancc.report.provenance import reached, read_tried

PARTS = 12
NODES = Machine(
    *(2e-5, 4e9, 5e9),
    node=Node(ranks=4, injection=5e9, latency=1e-6, bandwidth=2e10),
    compute=Compute(stream=1e10),
)


@pytest.fixture(scope="module")
def matrix():
    return plancc.as_graph(clustered() + sp.eye_array(240))


@pytest.fixture(scope="module")
def owners(matrix):
    """Owners of rows, or of rows and nonzeros; neighbouring parts have numbers far apart."""
    found = {}
    for model in ("hp", "medium-grain"):
        plan = compiled(matrix, model=model, num_parts=PARTS, effort="fast", self_loops=False)
        number = np.random.default_rng(4).permutation(PARTS).astype(np.int32)
        found[model] = plancc.plan.matrix.owners_of(plan).renumbered(number)
    return found


def seconds_of(matrix, owners, machine=NODES, num_parts=PARTS):
    """What the simulation says of the plan, which is built for it."""
    plan = lower(matrix, owners, num_parts, normalization="none", self_loops=False)
    return epoch_seconds(plan, DIMS, machine)


def options(machine=NODES, **more):
    return SearchOptions(dims=DIMS, machine=machine, **more)


@pytest.mark.parametrize("model", ["hp", "medium-grain"])
def test_the_same_parts_in_less_time(model, matrix, owners):
    given = owners[model]
    better = with_better_numbers(matrix, given, PARTS, options())
    assert seconds_of(matrix, better) < seconds_of(matrix, given)
    pairs = set(zip(given.rows.tolist(), better.rows.tolist(), strict=True))
    if given.nonzeros is not None:
        pairs |= set(zip(given.nonzeros.tolist(), better.nonzeros.tolist(), strict=True))
    assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs}) == PARTS
    before, after = (summarize(traffic(matrix, each, PARTS)) for each in (given, better))
    assert before == after
    again = with_better_numbers(matrix, given, PARTS, options())
    assert again == better
    assert with_better_numbers(matrix, given, PARTS, options(seed=2)) != given


def test_numbers_that_do_not_matter_stay(matrix, owners):
    """On one node, and on nodes of one rank."""
    given = owners["hp"]
    one = replace(NODES, node=replace(NODES.node, ranks=1))
    whole = replace(NODES, node=replace(NODES.node, ranks=PARTS))
    for machine in (one, whole):
        assert with_better_numbers(matrix, given, PARTS, options(machine)) is given


def test_parts_stay_on_ranks_of_their_speed(matrix, owners):
    machine = replace(NODES, speed=(1.0, 2.0, 1.0, 1.0))
    given = owners["hp"]
    better = with_better_numbers(matrix, given, PARTS, options(machine))
    assert seconds_of(matrix, better, machine) < seconds_of(matrix, given, machine)
    speeds = machine.speeds(PARTS)
    assert (speeds[better.rows] == speeds[given.rows]).all()


def asked(matrix, model, **more):
    return Unowned(matrix, Task(model, make_model(model, {}), PARTS, options(**more)))


def test_who_is_numbered(matrix, owners):
    """Not those of models without a search or of a named partitioner, nor those of a topology."""
    found = Ownership(owners["hp"], {"tried": json.dumps([])})
    assert numbered(asked(matrix, "rp"), found) is found
    assert numbered(asked(matrix, "hp", topology="3x4"), found) is found
    assert numbered(asked(matrix, "hp", partitioner="builtin"), found) is found
    better = numbered(asked(matrix, "hp"), found)
    assert better.how == found.how | {"numbered_for": NODES.name}
    assert seconds_of(matrix, better.owners) < seconds_of(matrix, found.owners)


def test_a_step_of_objective_time(matrix, owners):
    given, told = owners["hp"], []
    first = {"step": "found", "seconds": 1.0, "value": seconds_of(matrix, given)}
    first |= {"volume": 7, "overload": 0.0, "best": True}
    found = Ownership(given, {"tried": json.dumps([first, first | {"best": False}])})
    better = numbered(replace(asked(matrix, "hp", objective="time"), report=told.append), found)
    *before, last = json.loads(better.how["tried"])
    assert len(before) == 2
    assert last == vars(told[0])
    assert (last["step"], last["best"], last["overload"]) == (STEP, True, 0.0)
    rows, part = np.repeat(np.arange(matrix.num_vertices), np.diff(matrix.indptr)), given.rows
    needed = {(part[i], j) for i, j in zip(rows, matrix.indices, strict=True) if part[i] != part[j]}
    assert last["volume"] == len(needed)
    assert last["value"] == seconds_of(matrix, better.owners) < first["value"]


MODELS = ("hp", "medium-grain", "fine-grain")
MACHINES = {"nodes": NODES, "cpu-cluster": "cpu-cluster", "summit": "summit", "h100": "h100"}


QUICK = ("hp nodes", "hp h100", "medium-grain summit", "fine-grain cpu-cluster")


@some(lambda *case: " ".join(case) in QUICK, model=MODELS, machine=MACHINES)
def test_compile_reaches_what_simulate_says(model, machine, matrix):
    """To the last digit: the search's value, the provenance, the simulation of the plan."""
    how = {"objective": "time", "effort": "fast", "dims": DIMS, "num_parts": PARTS}
    plan = compiled(matrix, model=model, machine=MACHINES[machine], **how)
    found = plan.provenance
    made_for = Machine.from_json(found["machine"])
    assert found["dims"] == ",".join(map(str, DIMS))
    predicted = epoch_seconds(plan, DIMS, made_for)
    assert reached(read_tried(found)) == found["epoch_seconds"] == predicted


def test_refine_numbers_its_parts_for_the_time(matrix, owners):
    """Refining for the time alone: whoever refines the volume keeps the numbers."""
    plan = lower(matrix, owners["hp"], PARTS, normalization="none", self_loops=False)
    how = {"machine": NODES, "dims": DIMS, "epsilon": 0.5, "cycles": 0}
    timed, volume = (plancc.refine(plan, objective, **how) for objective in ("time", "volume"))
    tried = read_tried(timed.provenance)
    assert tried[-1]["step"] == STEP
    assert tried[-1]["best"]
    predicted = epoch_seconds(timed, DIMS, NODES)
    assert reached(tried) == timed.provenance["epoch_seconds"] == predicted
    assert STEP not in {each["step"] for each in read_tried(volume.provenance)}
    assert Machine.from_json(timed.provenance["machine"]) == NODES
