"""Profiles of epochs: what torch's profiler sees, and a run that they leave as it was."""

import json
from dataclasses import replace

import numpy as np
import pytest
import reference
import worlds
from runs import trained
from worlds import N

from plancc.errors import OutputError
from plancc_runtime.options import TrainOptions
from plancc_runtime.profile import EPOCHS
from plancc_runtime.train import train
from plancc_runtime.transport.single import SingleTransport

OPTIONS = TrainOptions(hidden=6, epochs=2, threads=1, optimizer="adam", lr=0.1, passes=("order",))


@pytest.fixture(scope="module")
def plans():
    """The header and parts of one rank, and of two."""
    data = replace(worlds.data(width=12, classes=4), train_mask=np.ones(N, bool))
    data = replace(data, labels=np.maximum(data.labels, 0))
    a = worlds.array("undirected")
    return {p: reference.make_parts(a, worlds.owners(N, p), p, data) for p in (1, 2)}


@pytest.mark.parametrize("options", [{}, {"dropout": 0.5, "epochs": 0}, {"batch_size": 20}])
def test_the_phases_stand_around_the_operations_and_nothing_is_learnt(plans, options, tmp_path):
    path = tmp_path / "profile.json"
    options = replace(OPTIONS, **options)
    first, second = trained(plans[2], replace(options, profile=path))
    assert first.profile == second.profile == first.to_dict()["profile"]
    for word in (f"{EPOCHS} epochs of rank", "Self CPU", "aten::"):  # of the longest operations
        assert word in first.profile
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {"wait", "spmm", "allreduce", "aten::mm"} <= {e["name"] for e in events}
    plain = trained(plans[2], options)[0]
    assert plain.profile is None
    assert [each.loss for each in plain.epochs] == [each.loss for each in first.epochs]
    for name, weight in plain.weights.items():
        np.testing.assert_array_equal(weight, first.weights[name])


def test_one_rank_and_a_file_that_cannot_be_written(plans, tmp_path):
    header, parts = plans[1]
    options = replace(OPTIONS, epochs=0, profile=tmp_path / "profile.json")
    result = train((header, parts[0]), options, SingleTransport())
    assert "rank 0" in result.profile
    with pytest.raises(OutputError, match=r"none/profile\.json"):
        trained(plans[2], replace(options, profile=tmp_path / "none" / "profile.json"))
