"""The one prediction: the same for owners and their plan; its bound; its rates for estimates."""

import numpy as np
import pytest
from cases import turns

import plancc
from plancc.graph.owners import Owners
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower
from plancc.predict.machine import Compute, Machine, Node, Overlap
from plancc.predict.machine_files import find_machine, shipped_machines
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import read_tables, tables_of

FLAT = Machine(latency=3e-6, bandwidth=2e9, multiply_adds=7e8)
DIMS = (20, 12, 8, 5)


@pytest.fixture(scope="module")
def uneven(matrix):
    """Owners whose parts differ much in rows: a third of them are part 0's."""
    random = np.random.default_rng(2)
    return random.choice(7, matrix.num_vertices, p=[0.34, 0.2, 0.16, 0.1, 0.1, 0.05, 0.05])


@turns(name=shipped_machines(), dims=[DIMS, (8, 8, 4), (5, 30)])
def test_owners_and_their_plan_take_the_same_time(matrix, uneven, name, dims, tmp_path):
    predictor = Predictor(dims, find_machine(name))
    owners = Owners(uneven.astype(np.int32))
    plan = lower(matrix, owners, 7, normalization="none", self_loops=False)
    plan.save(tmp_path / "plan.h5")
    expected = predictor.of_owners(matrix, owners, 7).seconds
    assert predictor.epoch(tables_of(plan)).seconds == expected
    assert predictor.epoch(read_tables(tmp_path / "plan.h5")).seconds == expected


@pytest.mark.parametrize("name", shipped_machines())
def test_owners_of_nonzeros_and_their_plan_take_the_same_time(matrix, uneven, name):
    predictor = Predictor(DIMS, find_machine(name))
    rows = uneven.astype(np.int32)
    of_row = np.repeat(np.arange(matrix.num_vertices), np.diff(matrix.indptr))
    owner = np.random.default_rng(4).integers(0, 7, matrix.num_nonzeros).astype(np.int32)
    diagonal = of_row == matrix.indices
    owner[diagonal] = rows[of_row[diagonal]]
    owners = Owners(rows, owner)
    plan = lower(matrix, owners, 7, normalization="none", self_loops=False)
    assert predictor.epoch(tables_of(plan)).seconds == (
        predictor.of_owners(matrix, owners, 7).seconds
    )


@turns(
    name=shipped_machines(),
    grid=[
        *(Grid("1d", 4), Grid("1d", 4, sparse=True), Grid("1.5d", 4, 2), Grid("2d", 2, 2)),
        *(Grid("3d", 2, 2, 2), Grid("feature", 1, 4), Grid("feature", 3, 2)),
    ],
)
def test_owners_of_blocks_and_their_grid_plan_take_the_same_time(matrix, uneven, grid, name):
    predictor = Predictor(DIMS, find_machine(name))
    owners = Owners((uneven % grid.num_parts).astype(np.int32))
    plan = lower(matrix, owners, grid.num_parts, normalization="none", self_loops=False)
    found = predictor.of_owners(matrix, owners, grid.num_parts, grid).seconds
    assert predictor.epoch(tables_of(with_grid(plan, grid))).seconds == found


def test_random_is_the_model_rp(matrix):
    predictor = Predictor(DIMS, FLAT)
    plan = plancc.compile(matrix, model="rp", num_parts=6, seed=1)
    assert predictor.of_random(matrix, 6).seconds == predictor.epoch(tables_of(plan)).seconds


def test_bound_by_hand():
    # widths 6 -> 4 -> 3, no pass left out; 40 rows and 200 nonzeros over 4 ranks
    dims, rows, nonzeros = (6, 4, 3), 10, 50
    sparse = nonzeros * (6 + 4 + 4 + 3)  # forward d_in, back d_out, in both layers
    dense = rows * (2 * 6 * 4 + 3 * 4 * 3)  # x W and dW; in the second layer dx too
    reduce = 2 * 3 * 3e-6 + 2 * 3 / 4 * 4 * (6 * 4 + 4 + 4 * 3 + 3 + 1) / 2e9
    expected = (sparse + dense) / 7e8 + reduce
    assert Predictor(dims, FLAT, ()).bound(40, 200, 4) == pytest.approx(expected, rel=1e-12)


