"""Profiles of epochs: bytes and flops counted by hand, and a run that they leave as it was."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
import worlds
from runs import trained
from worlds import N

from plancc_cli.render_profile import print_profile
from plancc_cli.tables import console
from plancc_runtime import operations as operations_module
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.single import SingleTransport

pytestmark = pytest.mark.usefixtures("small_measurements")
WIDTH, HIDDEN, CLASSES = 12, 6, 4
OPTIONS = TrainOptions(
    **{"hidden": HIDDEN, "epochs": 2, "threads": 1, "optimizer": "sgd", "lr": 0.1},
    **{"profile": True, "passes": ("order",)},
)


@pytest.fixture(scope="module")
def plans():
    """The header and parts of one rank, and of two."""
    data = replace(worlds.data(width=WIDTH, classes=CLASSES), train_mask=np.ones(N, bool))
    data = replace(data, labels=np.maximum(data.labels, 0))
    a = worlds.array("undirected")
    return {p: reference.make_parts(a, worlds.owners(N, p), p, data) for p in (1, 2)}


@pytest.fixture(scope="module")
def profiled(plans, small_measurements):
    [result] = trained(plans[1], OPTIONS)
    return result


def operations(profile, name):
    return {each.stage: each for each in profile.operations if each.name == name}


def test_bytes_and_flops_of_products_as_counted_by_hand(plans, profiled):
    """Layer 1 is x W (12 > 6 columns), then A; layer 2 likewise with 6 > 4 columns."""
    nnz = np.count_nonzero(worlds.array("undirected"))
    matrix = nnz * (4 + 4) + 8 * (N + 1)
    sparse = operations(profiled.profile, "sparse product")
    assert {stage: (each.calls, each.num_bytes, each.flops) for stage, each in sparse.items()} == {
        f"layer {k} {way}": (1, matrix + 2 * 4 * N * width, 2 * nnz * width)
        for k, width in ((1, HIDDEN), (2, CLASSES))
        for way in ("forward", "back")
    }
    dense = operations(profiled.profile, "dense product")
    one, two = WIDTH * HIDDEN, HIDDEN * CLASSES
    assert {stage: each.flops for stage, each in dense.items()} == {
        "layer 1 forward": 2 * N * one,
        "layer 2 forward": 2 * N * two,
        "layer 2 back": 2 * 2 * N * two,  # for the weights and for what enters
        "layer 1 back": 2 * N * one,  # features have no gradient
    }
    assert dense["layer 1 forward"].num_bytes == 4 * (N * WIDTH + one + N * HIDDEN)


def test_the_bound_is_that_of_the_products(profiled):
    profile = profiled.profile
    best = [
        max(each.num_bytes / profile.copy_bandwidth, each.flops / profile.product_rate)
        for each in profile.operations
    ]
    assert [each.best for each in profile.operations] == pytest.approx(best)
    flops = [each.flops > 0 for each in profile.operations]
    assert profile.bound == pytest.approx(np.dot(best, flops))
    spent = sum(each.seconds for each in profile.operations)
    assert 0 < spent + profile.wait < profile.profiled
    assert 1e6 < profile.copy_bandwidth < 1e13
    assert 1e6 < profile.product_rate < 1e16


def test_weights_and_losses_are_those_without_a_profile(plans, profiled):
    [plain] = trained(plans[1], replace(OPTIONS, profile=False))
    assert plain.profile is None
    assert [each.loss for each in plain.epochs] == [each.loss for each in profiled.epochs]
    assert plain.final.loss == profiled.final.loss
    for name, weight in plain.weights.items():
        np.testing.assert_array_equal(weight, profiled.weights[name])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"model": "gat", "heads": 2}, "attention, adjoint"),
        ({"model": "sage", "aggregator": "max"}, "extreme over edges"),
        ({"optimizer": "adam", "dropout": 0.5, "epochs": 0}, "sparse product"),
        ({"batch_size": 20}, "sparse product"),
        ({"boundary_sampling": 0.5}, "sparse product"),
    ],
)
def test_ranks_agree_on_the_profile_of_the_slowest(plans, options, name):
    first, second = trained(plans[2], replace(OPTIONS, **options))
    assert first.profile == second.profile
    assert first.profile.rank in (0, 1)
    assert operations(first.profile, name)
    assert first.profile.wait > 0


def test_the_table_has_every_stage(profiled, capsys):
    print_profile(profiled.profile, console(width=140))
    text = capsys.readouterr().out
    for word in ("layer 1 forward", "layer 2 back", "loss", "update", "times the bound", "GB/s"):
        assert word in text
    assert profiled.to_dict()["profile"]["bound"] == profiled.profile.bound


def test_one_rank_without_threads_and_nobody_listens_afterwards(plans):
    header, parts = plans[1]
    result = train((header, parts[0]), replace(OPTIONS, epochs=0), SingleTransport())
    assert result.profile is not None
    assert result.profile.epoch > 0
    assert operations_module._local.listener is None
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
