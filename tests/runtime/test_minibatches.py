"""Mini-batch training against a dense float64 reference of the same batches, on MPI ranks."""

import json
import tracemalloc
import warnings
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from threading import get_ident

import numpy as np
import pytest
import rank_tasks
import reference
import runs
import torch
import worlds
from cases import some
from click.testing import CliRunner
from launcher import alone
from reference import close
from scipy.sparse import csr_matrix
from worlds import N

import plancc
import plancc_runtime
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.lowering import lower
from plancc.plan.population import population_of
from plancc.sampling import Population, make_sampler
from plancc_cli.render_run import step_line
from plancc_cli.run_command import command
from plancc_datasets import load_dataset
from plancc_runtime.execution import mini_batches
from plancc_runtime.execution.mini_batches import TURN, TURNS
from plancc_runtime.kernels import dense, tall
from plancc_runtime.layouts.batch_mask import BatchMask
from plancc_runtime.layouts.block import Block
from plancc_runtime.options import PASSES, TrainOptions
from plancc_runtime.results import STEP, TrainResult
from plancc_runtime.train import train
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.local import LocalTransport, run_ranks
from plancc_runtime.transport.single import SingleTransport

RANKS = (1, 2, 3)
PARTS, SEED = 5, 11
EPOCHS, STEPS = 2, 2
OWNER = worlds.owners(N, PARTS)
SAMPLERS = [
    {"sampler": "uniform", "batch_size": 12},
    {"sampler": "uniform", "batch_size": 1},  # most ranks own nothing of it; some have no target
    {"sampler": "uniform", "batch_size": N},  # the full batch
    {"sampler": "train", "batch_size": 15},
    {"sampler": "neighbour", "batch_size": 4, "fanouts": (2, 1)},
    {"sampler": "neighbour", "batch_size": 9, "fanouts": (3, 2, 5)},
    {"sampler": "walk", "batch_size": 16, "sampler_options": {"walk_length": 2}},
    {"sampler": "cluster", "batch_size": 11},
    {"sampler": "edges", "sampler_options": {"keep": 0.4}},
]
MODELS = [
    {"optimizer": "sgd", "activation": "relu", "lr": 0.5, "hidden": 5},
    {"optimizer": "adam", "activation": "tanh", "lr": 0.05, "hidden": 8},
    {"optimizer": "sgd", "activation": "sigmoid", "lr": 0.2, "hidden": 4},
]


def cases():
    """(name of the graph, options): graphs and models in turn for every sampler."""
    common = {"seed": SEED, "threads": 1, "epochs": EPOCHS, "steps": STEPS}
    # the parametrization of the dense reference
    common |= {"passes": (), "eval_every": 0, "parametrization": "paper"}
    for k, sampler in enumerate(SAMPLERS):
        options = {**common, **sampler, "layers": len(sampler.get("fanouts", (0, 0)))}
        options["dtype"] = "float32" if k == 3 else "float64"
        if "fanouts" in sampler:
            for passes in (("dead-rows",), ("constant", "dead-rows", "overlap")):
                yield "directed", {**options, **MODELS[k % 3], "passes": passes}
        if k in (0, 5, 8):
            yield "undirected", {**options, **MODELS[k % 3], "passes": ("constant",)}
        yield ("one way", "undirected", "directed")[k % 3], {**options, **MODELS[(k + 1) % 3]}


def vertex_data() -> VertexData:
    """As of the worlds, and more vertices train."""
    mask = np.random.default_rng(8).random(N) < 0.6
    return replace(worlds.data(), train_mask=mask, val_mask=None)


def save_plan(path, data=None, name="directed", **provenance):
    plan = replace(worlds.plan(name, "row", PARTS), provenance=provenance)
    return runs.with_data(plan, vertex_data() if data is None else data, path)


TRAINING = int(vertex_data().train_mask.sum())
pytestmark = pytest.mark.usefixtures("opened_once")


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    names = ("undirected", "directed", "one way")
    return {name: save_plan(folder / f"{name}.h5", name=name) for name in names}


