"""The epoch that compile predicts and records, and its warning where a plan is slower."""

import math
import re
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long, turns
from worlds import epoch_seconds

import plancc
from plancc.predict.machine import Compute, Machine
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.report.provenance import recorded_dims, recorded_machine
from plancc_datasets import load_dataset

N, PARTS = 60, 4
TALK = Machine(latency=1e-3, bandwidth=1e10, multiply_adds=5e9, name="talk")
"""Messages decide, by their number."""
WORK = Machine(1e-12, 1e15, 1e9, name="work", compute=Compute(dense=1e7))
"""Rows decide."""
NARROW = Machine(latency=1e-12, bandwidth=1e5, multiply_adds=1e12, name="narrow")
"""Rows moved decide."""
WARNING = re.compile(
    r"this plan is predicted to train slower than an even random partition, by (\d+)%: (\S+) ms an "
    r"epoch, random (\S+) ms \(machine (.*), dims (.*)\); (.*)"
)


@pytest.fixture(scope="module")
def matrix():
    return sp.random(N, N, 0.1, random_state=1, format="csr")


def compiled(*args, **options):
    """A plan, and the warnings of compile."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", plancc.PlanccWarning)
        plan = plancc.compile(*args, **options)
    told = [str(each.message) for each in caught]
    assert plan.provenance["warnings"] == "\n".join(told)
    return plan, told


MODELS = {
    "hp": {},
    "medium-grain": {},
    "rp": {},
    "cagnet-1d": {},
    "cagnet-2d": {"grid": "2x2"},
    "mop": {},
    "auto": {"candidates": "hp,libra"},
}


@turns(model=MODELS, machine=[None, "summit", TALK], dims=[None, (9, 7, 5)])
def test_what_is_recorded(model, machine, dims, matrix):
    """The plan's, a random partition's and the least epoch; machine and widths in full."""
    options = {"effort": "fast"} if model in ("hp", "medium-grain", "auto") else {}
    options |= MODELS[model]
    plan, _ = compiled(matrix, model, PARTS, dims=dims, machine=machine, **options)
    used = machine if isinstance(machine, Machine) else find_machine(machine or "cpu-cluster")
    widths = dims or (128, 128, 16)
    found = plan.provenance
    assert recorded_machine(found) == used
    assert recorded_dims(found) == list(widths)
    random, _ = compiled(matrix, "rp", PARTS)
    assert found["epoch_seconds"] == epoch_seconds(plan, widths, used)
    assert found["random_epoch_seconds"] == epoch_seconds(random, widths, used)
    bound = Predictor(widths, used).bound(N, plan.header.num_nonzeros, PARTS)
    assert found["bound_seconds"] == bound
    if plan.header.grid is None:  # parts of a grid share rows or columns
        assert bound <= found["epoch_seconds"]


def test_a_grid_that_divides_widths_too_finely_has_no_epoch(matrix):
    """And no warning."""
    plan, told = compiled(matrix, "cagnet-2d", 17, grid="1x17", blocks="block")
    assert "epoch_seconds" not in plan.provenance
    assert plan.provenance["random_epoch_seconds"] > 0
    assert not [note for note in told if "predicted" in note]


BALANCE = "try `balance` nnz:0.1,rows"
TIME = "try `objective` time, or fewer parts"
AUTO = "try `model` auto, or fewer parts"


@pytest.mark.parametrize(
    ("model", "options", "advice"),
    [
        ("medium-grain", {}, TIME),
        pytest.param("medium-grain", {"objective": "volume"}, TIME, marks=long),
        ("medium-grain", {"partitioner": "builtin"}, TIME),
        ("libra", {}, AUTO),
        ("cagnet-1d", {"blocks": "hp", "effort": "fast", "balance": "nnz"}, AUTO),
        ("auto", {"candidates": "libra"}, "try fewer parts"),
        pytest.param("auto", {"candidates": "libra", "objective": "volume"}, TIME, marks=long),
    ],
)
def test_what_is_slower_and_what_to_try(model, options, advice, matrix):
    """Every rank talks to every other in a random partition, and twice in these plans."""
    plan, told = compiled(matrix, model, PARTS, machine=TALK, **options)
    [note] = [WARNING.fullmatch(each) for each in told if "predicted" in each]
    more, mine, random, machine, dims, words = note.groups()
    ratio = plan.provenance["epoch_seconds"] / plan.provenance["random_epoch_seconds"]
    assert ratio > 1.2
    assert int(more) == round(100 * (ratio - 1))
    assert float(mine) == pytest.approx(1e3 * plan.provenance["epoch_seconds"], rel=0.005)
    assert float(random) == pytest.approx(1e3 * plan.provenance["random_epoch_seconds"], rel=0.005)
    assert (machine, dims, words) == ("talk", "128,128,16", advice)


@pytest.fixture(scope="module")
def uneven():
    """A tenth of the rows have half of the nonzeros."""
    rng = np.random.default_rng(1)
    array = rng.random((240, 240)) < 0.02
    array[:24] |= rng.random((24, 240)) < 0.2
    return sp.csr_array(array.astype(float))


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"objective": "time"}, marks=long), {"partitioner": "builtin"}]
)
def test_rows_that_are_not_balanced(options, uneven):
    """The advice helps."""
    how = {"model": "hp", "num_parts": 6, "machine": WORK, **options}
    how |= {} if "partitioner" in options else {"effort": "fast"}
    plan, told = compiled(uneven, balance="nnz", **how)
    [note] = [WARNING.fullmatch(each) for each in told if "predicted" in each]
    assert note[6] == BALANCE
    advised = BALANCE.removeprefix("try `balance` ")
    better, told = compiled(uneven, balance=advised, **how)
    assert not [each for each in told if "predicted" in each]
    assert better.provenance["epoch_seconds"] < plan.provenance["epoch_seconds"]
    if "partitioner" not in options:  # the search's default
        same, _ = compiled(uneven, **how)
        assert same.content_sha256() == better.content_sha256()


@pytest.mark.parametrize(("objective", "advice"), [("volume", TIME), ("time", AUTO)])
def test_limits_that_are_too_loose(objective, advice, uneven):
    how = {"machine": WORK, "balance": "nnz,rows", "epsilon": 0.3, "effort": "fast"}
    _, told = compiled(uneven, "hp", 6, objective=objective, **how)
    [note] = [WARNING.fullmatch(each) for each in told if "predicted" in each]
    assert note[6] == advice


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=long) for k in (2, 3))])
def test_random_partitions_and_mini_batches_are_not_judged(seed, matrix):
    """They are no slower than a random partition; a mini-batch is not an epoch."""
    _, told = compiled(matrix, "rp", PARTS, seed=seed)
    assert told == []
    uneven = plancc.compile(matrix, "rp", PARTS)
    assert uneven.provenance["epoch_seconds"] == uneven.provenance["random_epoch_seconds"]
    skewed = {"machine": TALK, "batch_size": 10, "batches": 40, "seed": seed, "effort": "fast"}
    plan, told = compiled(matrix, "stochastic-hp", PARTS, **skewed)
    assert not [note for note in told if "predicted" in note]
    assert plan.provenance["epoch_seconds"] > 0


def test_as_fast_as_random_is_no_reason_to_warn(matrix):
    """Random partitions differ by about one hundredth among themselves."""
    owner = plancc.compile(matrix, "rp", PARTS, seed=5).owner()
    machine, ratios = replace(WORK, multiply_adds=1e12), {}
    for moved in (0, 1):  # rows that part 0 has more than the others
        owner[np.flatnonzero(owner == 1)[:moved]] = 0
        plan, told = compiled(matrix, "file", PARTS, part=owner, machine=machine)
        ratio = plan.provenance["epoch_seconds"] / plan.provenance["random_epoch_seconds"]
        ratios[moved] = ratio
        assert bool(told) == (ratio > 1.01)
    assert ratios[0] == pytest.approx(1, abs=1e-3)
    assert ratios[1] == pytest.approx(16 / 15, abs=1e-3)


def data_of(features=None, classes=None, masked=0):
    """Vertex data whose labels are 0..classes-1; the first are -1, not known."""
    labels = None if classes is None else np.arange(N) % classes
    if labels is not None:
        labels[:masked] = -1
    return plancc.VertexData(
        features=None if features is None else np.ones((N, features), np.float32), labels=labels
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, "128,128,16"),
        (data_of(7, 3), "7,128,3"),
        (data_of(7), "7,128,16"),
        (data_of(None, 3), "128,128,3"),
        (data_of(7, 1), "7,128,1"),
        (data_of(7, 3, masked=N), "7,128,16"),
        (plancc.VertexData(features=np.ones((N, 2)), targets=np.ones((N, 9), bool)), "2,128,9"),
        (plancc.VertexData(train_mask=np.ones(N, bool)), "128,128,16"),
    ],
)
def test_widths_are_those_of_the_data(data, expected, matrix):
    plan, _ = compiled(matrix, "rp", PARTS, data=data)
    assert plan.provenance["dims"] == expected
    dims = tuple(map(int, expected.split(",")))
    assert plan.provenance["epoch_seconds"] == epoch_seconds(plan, dims)


@turns(
    case=[
        (data_of(7), (8, 4), "the first width is 8, but the features have 7 columns"),
        (data_of(7, 5), (7, 4), "the last width is 4, but there are 5 classes"),
        (
            plancc.VertexData(targets=np.ones((N, 9), bool)),
            (7, 8),
            "the last width is 8, but there are 9 classes",
        ),
    ],
    model=["hp", "rp", "mop"],
)
def test_widths_that_contradict_the_data(case, model, matrix):
    data, dims, why = case
    with pytest.raises(plancc.InputError) as caught:
        plancc.compile(matrix, model, PARTS, data=data, dims=dims)
    assert str(caught.value) == f"`dims` {','.join(map(str, dims))}: {why}"


def test_more_outputs_than_classes_are_no_contradiction(matrix):
    plan, _ = compiled(matrix, "rp", PARTS, data=data_of(7, 5), dims=(7, 4, 6))
    assert plan.provenance["dims"] == "7,4,6"


def test_balance_work_has_default_widths(matrix):
    """Those that the epoch is predicted with."""
    for options, dims in (({}, (128, 128, 16)), ({"data": data_of(7, 3)}, (7, 128, 3))):
        plan, _ = compiled(matrix, "hp", PARTS, balance="work", effort="fast", **options)
        of_row = sum(a * b for a, b in pairwise(dims))
        work = plan.traffic().nonzeros * sum(dims[:-1]) + plan.traffic().rows * of_row
        measured = float(plan.provenance["balance_imbalance"])
        assert measured == pytest.approx(work.max() / work.mean() - 1, rel=1e-4)
        assert plan.provenance["dims"] == ",".join(map(str, dims))


@pytest.mark.parametrize("machine", ["h100", pytest.param(TALK, marks=long)])
def test_what_is_recorded_comes_back(machine, matrix, tmp_path):
    """Through the file and through refine; a refined plan has an epoch of its own."""
    options = {"effort": "fast", "machine": machine, "dims": (9, 7, 5)}
    plan, _ = compiled(matrix, "hp", PARTS, **options)
    plan.save(tmp_path / "plan.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plancc.PlanccWarning)
        better = plancc.refine(tmp_path / "plan.h5", "max-volume")
        other = plancc.refine(plan, "time", machine=find_machine("summit"), dims=(4, 4, 4))
    used = machine if isinstance(machine, Machine) else find_machine(machine)
    for name in ("machine", "dims", "random_epoch_seconds", "bound_seconds"):
        assert better.provenance[name] == plan.provenance[name]
    assert better.provenance["epoch_seconds"] == epoch_seconds(better, (9, 7, 5), used)
    assert recorded_machine(other.provenance) == find_machine("summit")
    assert recorded_dims(other.provenance) == [4, 4, 4]
    expected = epoch_seconds(other, (4, 4, 4), find_machine("summit"))
    assert other.provenance["epoch_seconds"] == expected
    assert math.isfinite(other.provenance["random_epoch_seconds"])


def test_hops_that_cost_more_name_the_flat_exchange() -> None:
    """Parts have one row each; the random partition that they are compared with has no hops."""
    graph = load_dataset("karate").graph
    with pytest.warns(plancc.PlanccWarning, match="with direct messages .* it takes"):
        plancc.compile(graph, num_parts=34, topology="2x17", exchange="nodes")
