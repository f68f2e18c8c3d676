"""Training with activations of bfloat16: what is rounded, what is not, and what travels."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
import worlds
from cases import some
from launcher import alone
from reference import make_parts
from runs import file_of, trained
from worlds import N

from plancc_runtime.kernels.dense import linear
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import prepared
from plancc_runtime.transport.single import SingleTransport

DIMS, EPOCHS, LR, RANKS = [worlds.WIDTH, 8, worlds.CLASSES], 4, 0.3, 3
OPTIONS = TrainOptions(
    **{"epochs": EPOCHS, "hidden": DIMS[1], "optimizer": "sgd", "lr": LR, "threads": 1},
    **{"dtype": "bfloat16", "parametrization": "paper", "eval_every": 0},
)


@pytest.fixture(scope="module")
def plans():
    """The header and parts of one rank and of several."""
    a, data = worlds.array("undirected"), worlds.data()
    return {p: make_parts(a, worlds.owners(N, p), p, data) for p in (1, RANKS)}


@pytest.mark.parametrize("passes", [("order", "constant", "dead-rows", "overlap"), ()])
def test_training_is_that_of_dense_matrices_but_for_roundings(plans, passes):
    a, data = worlds.array("undirected"), worlds.data()
    start = reference.glorot_weights(DIMS, 1)
    losses, weights, _ = reference.train_dense(
        *(a, data.features, data.labels, data.train_mask, start, EPOCHS, LR, "sgd", "relu")
    )
    for ranks in (1, RANKS):
        result = trained(plans[ranks], replace(OPTIONS, passes=passes))[0]
        found = [*(epoch.loss for epoch in result.epochs), result.final.loss]
        np.testing.assert_allclose(found, losses, rtol=0.01)
        assert np.abs(np.subtract(found, losses)).max() > 1e-5  # which float32 would not reach
        for w, expected in zip(result.weights.values(), weights, strict=True):
            assert w.dtype == np.float32
            np.testing.assert_allclose(w, expected, atol=0.02)
            narrow = torch.from_numpy(w).bfloat16().float().numpy()
            assert np.mean(narrow == w) < 0.1  # weights are not rounded


@pytest.mark.parametrize("passes", [("order", "constant", "overlap"), ()])
def test_predicted_words_take_two_bytes(plans, passes):
    options = replace(OPTIONS, epochs=2, passes=passes)
    half = trained(plans[RANKS], options)[0]
    full = trained(plans[RANKS], replace(options, dtype="float32"))[0]
    for narrow, wide in zip(half.epochs, full.epochs, strict=True):
        assert narrow.words_sent == wide.words_sent == half.figures.planned > 0
        assert narrow.bytes_sent == 2 * narrow.words_sent
        assert wide.bytes_sent == 4 * wide.words_sent
        assert narrow.words_reduced == wide.words_reduced > 0
    assert 2 * half.setup.bytes_sent == full.setup.bytes_sent


MODELS = {
    "gcn": {},
    "sage": {"model": "sage"},
    "gin": {"model": "gin", "model_options": {"train_eps": True}, "layers": 2, "lr": 0.001},
    "residual": {"residual": True, "dropout": 0.3, "activation": "tanh"},
    "norm": {"norm": "batch", "bias": False},
    "recompute": {"recompute": True, "dropout": 0.3},
    "batches": {"batch_size": 20, "steps": 2, "model": "sage"},
    "boundary": {"boundary_sampling": 0.5, "model": "sage"},
}


@some(lambda name: name not in ("recompute", "boundary"), name=MODELS)
def test_every_layer_learns_as_in_float32(plans, name):
    options = replace(OPTIONS, **{"layers": 3, "lr": 0.05, **MODELS[name]})
    half = trained(plans[RANKS], options)
    full = trained(plans[RANKS], replace(options, dtype="float32"))[0]
    for result in half:
        found, expected = ([e.loss for e in each.epochs] for each in (result, full))
        np.testing.assert_allclose(found, expected, rtol=0.02)
        assert all(w.dtype == np.float32 for w in result.weights.values())
        for key, w in half[0].weights.items():
            np.testing.assert_array_equal(result.weights[key], w)


@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_what_the_backward_pass_keeps_is_narrow(plans, name):
    """Saved rows of activations, but for the outputs of which the loss is computed."""
    header, parts = plans[1]
    options = replace(OPTIONS, **MODELS[name], bias=True, passes=("order",))
    options = replace(options, layers=3)
    run = prepared((header, parts[0]), options, SingleTransport())
    view, kept = run._execution.whole(), []

    def pack(tensor):
        if tensor.dim() == 2 and len(tensor) == N and tensor.is_floating_point():
            kept.append(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = run._learner.network(view.graphs, view.rows_of(run._data.features))
    assert out.dtype == torch.float32
    assert len(kept) >= 3
    assert set(kept) == {torch.bfloat16}


def test_sums_are_made_in_float32():
    """In bfloat16, 256 + 1 is 256."""
    n = 301
    ones = torch.ones(n, 3, dtype=torch.bfloat16, requires_grad=True)
    _, (part,) = make_parts(np.ones((n, n)), np.zeros(n, int), 1)
    graph = LocalGraph(Block.of_part(part, True), Resources(SingleTransport(), torch.float32))
    product = graph.product(ones)
    assert product.dtype == torch.bfloat16
    assert set(product.tolist()[0]) == {float(torch.tensor(n).bfloat16())}
    product.sum().backward()
    assert set(ones.grad.tolist()[0]) == {float(torch.tensor(n).bfloat16())}
    weight = torch.eye(3, 2, requires_grad=True)
    bias = torch.zeros(2, requires_grad=True)
    rows = torch.ones(4097, 3, dtype=torch.bfloat16)
    linear(rows, weight, bias).sum(dtype=torch.float32).backward()
    assert weight.grad.unique().tolist() == bias.grad.unique().tolist() == [4097.0]


def test_other_layers_refuse():
    plan = file_of("tiny", "row", 1)
    for words, named in (
        (("--model", "gat"), "for model gat, which"),
        (("--model", "sage", "--aggregator", "max"), "for aggregator max, which"),
    ):
        done = alone(plan, "--dtype", "bfloat16", *words)
        assert done.returncode == 2
        assert f"--dtype bfloat16 is not supported {named}" in done.stderr
    done = alone(plan, "--dtype", "bfloat16", "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert "rows travel as bf16" in done.stdout
