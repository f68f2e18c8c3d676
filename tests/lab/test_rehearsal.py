"""Rehearsed runs: the same bits, words and messages as on threads; times by hand."""

import gc
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import worlds
from cases import some
from runs import file_of, trained, with_data
from worlds import CLASSES, WIDTH

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc.memory import available_memory
from plancc.predict.machine import CollectiveShapes, Machine, Node
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import read_tables
from plancc_lab.rehearse.command import links_of
from plancc_lab.rehearse.rehearsal import Rehearsal, rehearse
from plancc_runtime.options import TrainOptions

pytestmark = pytest.mark.usefixtures("opened_once")
MACHINE = Machine(
    latency=2e-6, bandwidth=1e9, multiply_adds=1e9, node=Node(ranks=3, latency=1e-6, bandwidth=4e8)
)
LAYOUTS = {
    "row": "row",
    "edge": "edge",
    "grid 1.5d": "1.5d 2x2",
    "grid 2d": "2d 2x2",
    "feature": "feature 1x4",
}


def plan_of(layout: str, num_parts: int = 4) -> Path:
    return file_of("undirected", LAYOUTS[layout], num_parts)


def rehearsed(plan: Path, options: TrainOptions, machine: Machine = MACHINE, **more) -> Rehearsal:
    return rehearse(plan, options, links_of(machine, read_tables(plan).num_ranks), **more)


OPTIONS = TrainOptions(
    **{"epochs": 2, "layers": 2, "hidden": 8}, **{"optimizer": "sgd", "eval_every": 0, "threads": 1}
)
ONCE = replace(OPTIONS, epochs=1)
CASES = {
    "row": ("row", {}),
    "row without overlap": ("row", {"passes": ("order",)}),
    "row, attention": ("row", {"model": "gat", "heads": 2}),
    "row, batch norm and dropout": ("row", {"norm": "batch", "dropout": 0.3}),
    "row, narrow wire": ("row", {"wire": "bf16", "optimizer": "adam"}),
    "row, sampled boundary": ("row", {"boundary_sampling": 0.5}),
    "row, mini-batches": ("row", {"batch_size": 30, "steps": 2}),
    "row, owners draw": (
        "row",
        {"sampler": "neighbour", "fanouts": (2, 2), "batch_size": 9, "steps": 16, "draw": "owners"},
    ),
    "edge": ("edge", {}),
    "edge, late folds": ("edge", {"fold": "delayed", "delay": 2, "epochs": 3}),
    "edge, no folds": ("edge", {"fold": "none"}),
    "grid 1.5d": ("grid 1.5d", {}),
    "grid 2d": ("grid 2d", {}),
    "feature": ("feature", {}),
    "feature, pipeline": ("feature", {"pipeline": "2"}),
}


LONG = ("row", "row without overlap", "row, narrow wire", "row, sampled boundary")
LONG += ("edge, no folds", "grid 1.5d", "feature")


@some(lambda case: case not in LONG, case=CASES)
def test_losses_words_and_weights_are_those_of_the_run(case):
    layout, given = CASES[case]
    options, plan = replace(OPTIONS, **given), plan_of(layout)
    right = trained(plan, options, 4)[0]
    found = rehearsed(plan, options)
    assert [each.loss for each in found.result.epochs] == [each.loss for each in right.epochs]
    for mine, theirs in zip(found.result.epochs, right.epochs, strict=True):
        for name in ("words_sent", "messages_sent", "bytes_sent", "words_sent_max"):
            assert getattr(mine, name) == getattr(theirs, name)
        assert mine.words_reduced == theirs.words_reduced
    for name, weights in right.weights.items():
        assert found.result.weights[name].tolist() == weights.tolist()
    assert found.result.steps == right.steps
    assert found.result.drawing == ""  # no trial of ways in virtual time
    assert found.measured_alone == (options.fold != "delayed")
    assert len(found.epochs) == options.epochs
    for epoch in (*found.epochs, found.typical):
        assert (epoch.computed > 0).all()
        assert np.allclose(epoch.computed + epoch.networked + epoch.waited, epoch.seconds)
        path = epoch.critical_path()
        assert sum(stretch.seconds for stretch in path) == pytest.approx(epoch.seconds)
        stages = [stage.stage for stage in epoch.path_stages()]
        assert {"layer 1 forward", "update"} <= set(stages)


