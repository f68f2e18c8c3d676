"""Objectives, against counts in plain Python and the simulation; machine files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import plan_helpers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic, summarize
from plancc.predict.machine import Machine
from plancc.predict.machine_files import read_machine
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


@settings(max_examples=60, deadline=None)
@given(
    case=plan_helpers.cases(),
    dims=st.lists(st.integers(1, 700), min_size=2, max_size=5),
)
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


def test_machine_files(tmp_path):
    path = tmp_path / "machine.toml"
    path.write_text("# ours\nlatency = 1e-5\nbandwidth = 3_000_000_000\nmultiply_adds = 4e10\n")
    assert read_machine(path) == Machine(1e-5, 3e9, 4e10, name="machine")
    assert read_machine(path.rename(tmp_path / "two\nlines")).name == "two lines"
    (tmp_path / "two\nlines").rename(path)
    lines = path.read_text().splitlines()[1:]
    for line in lines:  # none of the three has a default
        path.write_text("\n".join(set(lines) - {line}))
        with pytest.raises(InputError) as found:
            read_machine(path)
        name = line.partition(" ")[0]
        assert str(found.value) == (
            f"{path}: machine: '{name}' is missing: a machine needs latency, bandwidth, "
            "multiply_adds"
        )


NEEDED = ("latency = 1e-6", "bandwidth = 1e9", "multiply_adds = 1e9")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("latency = 0", "'latency' is 0"),
        ("latency = -2e-6", "'latency' is -2e-06"),
        ("bandwidth = inf", "'bandwidth' is inf"),
        ("bandwidth = nan", "'bandwidth' is nan"),
        (f"bandwidth = 1{'0' * 400}", "'bandwidth' is 1000"),
        ("multiply_adds = '5e9'", "'multiply_adds' is '5e9'"),
        ("multiply_adds = true", "'multiply_adds' is True"),
        ("multiply_adds = [1.0]", r"'multiply_adds' is \[1.0\]"),
        ("latency = 2026-01-01", "'latency' is datetime"),
        (
            "turbo = 3",
            "unknown key 'turbo' = 3: choose from latency, bandwidth, multiply_adds",
        ),
        ("[machine]\nlatency = 1e-6", "unknown key 'machine'"),
        ('"a\\nb" = 1', r"unknown key 'a\\nb'"),
        ("latency: 3", "not TOML"),
        (f"latency = 1{'0' * 5000}", "not TOML"),
        ("latency = " + "[" * 3000, "not TOML"),
        (b"latency = \xff", "not TOML"),
        (None, "no such file"),
    ],
)
def test_wrong_machine_files(tmp_path, text, says):
    path = tmp_path / "machine.toml"
    if isinstance(text, bytes):
        path.write_bytes(text)
    elif text is not None:
        others = (line for line in NEEDED if not text.startswith(line.partition(" ")[0]))
        path.write_text("\n".join([*others, text]))
    with pytest.raises(InputError, match=says) as found:
        read_machine(path)
    assert str(found.value).startswith(f"{path}: ")
    assert "\n" not in str(found.value)


def test_a_folder_is_no_machine(tmp_path):
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_machine(tmp_path)


def test_wrong_machines():
    with pytest.raises(InputError, match="'latency'"):
        Machine(latency=0.0, bandwidth=1.0, multiply_adds=1.0)