def test_bound_of_unequal_ranks_by_hand():
    """Work in proportion to speed: as many seconds as on ranks of the mean speed."""
    speed = (1.0, 1.0, 2.0, 4.0)
    machine = Machine(3e-6, 2e9, 7e8, speed=speed)
    one = Predictor((6, 4, 3), Machine(3e-6, 2e9, 7e8 * 2), ()).bound(80, 400, 4)
    assert Predictor((6, 4, 3), machine, ()).bound(80, 400, 4) == pytest.approx(one, rel=1e-12)
    alike = Predictor(DIMS, FLAT).rates(1000, 9000, 4)
    assert Predictor(DIMS, machine).rates(1000, 9000, 4) == alike


@pytest.mark.parametrize("num_parts", [2, 3, 8, 64])
def test_rates_of_a_flat_machine(num_parts):
    # as the tables of the simulation have it: everything is linear there
    found = Predictor((6, 4, 3), FLAT, ()).rates(8000, 90000, num_parts)
    assert found.message == pytest.approx(4 * 3e-6, rel=1e-6)
    assert found.row == pytest.approx(4 * (6 + 4 + 4 + 3) / 2e9, rel=1e-6)
    assert found.nonzero == pytest.approx((6 + 4 + 4 + 3) / 7e8, rel=1e-6)
    assert found.own_row == pytest.approx((2 * 6 * 4 + 3 * 4 * 3) / 7e8, rel=1e-6)


def test_rates_of_a_machine_with_nodes():
    # 4 ranks share a way of twice a rank's bandwidth, and 2 cores; peers are on other nodes mostly
    machine = Machine(
        latency=1e-5,
        bandwidth=1e9,
        multiply_adds=1e9,
        node=Node(ranks=4, cores=2, injection=2e9, latency=1e-6, bandwidth=1e10),
        compute=Compute(dense=4e9, stream=2e9, overhead=1e-6),
    )
    flat = Machine(latency=1e-5, bandwidth=1e9, multiply_adds=1e9)
    found, plain = (Predictor((8, 4), each, ()).rates(4000, 40000, 16) for each in (machine, flat))
    assert found.nonzero == pytest.approx(2 * plain.nonzero)  # two ranks to a core
    assert 1e-6 * 2 < found.message < plain.message  # some of them stay inside the node
    assert found.row > plain.row  # the shared way is half as wide, and rows are packed


@pytest.mark.parametrize("name", shipped_machines())
def test_rates_tell_what_a_small_change_costs(name):
    """More rows of all parts, as the prediction and as the rates see it."""
    predictor = Predictor(DEFAULT_DIMS, find_machine(name))
    rates = predictor.rates(20000, 300000, 8)
    less, more = (predictor.bound(size, 300000, 8) for size in (20000, 20160))
    assert (more - less) / 20 == pytest.approx(rates.own_row, rel=0.05)
    less, more = (predictor.bound(20000, size, 8) for size in (300000, 302400))
    assert (more - less) / 300 == pytest.approx(rates.nonzero, rel=0.05)
    assert min(rates) > 0


def test_one_part_exchanges_nothing():
    rates = Predictor(DIMS, FLAT).rates(100, 500, 1)
    assert rates.message == rates.row == 0
    assert min(rates.nonzero, rates.own_row) > 0


def test_overlap_makes_no_rate_negative():
    machine = Machine(latency=1e-9, bandwidth=1e12, multiply_adds=1e9, overlap=Overlap(1.0))
    assert min(Predictor(DIMS, machine).rates(1000, 5000, 4)) >= 0
