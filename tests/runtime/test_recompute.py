"""Activations computed again in the backward pass: the same run, with less kept."""

import weakref

import numpy as np
import pytest
import torch
from runs import file_of, trained
from worlds import CLASSES, WIDTH, N

from plancc_runtime.nn import recompute
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import prepared
from plancc_runtime.transport.single import SingleTransport

COMMON = {"layers": 3, "hidden": 6, "epochs": 2, "dtype": "float64", "threads": 1}
COMMON |= {"optimizer": "sgd", "lr": 0.05}
RUNS = {
    "sage": ("row", {"model": "sage", "residual": True, "norm": "layer"}),
    "gat": ("row", {"model": "gat", "heads": 2, "dropout": 0.3}),
    "batch norm": ("row", {"norm": "batch", "residual": True}),
    "mini-batches": ("row", {"sampler": "neighbour", "fanouts": (2, 2, 2), "batch_size": 4}),
    "bfloat16": ("row", {"dtype": "bfloat16", "norm": "layer", "residual": True}),
    "edge plan": ("edge", {"model": "sage"}),
    "delayed fold": ("edge", {"fold": "delayed", "delay": 1}),
}


def run(layout: str, num_ranks: int = 3, **options):
    plan = file_of("undirected", layout, 3)
    return trained(plan, TrainOptions(**COMMON | options), num_ranks)[0]


@pytest.mark.parametrize("case", RUNS)
def test_a_run_is_the_same_and_sends_the_same(case, monkeypatch):
    monkeypatch.setattr(recompute, "AT_ONCE", 5 * WIDTH)
    layout, chosen = RUNS[case]
    plain, again = results = [run(layout, **chosen, recompute=k) for k in (False, True)]
    tolerance = 0.01 if case == "bfloat16" else 1e-10
    losses = [[m.loss for m in (*result.epochs, result.final)] for result in results]
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)
    sent = [[(m.words_sent, m.messages_sent) for m in result.epochs] for result in results]
    assert sent[0] == sent[1]
    for name, w in plain.weights.items():
        np.testing.assert_allclose(again.weights[name], w, rtol=0, atol=tolerance)


def test_one_product_per_layer_is_kept():
    """A H^0, known before the first epoch, A (H^1 W), A (H^2 W); 8 bytes a number."""
    options = TrainOptions(**COMMON, recompute=True, passes=("order", "constant"))
    run = prepared(file_of("undirected", "row", 3), options, SingleTransport())
    network, view = run._learner.network.train(), run._execution.view(0)
    saved: list[weakref.ref[torch.Tensor]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed = tensor.detach()  # the tensor itself would keep what it was made by
        saved.append(weakref.ref(packed))
        return packed

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = recompute.recomputed(
            network, view.graphs, view.rows_of(run._data.features), view.fixed
        )
    assert out.requires_grad
    held = [tensor.untyped_storage() for each in saved if (tensor := each()) is not None]
    kept = {storage.data_ptr(): storage.nbytes() for storage in held}
    for weight in network.parameters():
        kept.pop(weight.untyped_storage().data_ptr(), None)
    assert sum(kept.values()) == 8 * N * (WIDTH + 6 + CLASSES)
