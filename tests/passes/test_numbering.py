"""Numbers of parts for a machine, against the simulation and exhaustive search."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from nets_helpers import groupings, random_pairs, renumbered

from plancc.passes.numbering import MapToMachine, seconds, sums_of
from plancc.passes.presets import MEAN
from plancc.predict.machine import Compute, Machine, Node, Overlap
from plancc.predict.machine_files import find_machine, shipped_machines
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Tables, pairs_of

DIMS = (20, 12, 8, 5)


def bare(machine: Machine) -> Machine:
    """The machine without overheads of operations, which every rank has, and without overlap."""
    compute = replace(machine.compute, overhead=0.0)
    return replace(machine, compute=compute, overlap=Overlap())


def of_nodes(size: int, **options) -> Machine:
    """A machine whose network is slow beside its nodes."""
    node = Node(ranks=size, injection=5e9, latency=1e-6, bandwidth=2e10)
    return Machine(2e-5, 4e9, 5e9, node=node, compute=Compute(stream=1e10), **options)


def simulated(exchanges: list[np.ndarray], predictor: Predictor) -> float:
    """Seconds of the slowest rank in expand and fold, and `MEAN` times those of the mean rank."""
    ones = np.ones(len(exchanges[0]), np.int64)
    pairs = [pairs_of(sp.csr_array(each)) for each in exchanges]
    fold = pairs[1] if len(pairs) > 1 else None
    tables = Tables("random", "row" if fold is None else "edge", ones, ones, pairs[0], fold)
    of_rank = predictor.epoch(tables).of_rank
    return sum(of_rank[step].max() + MEAN * of_rank[step].mean() for step in ("expand", "fold"))


def numbers(exchanges, predictor: Predictor, seed: int = 1) -> np.ndarray:
    p = len(exchanges[0])
    speeds = predictor.machine.speeds(p)
    pass_ = MapToMachine(predictor.links(p), speeds, seed)
    found = pass_.run([sp.csr_array(each) for each in exchanges])
    assert found.dtype == np.int32
    assert sorted(found) == list(range(p))
    return found


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("passes", [(), ("order", "constant")])
def test_links_are_those_of_the_simulation(steps, passes):
    """The kernel's time of random pairs, as they are numbered and under random numbers."""
    machines = {name: find_machine(name) for name in shipped_machines()}
    machines["speeds"] = replace(machines["summit"], speed=(1.0, 3.0, 0.5))
    for name, machine in machines.items():
        rng, p = np.random.default_rng(len(name)), 5 * machine.node.ranks // 2 + 2
        predictor = Predictor(DIMS, bare(machine), passes)
        exchanges = [random_pairs(rng, p, fill, 500) for fill in (0.3, 0.7)[:steps]]
        rows, links = np.stack(exchanges).astype(np.float64), predictor.links(p)
        for rank in (np.arange(p), rng.permutation(p)):
            found = seconds(sums_of(rows, links.node[rank]), rank, links)
            expected = simulated([renumbered(each, rank) for each in exchanges], predictor)
            assert found == pytest.approx(expected, rel=1e-12), name


@given(
    nodes=st.integers(1, 4),
    size=st.integers(1, 4),
    left=st.integers(0, 2),
    fill=st.sampled_from([0.0, 0.2, 1.0]),
    steps=st.integers(1, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_never_worse(nodes, size, left, fill, steps, seed):
    """Also where the last node is not full; the same seed gives the same numbers."""
    p = max(1, nodes * size - left)
    rng, predictor = np.random.default_rng(seed), Predictor(DIMS, of_nodes(size))
    exchanges = [random_pairs(rng, p, fill, 500) for _ in range(steps)]
    number = numbers(exchanges, predictor)
    reached = simulated([renumbered(each, number) for each in exchanges], predictor)
    before = simulated(exchanges, predictor)
    assert reached <= before * (1 + 1e-12)
    assert number.tolist() == numbers(exchanges, predictor).tolist()
    if reached < before * (1 - 1e-9):
        assert number.tolist() != list(range(p))
    else:
        assert number.tolist() == list(range(p))


def test_close_to_the_best_of_all():
    """Six parts on three nodes have 15 different numberings; over many the pass is near."""
    predictor, found, best, before = Predictor(DIMS, of_nodes(2)), 0.0, 0.0, 0.0
    every = [np.argsort(order) for order in groupings(tuple(range(6)), 2)]
    assert len(every) == 15
    for seed in range(12):
        exchanges = [random_pairs(np.random.default_rng(seed), 6, most=500)]
        reached = {
            number.tobytes(): simulated([renumbered(exchanges[0], number)], predictor)
            for number in every
        }
        number = numbers(exchanges, predictor)
        found += simulated([renumbered(exchanges[0], number)], predictor)
        best += min(reached.values())
        before += simulated(exchanges, predictor)
    assert best * (1 - 1e-12) <= found <= 1.02 * best
    assert found < 0.95 * before


def test_only_parts_of_equal_speed_change_places():
    machine = of_nodes(3, speed=(1.0, 2.0, 1.0))
    rng, predictor = np.random.default_rng(2), Predictor(DIMS, machine)
    exchanges = [random_pairs(rng, 12, most=500)]
    number = numbers(exchanges, predictor)
    assert number.tolist() != list(range(12))
    speeds = machine.speeds(12)
    assert (speeds[number] == speeds).all()
    links = predictor.links(12)
    nobody = MapToMachine(links, np.arange(12.0)).run([sp.csr_array(exchanges[0])])
    assert nobody.tolist() == list(range(12))


@pytest.mark.parametrize(("p", "size"), [(1, 1), (1, 4), (4, 4), (3, 8)])
def test_one_node_keeps_the_numbers(p, size):
    exchanges = [random_pairs(np.random.default_rng(0), p, most=500)]
    assert numbers(exchanges, Predictor(DIMS, of_nodes(size))).tolist() == list(range(p))


def test_other_seeds_try_other_swaps():
    exchanges = [random_pairs(np.random.default_rng(7), 24, most=500)]
    predictor = Predictor(DIMS, of_nodes(4))
    found = {numbers(exchanges, predictor, seed).tobytes() for seed in range(4)}
    assert len(found) > 1
