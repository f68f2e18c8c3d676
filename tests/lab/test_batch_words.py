"""Predicted steps on mini-batches: their words and messages are those that the runtime counts."""

from dataclasses import replace

import numpy as np
import pytest
import worlds
from cases import long, turns

from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.convolutions import CONVOLUTIONS, Convolution
from plancc.plan.lowering import lower
from plancc.plan.population import population_of
from plancc.plan.reader import PlanFile
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, read_tables
from plancc.sampling import chosen_sampler
from plancc.sampling import draw as draw_batch
from plancc_cli import options as cli_options
from plancc_lab.simulate.batches import predict_batches
from plancc_runtime.nn import MODELS
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N, PARTS, DIMS, STEPS, SEED = 300, 4, (24, 6, 4), 3, 5
MACHINE = find_machine("cpu-cluster")
SAMPLERS = {
    "uniform": {"batch_size": 60},
    "train": {"batch_size": 50},
    "neighbour": {"batch_size": 12, "fanouts": (3, 2)},
    "walk": {"batch_size": 40, "walk_length": 3},
    "cluster": {"batch_size": 40},
    "edges": {"keep": 0.3},
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan of 4 parts, more than 32 rows in some messages, without some of the diagonal."""
    random = np.random.default_rng(4)
    array = (random.random((N, N)) < 0.15) * random.random((N, N))
    np.fill_diagonal(array, random.random(N) < 0.5)
    owners = Owners(random.permutation(np.arange(N) % PARTS).astype(np.int32))
    graph = worlds.graph_of(array.astype(np.float32))
    plan = lower(graph, owners, PARTS, normalization="none", self_loops=False)
    data = VertexData(
        features=random.standard_normal((N, DIMS[0])).astype(np.float32),
        labels=random.integers(0, DIMS[-1], N).astype(np.int32),
        train_mask=random.random(N) < 0.6,
        clusters=random.integers(0, 25, N).astype(np.int32),
    )
    path = tmp_path_factory.mktemp("plans") / "plan.h5"
    replace(plan, vertex_data=data.take(plan.global_id)).save(path)
    return path


def predicted(plan, sampler, *, draw="everywhere", number=STEPS, ranks=None, keep=None, **changes):
    predictor = replace(Predictor(DIMS, MACHINE), **changes)
    options = SAMPLERS[sampler] if keep is None else {"keep": keep}
    return predict_batches(
        *(plan, predictor, range(number), lambda *_: draw == "owners"),
        **{"num_ranks": ranks, "sampler": sampler, "seed": SEED, **options},
    )


PASSES = [(), ("order",), ("order", "constant"), ("order", "constant", "dead-rows")]


@turns(sampler=[*SAMPLERS], ranks=[PARTS, 1, 3], model=["gcn", "sage", "gin", "gat"], passes=PASSES)
def test_words_and_messages_are_those_that_training_counts(plan, sampler, ranks, model, passes):
    given = dict(SAMPLERS[sampler])
    sizes = {name: given.pop(name) for name in ("batch_size", "fanouts") if name in given}
    for draw in ("everywhere", "owners")[: 1 + (sampler in ("neighbour", "walk"))]:
        options = TrainOptions(
            **{"sampler": sampler, "draw": draw, "steps": STEPS, "seed": SEED, "epochs": 1},
            **{"model": model, "hidden": DIMS[1], "passes": passes, "threads": 1},
            **{"eval_every": 0, "dtype": "float64", **sizes, "sampler_options": given},
        )
        run = run_ranks(ranks, lambda t, asked=options: train(plan, asked, t), 180)[0]
        names = {*MODELS[model].option_names()} - {"order"}
        convolution = cli_options.convolution_of(model, options.conv_options(names))
        found = predicted(
            *(plan, sampler),
            **{"draw": draw, "ranks": ranks, "passes": passes, "convolution": convolution},
        )
        figures, [epoch] = found.as_dict()["batches"], run.epochs
        words = [step.words_sent + step.words_drawn for step in run.steps]
        assert figures["per_batch"]["words"] == words
        assert sum(figures["per_batch"]["messages"]) == epoch.messages_sent
        assert figures["words_drawn"]["mean"] * STEPS == sum(s.words_drawn for s in run.steps)
        assert (sum(words) > 0) == (ranks > 1)
        reduced = sum(int(each.counts.words_reduced[0]) for each in found.batches)
        of_epoch = 5 + (draw == "owners")  # what every step is, told at the end
        assert reduced == (epoch.words_reduced - of_epoch * STEPS) * (ranks > 1)


@turns(sampler=["uniform", "train"], model=["gcn", "sage"])
def test_the_mean_of_batches_is_the_exact_expectation(plan, sampler, model):
    found = predicted(plan, sampler, number=100, convolution=Convolution(CONVOLUTIONS[model]()))
    words = found.estimates["words"]
    assert abs(words.mean - found.expected_words) < 2 * (words.high - words.mean)
    assert found.words == round(words.mean) > 0


@pytest.mark.parametrize("sampler", ["neighbour", "walk", "cluster"])
def test_no_expectation_is_known_for_others(plan, sampler):
    found = predicted(plan, sampler, number=1)
    assert found.expected_words is None
    assert found.estimates["words"].low is None


def test_the_mean_step_is_that_of_its_batches(plan):
    found = predicted(plan, "walk", number=5)
    assert found.seconds == pytest.approx(np.mean([each.seconds for each in found.batches]))
    assert found.mean_seconds == pytest.approx(np.mean([e.mean_seconds for e in found.batches]))
    assert found.rank_seconds == pytest.approx(
        np.mean([each.rank_seconds for each in found.batches], axis=0)
    )
    assert 0 < found.bound < found.seconds


def test_rows_that_no_layer_reads_take_time_only(plan):
    idle = predicted(plan, "neighbour", draw="owners", passes=("order", "constant"))
    less = predicted(plan, "neighbour", draw="owners", passes=("order", "constant", "dead-rows"))
    assert less.seconds < idle.seconds
    assert [each.words for each in less.batches] == [each.words for each in idle.batches]


@pytest.mark.parametrize(
    ("sampler", "draw", "ranks"),
    [
        *(("neighbour", "owners", ranks) for ranks in (1, PARTS)),
        *(pytest.param("neighbour", "everywhere", ranks, marks=long) for ranks in (1, PARTS)),
        ("uniform", "everywhere", PARTS),
    ],
)
def test_drawing_takes_the_rows_and_nonzeros_of_a_rank(plan, sampler, draw, ranks):
    """They are counted here one by one, by prices that differ."""
    crowded = replace(MACHINE.node, ranks=ranks, cores=ranks)
    prices = replace(MACHINE.compute, drawn_block=1.0, drawn_row=1e-3, drawn_nonzero=1e-6)
    machine = replace(MACHINE, node=crowded, compute=prices)
    found = predicted(plan, sampler, draw=draw, number=1, ranks=ranks, machine=machine)
    with PlanFile(plan) as file:
        whole = file.read_plan()
    population, owner = population_of(whole), whole.owner() * ranks // PARTS
    chosen = chosen_sampler("", N, None, sampler, **SAMPLERS[sampler])
    batch = draw_batch(chosen, population, SEED, 0)
    size = np.diff(population.pattern[0])
    rows, nonzeros = np.zeros((2, ranks))
    for number in range(batch.num_blocks):
        block = batch.block(number)
        moved = set()
        for row, *ends in zip(block.rows, block.ptr, block.ptr[1:], strict=False):
            read = size[row] if sampler == "uniform" else ends[1] - ends[0]
            rows[owner[row]] += 1
            nonzeros[owner[row]] += read
            if (sampler, draw) == ("neighbour", "everywhere"):
                rows[np.arange(ranks) != owner[row]] += read
            moved |= {(j, owner[row]) for j in block.columns[slice(*ends)]}
        for column, part in moved:
            if owner[column] != part:
                rows[[owner[column], part]] += 1
    blocks = batch.num_blocks * (1 if (draw, ranks) == ("owners", 1) else 2)
    assert found.of_rank["draw"] == pytest.approx(blocks + 1e-3 * rows + 1e-6 * nonzeros)
    # beside the step where ranks draw alone and a node has two cores for each
    spare = replace(machine, node=replace(crowded, cores=2 * ranks))
    beside = predicted(plan, sampler, draw=draw, number=1, ranks=ranks, machine=spare)
    others = found.rank_seconds - found.of_rank["draw"]
    hidden = others if draw == "everywhere" or ranks == 1 else 0 * others
    assert beside.of_rank["draw"] == pytest.approx(found.of_rank["draw"] - hidden)
    quick = replace(prices, drawn_block=1e-12, drawn_row=1e-12, drawn_nonzero=1e-12)
    none = predicted(
        plan,
        sampler,
        draw="everywhere",
        number=1,
        ranks=ranks,
        machine=replace(spare, compute=quick),
    )
    assert not none.of_rank["draw"].any()


def test_a_batch_of_all_vertices_is_the_epoch(plan):
    """But for the number of targets, the features that are taken and products made anew."""
    exact = Predictor(DIMS, MACHINE, ("order",)).epoch(read_tables(plan))
    step = predicted(plan, "edges", number=1, passes=("order",), keep=1.0)
    assert (step.words, step.messages) == (exact.words, exact.messages)
    assert [each for each in step.steps if each.direction != "batch"] == exact.steps


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"number": 0}, "`batches` 0: give 1 to 100,000"),
        ({"approximation": Approximation(boundary_sampling=0.5)}, "with `boundary_sampling`"),
        ({"dims": (24, 6, 6, 4)}, "`fanouts` 3,2 has 2 numbers, but the model has 3 layers"),
        ({"ranks": 9}, "cannot run on 9 ranks"),
    ],
)
def test_steps_that_are_not_predicted(plan, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        predicted(plan, "neighbour", **changes)
