"""Passes of sampled epochs: a sample of a live row is a live row; exact, and as frugal as they say.

What is drawn is drawn again here, in Python's integers, and trained densely.
"""

from itertools import pairwise

import numpy as np
import rank_tasks
import reference
import test_execution
from cases import some
from rank_tasks import RATE
from test_execution import CLASSES, EPOCHS, WIDTH, N, outputs, owners

from plancc.graph.vertexdata import VertexData
from plancc_runtime.options import PASSES
from plancc_runtime.transport.local import run_ranks

HIDDEN, LAYERS = 6, 3
RATES = {
    "rows": {"boundary_sampling": 0.4},
    "boundary edges": {"boundary_edge_sampling": 0.3},
    "edges": {"drop_edge": 0.6},
    "all": {"boundary_sampling": 0.7, "boundary_edge_sampling": 0.6, "drop_edge": 0.8},
}
MODELS = {
    name: test_execution.MODELS[name] for name in ("gcn", "sage max", "sage gcn", "gin", "gat")
}
MODELS |= {
    "gat dropped": {"model": "gat", "heads": 2, "attention_dropout": 0.3},
    "residual": {"residual": True, "norm": "layer", "hidden": 20},
    "dropout": {"model": "sage", "dropout": 0.3, "input_dropout": 0.2},
    "batch norm": {"norm": "batch"},
    "one layer": {"layers": 1},
}


def graph(directed: bool) -> np.ndarray:
    return test_execution.graph(directed, density=0.05)


def data() -> VertexData:
    return test_execution.data(4)


def uniform(*numbers: int) -> float:
    return (reference.key_of(*numbers) >> 11) / 2**53


def sampled_matrix(a: np.ndarray, owner: np.ndarray, seed: int, epoch: int, rates) -> np.ndarray:
    """The matrix that an epoch multiplies by; an explicit zero never occurs in what is kept."""
    rows, pins, edges = (
        rates.get(name, 1.0)
        for name in ("boundary_sampling", "boundary_edge_sampling", "drop_edge")
    )
    kept = np.where(np.eye(N, dtype=bool), a, a / edges)
    for i, j in zip(*np.nonzero(a), strict=True):
        if i != j and uniform(seed, 2, epoch, int(i), int(j)) >= edges:
            kept[i, j] = 0
    for (sender, receiver), vertices in reference.needed_rows(a, owner).items():
        for place, v in enumerate(reference.in_plan_order(vertices, a, owner)):
            users = np.flatnonzero((a[:, v] != 0) & (owner == receiver))
            kept[users, v] /= rows * pins
            if uniform(seed, 0, epoch, sender, receiver, place) >= rows:
                kept[users, v] = 0
            for number, i in enumerate(users.tolist()):
                if uniform(seed, 1, epoch, sender, receiver, place, number) >= pins:
                    kept[i, v] = 0
    return kept


def travelling(a: np.ndarray, owner: np.ndarray, live) -> int:
    """Rows that travel for the outputs `live`."""
    only = np.zeros_like(a)
    only[sorted(live)] = a[sorted(live)]
    return reference.volume(only, owner)


def expected_rows(a: np.ndarray, owner: np.ndarray, rates, live) -> float:
    """Rows that travel on average: those of which a nonzero is kept, if they are."""
    rows = 0.0
    for (_, receiver), vertices in reference.needed_rows(a, owner).items():
        mine = [i for i in live if owner[i] == receiver]
        uses = (a[np.ix_(mine, vertices)] != 0).sum(axis=0)
        rate = rates.get("boundary_edge_sampling")
        rows += ((uses > 0) if rate is None else 1 - (1 - rate) ** uses).sum()
    return rows * rates.get("boundary_sampling", 1)


def trained(p: int, directed: bool, **chosen) -> tuple[dict, np.ndarray, np.ndarray]:
    """What rank 0 says of a loop, the outputs of all rows, and the words of all ranks by epoch."""
    header, parts = reference.make_parts(graph(directed), owners(p), p, data())
    options = {"layers": LAYERS, "hidden": HIDDEN, "activation": "tanh", "seed": 3}
    options |= {"kernel": "numba", "row_order": "none", **chosen}
    ranks = run_ranks(p, lambda t: rank_tasks.looped(t, header, parts, options, EPOCHS), 180)
    assert all(rank["traffic"][1:, 1].tolist() == rank["told"] for rank in ranks)
    return ranks[0], outputs(ranks), sum(rank["traffic"][1:, 1] for rank in ranks)


OFTEN = {*zip((4, 2, 4, 2), RATES, strict=True), (1, "boundary edges"), (2, "rows")}


@some(lambda *case: case in OFTEN, p=(1, 2, 4), name=RATES)
def test_epochs_are_those_of_the_sampled_matrices(p, name):
    """A dense GCN with another matrix in every epoch, and the rows that these matrices need."""
    rates, directed, owner = RATES[name], p != 2, owners(p)
    a = graph(directed)
    dims = [WIDTH, HIDDEN, HIDDEN, CLASSES]
    vertices, weights, losses = data(), reference.glorot_weights(dims, 3), []
    for epoch in range(EPOCHS):
        matrix = sampled_matrix(a, owner, 3, epoch, rates)
        given = vertices.features, vertices.labels, vertices.train_mask
        (loss, _), weights, _ = reference.train_dense(
            matrix, *given, weights, 1, RATE, "sgd", "tanh"
        )
        losses.append(loss)
    # whatever DropEdge leaves of a column, its row travels
    crossing = {rate: value for rate, value in rates.items() if rate != "drop_edge"}
    sent = [sampled_matrix(a, owner, 3, epoch, crossing) for epoch in range(EPOCHS)]
    train = np.flatnonzero(vertices.train_mask).tolist()
    for passes in ((), ("constant",), ("order", "dead-rows"), PASSES):
        found, _, counted = trained(p, directed, parametrization="paper", passes=passes, **rates)
        assert found["off"] == {}
        np.testing.assert_allclose(found["losses"], losses, rtol=1e-12)
        for expected, w in zip(weights, found["weights"].values(), strict=True):
            np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)
        sets = (
            reference.live_sets(a, train, LAYERS)
            if "dead-rows" in passes
            else [range(N)] * (LAYERS + 1)
        )
        columns = [2 * min(two) if "order" in passes else sum(two) for two in pairwise(dims)]
        if "constant" in passes:
            columns[0] = 0
        for matrix, words in zip(sent, counted, strict=True):
            assert words == np.dot([travelling(matrix, owner, live) for live in sets[1:]], columns)
        rows = [expected_rows(a, owner, rates, live) for live in sets[1:]]
        assert found["figures"].planned == round(float(np.dot(rows, columns)))


@some(
    lambda name, rates: (name in [*MODELS][::2]) == (rates == "all"),
    **{"name": MODELS, "rates": ("rows", "all")},
)
def test_passes_of_sampled_epochs_change_nothing_but_words(name, rates):
    (plain, expected, most), (found, outputs, counted) = (
        trained(3, True, passes=passes, **MODELS[name], **RATES[rates])
        for passes in (("order",), PASSES)
    )
    assert set(found["off"]) == ({"dead-rows"} if "batch" in name else set())
    np.testing.assert_allclose(found["losses"], plain["losses"], rtol=1e-12)
    for key, w in found["weights"].items():
        np.testing.assert_allclose(w, plain["weights"][key], rtol=0, atol=1e-12)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-11)
    assert counted.sum() < most.sum()
    assert (found["rows"][-1] < plain["rows"][-1]) == (not found["off"])
