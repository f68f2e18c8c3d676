"""`plancc.refine`: better owners, everything else as it was."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import turns
from test_ownership import DIMS, clustered, compiled, value_of

import plancc
from plancc.cost.objectives import OBJECTIVES
from plancc.owners.numbering import mapped
from plancc.plan.matrix import graph_of, matrix_of, owners_of
from plancc.plan.topology import Topology
from plancc.predict.machine import Machine
from plancc.predict.machine_files import find_machine
from plancc.refinement import with_part
from plancc.report.plans import report
from plancc.report.provenance import read_tried

N = 240


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    mask = rng.random(N) < 0.4
    features = rng.random((N, 16), dtype=np.float32)
    return plancc.VertexData(features=features, labels=rng.integers(0, 3, N), train_mask=mask)


@pytest.fixture(scope="module")
def plan(data):
    graph = replace(plancc.as_graph(clustered()), original_ids=np.arange(N) * 7)
    return compiled(graph, model="block", data=data, dims=DIMS, normalize="row")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective(objective, plan, data, tmp_path):
    better = plancc.refine(plan, objective, epsilon=0.1)
    assert value_of(better, objective) < value_of(plan, objective)
    assert better.metrics().nonzero_imbalance < max(0.11, plan.metrics().nonzero_imbalance)

    # nothing else has changed
    assert (matrix_of(better) != matrix_of(plan)).nnz == 0
    assert replace(better.header) == plan.header
    assert better.baseline == plan.baseline
    assert better.original_id.tolist() == plan.original_id.tolist()
    np.testing.assert_array_equal(better.vertex_data.features, data.features[better.global_id])
    np.testing.assert_array_equal(better.vertex_data.train_mask, data.train_mask[better.global_id])

    # and it says what has
    found = better.provenance
    assert found["refined_from"] == plan.content_sha256()
    assert (found["objective"], found["epsilon"], found["model"]) == (objective, 0.1, "block")
    assert found["source_name"] == plan.provenance["source_name"]
    assert float(found["balance_imbalance"]) == pytest.approx(
        better.metrics().nonzero_imbalance, abs=1e-5
    )
    before, after = read_tried(found)
    assert before["value"] == value_of(plan, objective)
    assert after["value"] == value_of(better, objective)
    assert found["epoch_seconds"] == value_of(better, "time")
    assert found["random_epoch_seconds"] == plan.provenance["random_epoch_seconds"]
    assert found["bound_seconds"] == plan.provenance["bound_seconds"] < found["epoch_seconds"]
    assert after["volume"] == better.metrics().volume
    better.save(tmp_path / "better.h5")
    plancc.verify_file(tmp_path / "better.h5")


def test_any_number_of_threads_finds_the_same(plan):
    one, two = (plancc.refine(plan, cycles=2, threads=threads) for threads in (1, 2))
    assert one.content_sha256() == two.content_sha256()


def test_never_worse(plan):
    """Nothing better is found without any cycle for the best that many cycles find."""
    best = plancc.refine(plan, cycles=12)
    again = plancc.refine(best, cycles=0, seed=9)
    assert again.metrics().volume <= best.metrics().volume
    perfect = plancc.compile(sp.block_diag([np.ones((4, 4))] * 3, format="csr"), "block", 3)
    same = plancc.refine(perfect)
    assert same.content_sha256() == perfect.content_sha256()
    assert same.provenance["refined_from"] == perfect.content_sha256()
    assert [each["best"] for each in read_tried(same.provenance)] == [True, False]


@turns(objective=OBJECTIVES, n_and_parts=[(1, 1), (3, 1), (3, 3), (5, 2)])
def test_trivial_plans(objective, n_and_parts):
    n, num_parts = n_and_parts
    for matrix in (sp.csr_array((n, n)), sp.csr_array(np.ones((n, n)))):
        plan = plancc.compile(matrix, "block", num_parts, self_loops=False)
        better = plancc.refine(plan, objective, dims=DIMS)
        assert value_of(better, objective) <= value_of(plan, objective)
        assert (np.diff(better.part_ptr) > 0).all()


def test_a_path_a_budget_and_an_observer(plan, tmp_path):
    seen = []

    @contextmanager
    def observer(stage):
        seen.append(stage)
        yield

    plan.save(tmp_path / "plan.h5")
    better = plancc.refine(tmp_path / "plan.h5", budget=5, observer=observer, command="told")
    assert seen == ["load", "matrix", "refine", "lower"]
    assert (better.provenance["budget"], better.provenance["command"]) == (5.0, "told")


def test_what_the_provenance_says_is_the_default(data):
    mask = data.train_mask
    options = {"balance": "rows,train", "dims": DIMS, "epsilon": 0.2, "data": data}
    plan = compiled(clustered(), model="block", **options)
    better = plancc.refine(plan)
    found = better.provenance
    assert (found["balance"], found["dims"], found["epsilon"]) == ("rows,train", "16,8,4", 0.2)
    loads = [np.ones(N), mask]
    of_parts = [np.bincount(better.owner(), weights=load, minlength=6) for load in loads]
    measured = [float(word) for word in found["balance_imbalance"].split(",")]
    assert measured == pytest.approx([part.max() / part.mean() - 1 for part in of_parts], abs=1e-5)
    assert plancc.refine(plan, balance="nnz").provenance["balance"] == "nnz"


def test_limits_of_their_own_are_recorded(data):
    asked = {"balance": "nnz:0.5,rows:0.1", "epsilon": 0.0, "effort": "fast"}
    plan = compiled(clustered(), model="hp", data=data, **asked)
    assert plan.provenance["balance"] == "nnz:0.5,rows:0.1"
    told = plan.provenance["warnings"].splitlines()
    assert all(note.startswith("this plan is predicted") for note in told)  # none of a balance

    def rows_of(**options):
        better = plancc.refine(plan, **options)
        found = better.provenance
        return np.bincount(better.owner(), minlength=6).max(), found["balance"], found["epsilon"]

    heaviest, balance, epsilon = rows_of()
    assert (balance, epsilon) == ("nnz:0.5,rows:0.1", 0.0)
    assert heaviest <= 44  # 1.1 * 240 / 6
    heaviest, balance, epsilon = rows_of(epsilon=0.025)  # in place of all that is recorded
    assert (balance, epsilon) == ("nnz,rows", 0.025)
    assert heaviest <= 41
    heaviest, balance, epsilon = rows_of(epsilon=0.0, balance="rows:0.05,nnz:9")
    assert (balance, epsilon) == ("rows:0.05,nnz:9.0", 0.0)
    assert heaviest <= 42


@pytest.mark.parametrize("model", ["medium-grain", "libra"])
def test_a_limit_of_the_nonzeros_of_edge_plans(model):
    graph, how = clustered(), {} if model == "libra" else {"effort": "fast"}
    own = compiled(graph, model=model, balance="nnz:0.3", epsilon=0.0, **how)
    of_all = compiled(graph, model=model, epsilon=0.3, **how)
    assert own.content_sha256() == of_all.content_sha256()


@pytest.mark.parametrize("epsilon", ["a lot", -1.0, float("nan"), None])
def test_a_strange_provenance_counts_for_nothing(epsilon, plan):
    strange = replace(plan, provenance={"epsilon": epsilon, "dims": "a,b", "tried": 3})
    better = plancc.refine(strange, cycles=0)
    assert better.provenance["epsilon"] == 0.01
    assert better.provenance["balance"] == "nnz"
    assert plancc.refine(strange, "time", cycles=0).provenance["dims"] == "16,128,3"  # of the data


def test_from_a_part_vector(plan, tmp_path):
    part = np.random.default_rng(1).permutation(N) % 6
    path = tmp_path / "graph.part.6"
    path.write_text("".join(f"{k}\n" for k in part))
    given = with_part(plan, path)
    assert given.owner().tolist() == part.tolist()
    assert (matrix_of(given) != matrix_of(plan)).nnz == 0
    for each in (path, part, part.tolist()):
        better = plancc.refine(plan, part=each, cycles=1)
        assert better.provenance["refined_from"] == given.content_sha256()
        assert better.metrics().volume < given.metrics().volume
        assert better.provenance["model"] == "file"
        assert better.provenance["source_name"] == plan.provenance["source_name"]
    with pytest.raises(plancc.InputError, match="vertex 0 is in part 6"):
        plancc.refine(plan, part=np.full(N, 6))
    with pytest.raises(plancc.InputError, match="239 part numbers for 240 vertices"):
        plancc.refine(plan, part=part[:-1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": float("nan")}, "`epsilon` nan: must be at least 0"),
        ({"seed": -1}, "`seed` -1: must be at least 0"),
        ({"cycles": -1}, "`cycles` -1: must be at least 0"),
        ({"objective": "messages", "max_extra_volume": -0.1}, "`max_extra_volume` -0.1: must be"),
        ({"objective": "time", "max_extra_volume": float("nan")}, "`max_extra_volume` nan: must"),
        ({"balance": "beauty"}, "unknown balance 'beauty'"),
        ({"balance": "nnz,weights"}, "cannot balance by the 'weights' of the graph file"),
        ({"objective": "time", "dims": "ab"}, "`dims` 'ab': whole numbers are needed"),
        (
            {"recorded": {"balance": "nnz:0.05:0.1"}},
            "plan records balance 'nnz:0.05:0.1', of another version of plancc; give `balance`",
        ),
        ({"budgt": 1}, "unknown option of refine 'budgt' .did you mean budget"),
    ],
)
def test_wrong_options(options, words, plan):
    recorded = plan.provenance | options.get("recorded", {})
    given = {"plan": replace(plan, provenance=recorded)} | options
    given.pop("recorded", None)
    with pytest.raises(plancc.InputError, match=words) as caught:
        plancc.refine(**given)
    assert "\n" not in str(caught.value)


def test_a_missed_balance_is_a_warning():
    star = np.eye(60)
    star[0] = 1
    plan = plancc.compile(sp.csr_array(star), "rp", 6)
    with pytest.warns(plancc.PlanccWarning, match="heaviest vertex") as caught:
        better = plancc.refine(plan, cycles=0)
    assert better.provenance["warnings"] == "\n".join(str(note.message) for note in caught)
    assert caught[0].filename == __file__


def test_the_machine_of_the_plan(tmp_path):
    machine = Machine(latency=1.23456789e-3, bandwidth=3e7, multiply_adds=5e9)
    plan = compiled(
        clustered(), model="gp", partitioner="builtin", objective="time", dims=DIMS, machine=machine
    )
    assert Machine.from_json(plan.provenance["machine"]) == machine
    better = plancc.refine(plan, "time")
    before = read_tried(better.provenance)[0]["value"]
    assert before == read_tried(plan.provenance)[-1]["value"]
    assert better.provenance["machine"] == plan.provenance["machine"]
    again = plancc.refine(plancc.refine(plan, "volume"), "time", machine=find_machine("simple"))
    assert Machine.from_json(again.provenance["machine"]) == find_machine("simple")
    plan.save(tmp_path / "plan.h5")
    shown = report(tmp_path / "plan.h5").epoch
    assert (shown.basis.predictor.machine, shown.basis.machine_from) == (machine, "plan")
    assert (shown.basis.predictor.dims, shown.basis.dims_from) == (DIMS, "plan")
    assert shown.seconds == before == plan.provenance["epoch_seconds"]
    strange = replace(plan, provenance=plan.provenance | {"machine": "latency=fast"})
    usual = find_machine("cpu-cluster").to_json()
    assert plancc.refine(strange, "time").provenance["machine"] == usual


def test_widths_that_contradict_the_data_count_only_if_they_are_given(plan):
    """A plan of an older version may record widths that its features do not have."""
    older = replace(plan, provenance=plan.provenance | {"dims": "128,16"})
    assert plancc.refine(older, cycles=0).provenance["dims"] == "16,128,3"
    with pytest.raises(plancc.InputError, match="the first width is 128"):
        plancc.refine(older, dims=(128, 16))


def test_topology_and_seed_of_the_source(plan):
    topology = Topology.parse("3x2")
    source = compiled(clustered(), model="block", topology=str(topology), seed=5)
    better = plancc.refine(source, seed=2)
    assert better.owner().tolist() != source.owner().tolist()
    found = better.provenance
    assert (found["topology"], found["seed"]) == ("3x2", 2)
    owners = mapped(owners_of(better), graph_of(better), topology)
    assert owners.rows.tolist() == better.owner().tolist()
    unfit = replace(source, provenance=source.provenance | {"topology": "2x2"})
    assert "topology" not in plancc.refine(unfit).provenance
    given = with_part(source, source.owner())
    assert not {"topology", "seed"} & given.provenance.keys()


def test_steps_are_told(plan):
    seen = []
    better = plancc.refine(plan, report=seen.append)
    assert [trial.step for trial in seen] == ["as given", "refined for volume, seed 1"]
    assert [each["overload"] for each in read_tried(better.provenance)] == [
        trial.overload for trial in seen
    ]
