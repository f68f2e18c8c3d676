"""Mini-batches of links against dense float64 networks of the blocks that are drawn."""

import cases
import numpy as np
import pytest
import reference
import torch
import worlds
from test_learning_links import MATRIX, SEED, links, negatives, run, score_of
from torch.nn import functional

from plancc.plan.lowering import with_links
from plancc.plan.population import population_of
from plancc.sampling.counter import bits, key_of
from plancc.sampling.links import LinkSampler
from plancc.sampling.neighbour import _sampled
from plancc_runtime.options import PASSES

SIZE, FANOUTS, K = 25, (3, 2), 2
BATCHES = {"batch_size": SIZE, "fanouts": FANOUTS, "negatives": K, "dtype": "float64"}
SGD = {"optimizer": "sgd", "lr": 0.5}


def drawn(number, apart):
    """Links and negatives of a batch, and the dense block of every layer."""
    train = links(0).pairs["train"]
    sampler = LinkSampler(SIZE, FANOUTS, train.shape[1], K)
    chosen, others, epoch = sampler.numbers(SEED, number)
    own, others = train[:, chosen], negatives(epoch, K * train.shape[1])[:, others]
    rows, blocks = np.unique(np.concatenate([own, others], axis=1)), []
    population = population_of(worlds.plan("undirected", "row", 8))
    for hop, fanout in enumerate(FANOUTS):
        key = np.uint64(bits(key_of(SEED, 0, number), hop))
        ptr, columns, _, factors = _sampled(*population.pattern, rows.astype(np.int32), fanout, key)
        block = np.zeros_like(MATRIX)
        block[np.repeat(rows, np.diff(ptr)), columns] = factors
        if apart:
            block[own[0], own[1]] = block[own[1], own[0]] = 0
        rows = np.unique(np.flatnonzero(block.any(axis=0)))
        blocks.append(torch.tensor(MATRIX * block))
    return own, others, blocks[::-1]


@cases.pairs(model=["gcn", "sage"], ranks=[1, 4], apart=[False, True], passes=[(), PASSES])
def test_steps_are_those_of_dense_blocks(model, ranks, apart, passes):
    before = run(1, model=model, epochs=0)
    weights = {
        name: torch.tensor(w, dtype=torch.float64, requires_grad=True)
        for name, w in before.weights.items()
    }
    loops = worlds.plan("undirected", "row", 8).header.self_loops

    def loss(number):
        own, others, blocks = drawn(number, apart)
        x = torch.tensor(worlds.data().features, dtype=torch.float64)
        for k, block in enumerate(blocks):
            of_layer = {n.split(".")[2]: w for n, w in weights.items() if f"convs.{k}." in n}
            x = reference.dense_convolution(model, "mean", block, of_layer, x, self_loops=loops)
            x = x if k else torch.relu(x)
        scores = score_of("dot", weights, x, np.concatenate([own, others], axis=1))
        truth = torch.arange(len(scores)) < own.shape[1]
        return functional.binary_cross_entropy_with_logits(scores, truth.double())

    steps = -(-links(0).pairs["train"].shape[1] // SIZE)
    losses = (loss(number) for number in range(2 * steps))
    expected = reference.descend(list(weights.values()), losses, SGD["lr"])
    options = {"exclude_links": apart, "passes": passes, **BATCHES, **SGD}
    found = run(ranks, model=model, epochs=2, **options)
    assert [step.loss for step in found.steps] == pytest.approx(expected, abs=1e-10)
    assert sum(step.targets for step in found.steps) == 2 * links(0).pairs["train"].shape[1]
    for name, w in weights.items():
        reference.close(found.weights[name], w.detach().numpy(), 1e-10)


def test_an_epoch_has_every_link_and_every_negative_once():
    sampler = LinkSampler(7, (1,), 40, 3)
    of_epochs = []
    for epoch in range(2):
        drawn = [sampler.numbers(SEED, 6 * epoch + k) for k in range(6)]
        assert [len(each) for each, _, _ in drawn] == [7] * 5 + [5]
        assert [len(each) for _, each, _ in drawn] == [21] * 5 + [15]
        assert {each for _, _, each in drawn} == {epoch}
        of_epochs.append(np.concatenate([each for each, _, _ in drawn]).tolist())
        assert sorted(of_epochs[-1]) == list(range(40))
        others = np.concatenate([each for _, each, _ in drawn])
        assert sorted(others.tolist()) == list(range(120))
    assert of_epochs[0] != of_epochs[1]


def test_a_batch_of_all_links_and_neighbours_is_the_full_batch():
    full = run(3, model="sage", epochs=3, **SGD)
    options = {"batch_size": 10**6, "fanouts": (worlds.N, worlds.N), "eval_every": 1, **SGD}
    found = run(3, model="sage", epochs=3, **options)
    assert [e.loss for e in found.epochs] == pytest.approx([e.loss for e in full.epochs], abs=1e-12)
    assert found.final.mrr == pytest.approx(full.final.mrr, abs=1e-12)
    size = links(0).pairs["train"].shape[1]
    assert f"there are only {size} training links, so batches are of {size}" in found.remarks[0]


def test_links_of_a_directed_graph_are_left_out_one_way(tmp_path):
    """A vertex whose only message is a link of the batch gets none."""
    plan = worlds.plan("directed", "row", 8)
    target, source = np.nonzero(worlds.array("directed"))
    ends = np.stack([source, target])
    kind = np.zeros(len(source), np.uint8)
    with_links(plan, ends, kind, np.arange(len(source)), 0).save(tmp_path / "plan.h5")
    options = {"model": "sage", "batch_size": 10**6, "fanouts": (worlds.N,), "layers": 1}
    weights = {}
    for apart in (False, True):
        found = run(3, tmp_path / "plan.h5", epochs=1, exclude_links=apart, **options, **SGD)
        weights[apart] = found.weights["convs.0.weight"]
    before = run(1, tmp_path / "plan.h5", epochs=0, **options, **SGD).weights["convs.0.weight"]
    assert (weights[False] != before).any()
    assert (weights[True] == before).all()  # no message, no gradient
