"""Kernels and passes for the traffic of single parts, beside dense counts of the same partition."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
import worlds
from nets_helpers import bounds, context, hypergraph

from plancc.cost.objectives import objective_value
from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.models.problem import Hypergraph
from plancc.passes.kernels.coarsening import cluster, contract
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.kernels.traffic import Tariff, flow_of, shift, sweep_traffic
from plancc.passes.refine import RefineMaxVolume, RefineTime, refiner
from plancc.plan.lowering import lower
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc_datasets import load_dataset

Owner = npt.NDArray[np.int32]


def _directed(n: int, nonzeros: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    # Columns by a power law, so that some nets have more pins than there are parts.
    columns = np.minimum((n * rng.random(nonzeros) ** 3).astype(int), n - 1)
    rows, ones = rng.integers(0, n, nonzeros), np.ones(nonzeros, dtype=bool)
    return worlds.graph_of(sp.coo_array((ones, (rows, columns)), shape=(n, n)))


def _in_turn(n: int, num_parts: int) -> Owner:
    return (np.arange(n) % num_parts).astype(np.int32)


def _pairs(matrix: Graph, owner: Owner, num_parts: int) -> npt.NDArray[np.int64]:
    """Rows from part to part, by a set of (row, receiver): int64[p, p]."""
    pairs = np.zeros((num_parts, num_parts), dtype=np.int64)
    for _, _, sender, receiver in worlds.rows_moved(matrix, owner):
        pairs[sender, receiver] += 1
    return pairs


def _started(matrix: Graph, num_parts: int, seed: int, by_part: bool):
    """Random numbers, nets, the state of random owners and its flow."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, num_parts, matrix.num_vertices).astype(np.int32)
    nets = nets_of(hypergraph(matrix, num_parts))
    state = state_of(nets, owner, num_parts)
    return rng, nets, state, flow_of(nets, state, by_part)


@pytest.mark.parametrize("num_parts", [2, 5, 40])
def test_the_flow_follows_thousands_of_moves(num_parts: int) -> None:
    matrix = _directed(200, 1500, seed=num_parts)
    rng, nets, state, flow = _started(matrix, num_parts, 1, True)
    for v in rng.integers(0, 200, 2000):
        there = (state.owner[v] + rng.integers(1, num_parts)) % num_parts
        shift(v, there, nets, state, flow)
    pairs = _pairs(matrix, state.owner, num_parts)
    assert (flow.pair[0] == pairs).all()
    assert (flow.sent == pairs.sum(axis=1)).all()
    assert (flow.received == pairs.sum(axis=0)).all()
    assert (flow.messages_sent == (pairs > 0).sum(axis=1)).all()
    assert (flow.messages_received == (pairs > 0).sum(axis=0)).all()


def _cost(pairs: npt.NDArray[np.int64], tariff: Tariff) -> float:
    """What a sweep says that it minimises, without any balance."""
    total = float(pairs.sum())
    for axis in (0, 1):
        rows, messages = pairs.sum(axis=axis), (pairs > 0).sum(axis=axis)
        side = tariff.row * rows + tariff.message * messages
        total += 0.5 * tariff.pressure * (np.maximum(side - tariff.ceiling, 0) ** 2).sum()
    return total


def test_a_sweep_under_pressure_lowers_what_it_says() -> None:
    matrix = normalize(load_dataset("rmat", scale=9, edge_factor=8, seed=3).graph)
    num_parts = 6
    rng, nets, state, flow = _started(matrix, num_parts, 2, False)
    ceiling = float(flow.sent.mean())
    tariff = Tariff(1.0, 0.0, ceiling, 0.01, np.zeros(1))
    free = bounds(num_parts, 0, 0)
    costs = [_cost(_pairs(matrix, state.owner, num_parts), tariff)]
    for _ in range(3):
        order = rng.permutation(matrix.num_vertices)
        sweep_traffic(order, nets, state, flow, tariff, free)
        costs.append(_cost(_pairs(matrix, state.owner, num_parts), tariff))
    assert costs[3] < costs[2] < costs[1] < 0.8 * costs[0]


def test_contraction_keeps_the_traffic_of_every_part() -> None:
    matrix = _directed(300, 2000, seed=4)
    num_parts = 7
    rng, nets, state, _ = _started(matrix, num_parts, 5, True)
    owner = state.owner
    label = cluster(nets, rng.permutation(300), owner, np.array([200]))
    coarse = contract(nets, label)
    assert len(coarse.weight) < 250
    of_clusters = np.empty(len(coarse.weight), dtype=np.int32)
    of_clusters[label] = owner
    flow = flow_of(coarse, state_of(coarse, of_clusters, num_parts), True)
    assert (flow.pair[0] == _pairs(matrix, owner, num_parts)).all()


