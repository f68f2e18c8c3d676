"""Predicted seconds and objectives, against the training loop counted layer by layer."""

from __future__ import annotations

import numpy as np
import plan_helpers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plancc.cost.objectives import OBJECTIVES, objective_value
from plancc.cost.owners import traffic
from plancc.cost.rates import EpochRates
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic, summarize
from plancc.predict.machine import Machine, epoch_rates
from plancc.predict.machine_files import read_machine

MACHINE = Machine(latency=3e-6, bandwidth=2e9, multiply_adds=7e8)


def seconds_of_part(parts: Traffic, m: int, dims, machine: Machine) -> float:
    """Paper 000's Algorithms 1 and 2, one operation after the other."""
    total = 0.0
    for k in range(1, len(dims)):
        exchanges = (  # messages and rows out and in, width: forward, then backward
            (parts.messages_sent, parts.messages_received, parts.sent, parts.received, dims[k - 1]),
            (parts.messages_received, parts.messages_sent, parts.received, parts.sent, dims[k]),
        )
        for talk_out, talk_in, rows_out, rows_in, width in exchanges:
            total += machine.latency * max(talk_out[m], talk_in[m])
            total += 4 * width * max(rows_out[m], rows_in[m]) / machine.bandwidth
            total += parts.nonzeros[m] * width / machine.multiply_adds
        dense = parts.rows[m] * dims[k - 1] * dims[k]
        total += dense / machine.multiply_adds  # A H W
        total += dense / machine.multiply_adds  # gradient of W
        total += dense / machine.multiply_adds  # gradient of H
    return total


@settings(max_examples=60, deadline=None)
@given(
    case=plan_helpers.cases(),
    dims=st.lists(st.integers(1, 700), min_size=2, max_size=5),
)
def test_epoch_seconds(case, dims):
    graph, owner, num_parts = case
    parts = traffic(graph, Owners(owner), num_parts)
    expected = [seconds_of_part(parts, m, dims, MACHINE) for m in range(num_parts)]
    found = epoch_rates(dims, MACHINE).seconds(parts)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rates = epoch_rates(dims, MACHINE)
    values = {name: objective_value(name, parts, rates) for name in OBJECTIVES}
    metrics = summarize(parts)
    assert values == {
        "volume": sum(parts.sent.tolist()),
        "max-volume": max(*parts.sent.tolist(), *parts.received.tolist()),
        "messages": sum(parts.messages_sent.tolist()),
        "time": pytest.approx(max(expected), rel=1e-12),
    }
    assert metrics.max_volume == values["max-volume"]
    assert "max_volume" not in metrics.as_dict()


def test_each_rate_by_hand():
    """One layer from 2 to 3 columns on a machine of round numbers."""
    machine = Machine(latency=0.5, bandwidth=4.0, multiply_adds=2.0)
    assert epoch_rates([2, 3], machine) == EpochRates(
        message=1.0, row=5.0, nonzero=2.5, own_row=9.0
    )
    parts = Traffic(*(np.array(pair) for pair in ([1, 2], [3, 0], [4, 5], [5, 4], [1, 2], [2, 1])))
    assert epoch_rates([2, 3], machine).seconds(parts).tolist() == [
        9 + 7.5 + 25 + 2,
        18 + 0 + 25 + 2,
    ]
    assert objective_value("time", parts, epoch_rates([2, 3], machine)) == 45.0


def test_whole_numbers_stay_whole():
    parts = Traffic(*(np.array([2, 1]) for _ in range(6)))
    for name in ("volume", "max-volume", "messages"):
        assert type(objective_value(name, parts)) is int
    assert type(objective_value("time", parts, epoch_rates([4, 2], Machine()))) is float


def test_wrong_objectives():
    parts = Traffic(*(np.array([1]) for _ in range(6)))
    with pytest.raises(InputError, match=r"'cut'.*volume, max-volume, messages, time"):
        objective_value("cut", parts)
    with pytest.raises(InputError, match="dims"):
        objective_value("time", parts)


def test_machine_files(tmp_path):
    path = tmp_path / "machine.toml"
    path.write_text("# ours\nlatency = 1e-5\nbandwidth = 3_000_000_000\nmultiply_adds = 4e10\n")
    assert read_machine(path) == Machine(1e-5, 3e9, 4e10, name="machine")
    assert read_machine(path.rename(tmp_path / "two\nlines")).name == "two?lines"
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
        ("speed = 3", "unknown key 'speed' = 3: choose from latency, bandwidth, multiply_adds"),
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
    with pytest.raises(InputError, match="not readable"):
        read_machine(tmp_path)


def test_wrong_machines():
    with pytest.raises(InputError, match="'latency'"):
        Machine(latency=0.0)
