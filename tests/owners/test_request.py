"""What is asked for where little is said: the balance and the model."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from test_ownership import compiled

import plancc
from plancc.models import MODELS
from plancc.options import SearchOptions
from plancc.owners.request import default_balance
from plancc.predict.machine import Machine

BOTH, LOOSER = "nnz:0.1,rows", "nnz,rows"


@pytest.mark.parametrize(
    ("options", "of_search"),
    [
        *(({}, BOTH), ({"objective": "time"}, BOTH)),
        *(({"objective": "max-volume", "effort": "fast"}, BOTH), ({"epsilon": 0.0}, BOTH)),
        *(({"epsilon": 0.1}, BOTH), ({"epsilon": 0.11}, LOOSER)),
        *(({"partitioner": "builtin"}, "nnz"), ({"preset": "quality"}, "nnz")),
        ({"partitioner": "builtin", "objective": "messages"}, "nnz"),
        ({"partitioner": "builtin", "objective": "time"}, BOTH),
    ],
)
def test_the_default_balance(options, of_search):
    """Rows too where rows are searched for; nonzeros for edge plans, mini-batches, baselines.

    Model auto hands its row plans the same, unless another objective than the time decides.
    """
    by_rows = {"hp", "gp"} | ({"auto"} if options.get("objective") in (None, "time") else set())
    for model in MODELS:
        found = default_balance(model, SearchOptions(**options))
        assert found == (of_search if model in by_rows else "nnz"), model


def heaviest(plan):
    """The heaviest part over the even share, rounded up: nonzeros, rows."""
    parts, header = plan.traffic(), plan.header
    sizes = (parts.nonzeros, header.num_nonzeros), (parts.rows, header.num_vertices)
    return [load.max() / -(-total // 6) for load, total in sizes]


def test_compile_balances_rows_by_default():
    """A tenth of the rows have half of the nonzeros."""
    rng = np.random.default_rng(1)
    array = rng.random((240, 240)) < 0.02
    array[:24] |= rng.random((24, 240)) < 0.2
    graph = plancc.as_graph(sp.csr_array(array.astype(float)))
    plan = compiled(graph, epsilon=0.02)
    nonzeros, rows = heaviest(plan)
    assert plan.provenance["balance"] == BOTH
    assert nonzeros <= 1.1
    assert rows <= 1.02
    papers = compiled(graph, epsilon=0.02, balance="nnz", objective="volume")
    assert heaviest(papers)[0] <= 1.02
    assert heaviest(papers)[1] > 1.1


def test_auto_takes_the_balance_that_it_is_given():
    """It holds for row plans."""
    graph = sp.csr_array(np.ones((12, 12)))
    options = {"candidates": "hp", "epsilon": 1.0}
    plan = plancc.compile(graph, "auto", 3, balance="nnz:0.5", **options)
    assert plan.provenance["balance"] == "nnz:0.5"


@pytest.mark.parametrize("model", ["cagnet-1d", "cagnet-1.5d"])
def test_the_time_of_a_grid_is_the_grids(model):
    """What the search reached is what the plan's own tables predict."""
    graph = sp.random_array((90, 90), density=0.06, rng=np.random.default_rng(2)) + sp.eye_array(90)
    plan = plancc.compile(graph.tocsr(), model, 8, objective="time", effort="fast", blocks="hp")
    steps = json.loads(plan.provenance["tried"])
    reached = next(step["value"] for step in reversed(steps) if step["best"])
    assert reached == pytest.approx(plan.provenance["epoch_seconds"], rel=1e-12)


SPEEDS = Machine(latency=1e-6, bandwidth=1e10, multiply_adds=1e9, speed=(1, 2, 3))
LINKS = {"link_split": (0.1, 0.1)}
FOUR_BATCHES = {"model": "stochastic-hp", "batch_size": 2, "batches": 4}
REFUSED = {
    "'speed' has 3 numbers: 4 ranks need 4": {"machine": SPEEDS},
    "`exchange` nodes: it needs nodes x ranks": {"exchange": "nodes"},
    "`exchange` relays: a process grid has no relays": {"exchange": "relays", "model": "cagnet-1d"},
    "`links` and `link_split` exclude each other": LINKS | {"links": "links.npz"},
    "needs links; give `links` or `link_split`": {"disjoint_train_ratio": 0.5},
    "a process grid cannot hold links": LINKS | {"model": "cagnet-1d"},
    "balance 'nnz' does not use them; give": {"weights": [1] * 5, "balance": "nnz"},
    "balance rows: model 'libra' only balances nonzeros": {"model": "libra", "balance": "rows"},
    "balance train: model 'auto' only balances nonzeros": {"model": "auto", "balance": "train"},
    "the nets of 4 batches": FOUR_BATCHES | {"partitioner": "mtkahypar", "budget": 1.0},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_before_the_graph_is_read(sentence):
    with pytest.raises(plancc.InputError, match=sentence):
        plancc.compile("no-such-file.mtx", num_parts=4, **REFUSED[sentence])