@pytest.fixture(scope="module")
def results(plans, ranks):
    """The cases of p ranks with their results; those of two ranks are of MPI."""

    @cache
    def found(p):
        answers = []
        for case in list(cases())[:: 1 if p == 3 else 5]:
            given = plans[case[0]], case[1]
            if p == 2:
                every = ranks.call(p, rank_tasks.trained, *given)
            else:
                every = run_ranks(p, lambda t, g=given: rank_tasks.trained(t, *g), 180)
            answers.append((*case, [result for result, _ in every]))
        return answers

    return found


def population(a) -> Population:
    graph = worlds.graph_of(a)
    data = vertex_data()
    return Population(N, graph.indptr, graph.indices, data.train_mask, data.clusters)


def batches_of(a, options):
    """What every step keeps: its blocks as dense factors, members and targets."""
    given = {name: options.get(name) for name in ("batch_size", "fanouts")}
    sampler = make_sampler(options["sampler"], N, **given, **options.get("sampler_options", {}))
    for number in range(EPOCHS * STEPS):
        batch = sampler.batch(population(a), SEED, number)
        blocks = [batch.block(k) for k in range(batch.num_blocks)]
        factors = []
        for block in blocks:
            kept = np.zeros((N, N))
            for k, i in enumerate(block.rows):
                columns = block.columns[block.ptr[k] : block.ptr[k + 1]]
                kept[i, columns] = scale(options, a[i], i, columns)
                if i in columns and options["sampler"] in ("neighbour", "edges"):
                    kept[i, i] = 1
            factors.append(kept)
        members = {int(v) for b in blocks for v in (*b.rows, *b.columns)}
        yield factors, members, blocks[-1].rows


def scale(options, row, i, columns):
    """What kept nonzeros off the diagonal are multiplied by, so that the expectation is right."""
    if options["sampler"] == "edges":
        return 1 / options["sampler_options"]["keep"]
    others = [j for j in columns if j != i]
    if options["sampler"] == "neighbour" and others:
        return (np.count_nonzero(row) - (row[i] != 0)) / len(others)
    return 1


