"""Epochs that leave something out: their words are those that the runtime counts."""

from dataclasses import replace

import numpy as np
import pytest
from cases import turns
from predict_helpers import rmat, trained

import plancc
from plancc.errors import InputError
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.matrix import graph_of, owners_of
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, read_tables, tables_of

PARTS, DIMS = 4, (12, 8, 3)


@pytest.fixture(scope="module")
def row():
    return plancc.compile(rmat(9, 6), "gp", PARTS, partitioner="metis")


@pytest.fixture(scope="module")
def edge():
    return plancc.compile(rmat(9, 6), "libra", PARTS)


def predicted(plan, passes=(), **left_out):
    predictor = Predictor(DIMS, find_machine("cpu-cluster"), passes, Approximation(**left_out))
    return predictor.epoch(tables_of(plan, copies=True))


def counted(plan, epochs, **options) -> float:
    """Words of an epoch: the mean over the second half of a run."""
    widths = dict(zip(("random_features", "hidden", "classes"), DIMS, strict=True))
    found = trained(plan, epochs=epochs, **widths, **options)
    return float(np.mean([each.words_sent for each in found[epochs // 2 :]]))


@turns(rate=[0.5, 0.1, 0.0], passes=[("order",), ("order", "constant")])
def test_words_of_boundary_sampling(row, rate, passes):
    found = predicted(row, passes, boundary_sampling=rate)
    real = counted(row, 10, passes=passes, boundary_sampling=rate)
    rows = rate * row.metrics().volume  # a draw deviates by the root of its mean
    assert found.words == pytest.approx(real, abs=1 + 4 * np.sqrt(rows) * sum(DIMS))
    assert not (rate == 0 and found.words)


@pytest.mark.parametrize("rate", [0.5, 0.0])
def test_products_of_boundary_sampling(row, rate):
    found, exact = predicted(row, ("order",), boundary_sampling=rate), predicted(row, ("order",))
    assert found.seconds < exact.seconds
    multiplied = [
        sum(o.nonzeros.sum() for _, o in each.schedule.operations if hasattr(o, "nonzeros"))
        for each in (found, exact)
    ]
    halo = tables_of(row, copies=True).halo_nonzeros.sum()
    parts = [row.part(m) for m in range(PARTS)]
    assert halo == sum(int((part.column >= part.num_rows).sum()) for part in parts)
    products = multiplied[1] / row.header.num_nonzeros
    assert multiplied[0] == pytest.approx(multiplied[1] - (1 - rate) * halo * products, abs=20)
    constant = predicted(row, ("order", "constant"), boundary_sampling=rate)
    first = [each for each in constant.steps if (each.layer, each.step) == (1, "multiply")]
    assert [each.direction for each in first] == ["forward"]  # of features that are kept


@turns(delay=[1, 3], passes=[(), ("constant",)])
def test_words_of_late_sums(edge, delay, passes):
    """The mean over whole turns of all bins, but for the rounding of 1 / r of a message."""
    epochs = 8 * delay
    real = counted(edge, epochs, passes=passes, fold="delayed", delay=delay)
    found = predicted(edge, passes, fold="delayed", delay=delay)
    messages = len(tables_of(edge, copies=True).leaves.rows)
    assert found.words == pytest.approx(real, abs=messages * sum(DIMS) * (delay > 1))
    assert found.words


def test_leaves_are_the_foreign_vertices_of_the_nonzeros(edge):
    leaves = tables_of(edge, copies=True).leaves
    owners, matrix = owners_of(edge), graph_of(edge)
    row = np.repeat(np.arange(matrix.num_vertices), matrix.row_nonzeros())
    expected = np.zeros((PARTS, PARTS), np.int64)
    for m in range(PARTS):
        mine = owners.nonzeros == m
        for vertex in set(row[mine].tolist()) | set(matrix.indices[mine].tolist()):
            expected[owners.rows[vertex], m] += owners.rows[vertex] != m
    found = np.zeros_like(expected)
    found[leaves.source, leaves.target] = leaves.rows
    assert np.array_equal(found, expected)


def test_no_fold_moves_nothing(edge):
    found = predicted(edge, fold="none")
    assert found.words == 0
    assert found.messages == 0
    assert counted(edge, 4, fold="none") == 0


def test_late_messages_are_waited_for_only_where_they_take_longest(edge):
    quick = predicted(edge, fold="delayed")
    none = predicted(edge, fold="none")
    packed, _ = quick.of_step("fold")
    assert quick.seconds == pytest.approx(none.seconds + packed)


def test_a_slow_network_is_what_a_late_epoch_waits_for(edge):
    machine = find_machine("cpu-cluster")
    crawling = replace(machine, latency=1.0, node=replace(machine.node, ranks=1))
    predictor = Predictor(DIMS, crawling, (), Approximation(fold="delayed"))
    found = predictor.epoch(tables_of(edge, copies=True))
    late = [each for each in found.steps if (each.direction, each.step) == ("update", "fold")]
    assert len(late) == 1
    assert late[0].slowest > 0.9 * (PARTS - 1)  # a message of a second to every other


def test_files_have_the_same_tables(row, edge, tmp_path):
    for name, plan, field in (("row", row, "halo_nonzeros"), ("edge", edge, "leaves")):
        plan.save(tmp_path / f"{name}.h5")
        found = getattr(read_tables(tmp_path / f"{name}.h5", copies=True), field)
        here = getattr(tables_of(plan, copies=True), field)
        if field == "leaves":
            found, here = found.rows, here.rows
        assert np.array_equal(found, here)
        assert getattr(read_tables(tmp_path / f"{name}.h5"), field) is None


def test_what_does_not_fit(row, edge):
    grid = with_grid(plancc.compile(rmat(9, 6), "block", 2), Grid("1d", 2, 1))
    with pytest.raises(InputError, match="needs a row plan; plan has layout 'edge'"):
        predicted(edge, boundary_sampling=0.5)
    with pytest.raises(InputError, match="`boundary_sampling` needs a row plan; plan has grid '1d"):
        predicted(grid, boundary_sampling=0.5)
    with pytest.raises(InputError, match="`fold` none needs an edge plan; plan has layout 'row'"):
        predicted(row, fold="none")
    for bad in ({"boundary_sampling": 1.5}, {"fold": "late"}, {"delay": 0}):
        with pytest.raises(InputError, match=f"`{next(iter(bad))}`"):
            Approximation(**bad)
