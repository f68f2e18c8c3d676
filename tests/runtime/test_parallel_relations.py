"""Products of relations that share their types, beside dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import plancc
import plancc_runtime
from plancc_runtime.transport.local import run_ranks

COUNTS = {"author": 20, "paper": 30}
PARTS = 6


def relations() -> dict:
    """Papers cite and like papers, often the same; authors write and edit them."""
    ends = {"cites": "paper", "likes": "paper", "writes": "author", "edits": "author"}
    made = {}
    for seed, (name, source) in enumerate(ends.items()):
        density = 0.4 if source == "paper" else 0.1
        made[source, name, "paper"] = sp.random(30, COUNTS[source], density, "csr", rng=seed)
    return made | {("paper", "by", "author"): sp.random(20, 30, 0.1, "csr", rng=9)}


@pytest.mark.parametrize("model", ["hp", "medium-grain"])
def test_products_and_gradients_are_those_of_dense_matrices(tmp_path, model):
    path, given = tmp_path / "plan.h5", relations()
    how = {"normalize": "none", "value_dtype": "float64"}
    plancc.compile(given, model, PARTS, **how).save(path)
    random = np.random.default_rng(0)
    x = {name: torch.from_numpy(random.random((n, 2))) for name, n in COUNTS.items()}

    def on_rank(transport):
        torch.set_num_threads(1)
        kind = {"dtype": torch.float64, "threads": 1}
        graph = plancc_runtime.open_typed(path, transport=transport, **kind)
        mine = {name: x[name][graph.vertices(name)] for name in COUNTS}
        for relation in given:
            source, _, destination = relation
            h = mine[source].clone().requires_grad_()
            y = graph.product(relation, h)
            with torch.autograd.set_multithreading_enabled(False):
                y.backward(mine[destination])
            a = torch.from_numpy(given[relation].toarray())
            expected = (a @ x[source])[graph.vertices(destination)]
            assert torch.allclose(y, expected, rtol=0, atol=1e-10)
            expected = (a.T @ x[destination])[graph.vertices(source)]
            assert torch.allclose(h.grad, expected, rtol=0, atol=1e-10)
        return sum(len(rows) for rows in mine.values())

    for ranks in (1, 3, PARTS):
        assert sum(run_ranks(ranks, on_rank, 180)) == sum(COUNTS.values())