@pytest.mark.parametrize("objective", ["max-volume", "messages", "time"])
@pytest.mark.parametrize("directed", [False, True])
def test_refined_is_better_by_the_one_definition(objective: str, directed: bool) -> None:
    if directed:
        matrix = _directed(600, 5000, seed=7)
    else:
        matrix = normalize(load_dataset("rmat", scale=10, edge_factor=8, seed=5).graph)
    num_parts = 24 if objective == "messages" else 12  # of few all talk to all, come what may
    problem = hypergraph(matrix, num_parts)
    start = refiner("volume", 0).refine(
        _in_turn(problem.num_vertices, num_parts), problem, context(problem, num_parts, 0.05)
    )
    dims, machine = (64, 16, 8), find_machine("cpu-cluster")
    time = Predictor(dims, machine).time(matrix, num_parts)
    kept = start.owner.copy()
    better = refiner(objective, 3).refine(
        start.owner, problem, context(problem, num_parts, 0.05, time=time)
    )
    assert (start.owner == kept).all()

    def measured(owner: Owner) -> float:
        owners = Owners(owner)
        if objective != "time":
            return objective_value(objective, traffic(matrix, owners, num_parts), owners)
        valued = replace(matrix, values=np.ones(matrix.num_nonzeros, np.float32))
        plan = lower(valued, owners, num_parts, normalization="none", self_loops=False)
        return worlds.epoch_seconds(plan, dims, machine)

    assert better.before.value == measured(start.owner)
    assert better.after.value == measured(better.owner)
    assert better.after.volume == _pairs(matrix, better.owner, num_parts).sum()
    assert better.after.value < better.before.value
    assert better.after.volume <= 1.08 * better.before.volume
    heaviest = np.bincount(better.owner, weights=problem.vertex_weights).max()
    total = problem.vertex_weights.sum()
    assert heaviest <= max(1.05 * np.ceil(total / num_parts), problem.vertex_weights.max())


@pytest.mark.parametrize("held", ["max-volume", "messages"])
def test_sweeps_that_hold_the_traffic_lower_the_volume(held: str) -> None:
    matrix, num_parts = _directed(800, 6000, seed=11), 16
    _, nets, state, flow = _started(matrix, num_parts, 3, held == "messages")
    before = _pairs(matrix, state.owner, num_parts)
    busiest = max(before.sum(axis=0).max(), before.sum(axis=1).max())
    tariff = refiner(held)._held(busiest)
    for _ in range(2):
        order = np.arange(matrix.num_vertices)
        sweep_traffic(order, nets, state, flow, tariff, bounds(num_parts, 0, 0))
    after = _pairs(matrix, state.owner, num_parts)
    assert after.sum() < 0.9 * before.sum()
    if held == "messages":
        assert (after > 0).sum() <= (before > 0).sum()
    else:
        assert max(after.sum(axis=0).max(), after.sum(axis=1).max()) <= busiest


@pytest.mark.parametrize("objective", ["max-volume", "messages"])
def test_without_extra_volume_the_objective_falls_all_the_same(objective: str) -> None:
    matrix, num_parts = _directed(600, 2500, seed=7), 24
    problem = hypergraph(matrix, num_parts)
    start = refiner("volume", 0).refine(
        _in_turn(600, num_parts), problem, context(problem, num_parts, 0.05)
    )
    better = refiner(objective, 3, 0.0).refine(
        start.owner, problem, context(problem, num_parts, 0.05)
    )
    assert better.after.value < better.before.value
    assert better.after.volume <= better.before.volume


def test_what_a_pass_needs() -> None:
    matrix = _directed(50, 200, seed=1)
    problem = hypergraph(matrix, 3)
    owner = _in_turn(50, 3)
    with pytest.raises(InputError, match="a prediction of epoch times"):
        RefineTime().refine(owner, problem, context(problem, 3))
    bare = Hypergraph(problem.net_ptr, problem.pins, problem.vertex_weights)
    with pytest.raises(InputError, match="needs a hypergraph with `net_sources`"):
        RefineMaxVolume().refine(owner, bare, context(bare, 3))
    assert volume(nets_of(bare), state_of(nets_of(bare), owner, 3)) > 0
