"""Searches that end once they no longer pay."""

import json

import numpy as np
import pytest

import plancc
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.search.payback import Payback
from plancc.search.presets import MAY_SAVE
from plancc_datasets import load_dataset


def owners_of(number: int) -> Owners:
    return Owners(np.array([number], np.int32))


@pytest.mark.parametrize(
    ("epochs", "ends"),
    [
        (1, 0),  # 0.9 may be saved in all, and the next step takes as long as the first, 1
        (2, 2),  # 1.8: the second step, which saves 2 x 0, is in vain
        (3, 3),  # 2.7: after it one more fits
        (20, None),
    ],
)
def test_steps_in_vain_and_the_next_one_decide(epochs: int, ends: int | None) -> None:
    """Epochs of 10, 8, 8, 8 and 7 seconds above a bound of 1, and steps of a second."""
    epoch = dict(enumerate((10.0, 8.0, 8.0, 8.0, 7.0)))
    payback = Payback(epochs, lambda owners: epoch[int(owners.rows[0])], bound=1.0)
    over = []
    for step in epoch:
        assert not (step == 0 and payback.over())  # the first owners are waited for
        payback.note(1.0, owners_of(step))
        over.append(payback.over())
    vain = [0, 0, 1, 2, 0]  # by hand: the second saves 2 epochs
    best = [10, 8, 8, 8, 7]
    assert over == [v + 1 > MAY_SAVE * epochs * (b - 1) for v, b in zip(vain, best, strict=True)]
    assert (over.index(True) if True in over else None) == ends


def test_a_whole_effort_is_waited_for() -> None:
    payback = Payback(1.0, lambda owners: 5.0, waits=True)
    for spent in (4.0, 1.0):
        payback.note(spent, owners_of(0))
        assert not payback.over()
    payback.begin(owners_of(0))
    assert payback.over()  # another step of 4 seconds saves half a second at most
    assert Payback(1.0, lambda owners: 0.0, stop=lambda: True).over()


def test_fewer_steps_for_fewer_epochs() -> None:
    """The first effort for few epochs; for many, what comes after it too."""
    graph = load_dataset("rmat", scale=10, edge_factor=8, seed=1).graph
    words = {"dims": (16, 16, 4)}
    given = {"few": {"until_pays": 1e-6}, "many": {"until_pays": 1e12}}
    given |= {each: {"effort": each} for each in ("fast", "balanced")}
    plans = {name: plancc.compile(graph, "hp", 16, **words, **each) for name, each in given.items()}
    steps = {
        name: [trial["step"] for trial in json.loads(plan.provenance["tried"])]
        for name, plan in plans.items()
    }
    assert steps["few"] == steps["fast"]
    assert plans["few"].content_sha256() == plans["fast"].content_sha256()
    assert steps["many"][: len(steps["fast"])] == steps["fast"]
    assert len(steps["many"]) > len(steps["fast"])
    assert plans["many"].metrics().volume <= plans["balanced"].metrics().volume
    assert plans["few"].provenance["until_pays"] == 1e-6
    assert "until_pays" not in plans["fast"].provenance


@pytest.mark.parametrize(
    ("model", "says"), [("block", "is for the models"), ("stochastic-hp", "whole batches")]
)
def test_what_is_refused(model: str, says: str) -> None:
    graph = load_dataset("rmat", scale=6, edge_factor=4, seed=1).graph
    with pytest.raises(InputError, match=says):
        plancc.compile(graph, model, 2, until_pays=10)
