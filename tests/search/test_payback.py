"""Searches that end once they no longer pay."""

import json

import numpy as np
import pytest

import plancc
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.search.payback import Payback
from plancc_datasets import load_dataset


def owners_of(number: int) -> Owners:
    return Owners(np.array([number], np.int32))


def test_the_last_two_steps_decide() -> None:
    """Epochs of 10, 6, 5, 5 and 4 seconds; steps of one second each, but for the first."""
    epoch = dict(enumerate((10.0, 6.0, 5.0, 5.0, 4.0)))
    for epochs, ends in ((0.1, 2), (0.5, 3), (1.5, 3), (2.5, None)):
        payback = Payback(epochs, lambda owners: epoch[int(owners.rows[0])])
        payback.note(100.0, owners_of(0))
        assert not payback.over()  # the first owners are waited for
        over = []
        for step in range(1, 5):
            payback.note(1.0, owners_of(step))
            over.append(payback.over())
        # by hand: saved in two steps 4+1, 1+0, 0+1
        wanted = [False, 5 * epochs < 2, epochs < 2, epochs < 2]
        assert over == wanted
        assert (over.index(True) + 1 if True in over else None) == ends
    assert Payback(1.0, lambda owners: 0.0, stop=lambda: True).over()


def test_fewer_steps_for_fewer_epochs() -> None:
    graph = load_dataset("rmat", scale=10, edge_factor=8, seed=1).graph
    words = {"effort": "balanced", "dims": (16, 16, 4)}
    whole = plancc.compile(graph, "hp", 16, **words)
    many = plancc.compile(graph, "hp", 16, until_pays=1e12, **words)
    few = plancc.compile(graph, "hp", 16, until_pays=1e-6, **words)
    steps = {name: len(json.loads(plan.provenance["tried"]))
             for name, plan in (("whole", whole), ("many", many), ("few", few))}  # fmt: skip
    assert steps["few"] < steps["whole"]
    assert few.provenance["until_pays"] == 1e-6
    assert "until_pays" not in whole.provenance
    if steps["many"] == steps["whole"]:
        assert many.content_sha256() == whole.content_sha256()


@pytest.mark.parametrize(
    ("model", "says"), [("block", "is for the models"), ("stochastic-hp", "whole batches")]
)
def test_what_is_refused(model: str, says: str) -> None:
    graph = load_dataset("rmat", scale=6, edge_factor=4, seed=1).graph
    with pytest.raises(InputError, match=says):
        plancc.compile(graph, model, 2, until_pays=10)
