"""Parts of unequal size through the whole compiler: shares, machine, numbers, refinement."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases import long, turns
from worlds import epoch_seconds

import plancc
from plancc.cost.objectives import OBJECTIVES
from plancc.predict.machine import Compute, Machine, Node
from plancc.predict.machine_files import find_machine
from plancc_datasets import load_dataset

CAPACITIES = (1.0, 3.0, 1.0, 2.0)
NUMBERS = {"latency": 2e-6, "bandwidth": 1e10, "multiply_adds": 5e9}
P = len(CAPACITIES)
DIMS = (16, 8, 4)

pytestmark = pytest.mark.filterwarnings("ignore:this plan is predicted:plancc.PlanccWarning")


@pytest.fixture(scope="module")
def graph():
    return load_dataset("sbm", blocks=8, size=50, p_in=0.12, p_out=0.004, seed=3).graph


def shares(total: float) -> np.ndarray:
    return total * np.array(CAPACITIES) / sum(CAPACITIES)


def within(loads, epsilon: float) -> bool:
    return bool((loads <= (1 + epsilon) * np.ceil(shares(loads.sum()))).all())


@pytest.mark.parametrize(
    "objective",
    [each if each in ("volume", "time") else pytest.param(each, marks=long) for each in OBJECTIVES],
)
def test_every_objective_keeps_the_shares(objective, graph):
    """Rows and nonzeros, each within its own limit; the machine of the plan has the speeds."""
    given = {"balance": "nnz:0.1,rows:0.05", "effort": "fast", "dims": DIMS}
    plan = plancc.compile(graph, "hp", P, objective=objective, capacities=CAPACITIES, **given)
    found = plan.provenance
    assert found["warnings"] == ""
    rows = np.bincount(plan.owner(), minlength=P)
    nonzeros = plan.traffic().nonzeros
    assert within(nonzeros, 0.1)
    assert within(rows, 0.05)
    reached = [(loads / shares(loads.sum())).max() - 1 for loads in (nonzeros, rows)]
    recorded = [float(word) for word in found["balance_imbalance"].split(",")]
    assert recorded == pytest.approx(reached, abs=1e-5)
    machine = Machine.from_json(found["machine"])
    name = "cpu-cluster with speeds 1,3,1,2"
    assert machine == replace(find_machine("cpu-cluster"), speed=CAPACITIES, name=name)
    seconds = epoch_seconds(plan, DIMS, machine)
    assert found["epoch_seconds"] == seconds
    even = plancc.compile(graph, "hp", P, objective=objective, **given)
    slow = epoch_seconds(even, DIMS, machine)
    assert seconds < slow


@turns(model=["medium-grain", "fine-grain"], options=[{}, {"objective": "time"}])
def test_nonzeros_of_edge_plans_keep_the_shares(model, options, graph):
    given = {"capacities": CAPACITIES, "epsilon": 0.1, "dims": DIMS, "effort": "fast"}
    plan = plancc.compile(graph, model, P, **given, **options)
    assert "above epsilon" not in plan.provenance["warnings"]
    assert within(plan.traffic().nonzeros, 0.1)
    recorded = float(plan.provenance["balance_imbalance"])
    nonzeros = plan.traffic().nonzeros
    assert recorded == pytest.approx((nonzeros / shares(nonzeros.sum())).max() - 1, abs=1e-5)


def test_mini_batches_keep_the_shares(graph):
    plan = plancc.compile(
        *(graph, "stochastic-hp", P),
        batch_size=40,
        balance="rows",
        epsilon=0.05,
        capacities=CAPACITIES,
        effort="fast",
    )
    assert within(np.bincount(plan.owner(), minlength=P), 0.05)


def test_capacities_are_the_speeds_of_the_machine(graph):
    """Named, in the machine, or by node where all nodes are alike: the same plan."""
    machine = Machine(**NUMBERS, node=Node(ranks=2), compute=Compute(overhead=1e-6))
    given = {"effort": "fast", "dims": DIMS, "objective": "time"}
    plans = [
        plancc.compile(graph, "hp", P, machine=machine, capacities=(2, 1, 2, 1), **given),
        plancc.compile(graph, "hp", P, machine=replace(machine, speed=(2, 1, 2, 1)), **given),
        plancc.compile(graph, "hp", P, machine=replace(machine, speed=(2, 1)), **given),
    ]
    assert len({plan.content_sha256() for plan in plans}) == 1
    speeds = [Machine.from_json(plan.provenance["machine"]).speeds(P).tolist() for plan in plans]
    assert speeds == 3 * [[2, 1, 2, 1]]
    assert len({plan.provenance["epoch_seconds"] for plan in plans}) == 1
    alike = plancc.compile(graph, "hp", P, capacities=(3, 3, 3, 3), effort="fast")
    assert alike.content_sha256() == plancc.compile(graph, "hp", P, effort="fast").content_sha256()


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=long)])
def test_parts_keep_their_ranks_on_nodes(graph, ranks):
    """Numbers that suit nodes or a topology never give a large part to a slow rank."""
    speeds = (1.0, 3.0, 1.0, 3.0, 1.0, 1.0, 3.0, 3.0)
    machine = Machine(**NUMBERS | {"latency": 1e-4}, node=Node(ranks=ranks, latency=1e-6))
    given = {"balance": "rows", "epsilon": 0.05, "effort": "fast", "capacities": speeds}
    plans = [
        plancc.compile(graph, "hp", 8, machine=machine, **given),
        plancc.compile(graph, "hp", 8, topology=f"{8 // ranks}x{ranks}", **given),
        plancc.compile(graph, "hp", 8, objective="time", dims=DIMS, machine=machine, **given),
    ]
    for plan in plans:
        rows = np.bincount(plan.owner(), minlength=8)
        assert (rows <= 1.05 * np.ceil(400 * np.array(speeds) / 16)).all()


def test_refining_keeps_and_changes_capacities(graph):
    given = {"balance": "nnz:0.3,rows:0.1", "effort": "fast", "dims": DIMS}
    plan = plancc.compile(graph, "hp", P, capacities=CAPACITIES, **given)
    for objective in ("max-volume", "messages"):
        better = plancc.refine(plan, objective, cycles=1)
        assert within(np.bincount(better.owner(), minlength=P), 0.1)
        assert better.provenance["machine"] == plan.provenance["machine"]
    other = plancc.refine(plan, capacities=(1, 1, 1, 1), cycles=1)
    assert np.bincount(other.owner(), minlength=P).max() <= 110
    assert Machine.from_json(other.provenance["machine"]).speed == (1, 1, 1, 1)
    assert (
        plancc.refine(other, capacities=CAPACITIES).provenance["machine"]
        == (plan.provenance["machine"])
    )


def test_auto_judges_by_the_speeds(graph):
    plan = plancc.compile(
        *(graph, "auto", P), candidates="hp,libra,rp", capacities=CAPACITIES, dims=DIMS
    )
    table = {each["model"]: each for each in json.loads(plan.provenance["candidates"])}
    assert not any(each["failed"] for each in table.values())
    assert table["rp"]["row_imbalance"] < 0.02 < 0.5 < table["libra"]["row_imbalance"]
    assert table["hp"]["chosen"]


@pytest.mark.parametrize("model", ["libra", "cagnet-1.5d", "cagnet-2d", "mop"])
def test_models_whose_parts_are_of_one_size(model, graph):
    options = {"replication": 2} if model == "cagnet-1.5d" else {}
    options |= {"groups": 2} if model == "mop" else {}
    with pytest.raises(plancc.InputError) as error:
        plancc.compile(graph, model, 4, capacities=CAPACITIES, dims=DIMS, **options)
    assert str(error.value) == f"`capacities`: the parts of model '{model}' must have equal sizes"
    # a machine of unequal ranks only predicts
    machine = Machine(**NUMBERS, speed=CAPACITIES)
    plan = plancc.compile(graph, model, 4, machine=machine, dims=DIMS, **options)
    assert Machine.from_json(plan.provenance["machine"]) == machine


def test_blocks_of_a_1d_grid_follow(graph):
    plan = plancc.compile(graph, "cagnet-1d", P, capacities=CAPACITIES)
    assert (abs(np.bincount(plan.owner(), minlength=P) - shares(400)) < 1).all()
