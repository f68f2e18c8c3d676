"""Learning links against a dense float64 network in one process, and scores against formulas."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import cases
import numpy as np
import pytest
import reference
import runs
import torch
import worlds
from runs import on_ranks
from sklearn.metrics import average_precision_score, roc_auc_score
from torch.nn import functional

from plancc.errors import InputError
from plancc.graph.links import random_links, read_links
from plancc.plan.lowering import with_links
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import LinkTask, read_tables
from plancc.sampling import counter
from plancc.sampling.negatives import NEGATIVES_KEY, drawn_negatives
from plancc_runtime import curves
from plancc_runtime.metrics import HITS
from plancc_runtime.options import TrainOptions

HIDDEN, SEED, PARTS = 6, 3, 4
FOLDER = TemporaryDirectory()


@cache
def links(per_link):
    graph = worlds.graph("undirected")
    found = random_links(graph, (0.2, 0.2), SEED)
    if not per_link:
        return found
    pairs = {split: found.pairs[split] for split in ("train", "val", "test")}
    random = np.random.default_rng(4)
    for split in ("val", "test"):
        shape = pairs[split].shape[1], per_link
        pairs[f"{split}_target_negative"] = random.integers(worlds.N, size=shape)
    return read_links(pairs, graph)


@cache
def file_of(layout="row", per_link=0):
    plan = worlds.plan("undirected", layout, PARTS)
    found = links(per_link)
    plan = with_links(plan, *found.columns(), found.per_link)
    path = Path(FOLDER.name, f"{layout}-{per_link}.h5")
    plan.save(path)
    return path


def run(ranks, layout="row", per_link=0, **options):
    chosen = TrainOptions(**{"hidden": HIDDEN, "seed": SEED, "dtype": "float64", **options})
    path = file_of(layout, per_link) if isinstance(layout, str) else layout
    return runs.trained(path, chosen, ranks)[0]


def negatives(epoch, total):
    """One after the other, as the module says."""
    key = counter.key_of(SEED, epoch, NEGATIVES_KEY)
    below = [(int(counter.bits(key, i)) >> 32) * worlds.N >> 32 for i in range(total + 1)]
    sources = (below[-1] + np.arange(total)) % worlds.N
    return np.stack([sources, np.array(below[:-1], np.int64)])


def attention(matrix, w, x, last):
    closed = (matrix != 0) | torch.eye(len(matrix), dtype=torch.bool)
    z = x @ w["weight"]
    score = z @ w["score_target"].T + (z @ w["score_source"].T).T
    score = functional.leaky_relu(score, 0.2).masked_fill(~closed, -torch.inf)
    z = torch.softmax(score, dim=1) @ z + w["bias"]
    return z if last else torch.relu(z)


def outputs_of(model, weights):
    matrix, x = (torch.tensor(a, dtype=torch.float64) for a in (MATRIX, worlds.data().features))
    if model != "gat":
        loops = worlds.plan("undirected", "row", PARTS).header.self_loops
        return reference.model_outputs(model, "mean", matrix, x, weights, self_loops=loops)
    for k in range(2):
        own = {n.split(".")[2]: w for n, w in weights.items() if n.startswith(f"convs.{k}.")}
        x = attention(matrix, own, x, k == 1)
    return x


MATRIX = worlds.array("undirected")


def score_of(decoder, weights, x, pairs):
    a, b = (x[torch.tensor(ends)] for ends in pairs)
    if decoder == "mlp":
        hidden = torch.relu(
            (a * b) @ weights["decoder.hidden.weight"].T + weights["decoder.hidden.bias"]
        )
        return (hidden @ weights["decoder.last.weight"].T + weights["decoder.last.bias"])[:, 0]
    return (a * b * weights.get("decoder.relation", 1)).sum(dim=1)


@cases.turns(
    model=["gcn", "sage", "gat"], decoder=["dot", "distmult", "mlp"], ranks=[1, 4], k=[1, 3]
)
def test_losses_and_weights_are_those_of_a_dense_network(model, decoder, ranks, k):
    options = {"model": model, "decoder": decoder, "negatives": k, "optimizer": "sgd", "lr": 0.5}
    before = run(1, epochs=0, **options)
    weights = {
        name: torch.tensor(w, dtype=torch.float64, requires_grad=True)
        for name, w in before.weights.items()
    }
    train_links = links(0).pairs["train"]
    size = train_links.shape[1]
    truth = torch.tensor([1.0] * size + [0.0] * (k * size), dtype=torch.float64)

    def loss(epoch):
        pairs = np.concatenate([train_links, negatives(epoch, k * size)], axis=1)
        scores = score_of(decoder, weights, outputs_of(model, weights), pairs)
        return functional.binary_cross_entropy_with_logits(scores, truth)

    expected = reference.descend(list(weights.values()), (loss(epoch) for epoch in range(3)), 0.5)
    found = run(ranks, epochs=3, **options)
    assert [each.loss for each in found.epochs] == pytest.approx(expected, abs=1e-10)
    for name, w in weights.items():
        reference.close(found.weights[name], w.detach().numpy(), 1e-10)


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_edge_plans_and_passes_give_the_same(layout):
    options = {"epochs": 3, "model": "sage", "layers": 3}
    alone = run(1, **options)
    for passes in ((), ("order", "constant", "dead-rows", "overlap")):
        found = run(3, layout, passes=passes, **options)
        assert found.final.loss == pytest.approx(alone.final.loss, abs=1e-12)
        assert found.final.auc == pytest.approx(alone.final.auc, abs=1e-12)
        assert not [each for each in found.remarks if "its steps say" in each]


def ogb(positive, negative, per_link):
    """MRR and Hits@K as the evaluators of OGB have them (ogb.linkproppred.Evaluator)."""
    if not per_link:
        hits = []
        for most in HITS:
            kth = np.sort(negative)[-most] if len(negative) >= most else -np.inf
            hits.append((positive > kth).mean())
        above = (negative > positive[:, None]).sum(axis=1)
        level = (negative >= positive[:, None]).sum(axis=1)
        return [(1 / (1 + (above + level) / 2)).mean(), *hits]
    negative = negative.reshape(len(positive), per_link)
    optimistic = (negative > positive[:, None]).sum(axis=1)
    pessimistic = (negative >= positive[:, None]).sum(axis=1)
    rank = 0.5 * (optimistic + pessimistic) + 1
    return [(1 / rank).mean(), *((rank <= most).mean() for most in HITS)]


@pytest.mark.parametrize("per_link", [0, 12])
@pytest.mark.parametrize("ranks", [1, 4])
def test_scores_are_those_of_scikit_learn_and_ogb(ranks, per_link):
    found = run(ranks, per_link=per_link, epochs=4)
    weights = {name: torch.tensor(w) for name, w in found.weights.items()}
    x, given = outputs_of("gcn", weights), links(per_link).pairs
    for split in ("train", "val", "test"):
        negative = given.get(f"{split}_negative", negatives(0, given["train"].shape[1]))
        own, others = (
            score_of("dot", weights, x, each).numpy() for each in (given[split], negative)
        )
        truth = np.repeat([1, 0], [len(own), len(others)])
        scores = np.concatenate([own, others])
        wanted = [roc_auc_score(truth, scores), average_precision_score(truth, scores)]
        wanted += ogb(own, others, per_link if split != "train" else 0)
        names = ("auc", "ap", "mrr", *(f"hits_{most}" for most in HITS))
        assert [getattr(found.final, n)[split] for n in names] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("ranks", [1, 4])
def test_ranks_count_ties_as_ogb_does(ranks):
    random = np.random.default_rng(0)
    scores, truth = random.integers(0, 30, 400) / 7, random.random(400) < 0.3
    shares = np.array_split(random.permutation(400), ranks)

    def work(transport):
        own = shares[transport.rank]
        return curves.areas([(scores[own, None], truth[own, None])], transport, HITS)

    for found in on_ranks(ranks, work):
        wanted = [roc_auc_score(truth, scores), average_precision_score(truth, scores)]
        wanted += ogb(scores[truth], scores[~truth], 0)
        assert np.ravel(found) == pytest.approx(wanted, abs=1e-12)
    few = on_ranks(1, lambda t: curves.areas([(scores[:9, None], truth[:9, None])], t, HITS))[0]
    assert np.ravel(few[3:]).tolist() == [1.0] * len(HITS)  # fewer negatives than K


@pytest.mark.parametrize("total", [0, 5, 41, 100])
def test_every_vertex_draws_its_share_of_negatives(total):
    random = np.random.default_rng(1)
    owner = random.integers(0, 3, worlds.N)
    found = []
    for part in range(3):
        vertices = random.permutation(np.flatnonzero(owner == part))
        source, target = drawn_negatives(vertices, worlds.N, total, (SEED, 2))
        found += zip(vertices[source].tolist(), target.tolist(), strict=True)
    assert sorted(found) == sorted(map(tuple, negatives(2, total).T.tolist()))


def test_words_are_those_of_the_exchanges():
    """An epoch without negatives' rows: those of training links forward and back, beside layers."""
    options = {"passes": ("order", "constant"), "eval_every": 0}
    found = run(PARTS, epochs=1, **options)
    plan = worlds.plan("undirected", "row", PARTS)
    owner = plan.owner()
    away = [(owner[u], v) for u, v in links(0).pairs["train"].T if owner[u] != owner[v]]
    drawn = negatives(0, links(0).pairs["train"].shape[1]).T
    asked = {(owner[u], v) for u, v in drawn}
    others = [(p, v) for p, v in asked if owner[v] != p]
    width = HIDDEN
    rows = 2 * width * (len({*away}) + len({*others}))
    per_range = -(-worlds.N // PARTS)
    home = sum(v // per_range != p for p, v in asked)
    told = 3 * home + len(others)  # a vertex to its home, rank and row back; a row to its owner
    of_layers = run(PARTS, task="vertices", classes=HIDDEN, epochs=0, **options).figures
    assert found.epochs[0].words_sent == found.figures.planned == of_layers.planned + rows + told


@pytest.mark.parametrize(
    ("ranks", "layout", "decoder", "k"),
    [(1, "row", "mlp", 1), (3, "row", "distmult", 3), (4, "row", "mlp", 2), (4, "edge", "dot", 1)],
)
def test_predicted_words_are_those_that_ranks_count(ranks, layout, decoder, k):
    passes = ("order", "constant", "dead-rows")[: 3 if layout == "row" else 2]
    options = {"decoder": decoder, "negatives": k, "passes": passes}
    found = run(ranks, layout, epochs=1, eval_every=0, **options)
    dims = (worlds.data().features.shape[1], HIDDEN, HIDDEN)
    file, task, live = file_of(layout), LinkTask(decoder, k, SEED), (len(passes) - 2) * 2
    tables = read_tables(file, ranks, live_layers=live, task=task)
    epoch = Predictor(dims, find_machine("cpu-cluster"), passes).epoch(tables, PARTS)
    assert epoch.words == found.epochs[0].words_sent
    assert epoch.messages == found.epochs[0].messages_sent
    size, ends = links(0).pairs["train"].shape[1], tables.links.memory(HIDDEN)
    kept = (1 + k) * size * (4 if decoder == "mlp" else 2) + 2 * max(1, k) * size
    assert (
        0
        <= ends.sum() - (4 * HIDDEN * kept + 16 * (1 + k) * size)
        <= 0.2 * (ranks > 1) * ends.sum()
    )
    assert epoch.words_reduced == (ranks > 1) * ranks * found.epochs[0].words_reduced


BATCHES = {"batch_size": 25, "fanouts": (3, 2)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "accuracy"}, "`metric` accuracy: .* has links between vertices"),
        ({"loss": "mse"}, "`loss` mse"),
        ({"split": (0.6, 0.2, 0.2)}, "`split` is only for the task 'vertices'"),
        ({"class_weights": "balanced"}, "`class_weights` is only for the task"),
        ({"task": "vertices", "decoder": "mlp"}, "`decoder` mlp is only for link prediction"),
        ({"task": "vertices", "negatives": 2}, "`negatives` 2 is only for link prediction"),
        ({"sampler": "uniform"}, "`sampler` uniform: link prediction draws mini-batches only"),
        ({"batch_size": 4}, "sampler 'neighbour' needs `fanouts`"),
        ({**BATCHES, "draw": "everywhere"}, "only row owners draw ends of links"),
        ({"exclude_links": True}, "`exclude_links`: is only for mini-batches; give `sampler` or"),
        ({"exclude_links": True, "task": "vertices", **BATCHES}, "is only for link prediction"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match=words):
        run(1, epochs=1, **options)


def test_vertices_of_a_plan_with_links_are_learnt_as_without():
    bare, options = (
        runs.file_of("undirected", "row", PARTS),
        TrainOptions(epochs=3, task="vertices"),
    )
    without, found = (runs.trained(file, options, 2)[0] for file in (bare, file_of()))
    assert [each.loss for each in found.epochs] == [each.loss for each in without.epochs]
    with pytest.raises(InputError, match="the plan has no links; compile it with `link_split`"):
        runs.trained(bare, TrainOptions(task="links"), 1)


def test_a_run_follows_a_metric_and_resumes(tmp_path):
    """The best weights by MRR; a checkpoint has the decoder."""
    options = {"decoder": "mlp", "eval_every": 1, "metric": "mrr", "patience": 50}
    whole = run(3, epochs=6, **options)
    assert whole.metrics[0] == "mrr"
    scored = [each.mrr["val"] for each in whole.epochs] + [whole.final.mrr["val"]]
    assert whole.final.mrr["val"] == max(scored)
    run(3, epochs=3, checkpoint=tmp_path, **options)
    resumed = run(3, epochs=6, checkpoint=tmp_path, resume=True, **options)
    assert [e.loss for e in resumed.epochs] == [e.loss for e in whole.epochs[3:]]
