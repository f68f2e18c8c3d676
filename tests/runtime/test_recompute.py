"""Activations computed again in the backward pass: the same run, with less kept."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import plancc
from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc_runtime.nn import recompute
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import prepared, train
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

N, WIDTH, CLASSES = 50, 7, 3
COMMON = {"layers": 3, "hidden": 6, "epochs": 3, "dtype": "float64", "threads": 1}
COMMON |= {"optimizer": "sgd", "lr": 0.05}
RUNS = {
    "row": ("rp", {}),
    "sage": ("rp", {"model": "sage", "residual": True, "norm": "layer"}),
    "gat": ("rp", {"model": "gat", "heads": 2, "dropout": 0.3}),
    "attention dropout": ("rp", {"model": "gat", "heads": 2, "attention_dropout": 0.4}),
    "batch norm": ("rp", {"norm": "batch", "residual": True}),
    "no passes but order": ("rp", {"passes": ("order",), "model": "gin"}),
    "boundary sampling": ("rp", {"boundary_sampling": 0.5, "model": "sage"}),
    "mini-batches": ("rp", {"sampler": "neighbour", "fanouts": (2, 2, 2), "batch_size": 10}),
    "bfloat16": ("rp", {"dtype": "bfloat16", "norm": "layer", "residual": True}),
    "edge plan": ("libra", {"model": "sage"}),
    "no fold": ("libra", {"fold": "none"}),
    "delayed fold": ("libra", {"fold": "delayed", "delay": 1}),
}


@pytest.fixture(scope="module")
def plan_of(tmp_path_factory):
    random = np.random.default_rng(2)
    pattern = random.random((N, N)) < 0.08
    data = VertexData(
        features=random.standard_normal((N, WIDTH)).astype(np.float32),
        labels=random.integers(0, CLASSES, N).astype(np.int32),
        train_mask=random.random(N) < 0.4,
    )
    folder = tmp_path_factory.mktemp("plans")
    found = {}
    for model in ("rp", "libra", "cagnet-2d"):
        parts = 4 if model == "cagnet-2d" else 3
        graph = csr_matrix((pattern | pattern.T).astype(float))
        plan = plancc.compile(graph, model, parts, data=data, value_dtype="float64")
        found[model] = folder / f"{model}.h5"
        plan.save(found[model])
    return found


@pytest.mark.parametrize("case", RUNS)
def test_a_run_is_the_same_and_sends_the_same(case, plan_of, monkeypatch):
    monkeypatch.setattr(recompute, "AT_ONCE", 5 * WIDTH)
    model, chosen = RUNS[case]
    results = []
    for again in (False, True):
        options = TrainOptions(**COMMON | chosen, recompute=again)
        results.append(run_ranks(3, lambda t, o=options: train(plan_of[model], o, t), 60)[0])
    plain, again = results
    tolerance = 0.01 if case == "bfloat16" else 1e-10
    losses = [[m.loss for m in (*result.epochs, result.final)] for result in results]
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)
    sent = [[(m.words_sent, m.messages_sent) for m in result.epochs] for result in results]
    assert sent[0] == sent[1]
    for name, w in plain.weights.items():
        np.testing.assert_allclose(again.weights[name], w, rtol=0, atol=tolerance)


def test_one_product_per_layer_is_kept(plan_of):
    """A H^0, known before the first epoch, A (H^1 W), A (H^2 W); 8 bytes a number."""
    options = TrainOptions(**COMMON, recompute=True, passes=("order", "constant"))
    run = prepared(plan_of["rp"], options, SingleTransport())
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


@pytest.mark.parametrize(
    ("model", "chosen", "said"),
    [
        ("cagnet-2d", {}, "`recompute`: needs a plan of layout row or edge"),
        ("rp", {"passes": ("constant",)}, "`recompute`: needs the pass order"),
    ],
)
def test_what_cannot_compute_again_says_so(model, chosen, said, plan_of):
    def attempt():
        options = TrainOptions(**COMMON, **chosen, recompute=True)
        run_ranks(4, lambda t: train(plan_of[model], options, t), 60)

    with pytest.raises(InputError, match=said):
        attempt()
