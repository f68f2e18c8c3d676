"""Training by relation: losses on ranks, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import turns
from test_typed import COUNTS, WRITES, relations

import plancc
from plancc.errors import InputError
from plancc.plan.reader import PlanFile
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import read_tables
from plancc_cli.options import convolution_of
from plancc_runtime.options import PASSES, TrainOptions
from plancc_runtime.tasks.types import with_weights
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

WIDTHS = {"author": 4, "paper": 6, "venue": 3}
MODELS = {
    **{"rgcn": {"model": "rgcn"}, "bases": {"model": "rgcn", "model_options": {"bases": 2}}},
    **{"sum": {"model": "rgcn", "aggregator": "sum"}, "sage": {"model": "sage"}},
    **{"gat": {"model": "gat", "heads": 2}, "gcn": {"model": "gcn"}},
}


def data(labels: str = "classes", target: str = "paper") -> dict:
    random = np.random.default_rng(0)
    found = {
        name: {"features": random.standard_normal((count, WIDTHS[name])).astype(np.float32)}
        for name, count in COUNTS.items()
    }
    count = COUNTS[target]
    found[target]["labels"] = {
        "classes": random.integers(0, 3, count),
        "several": random.random((count, 3)) < 0.4,
        "numbers": random.standard_normal((count, 2)).astype(np.float32),
    }[labels]
    return found


BETWEEN = [
    {},
    {"norm": "batch", "scale_features": "columns"},
    {"norm": "layer", "residual": True},
    {"residual": True, "scale_features": "columns", "dropout": 0.3},
]


@turns(
    way=tuple(zip(MODELS, 2 * BETWEEN, strict=False)),
    labels=("classes", "several", "numbers"),
    target=("paper", "venue", "author", "paper", "author"),  # not in step with the labels
    passes=(PASSES, ()),
    split=(None, None, None, (0.5, 0.3, 0.2)),
    parallel=(False, False, True, True),
    ranks=(3, 3, 3, 4),
)
def test_ranks_train_alike_and_send_the_words_that_are_planned(
    tmp_path, way, labels, target, passes, split, parallel, ranks
):
    model, between = way
    path, graph = tmp_path / "plan.h5", relations()
    if parallel:  # several relations of the same two types, one of the same edges
        graph["paper", "like", "paper"] = sp.random(60, 60, 0.07, "csr", rng=9)
        graph["paper", "quote", "paper"] = graph["paper", "cites", "paper"]
    plancc.compile(graph, "rp", 4, data=data(labels, target), seed=1).save(path)
    options = TrainOptions(
        **MODELS[model],
        hidden=8,
        epochs=2,
        lr=0.1,
        dtype="float64",
        passes=passes,
        split=split,
        eval_every=1,
        **between,
    )
    alone = train(path, options, SingleTransport())
    assert "dropout" in between or alone.epochs[-1].loss < alone.epochs[0].loss
    found = run_ranks(ranks, lambda transport: train(path, options, transport), 180)[0]
    for mine, other in zip(found.epochs, alone.epochs, strict=True):
        assert mine.loss == pytest.approx(other.loss, abs=1e-10)
    assert found.figures.planned == found.epochs[-1].words_sent > 0
    assert found.split_sizes == alone.split_sizes


@pytest.fixture(scope="module")
def few_labels(tmp_path_factory):
    """A plan of 4 parts, with a label for every third paper alone."""
    path, held = tmp_path_factory.mktemp("typed") / "plan.h5", data()
    held["paper"]["labels"][:40] = -1
    plancc.compile(relations(), "hp", 4, data=held, seed=1).save(path)
    return path


ORDER, CONSTANT, DEAD = (PASSES[:count] for count in (1, 2, 3))


@turns(
    way=tuple(zip(2 * tuple(MODELS), 3 * ((), DEAD, ORDER, CONSTANT), strict=True)),
    size=((3, 4), (1, 4), (3, 10), (3, 10), (4, 10)),
)
def test_predicted_words_are_those_that_ranks_count(few_labels, way, size):
    (model, passes), (ranks, hidden) = way, size
    options = TrainOptions(**MODELS[model], hidden=hidden, epochs=1, passes=passes, eval_every=0)
    found = run_ranks(ranks, lambda transport: train(few_labels, options, transport), 180)[0]
    given = options.conv_options(("aggregator", "heads", "bases"))
    network = convolution_of(options.model, given, True)
    dims, machine = (max(WIDTHS.values()), hidden, 3), find_machine("cpu-cluster")
    with PlanFile(few_labels) as file:
        network = with_weights(network, file, dims, None)
    predictor = Predictor(dims, machine, passes, convolution=network)
    live = 2 if "dead-rows" in predictor.passes else 0
    epoch = predictor.epoch(read_tables(few_labels, ranks, live_layers=live))
    assert epoch.words == found.epochs[0].words_sent
    assert epoch.messages == found.epochs[0].messages_sent
    assert epoch.words_reduced == ranks * found.epochs[0].words_reduced  # of all ranks


def test_what_a_plan_with_types_does_not_offer_is_one_sentence(tmp_path):
    path, edge, square = (tmp_path / name for name in ("plan.h5", "edge.h5", "square.h5"))
    held = data()
    plancc.compile(relations(), "block", 2, data=held).save(path)
    plancc.compile(relations(), "medium-grain", 2, data=held, seed=1).save(edge)
    plancc.compile(sp.eye_array(4), "block", 1).save(square)
    bare, twice, none, lone = (
        tmp_path / f"{name}.h5" for name in ("bare", "twice", "none", "lone")
    )
    missing = {name: each for name, each in held.items() if name != "venue"}
    plancc.compile(relations(), "block", 1, data=missing).save(bare)
    both = held | {"venue": held["venue"] | {"labels": np.zeros(9, np.int32)}}
    plancc.compile(relations(), "block", 1, data=both).save(twice)
    plancc.compile(relations(), "block", 1).save(none)
    pair = {name: each for name, each in data(target="author").items() if name != "venue"}
    plancc.compile({WRITES: relations()[WRITES]}, "block", 1, data=pair).save(lone)
    for plan, options, words in (
        (
            path,
            {"model": "gin"},
            "`model` gin: cannot add rows of 4 and of 6 columns; give all types",
        ),
        (path, {"model": "sage", "aggregator": "max"}, "`model` sage: .*another `aggregator`"),
        (path, {"model": "sage", "aggregator": "gcn"}, "`model` sage: .*another `aggregator`"),
        (path, {"model": "rgcn", "aggregator": "max"}, "aggregator of relations"),
        (path, {"model": "gat", "attention_dropout": 0.5}, "attention_dropout: needs a graph of"),
        (path, {"model": "rgcn", "recompute": True}, "^`recompute` is only for plans of one"),
        (path, {"model": "rgcn", "target": "editor"}, "`target` editor: .* has only the types "),
        (path, {"model": "rgcn", "target": "venue"}, "`target` venue: .* has only labels of paper"),
        (edge, {"model": "rgcn"}, "needs a row plan, but .* .edge"),
        (square, {"model": "rgcn"}, "`model` rgcn: needs a plan with types"),
        (square, {"target": "paper"}, "`target` paper needs a plan with vertex"),
        (twice, {"model": "rgcn"}, "has labels of paper, venue; give `target`"),
        (none, {"model": "rgcn"}, "has no labels; compile the graph with some, or give `target`"),
        (lone, {"model": "gat"}, "`model` gat: no relation leads to author; choose rgcn or sage"),
    ):
        with pytest.raises(InputError, match=words):
            train(plan, TrainOptions(**options), SingleTransport())
    # no relation leads from venues to papers, so that they need no features
    assert train(bare, TrainOptions(model="rgcn", epochs=1), SingleTransport()).epochs
    held["author"].pop("features")
    plancc.compile(relations(), "block", 1, data=held).save(bare)
    with pytest.raises(InputError, match=r"'author' has no features, .* of type 'paper' need them"):
        train(bare, TrainOptions(model="sage"), SingleTransport())
    random = train(none, TrainOptions(model="gat", target="venue", epochs=2), SingleTransport())
    assert random.random_labels
    assert random.split_sizes["train"] == COUNTS["venue"]
