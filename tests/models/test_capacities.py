"""Capacities of parts: what is refused, files of them, and models that follow them."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
import worlds

from plancc.errors import InputError
from plancc.models import MODELS
from plancc.models.block import block_owner
from plancc.models.capacities import check_capacities, read_capacities, relative_capacities
from plancc.models.random import random_owner
from plancc.models.weights import Balance
from plancc.plan.metrics import imbalance


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "a list of numbers above 0 is needed"),
        (3, "`capacities` 3: a list of numbers above 0 is needed"),
        ("1,2", "a list of numbers above 0 is needed"),
        ([[1, 2]], "a list of numbers above 0 is needed"),
        ([[1], [1, 2]], "number 1 is [1]: it must be finite and above 0"),
        ([1, 0], "number 2 is 0: it must be finite and above 0"),
        ([-1.5, 2], "number 1 is -1.5"),
        ([1, float("nan")], "number 2 is nan"),
        ([1, float("inf")], "number 2 is inf"),
        ([1, "x"], "number 2 is x"),
        ([1, True], "number 2 is True"),
    ],
)
def test_wrong_capacities(given, words):
    with pytest.raises(InputError) as error:
        check_capacities(given)
    assert str(error.value).startswith("`capacities`")
    assert words in str(error.value)


def test_relative_capacities():
    assert check_capacities(np.array([1, 2])) == (1.0, 2.0)
    assert relative_capacities(3, None).tolist() == [1, 1, 1]
    assert relative_capacities(3, (0.1, 0.1, 0.1)).tolist() == [1, 1, 1]  # exactly
    assert relative_capacities(4, (1, 1, 2, 4)).tolist() == [0.5, 0.5, 1, 2]
    loads = np.array([10, 12, 20, 38])
    relative = relative_capacities(4, (1, 1, 2, 4))
    assert imbalance(loads, relative) == pytest.approx(0.2)
    assert imbalance(0 * loads, relative) == 0


def test_files(tmp_path):
    path = tmp_path / "speeds.txt"
    path.write_text("# of every rank\n1, 2.5\n\n3e0 4\n")
    assert read_capacities(path) == (1, 2.5, 3, 4)
    zipped = tmp_path / "speeds.txt.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_capacities(zipped) == (1, 2.5, 3, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n\n0\n", "line 3: the capacity is not above 0: '0'"),
        ("1,-2\n", "line 1: the capacity is not above 0: '-2'"),
        ("nan\n", "line 1: the capacity is not finite: 'nan'"),
        ("1\ninf\n", "line 2: the capacity is not finite: 'inf'"),
        ("# nothing\n", "no capacities"),
    ],
)
def test_wrong_files(tmp_path, text, words):
    path = tmp_path / "speeds.txt"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_capacities(path)
    assert str(error.value).startswith(str(path))
    assert words in str(error.value)


def test_blocks_are_cut_by_capacity():
    weights = np.ones(24, np.int64)
    assert np.bincount(block_owner(weights, 3, (1, 1, 2))).tolist() == [6, 6, 12]
    assert np.bincount(block_owner(weights, 4, (1, 1e-9, 1e-9, 1))).tolist() == [12, 1, 1, 10]
    heavy = np.array([9, 1, 1, 1, 9, 3])  # 8, 8 and 8 of 24; a quarter, a quarter, a half
    assert block_owner(heavy, 3, (1, 1, 2)).tolist() == [0, 1, 1, 1, 2, 2]
    same = block_owner(heavy, 3, (7, 7, 7))
    assert same.tolist() == block_owner(heavy, 3).tolist()


def test_random_rows_by_capacity():
    owner = random_owner(800, 3, 5, (1.0, 1.0, 2.0))
    assert np.bincount(owner).tolist() == [200, 200, 400]
    assert (np.diff(owner) != 0).sum() > 300  # in no order
    assert owner.tolist() == random_owner(800, 3, 5, (2.0, 2.0, 4.0)).tolist()
    assert random_owner(800, 3, 5, (2.0, 2.0, 2.0)).tolist() == random_owner(800, 3, 5).tolist()


@pytest.mark.parametrize("model", ["rp", "block", "rcm"])
def test_models_that_assign_rows(model):
    path = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(400, 400))
    graph = worlds.graph_of(path)
    balance = Balance(("rows",), capacities=(1.0, 5.0, 2.0))
    made = MODELS[model]().build(graph, 3, balance=balance, seed=1)
    assert np.bincount(made.rows).tolist() == [50, 250, 100]


def test_who_takes_capacities():
    able = {name for name, model in MODELS.loaded().items() if model.takes_capacities()}
    unable = {"libra", "cagnet-1d", "cagnet-1.5d", "cagnet-2d", "cagnet-3d", "mop"}
    assert able >= {"hp", "gp", "stochastic-hp", "medium-grain", "fine-grain"}
    assert able >= {"block", "rcm", "rp", "file", "auto"}
    assert not able & unable
