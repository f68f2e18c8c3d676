"""Objectives, against counts in plain Python and the simulation."""

from itertools import pairwise

import numpy as np
import plan_helpers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic, summarize
from plancc.predict.machine import Machine
from plancc.predict.predictor import Predictor

MACHINE = Machine(latency=3e-6, bandwidth=2e9, multiply_adds=7e8)


def epoch_by_hand(parts: Traffic, dims, machine: Machine) -> float:
    """Demirci et al. 2022's Algorithms 1 and 2: every step takes as long as at the slowest part."""
    total, weights, num_parts = 0.0, 0, len(parts.rows)
    for layer, (d_in, d_out) in enumerate(pairwise(dims)):
        for width in (d_in, d_out):  # forward, then backward
            total += max(
                machine.latency * max(talk) + 4 * width * max(rows) / machine.bandwidth
                for talk, rows in zip(
                    zip(parts.messages_sent, parts.messages_received, strict=True),
                    zip(parts.sent, parts.received, strict=True),
                    strict=True,
                )
            )
            total += max(parts.nonzeros) * width / machine.multiply_adds
        # A H W and the gradient of W; the gradient of H, but for the given features
        dense = (2 if layer == 0 else 3) * d_in * d_out
        total += max(parts.rows) * dense / machine.multiply_adds
        weights += d_in * d_out + d_out  # W and the bias
    if num_parts > 1:  # a ring, for the gradients and the loss
        turns = 2 * (num_parts - 1)
        words = (weights + 1) / num_parts
        total += turns * (machine.latency + 4 * words / machine.bandwidth)
    return total


@given(case=plan_helpers.cases(), dims=st.lists(st.integers(1, 700), min_size=2, max_size=5))
def test_every_objective(case, dims):
    graph, owner, num_parts = case
    owners = Owners(owner)
    parts = traffic(graph, owners, num_parts)
    time = Predictor(dims, MACHINE, ()).time(graph, num_parts)
    values = {name: objective_value(name, parts, owners, time) for name in OBJECTIVES}
    assert values == {
        "volume": sum(parts.sent.tolist()),
        "max-volume": max(*parts.sent.tolist(), *parts.received.tolist()),
        "messages": sum(parts.messages_sent.tolist()),
        "time": pytest.approx(epoch_by_hand(parts, dims, MACHINE), rel=1e-12),
    }
    metrics = summarize(parts)
    assert metrics.max_volume == values["max-volume"]
    assert "max_volume" not in metrics.as_dict()
    assert {type(values[name]) for name in values if name != "time"} == {int}
    assert type(values["time"]) is float


def test_an_epoch_of_round_numbers():
    """One layer from 2 to 3 columns; part 1 has two of the rows, and sends one to part 0."""
    machine = Machine(latency=0.5, bandwidth=4.0, multiply_adds=2.0)
    graph = plan_helpers.graph_of(np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]]))
    owners = Owners(np.array([0, 1, 1], np.int32))
    forward = (0.5 + 4 * 2 / 4) + 3 * 2 / 2 + 2 * 6 / 2
    back = (0.5 + 4 * 3 / 4) + 3 * 3 / 2 + 2 * 6 / 2
    reduce = 2 * 0.5 + 4 * (6 + 3 + 1) / 4
    time = Predictor((2, 3), machine, ()).time(graph, 2)
    found = objective_value("time", traffic(graph, owners, 2), owners, time)
    assert found == forward + back + reduce == 36.5


def test_wrong_objectives():
    parts = Traffic(*(np.array([1]) for _ in range(6)))
    with pytest.raises(InputError, match=r"'cut'.*volume, max-volume, messages, time"):
        objective_value("cut", parts, Owners(np.zeros(1, np.int32)))