def moved(factors, rank_of) -> tuple[int, int]:
    """Rows and messages of one exchange, by sets."""
    kept = list(zip(*np.nonzero(factors), strict=True))
    across = [(i, j) for i, j in kept if rank_of[i] != rank_of[j]]
    rows = {(int(j), int(rank_of[i])) for i, j in across}
    return len(rows), len({(rank_of[j], to) for j, to in rows})


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_training_equals_the_dense_reference(p, results):
    data = vertex_data()
    learnable = data.train_mask & (data.labels >= 0)
    for name, options, ranks in results(p):
        a = worlds.array(name)
        batches = [
            ([f * a for f in factors], np.array([v for v in targets if learnable[v]], int))
            for factors, _, targets in batches_of(a, options)
        ]
        batches = [(m * (options["layers"] // len(m)), chosen) for m, chosen in batches]
        result = ranks[0]
        losses, trained = reference.train_in_batches(
            batches,
            data.features,
            data.labels,
            reference.glorot_weights(result.dims, SEED),
            *(options[key] for key in ("lr", "optimizer", "activation")),
        )
        tolerance = 1e-5 if options["dtype"] == "float32" else 1e-10
        sizes = [len(chosen) for _, chosen in batches]
        close([step.loss for step in result.steps], losses, tolerance)
        assert [step.targets for step in result.steps] == sizes
        for got, expected in zip(result.weights.values(), trained, strict=True):
            close(got, expected, tolerance)
        for k, epoch in enumerate(result.epochs):
            at = slice(k * STEPS, (k + 1) * STEPS)
            total = np.dot(losses[at], sizes[at])
            assert epoch.loss == pytest.approx(total / max(sum(sizes[at]), 1), rel=10 * tolerance)
            assert list(epoch.accuracy) == (["train"] if sum(sizes[at]) else [])
        whole, _, logits = reference.train_dense(
            *(a, data.features, data.labels, data.train_mask),
            *(trained, 0, 1, "sgd", options["activation"]),
        )
        close(result.final.loss, whole[-1], tolerance)
        hits = logits.argmax(axis=1) == data.labels
        test = data.test_mask & (data.labels >= 0)
        assert result.final.accuracy["test"] == pytest.approx(hits[test].mean())
        for other in ranks[1:]:  # replicated means bit for bit
            assert other.steps == result.steps
            for name, w in other.weights.items():
                np.testing.assert_array_equal(w, result.weights[name])


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_what_moves_is_what_the_batches_need(p, results):
    first_part = np.arange(p + 1) * PARTS // p  # contiguous blocks of parts are merged
    rank_of = np.searchsorted(first_part, OWNER, side="right") - 1
    some = 0
    for name, options, ranks in results(p):
        result = ranks[0]
        widths = [x + y for x, y in pairwise(result.dims)]
        a = worlds.array(name)
        for (factors, members, _), step in zip(batches_of(a, options), result.steps, strict=True):
            figures = [moved(f, rank_of) for f in factors]
            assert step.volume == sum(rows for rows, _ in figures)
            assert step.messages == sum(messages for _, messages in figures)
            assert step.vertices == len(members)
            figures *= len(widths) // len(figures)
            at_hand = "constant" in options["passes"]  # then the first layer sends nothing
            exchanged = list(zip(figures, widths, strict=True))[at_hand:]
            assert step.words_sent == sum(rows * width for (rows, _), width in exchanged)
            some += step.volume
        for k, epoch in enumerate(result.epochs):
            taken = result.steps[k * STEPS : (k + 1) * STEPS]
            assert epoch.words_sent == sum(step.words_sent for step in taken)
            assert epoch.volume_per_step == np.mean([step.volume for step in taken])
            if len(factors) == 1 and not options["passes"]:
                messages = 2 * (len(result.dims) - 1) * sum(step.messages for step in taken)
                assert epoch.messages_sent == messages
        if options.get("batch_size") == N:
            assert {step.volume for step in result.steps} == {reference.volume(a, rank_of)}
        assert [step.number for step in result.steps] == list(range(EPOCHS * STEPS))
    assert (some > 0) == (p > 1)


def few_steps(plans, p, **options) -> TrainResult:
    """Of the directed graph."""
    common = {"layers": 2, "hidden": 4, "epochs": EPOCHS, "steps": STEPS, "dtype": "float64"}
    common |= {"optimizer": "sgd", "lr": 0.1, "seed": SEED, "threads": 1}
    return runs.trained(plans["directed"], TrainOptions(**common | options), p)[0]


def same_training(one, other) -> None:
    losses = [[step.loss for step in result.steps] for result in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    for name, w in other.weights.items():
        np.testing.assert_allclose(one.weights[name], w, rtol=0, atol=1e-12)


AT_HAND = [
    ({"model": "gcn", "dropout": 0.4}, 4),
    ({"model": "sage", "residual": True, "norm": "layer"}, -1),
    ({"model": "sage", "residual": True, "norm": "batch"}, 0),
    ({"model": "sage", "aggregator": "max", "input_dropout": 0.2}, 4),
    ({"model": "gat", "attention_dropout": 0.3, "recompute": True}, 4),
    ({"model": "gin", "recompute": True}, -1),
]


@some(lambda case, s: s == case[1], case=AT_HAND, s=(0, 2, 4))  # -1: `long` alone
def test_features_at_hand_and_rows_that_no_layer_reads_change_words_only(case, s, plans):
    """The last layer computes the targets, and few rows beside them: the words stay."""
    (model, _), sampler, found = case, SAMPLERS[s], []
    for passes, room in (
        (("order",), None),
        (("order", "constant"), 100),
        (("order", "constant", "dead-rows"), 100),
        (PASSES, 0),
    ):
        chosen = {**model, **sampler, "passes": passes, "feature_cache": room, "epochs": 1}
        found.append(few_steps(plans, 3, **chosen))
    plain, at_hand, live, no_room = found
    for other in (at_hand, live, no_room):
        same_training(other, plain)
    words = [[step.words_sent for step in result.steps] for result in found]
    assert sum(words[1]) < sum(words[0])
    assert words[1] == words[2]
    assert words[0] == words[3]
    assert "constant" not in at_hand.passes_off
    dead = sampler["sampler"] == "neighbour" and model.get("norm") != "batch"
    for result in (live, no_room):
        assert ("dead-rows" in result.passes_off) == (not dead)
    assert no_room.passes_off["constant"].startswith("features of halo rows take up to 0.0 MiB")


@pytest.mark.parametrize(("cores", "s"), [([1] * 3, 4), ([2] * 3, 4), ([1, 2, 1], 4), ([1] * 3, 0)])
def test_ranks_without_a_spare_core_try_both_ways_of_drawing_and_keep_one(
    cores, s, plans, monkeypatch
):
    monkeypatch.setattr(LocalTransport, "cores_per_rank", lambda self: cores[self.rank])
    steps, without = TURN * TURNS // 2 + 1, tuple(name for name in PASSES if name != "overlap")
    chosen, tries = {"model": "sage", "steps": steps, **SAMPLERS[s]}, max(cores) == 1
    tried, plain = (few_steps(plans, 3, passes=passes, **chosen) for passes in (PASSES, without))
    same_training(tried, plain)
    assert [step.words_sent for step in tried.steps] == [step.words_sent for step in plain.steps]
    assert tried.drawing.startswith(("beside steps: ", "between steps: ") if tries else "")
    assert (f"\ndrawing happens {tried.drawing}" in step_line(tried)) == tries
    assert plain.drawing == ""
    few = few_steps(plans, 3, model="sage", steps=3, draw="owners", epochs=12, **SAMPLERS[4])
    assert few.drawing == ""  # owners draw, and an epoch has fewer steps than a turn


@pytest.mark.parametrize("way", ["beside", "between"])
def test_the_way_of_drawing_changes_no_bit(way, plans, monkeypatch):
    monkeypatch.setattr(LocalTransport, "cores_per_rank", lambda self: 1)
    medians = defaultdict(lambda: [1, 2] if way == "between" else [2, 1])  # by rank
    monkeypatch.setattr(mini_batches, "median", lambda _: medians[get_ident()].pop(0))
    chosen = {"model": "gcn", "steps": TURN * 6, **SAMPLERS[0]}
    without = tuple(name for name in PASSES if name != "overlap")
    tried, plain = (few_steps(plans, 2, passes=passes, **chosen) for passes in (PASSES, without))
    assert tried.drawing.startswith(way)
    assert [step.loss for step in tried.steps] == [step.loss for step in plain.steps]


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_the_core_of_the_drawing_thread_changes_no_bit(model, tmp_path, monkeypatch):
    """torch's small products differ by the number of its threads: 28 rows, 16 and 7 columns do."""
    features = np.random.default_rng(0).normal(size=(400, 16))
    data = {"features": features, "labels": np.arange(400) % 7, "train_mask": np.ones(400, bool)}
    graph = load_dataset("geometric", num_vertices=400, seed=1).graph
    plancc.compile(graph, "block", 1, data=data).save(tmp_path / "plan.h5")
    chosen = {"sampler": "neighbour", "batch_size": 28, "fanouts": (5, 3), "steps": 20}
    monkeypatch.setattr(tall, "THREAD_WORK", 1)
    monkeypatch.setattr(dense, "LEAST_WORK", 1)
    losses = []
    for cores in (1, 2):
        monkeypatch.setattr(SingleTransport, "cores_per_rank", lambda self, cores=cores: cores)
        options = TrainOptions(model=model, hidden=16, epochs=1, threads=cores, **chosen)
        result = train(tmp_path / "plan.h5", options, SingleTransport())
        losses.append([step.loss for step in result.steps])
    assert losses[0] == losses[1]


OFTEN = ((2, 2, "gat"), (5, 4, "gcn"))


@some(lambda *case: case in OFTEN, kept=(1, 2, 5), s=(0, 2, 4), model=("gcn", "gat"))
def test_the_features_that_are_used_most_are_kept(model, s, kept, plans):
    """What steps still fetch, against counts of uses made from the dense blocks."""
    p, width, sampler = 3, vertex_data().features.shape[1], SAMPLERS[s]
    model = {"model": model, "input_dropout": 0.3 if model == "gat" else None}
    found = []
    for passes, rows in (("order",), 0), (("order", "constant"), N), (("order", "constant"), kept):
        chosen = {**model, **sampler, "passes": passes, "feature_cache": 8 * width * rows}
        found.append(few_steps(plans, p, **chosen))
    plain, whole, partly = found
    same_training(partly, plain)
    assert "constant" not in partly.passes_off

    rank_of = np.searchsorted(np.arange(p + 1) * PARTS // p, OWNER, side="right") - 1
    a = worlds.array("directed")
    uses = np.zeros((p, N), int)
    for factors, _, _ in batches_of(a, sampler):
        for rank in range(p):
            used = ((factors[0] != 0) & (a != 0))[rank_of == rank].any(axis=0)
            uses[rank] += used & (rank_of != rank)
    fetched = sum(int(np.sort(row)[: N - kept].sum()) for row in uses)
    assert 0 < fetched < uses.sum()
    words = [sum(step.words_sent for step in result.steps) for result in (whole, partly)]
    assert words[1] - words[0] == width * fetched


def test_the_sampler_that_the_plan_was_compiled_for(tmp_path):
    sampler = str(make_sampler("neighbour", N, batch_size=3, fanouts=(4, 2)))
    plan = save_plan(tmp_path / "plan.h5", sampler=sampler)

    def chosen(**options):
        return train(plan, TrainOptions(epochs=1, steps=1, **options), SingleTransport()).sampler

    assert chosen(sampler="neighbour") == sampler
    assert chosen(batch_size=5) == "neighbour batch_size=5 fanouts=4,2"
    assert chosen(sampler="uniform") == f"uniform batch_size={round(0.06 * N)}"
    whole = train(plan, TrainOptions(epochs=1), SingleTransport())
    assert (whole.sampler, whole.steps_per_epoch, whole.steps) == ("", 0, [])


ON_FULL_BATCH = (
    "the plan was made for mini-batches (neighbour batch_size=3 fanouts=4,2), but this run trains "
    "the full batch; for mini-batches give --sampler neighbour, for no warning --batch-size full"
)


@pytest.fixture(scope="module")
def for_batches(tmp_path_factory):
    """A plan that says which mini-batches it is for."""
    path = tmp_path_factory.mktemp("batches") / "plan.h5"
    sampler = str(make_sampler("neighbour", N, batch_size=3, fanouts=(4, 2)))
    return save_plan(path, sampler=sampler)


def test_a_full_batch_on_a_plan_for_mini_batches_is_told(for_batches):
    """By the command once, and by Python where it was called."""
    done = CliRunner().invoke(command, [str(for_batches), "--epochs", "1"])
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "mini-batches" in line]
    assert lines == [f"plancc-run: warning: {ON_FULL_BATCH}"]
    told = "trains the full batch; for mini-batches give `sampler` neighbour"
    for options, warned in (({}, 1), ({"batch_size": "full"}, 0), ({"sampler": "neighbour"}, 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plancc.train(for_batches, epochs=1, threads=1, **options)
        assert sum(told in str(each.message) for each in caught) == warned
        assert {each.filename for each in caught} <= {__file__}


def test_an_explicit_full_batch_is_the_full_batch(for_batches, bare, tmp_path):
    def trained(plan, **options):
        return train(plan, TrainOptions(seed=SEED, threads=1, **options), SingleTransport())

    options = TrainOptions(epochs=1, threads=1)
    one, two = run_ranks(2, lambda transport: train(for_batches, options, transport).remarks)
    assert sum("mini-batches" in each for each in one) == 1
    assert one == two
    told, silent = (trained(for_batches, epochs=2, batch_size=size) for size in (None, "full"))
    assert told.epochs[-1].loss == silent.epochs[-1].loss
    assert len(told.remarks) == len(silent.remarks) + 1
    assert not any("mini-batches" in each for each in trained(bare, epochs=1).remarks)
    folder = tmp_path / "checkpoints"
    trained(for_batches, epochs=1, checkpoint=folder)
    resumed = trained(for_batches, epochs=2, checkpoint=folder, resume=True, batch_size="full")
    assert resumed.epochs[-1].loss == told.epochs[-1].loss


def test_a_slice_alone_does_for_samplers_that_need_no_more():
    a = worlds.array("directed")
    header, [part] = reference.make_parts(a, np.zeros(N, int), 1, vertex_data())
    options = TrainOptions(batch_size=13, epochs=1, seed=SEED)
    result = train((header, part), options, SingleTransport())
    assert result.steps_per_epoch == len(result.steps) == 4  # 41 vertices by 13
    with pytest.raises(InputError, match="'walk' needs pattern"):
        train((header, part), replace(options, sampler="walk"), SingleTransport())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--batch-size all", "--batch-size 'all': give a number of vertices, or full"),
        ("--batch-size full --sampler walk", "--batch-size full: excludes --sampler"),
        ("--sampler train", "no train_mask; sampler 'train' needs this data (compile with --data)"),
        ("--fanouts 2,x", "--fanouts '2,x': give whole numbers"),
        ("--steps 3", "steps 3: only mini-batches have steps; give --sampler or --batch-size"),
        ("--steps 3 --batch-size full", "have steps; --batch-size full leaves them out"),
        ("--sampler uniform --draw owners", "owners: only samplers neighbour, walk let "),
        ("--draw owners", "--draw owners: only mini-batches are drawn; give --sampler"),
        ("--batch-size 4 --seed 99999999999999999999", "seed 99999999999999999999"),
    ],
)
def test_wrong_options(arguments, sentence, bare, tmp_path):
    done = alone(bare, *arguments.split(), "--json", tmp_path / "run.json")
    assert done.returncode == 2, done.stderr
    [said] = done.stderr.splitlines()
    assert sentence in said
    assert not done.stdout
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A plan without vertex data."""
    path = tmp_path_factory.mktemp("bare") / "bare.h5"
    return save_plan(path, VertexData())


def test_a_further_option_reaches_the_sampler(bare):
    options = TrainOptions(sampler_options={"least_degree": 3}, threads=1)
    with pytest.raises(InputError, match="sampler 'uniform' has no option `least_degree`"):
        run_ranks(1, lambda transport: train(bare, options, transport))


def test_what_is_printed(bare, tmp_path):
    target = tmp_path / "run.json"
    arguments = ["--batch-size", "12", "--steps", "3", "--epochs", "2", "--json", target]
    done = CliRunner().invoke(command, [str(bare), *map(str, arguments)])
    assert done.exit_code == 0, done.stderr
    assert "mini-batches: uniform, batch size 12, 3 steps per epoch\n" in done.stdout
    assert "volume/step" in done.stdout
    note = 'between evaluations "train" is the mean over the epoch\'s batches'
    assert note in done.stdout
    assert note not in CliRunner().invoke(command, [str(bare), "--epochs", "2"]).stdout
    found = json.loads(target.read_text())
    assert found["sampler"] == "uniform batch_size=12"
    assert [step["vertices"] for step in found["steps"]] == [12] * 6
    assert found["options"]["batch_size"] == 12
    assert "a step takes " in done.stdout


@pytest.mark.parametrize(("p", "draw"), [(1, "everywhere"), (3, "everywhere"), (3, "owners")])
def test_the_parts_of_a_step_add_up_to_it(p, draw, plans, tmp_path, monkeypatch):
    cores = 1 + (p == 1)  # then a thread makes batches
    monkeypatch.setattr(Transport, "cores_per_rank", lambda self: cores)
    log = tmp_path / "run.jsonl"
    result = few_steps(plans, p, sampler="neighbour", fanouts=(2, 2), draw=draw, log=log)
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    for epoch, line in zip(result.epochs, logged, strict=True):
        seconds = epoch.step_seconds
        assert seconds == line["step_seconds"]
        assert list(seconds) == list(STEP)
        assert min(seconds.values()) >= 0
        assert sum(seconds.values()) == pytest.approx(epoch.seconds_mean["total"] / STEPS)
        assert min(seconds["drawing"], seconds["dense"]) > 0
        assert (seconds["masks"] > 0) == (seconds["features"] > 0) == (p > 1)
        assert (seconds["waiting"] > 0) == (p > 1)
        waits = epoch.seconds_mean["wait"] + epoch.seconds_mean["allreduce"]
        assert STEPS * (seconds["waiting"] + seconds["reduce"]) == pytest.approx(waits)
    assert result.final.step_seconds is None
    drawn = np.mean([step.words_drawn for step in result.steps])
    assert (f" ({drawn:,.1f} words), features" in step_line(result)) == (draw == "owners")


@pytest.mark.parametrize(
    ("words", "available", "what"),
    [("--sampler train", TRAINING, "training vertices"), ("--sampler uniform", N, "vertices")],
)
def test_a_batch_larger_than_its_source(words, available, what, plans, tmp_path):
    """One rank of two says so, once; the run is that of batches of all that there is."""
    asked, found = 10 * N, []
    for size in (available, asked):
        target = tmp_path / f"{size}.json"
        words_of_size = [*words.split(), "--batch-size", size, "--epochs", 2, "--json", target]
        done = alone(plans["directed"], *words_of_size, "--ranks", 2, "--threads", 1)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(target.read_text()))
    remark = f"--batch-size {asked}: there are only {available} {what}, so batches are of"
    assert done.stderr.count(remark) == 1
    whole, more = found
    remark = remark.replace("--batch-size", "`batch_size`")
    assert sum(remark in each for each in more["remarks"]) == 1
    assert not any("batch_size" in each for each in whole["remarks"])
    assert more["sampler"] == whole["sampler"] == f"{words.split()[1]} batch_size={available}"
    assert more["steps_per_epoch"] == 1
    assert [e["loss"] for e in more["epochs"]] == [e["loss"] for e in whole["epochs"]]


def test_a_diverging_step(bare):
    done = CliRunner().invoke(command, [str(bare), "--batch-size", "20", "--lr", "1e38"])
    assert done.exit_code == 1
    assert "loss of step" in done.stderr


@pytest.mark.parametrize("coefficients", ["sum", "mean", "closed-mean"])
def test_sums_over_a_batch_are_multiplied_and_means_are_not(coefficients):
    """Row 0 keeps the edges to 1 and 2 of four, row 1 itself (added by normalising) and row 2."""
    _, [part] = reference.make_parts(np.array([[0, 5, 6], [0, 7, 8], [9, 0, 0]]), [0] * 3, 1)
    factor = np.array([2.0, 2.0, 1.0, 3.0, 4.0])
    block = Block.of_part(part, True, factor).with_coefficients(coefficients)
    dense = csr_matrix((block.value, block.column, block.row_ptr), (3, 3)).toarray()
    expected = {
        "sum": [[0, 2, 2], [0, 0, 3], [4, 0, 0]],
        "mean": [[0, 1 / 2, 1 / 2], [0, 0, 1], [1, 0, 0]],
        "closed-mean": [[1 / 3] * 3, [0, 1 / 2, 1 / 2], [1 / 2, 0, 1 / 2]],
    }
    np.testing.assert_allclose(dense, expected[coefficients])


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize(
    ("k", "draw"), [(0, "auto"), (4, "owners"), (5, "everywhere"), (6, "auto"), (8, "auto")]
)
def test_batches_of_a_loop_of_ones_own(p, k, draw, plans):
    """Outputs of layers on `graph.batches`, against the dense blocks of the same batches."""
    sampler = dict(SAMPLERS[k])
    layers = len(sampler.get("fanouts", (0, 0)))
    a, name = worlds.array("directed"), sampler.pop("sampler")
    others = sampler.pop("sampler_options", {})
    random = np.random.default_rng(3)
    weights = [random.standard_normal((worlds.WIDTH, worlds.WIDTH)) for _ in range(layers)]

    def work(transport):
        graph = plancc_runtime.open(plans["directed"], transport, torch.float64)
        found = []
        for batch in graph.batches(
            name, layers=layers, seed=SEED, epochs=EPOCHS, draw=draw, **sampler, **others
        ):
            x = graph.features[batch.rows]
            for of_layer, weight in zip(batch.graphs, weights, strict=True):
                x = of_layer.product(x) @ torch.tensor(weight)
            rows = graph.vertices[batch.rows.numpy()][batch.targets.numpy()]
            found.append((rows, x[batch.targets].numpy()))
        return found

    ranks = runs.on_ranks(p, work)
    batches = list(batches_of(a, SAMPLERS[k]))
    assert len(ranks[0]) >= EPOCHS
    for number, (factors, _, targets) in enumerate(batches[: len(ranks[0])]):
        blocks = [f * a for f in factors] * (layers // len(factors))
        h = vertex_data().features.astype(np.float64)
        for block, weight in zip(blocks, weights, strict=True):
            h = block @ h @ weight
        rows = np.concatenate([each[number][0] for each in ranks])
        assert sorted(rows.tolist()) == sorted(int(v) for v in targets)
        outputs = np.concatenate([each[number][1] for each in ranks])
        np.testing.assert_allclose(outputs, h[rows], rtol=1e-10, atol=1e-10)


def test_batches_that_cannot_be(plans, tmp_path):
    graph = plancc_runtime.open(plans["directed"], SingleTransport())
    for words, says in (
        ({"sampler": "neighbour", "fanouts": (3,)}, "has 1 number, but the model has 2 layers"),
        ({"draw": "owners"}, "`draw` owners: only samplers neighbour, walk let"),
    ):
        with pytest.raises(InputError, match=says):
            next(graph.batches(**words))
    worlds.plan("undirected", "edge", 3).save(tmp_path / "edges.h5")
    edges = plancc_runtime.open(tmp_path / "edges.h5", SingleTransport())
    with pytest.raises(InputError, match="mini-batches need a row plan; this plan has layout edge"):
        next(edges.batches())


@pytest.mark.parametrize(
    ("name", "options"),
    [("neighbour", {"fanouts": (2, 1)}), ("uniform", {}), ("walk", {"walk_length": 2})],
)
def test_a_batch_makes_no_array_over_all_vertices(name, options):
    n = 200_000
    vertex = np.arange(n)
    rows, columns = np.tile(vertex, 2), np.concatenate([(vertex + 1) % n, (vertex - 1) % n])
    ring = worlds.graph_of(csr_matrix((np.ones(2 * n), (rows, columns)), (n, n)))
    plan = lower(ring, Owners(np.zeros(n, np.int32)), 1, normalization="none", self_loops=False)
    block, population = Block.of_part(plan.part(0), False), population_of(plan)
    mask = BatchMask(block, SingleTransport())
    sampler = make_sampler(name, n, batch_size=9, **options)
    mask.local(sampler.batch(population, 0, 0))  # what is kept from batch to batch
    tracemalloc.start()
    local = mask.local(sampler.batch(population, 0, 1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(local.rows) >= 3
    assert peak < n / 2  # bytes: no mask of all vertices
