"""How owners are found: every combination of model, partitioner, objective and effort."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import some, turns
from worlds import epoch_seconds

import plancc
from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.pairs import pair_volumes_of_table
from plancc.cost.topology import Topology, volumes_by_node
from plancc.graph.owners import Owners
from plancc.models import MODELS, make_model
from plancc.models.hypergraph import HypergraphModel
from plancc.options import SearchOptions
from plancc.owners.task import Task
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition
from plancc.plan.matrix import graph_of
from plancc.predict.machine import Machine
from plancc.predict.machine_files import find_machine
from plancc.report.provenance import reached, read_tried

DIMS = (16, 8, 4)
SEARCHED = [name for name in MODELS if MODELS[name].searched]


def clustered(n=240, seed=2):
    """A symmetric graph with some structure, its vertices shuffled."""
    rng = np.random.default_rng(seed)
    place = rng.random((n, 2))
    distance = np.linalg.norm(place[:, None] - place[None], axis=2)
    array = (distance < 0.11) | (rng.random((n, n)) < 0.004)
    return sp.csr_array((array | array.T).astype(float) - np.diag(np.diag(array)))


@pytest.fixture(scope="module")
def graph():
    return plancc.as_graph(clustered())


def compiled(graph, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plancc.PlanccWarning)
        return plancc.compile(graph, **{"num_parts": 6, "epsilon": 0.05, **options})


def told(graph, **options):
    """A plan, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", plancc.PlanccWarning)
        plan = plancc.compile(graph, **options)
    return plan, [str(note.message) for note in caught]


def value_of(plan, objective):
    if objective == "time":
        return epoch_seconds(plan, DIMS)
    return objective_value(objective, plan.traffic(), Owners(plan.owner()))


def task_of(model, num_parts=6, **options):
    return Task(model, make_model(model, {}), num_parts, SearchOptions(**options))


@pytest.mark.parametrize(
    ("options", "searches", "objective", "handed_on"),
    [
        ({"model": "hp"}, True, "volume", {}),
        ({"model": "hp", "objective": "messages"}, True, "messages", {}),
        ({"model": "hp", "budget": 3.0}, True, "volume", {}),
        ({"model": "hp", "partitioner": "mtkahypar"}, False, None, {}),
        ({"model": "hp", "partitioner": "mtkahypar", "objective": "volume"}, False, None, {}),
        ({"model": "hp", "preset": "quality"}, False, None, {}),
        ({"model": "hp", "preset": "quality", "objective": "messages"}, False, "messages", {}),
        ({"model": "gp"}, False, None, {}),
        ({"model": "gp", "objective": "cut"}, False, None, {"objective": "cut"}),
        ({"model": "gp", "objective": "volume"}, True, "volume", {}),
        ({"model": "gp", "effort": "best"}, True, "volume", {}),
        ({"model": "gp", "objective": "max-volume"}, True, "max-volume", {}),
        (
            *({"model": "gp", "objective": "volume", "partitioner": "metis"}, False, None),
            {"objective": "volume"},
        ),
        ({"model": "gp", "objective": "messages", "partitioner": "metis"}, False, "messages", {}),
        ({"model": "gp", "objective": "volume", "partitioner": "kaminpar"}, False, "volume", {}),
        ({"model": "rcm"}, False, None, {}),
    ],
)
def test_what_is_done(options, searches, objective, handed_on):
    task = task_of(**options)
    assert (task.searches, task.objective, task.handed_on) == (searches, objective, handed_on)
    assert handed_on.get("objective", "cut") == getattr(task.model, "objective", "cut")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "cut"}, "objective 'cut' is only for gp"),
        ({"objective": "beauty"}, "'beauty'; choose from volume, max-volume, messages, time"),
        ({"model": "gp", "objective": "beauty"}, "choose from cut, volume, max-volume"),
        ({"model": "rp", "objective": "volume"}, "^model 'rp' has no option `objective`; leave"),
        ({"effort": "fast", "preset": "quality"}, "drop `preset` quality"),
        ({"budget": 3, "partitioner": "metis"}, "^`budget` is only for `effort`, .* metis$"),
        ({"model": "rcm", "preset": "kway"}, "`preset` kway: model 'rcm' needs no partitioner; "),
        ({"topology": (2, 3)}, r"`topology` \(2, 3\)"),
        ({"model": "gp", "effort": "fast", "objective": "cut"}, "drop `objective` cut"),
        (
            {"model": "rcm", "effort": "fast"},
            f"^`effort` is only for the models {', '.join(SEARCHED)}, not for 'rcm'",
        ),
        ({"model": "file", "budget": 3}, f"^`budget` is only for the models {', '.join(SEARCHED)}"),
        ({"budget": 0}, "`budget` 0: must be above 0"),
        ({"budget": float("nan")}, "`budget` nan: must be above 0"),
        ({"budget": float("inf")}, "`budget` inf: must be finite"),
        ({"topology": "2x2"}, "topology 2x2 has 4 ranks"),
        ({"topology": Topology.parse("3x1")}, "topology 3x1 has 3 ranks"),
    ],
)
def test_what_makes_no_sense(options, words):
    with pytest.raises(plancc.InputError, match=words) as caught:
        task_of(**{"model": "hp", **options})
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def alone(graph):
    """By a partitioner alone."""
    return compiled(graph, model="gp")