def test_an_epoch_without_computing_takes_what_the_simulation_says_of_messages(tmp_path):
    """Two ranks, one value of processor time for ever: only messages and the all-reduce count."""
    plan = with_data(worlds.plan("undirected", "row", 2), VertexData(), tmp_path / "plan.h5")
    options = replace(OPTIONS, random_features=6, classes=4)
    found = rehearsed(plan, options, cpu=lambda: 1.0)
    predicted = Predictor([6, 8, 4], MACHINE).epoch(read_tables(plan))
    moved = [each for each in predicted.steps if each.step in ("expand", "all-reduce")]
    assert len(moved) == 3
    assert MACHINE.compute.stream is None  # else packing would be in these steps too
    expected = sum(each.slowest for each in moved)
    assert found.seconds == pytest.approx(expected, rel=1e-9)
    assert found.typical.computed.tolist() == [0.0, 0.0]
    assert [epoch.seconds for epoch in found.epochs] == pytest.approx([expected] * 2)


def test_collectives_take_the_shape_of_the_machine():
    """Trees and rings of a grid plan without computing: both as the simulation has them."""
    for shape in ("tree", "ring"):
        machine = replace(MACHINE, collective=CollectiveShapes(shape, shape))
        found = rehearsed(plan_of("grid 2d"), ONCE, machine, cpu=lambda: 1.0)
        predicted = Predictor([WIDTH, 8, CLASSES], machine).epoch(read_tables(plan_of("grid 2d")))
        moved = sum(each.slowest for each in predicted.steps if each.step == "all-reduce")
        assert moved < found.seconds <= predicted.communication * (1 + 1e-9)


def test_garbage_is_collected_again_afterwards():
    assert gc.isenabled()
    with pytest.raises(InputError, match="`heads` 3"):
        rehearsed(plan_of("row"), replace(OPTIONS, model="gat", heads=3))
    assert gc.isenabled()


def test_the_timeline_shows_epochs_stages_and_the_critical_path(tmp_path):
    losses, path = [], tmp_path / "trace.json"
    found = rehearsed(
        plan_of("row", 3), OPTIONS, report=lambda measure: losses.append(measure.loss)
    )
    assert gc.isenabled()
    assert losses == [epoch.loss for epoch in found.result.epochs]  # of rank 0, after every epoch
    found.write_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    titles = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert titles == ["rank 0", "rank 1", "rank 2", "critical path"]
    for rank in range(3):
        own = {e["name"]: e for e in events if e["ph"] == "X" and e["pid"] == rank}
        spans = ("epoch 0", "epoch 1", "typical epoch")
        assert {*spans, "layer 1 forward", "layer 2 back", "update"} < own.keys()
        assert {"spmm", "dense", "wait", "pack", "allreduce"} < own.keys()
        assert own["epoch 0"]["ts"] == 0
        for before, after, epoch in zip(spans, spans[1:], found.epochs, strict=False):
            assert own[before]["dur"] == pytest.approx(1e6 * epoch.seconds, abs=0.01)
            assert own[before]["ts"] + own[before]["dur"] == pytest.approx(
                own[after]["ts"], abs=0.01
            )
    critical = [e for e in events if e["ph"] == "X" and e["pid"] == 3]
    assert critical[0]["ts"] == pytest.approx(1e6 * sum(e.seconds for e in found.epochs), abs=0.01)
    assert sum(e["dur"] for e in critical) == pytest.approx(1e6 * found.seconds, abs=0.1)
    assert all(e["name"].startswith("rank ") for e in critical)


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 7 kB\n"}, 7 * 1024),
        (  # version 2: the group above has the limit
            {
                "proc/meminfo": "MemAvailable: 900 kB\n",
                "proc/self/cgroup": "0::/jobs/one\n",
                "sys/fs/cgroup/jobs/one/memory.max": "max\n",
                "sys/fs/cgroup/jobs/one/memory.current": "5\n",
                "sys/fs/cgroup/jobs/memory.max": "5000\n",
                "sys/fs/cgroup/jobs/memory.current": "4000\n",
                "sys/fs/cgroup/jobs/memory.stat": "anon 1\ninactive_file 200\nactive_file 100\n",
            },
            1300,
        ),
        (  # version 1
            {
                "proc/meminfo": "MemAvailable: 900 kB\n",
                "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "700\n",
                "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "800\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "800\n",
            },
            0,
        ),
    ],
)
def test_memory_that_is_left(files, expected, tmp_path):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert available_memory(tmp_path) == expected
