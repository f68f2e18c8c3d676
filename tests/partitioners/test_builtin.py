"""The builtin partitioner on graphs of extreme shape."""

import numpy as np
import pytest
import scipy.sparse as sp
import worlds
from cases import pairs

from plancc.models import MODELS
from plancc.models.limits import least_maximum, part_weights
from plancc.models.problem import Hypergraph
from plancc.partitioners.builtin import ADAPTER, PRESETS
from plancc.partitioners.builtin_kernels import bisect
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume


def shape(name: str) -> sp.csr_matrix:
    if name == "star":
        return sp.csr_matrix((np.ones(399), (np.zeros(399, int), np.arange(1, 400))), (400, 400))
    if name == "path":
        return sp.diags_array([1.0], offsets=[1], shape=(400, 400)).tocsr()
    if name == "cliques":
        return sp.block_diag([np.ones((20, 20))] * 20).tocsr()
    if name == "pairs and singles":
        return sp.csr_matrix(
            (np.ones(100), (np.arange(0, 200, 2), np.arange(1, 200, 2))), (400, 400)
        )
    return sp.csr_matrix(np.ones((40, 40)))


SHAPES = ("star", "path", "cliques", "pairs and singles", "complete")


def problem_of(name, model="hp", balance="nnz"):
    array = shape(name) + shape(name).T + sp.eye_array(shape(name).shape[0])
    return MODELS[model]().build(worlds.graph_of(array), 2, balance=balance, seed=1)


def owners(problem, num_parts, epsilon=0.05, preset="default", seed=1):
    return ADAPTER.run(problem, num_parts, epsilon=epsilon, seed=seed, preset=preset, threads=1)


@pairs(name=SHAPES, model=["hp", "gp"], preset=ADAPTER.presets)
def test_no_part_is_empty_or_overweight(name, model, preset):
    problem = problem_of(name, model)
    n, weights = problem.num_vertices, problem.vertex_weights
    for num_parts in (2, 3, 7, n // 2, n - 1):
        owner = owners(problem, num_parts, preset=preset)
        assert np.bincount(owner, minlength=num_parts).min() >= 1
        allowed = int(1.05 * -(-weights.sum() // num_parts))
        loads = part_weights(owner, weights, num_parts)
        packing = num_parts == n // 2  # two vertices or so per part: fitting them is a puzzle
        assert loads.max() <= max(allowed, least_maximum(weights, num_parts)) + packing


def volume_of(problem, owner):
    nets = nets_of(problem)
    return int(volume(nets, state_of(nets, owner, int(owner.max()) + 1)))


def test_obvious_partitions_are_found():
    cliques = owners(problem_of("cliques"), 20)
    assert len(set(zip(cliques, np.arange(400) // 20, strict=True))) == 20
    path = owners(problem_of("path"), 8)
    assert (np.diff(path) != 0).sum() <= 12
    pairs = owners(problem_of("pairs and singles"), 5)
    assert (pairs[:200:2] == pairs[1:200:2]).all()


@pytest.mark.parametrize("name", SHAPES)
def test_several_constraints_without_weight_for_most(name):
    problem = problem_of(name)
    n = problem.num_vertices
    rare = (np.arange(n) % 10 == 0).astype(np.int64)
    weights = np.stack([np.ones(n, np.int64), rare], axis=1)
    owner = owners(Hypergraph(**vars(problem) | {"vertex_weights": weights}), 4, epsilon=0.1)
    assert (part_weights(owner, weights, 4) <= np.floor(1.1 * np.ceil([n / 4, n / 40]))).all()
    few = Hypergraph(**vars(problem) | {"vertex_weights": (np.arange(n) < 2).astype(np.int64)})
    owner = owners(few, 16)
    assert np.bincount(owner, minlength=16).min() >= 1
    assert owner[0] != owner[1]


def test_bisection_shares_out_the_weight():
    rng = np.random.default_rng(0)
    nets = nets_of(problem_of("path"))
    weight = rng.integers(0, 10, 400) * 2**40
    order = rng.permutation(400)
    given = order.copy()
    for num_parts in (1, 2, 5, 64, 400):
        owner = bisect(nets, weight, np.full(num_parts, 1 / num_parts), order)
        assert np.bincount(owner, minlength=num_parts).min() >= 1
        if num_parts < 64:
            loads = part_weights(owner, weight, num_parts)
            assert loads.max() <= weight.sum() / num_parts + 10 * 2**40 * num_parts
            assert (np.diff(owner) != 0).sum() <= 3 * (num_parts - 1)  # nets reach over two edges
    np.testing.assert_array_equal(order, given)


def test_more_partitions_put_communities_of_all_sizes_together():
    """Which of them fit into one part is told only by trying."""
    rng, size = np.random.default_rng(1), 1400
    blocks, left = [], size
    while left > 0:
        blocks.append(min(left, int(rng.integers(10, 60))))
        left -= blocks[-1]
    links = sp.csr_matrix((np.ones(300), rng.integers(0, size, (2, 300))), (size, size))
    array = sp.block_diag([rng.random((each, each)) < 0.4 for each in blocks]) + links
    graph = worlds.graph_of(sp.csr_matrix(array + array.T + sp.eye_array(size)))
    problem = MODELS["hp"]().build(graph, 8, balance="nnz", seed=1)
    rows = {
        preset: sum(
            volume_of(problem, owners(problem, 8, preset=preset, seed=seed)) for seed in range(5)
        )
        for preset in ("default", "eco", "strong")
    }
    assert rows["strong"] < rows["eco"] < 0.97 * rows["default"]


def test_fewer_partitions_are_refined_the_finer_a_level_is():
    strong, default = PRESETS["strong"], PRESETS["default"]
    assert [strong.left(level) for level in range(5)] == [2, 3, 4, 7, 10]
    assert {default.left(level) for level in range(5)} == {1}
