"""What is asked for where little is said: the balance and the model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from test_ownership import compiled

import plancc
from plancc.models import MODELS
from plancc.options import SearchOptions
from plancc.owners.request import default_balance, default_model

BOTH, LOOSER = "nnz:0.05,rows", "nnz,rows"
BY_ROWS = ("hp", "gp")


@pytest.mark.parametrize("model", [*MODELS])
@pytest.mark.parametrize(
    ("options", "of_search"),
    [
        ({}, BOTH),
        ({"objective": "time"}, BOTH),
        ({"objective": "max-volume", "effort": "fast"}, BOTH),
        ({"epsilon": 0.0}, BOTH),
        ({"epsilon": 0.05}, BOTH),
        ({"epsilon": 0.06}, LOOSER),
        ({"partitioner": "builtin"}, "nnz"),
        ({"preset": "quality"}, "nnz"),
        ({"partitioner": "builtin", "objective": "messages"}, "nnz"),
        ({"partitioner": "builtin", "objective": "time"}, BOTH),
    ],
)
def test_the_default_balance(model, options, of_search):
    """Rows too where rows are searched for; nonzeros for edge plans, mini-batches, baselines."""
    found = default_balance(model, SearchOptions(**options))
    assert found == (of_search if model in BY_ROWS else "nnz")


@pytest.mark.parametrize(
    ("options", "balance", "timed"),
    [
        ({}, None, False),
        ({"objective": "volume"}, None, False),
        ({"objective": "time"}, None, True),
        ({"objective": "time", "effort": "best"}, None, True),
        ({"objective": "time"}, "rows", False),
        ({"objective": "time", "partitioner": "builtin"}, None, False),
        ({"objective": "time", "preset": "quality"}, None, False),
        ({"objective": "time", "topology": "2x3"}, None, False),
    ],
)
def test_the_default_model(options, balance, timed):
    found = default_model(SearchOptions(**options), balance)
    assert found == (("auto", {"candidates": ("hp", "checkerboard")}) if timed else ("hp", {}))


def heaviest(plan):
    """Of nonzeros and of rows: the heaviest part over the even share, rounded up."""
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
    assert nonzeros <= 1.05
    assert rows <= 1.02
    papers = compiled(graph, epsilon=0.02, balance="nnz", objective="volume")
    assert heaviest(papers)[0] <= 1.02
    assert heaviest(papers)[1] > 1.1
    assert papers.metrics().volume <= plan.metrics().volume