@some(lambda *case: "hp" in case or "max-volume" in case, model=("hp", "gp"), objective=OBJECTIVES)
def test_a_search_minimises_its_objective(model, objective, graph, alone):
    plan = compiled(graph, model=model, objective=objective, dims=DIMS)
    found = plan.provenance
    assert (found["partitioner"], found["effort"]) == ("plancc", "balanced")
    assert found["objective"] == objective
    assert Machine.from_json(found["machine"]) == find_machine("cpu-cluster")
    assert "metis" in found["partitioner_versions"].split()
    assert reached(read_tried(found)) == value_of(plan, objective)
    assert value_of(plan, objective) <= value_of(alone, objective)


def test_a_named_partitioner_answers_alone(graph):
    plan = compiled(graph, partitioner="mtkahypar")
    problem = HypergraphModel().build(graph_of(plan), 6, balance="nnz", seed=1)
    expected = partition(problem, 6, PartitionOptions("mtkahypar", epsilon=0.05, seed=1))
    assert plan.owner().tolist() == expected.owner.tolist()
    assert not {"tried", "objective", "effort"} & plan.provenance.keys()


@turns(model=("hp", "gp"), objective=("max-volume", "messages", "time"))
def test_a_named_partitioner_is_refined_for_what_it_cannot_do(model, objective, graph):
    seen = []
    options = {"model": model, "partitioner": "builtin"}
    plan = compiled(graph, objective=objective, dims=DIMS, report=seen.append, **options)
    balance = "nnz:0.1,rows" if objective == "time" else "nnz"  # the defaults
    assert plan.provenance["balance"] == balance
    first = compiled(graph, balance=balance, dims=DIMS, **options)
    assert value_of(plan, objective) <= value_of(first, objective)
    assert plan.provenance["partitioner"] == "builtin"
    assert plan.provenance["objective"] == objective
    before, after = read_tried(plan.provenance)
    assert before["value"] == value_of(first, objective)
    assert after["value"] == value_of(plan, objective)
    assert [trial.step for trial in seen] == [before["step"], after["step"]]


def test_warnings_are_those_of_the_final_owners(graph):
    """METIS misses an epsilon of 0, which refinement may reach."""
    options = {"model": "gp", "num_parts": 6, "partitioner": "metis", "epsilon": 0.0}
    notes = {}
    for objective in (None, "messages"):
        plan, notes[objective] = told(graph, objective=objective, **options)
        assert plan.provenance["warnings"] == "\n".join(notes[objective])
    assert any("of metis is above" in note for note in notes[None])
    assert not any("of metis is above" in note for note in notes["messages"])
    balanced = plan.metrics().nonzero_imbalance * plan.header.num_nonzeros / 6 < 1
    assert balanced == (not notes["messages"])


@pytest.mark.parametrize("model", ["gp", "rp", "block"])
def test_topology_renumbers_parts(model, graph):
    options = {"model": model} | ({"partitioner": "metis"} if model == "gp" else {})
    plain = compiled(graph, **options)
    plan = compiled(graph, topology="3x2", **options)
    assert plan.provenance["topology"] == "3x2"
    pairs = set(zip(plain.owner().tolist(), plan.owner().tolist(), strict=True))
    assert len(pairs) == 6  # the same parts
    nodes = Topology.parse("3x2")
    sent = [pair_volumes_of_table(each.send) for each in (plan, plain)]
    between = [volumes_by_node(each, nodes).between for each in sent]
    assert between[0] <= between[1]
    assert plan.metrics().volume == plain.metrics().volume


def weighted(graph):
    """The graph with two weights per vertex that pull apart."""
    rng = np.random.default_rng(3)
    return replace(graph, vertex_weights=rng.integers(1, 20, (240, 2)) ** 2)


@pytest.mark.parametrize(("model", "partitioner"), [("hp", "mtkahypar"), ("gp", "kaminpar")])
def test_one_weight_partitioners_are_brought_to_balance(model, partitioner, graph):
    seen = []
    options = {"model": model, "partitioner": partitioner, "num_parts": 6, "epsilon": 0.05}
    plan, notes = told(weighted(graph), balance="weights", report=seen.append, **options)
    assert "objective" not in plan.provenance
    assert max(map(float, plan.provenance["balance_imbalance"].split(","))) < 0.06
    before, after = read_tried(plan.provenance)
    assert before["overload"] > after["overload"] == 0
    assert after["best"]
    assert after["volume"] == plan.metrics().volume
    assert (before["step"].split()[0], after["step"]) == (partitioner, "rebalanced, seed 1")
    assert [trial.step for trial in seen] == [before["step"], after["step"]]
    assert [note for note in notes if "plancc moved rows" in note]
    assert not [note for note in notes if "is above epsilon 0.05\n" in note + "\n"]
    assert plan.provenance["warnings"] == "\n".join(notes)
