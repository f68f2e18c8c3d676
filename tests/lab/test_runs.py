"""Logs and timelines of runs: what is read is what stands there, and what is wrong is named."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plancc.errors import InputError
from plancc_lab.report.runs import COLUMNS, NOTHING, PHASES, read_log, read_timeline


def epoch(number: int, **changes: Any) -> dict[str, Any]:
    seconds = {"pack": 0.1, "wait": 0.2, "spmm": 0.3, "dense": 0.4, "allreduce": 0.5, "other": 0.6}
    return {
        "epoch": number,
        "loss": 2.0 / (number + 1),
        "val_loss": None,
        "accuracy": {},
        "seconds_mean": {**seconds, "communication": 0.3, "total": 2.1},
        "seconds_max": {**seconds, "communication": 0.3, "total": 2.5 + number},
        "words_sent": 100 + number,
    } | changes


def write_log(folder: Path, *lines: Any) -> Path:
    path = folder / "run.jsonl"
    text = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{line}\n" for line in text))
    return path


def test_a_log_is_read_by_columns(tmp_path):
    evaluated = epoch(5, val_loss=1.5, accuracy={"train": 0.5, "test": 0.25}, r2={"val": -3})
    diverged = epoch(6, loss=math.nan)
    log = read_log(write_log(tmp_path, epoch(4), evaluated, diverged))
    assert log.epoch.tolist() == [4, 5, 6]
    assert log.words.tolist() == [104, 105, 106]
    np.testing.assert_allclose(log.loss["train"], [0.4, 1 / 3, math.nan])
    np.testing.assert_array_equal(log.loss["val"], [math.nan, 1.5, math.nan])
    assert {name: {*each} for name, each in log.scores.items()} == {
        "accuracy": {"train", "test"},
        "r2": {"val"},
    }
    np.testing.assert_array_equal(log.scores["accuracy"]["test"], [math.nan, 0.25, math.nan])
    assert tuple(log.phases) == PHASES
    assert log.phases["dense"].tolist() == [0.4] * 3
    assert log.slowest.tolist() == [6.5, 7.5, 8.5]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "empty"),
        ([epoch(0), '{"epoch": 1, "loss": 0.'], r"line 2: .*cut off: {\"epoch\": 1"),
        ([epoch(0), "", "[1, 2]"], r"line 3: is not a JSON object .*\[1, 2\]"),
        ([{"step": 1, "loss": 2.0}], r"line 1: 'epoch' is missing"),
        ([epoch(0, loss="low")], "line 1: loss is low, not a number"),
        ([epoch(0, loss=True)], r"line 1: loss is true"),
        ([epoch(0, epoch=-1)], r"line 1: epoch is -1"),
        ([epoch(0), epoch(0)], r"line 2: epoch 0 follows epoch 0"),
        ([epoch(0, accuracy=[0.5])], r"line 1: accuracy is \[0.5\]"),
        ([epoch(0, seconds_mean={"spmm": -1})], r"line 1: seconds_mean of 'spmm' is -1"),
        ([epoch(0, seconds_max={"spmm": 1})], r"line 1: seconds_max has no 'total'"),
        (["[" * 100_000], r"line 1: .*cut off: \[\[\["),
        ([epoch(0, loss=10**400)], r"line 1: loss is 1000"),
        ([epoch(0, plan=7)], r"line 1: plan must be a content hash, got 7"),
        ([epoch(0), epoch(1, plan="a" * 64), epoch(2, plan="b" * 64)], r"line 3: the plan differs"),
    ],
)
def test_what_is_no_log_is_named(tmp_path, lines, words):
    with pytest.raises(InputError, match=rf"run\.jsonl.*{words}") as caught:
        read_log(write_log(tmp_path, *lines))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: no such file"):
        read_log(tmp_path / "none.jsonl")


def span(rank: int, name: str, begin: float, end: float) -> dict[str, Any]:
    return {"name": name, "ph": "X", "pid": rank, "tid": 0, "ts": begin, "dur": end - begin}


def title(track: int, text: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": track, "args": {"name": text}}


def write_trace(folder: Path, events: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(events if isinstance(events, str) else json.dumps({"traceEvents": events}))
    return path


EVENTS = [
    title(0, "rank 0"),
    title(1, "rank 1"),
    title(2, "critical path"),
    *(span(rank, "epoch 0", 0, 10_000) for rank in (0, 1)),
    span(0, "epoch 1", 20_000, 21_000),
    span(1, "epoch 1", 20_100, 20_900),
    span(2, "rank 0: spmm", 0, 9_000),
    span(0, "layer 1 forward", 20_000, 20_900),
    span(0, "spmm", 20_000, 20_500),
    span(0, "dense", 20_500, 20_700),
    span(0, "spmm", 20_700, 20_750),
    span(1, "wait", 20_100, 20_800),
    *(span(rank, "epoch 2", 30_000, 30_500) for rank in (0, 1)),
]


def test_the_median_epoch_of_a_timeline(tmp_path):
    found = read_timeline(write_trace(tmp_path, EVENTS))
    assert (found.title, found.epochs, found.all_ranks) == ("epoch 1", [0, 1, 2], [0, 1])
    assert found.seconds == pytest.approx(1e-3)
    expected = {0: {"spmm": 0.55, "dense": 0.2, "other": 0.25}, 1: {"wait": 0.7, "other": 0.3}}
    for rank, shares in expected.items():
        of_rank = dict(zip(PHASES, found.shares[rank].tolist(), strict=True))
        assert of_rank == pytest.approx({name: shares.get(name, 0.0) for name in PHASES})
    first, second = found.strips
    names = [*PHASES, *[""] * (NOTHING + 1 - len(PHASES))]
    at = [0.1, 0.6, 0.72, 0.85]
    places = [int(share * COLUMNS) for share in at]
    assert [names[first[place]] for place in places] == ["spmm", "dense", "spmm", "other"]
    assert [names[second[place]] for place in places] == ["wait", "wait", "wait", "other"]
    assert second[0] == second[-1] == NOTHING  # it began later and ended earlier


def test_an_epoch_that_a_rank_has_twice_is_no_epoch_of_all(tmp_path):
    events = [
        title(0, "rank 0"),
        title(1, "rank 1"),
        *(span(rank, "epoch 0", 0, 1000) for rank in (0, 1)),
        span(0, "epoch 1", 2000, 2100),
        span(0, "epoch 1", 2200, 2400),
    ]
    found = read_timeline(write_trace(tmp_path, events))
    assert (found.title, found.epochs) == ("epoch 0", [0])
    found = read_timeline(write_trace(tmp_path, [*events, span(1, "epoch 1", 2100, 2300)]))
    assert (found.title, found.epochs) == ("epoch 1", [0, 1])
    assert found.seconds == pytest.approx(400e-6)
    outside = [(strip == NOTHING).mean() for strip in found.strips]
    assert outside == pytest.approx([0, 0.5], abs=1 / COLUMNS)  # from 2000 to 2400, 2100 to 2300


def test_a_timeline_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("plancc_lab.report.runs.LARGEST_TRACE", 3 << 20)
    path = write_trace(tmp_path, json.dumps({"traceEvents": EVENTS}) + " " * (2 << 20))
    assert read_timeline(path).title == "epoch 1"
    with open(path, "a") as stream:
        stream.write(" " * (1 << 20))
    with pytest.raises(InputError, match=r"trace\.json: is larger than 3 MiB; trace fewer epochs"):
        read_timeline(path)


def test_a_timeline_without_epochs_is_shown_as_a_whole(tmp_path):
    found = read_timeline(write_trace(tmp_path, [title(3, "rank 0"), span(3, "spmm", 5, 10)]))
    assert (found.title, found.epochs) == ("the whole run", [])
    assert found.shares[0][PHASES.index("spmm")] == pytest.approx(1)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ("{", "is not a timeline in JSON, or is cut off"),
        ("[]", "the list 'traceEvents'"),
        ([], "no event belongs to a rank"),
        ([span(0, "spmm", 0, 1)], "no event belongs to a rank"),
        ([title(0, "rank 0"), span(0, "spmm", 0, -1)], "event 1: dur is -1"),
        ([title(0, "rank 0"), {"ph": "X", "pid": "0"}], "event 1: pid is 0, not a whole"),
        ([title(0, "rank 0"), {"ph": "X", "pid": 0, "name": 3}], "event 1: the name is 3"),
        ([title(0, "rank 0"), 7], "event 1: 7 is not an event"),
        ([title(0, "rank 0"), span(0, "epoch 0", 1, 1)], "epoch 0 lasts 0 seconds"),
        (
            [title(0, "rank 0"), {"ph": "X", "pid": 0, "name": "a", "ts": math.nan, "dur": 1}],
            "event 1: ts is NaN",
        ),
    ],
)
def test_what_is_no_timeline_is_named(tmp_path, events, words):
    with pytest.raises(InputError, match=rf"trace\.json.*{words}"):
        read_timeline(write_trace(tmp_path, events))
