"""Parts that are neither too heavy nor too light."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from nets_helpers import random_owner, random_problem

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.models.limits import Limits
from plancc.passes.context import Context
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of
from plancc.passes.multilevel import Sweeps
from plancc.passes.rebalance import rebalance

N, P = 600, 8
BOTH = "nnz:0.2:0.1,rows:0.1:0.05"


def attached() -> sp.csr_array:
    """Edges to popular vertices: without a least weight some parts hold hardly anything."""
    rng = np.random.default_rng(1)
    popular = 1 / np.arange(1, N + 1) ** 0.6
    ends = rng.choice(N, (2, 5 * N), p=popular / popular.sum())
    u, v = ends[:, ends[0] != ends[1]]
    matrix = sp.csr_array((np.ones(len(u)), (u, v)), shape=(N, N))
    return ((matrix + matrix.T) > 0).astype(float)


def shares(plan, matrix) -> np.ndarray:
    """Nonzeros and rows of every part over their means, [P, 2]."""
    weights = np.stack([np.diff(matrix.indptr) + 1, np.ones(N)], axis=1)
    loads = np.stack([weights[plan.owner() == part].sum(axis=0) for part in range(P)])
    return loads / loads.mean(axis=0)


@pytest.mark.parametrize(
    "options",
    [
        {"effort": "fast"},
        {"objective": "max-volume"},
        {"objective": "time", "effort": "fast"},
        {"model": "gp", "effort": "fast", "topology": "2x4"},
        {"effort": "fast", "fixed": np.where(np.arange(N) % 9 == 0, np.arange(N) % 5, -1)},
        {"model": "gp", "partitioner": "metis"},
    ],
)
def test_searches_keep_both_limits(options):
    matrix = attached()
    plan = plancc.compile(matrix, num_parts=P, balance=BOTH, **options)
    refined = plancc.refine(plan, "volume")  # by the balance that the plan records
    for each in (plan, refined):
        of_parts = shares(each, matrix)
        assert (of_parts.min(axis=0) >= [0.9 - 1e-3, 0.95 - 1e-3]).all()
        assert (of_parts.max(axis=0) <= [1.21, 1.11]).all()
    assert plan.provenance["balance"] == BOTH
    assert refined.metrics().volume <= plan.metrics().volume


def test_light_parts_are_there_without_a_least_weight():
    plan = plancc.compile(attached(), num_parts=P, balance="nnz:0.2,rows:0.1", effort="fast")
    assert shares(plan, attached()).min() < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_no_pass_takes_a_part_below_its_floor(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 80, 150, most_pins=4, constraints=1 + seed % 2)
    nets, limits = nets_of(problem), Limits(problem.vertex_weights, 4, 0.4, below=0.3)
    owner = rebalance(random_owner(rng, 80, 4), problem, Context(limits))
    assert limits.overload(limits.load(owner)) == 0
    sweeps = Sweeps(limits, rng)
    passes = (sweeps.climb, partial(sweeps.eject, most=10**6), sweeps.search, sweeps.cut)
    for improve in (*passes, sweeps.anneal, sweeps.trade):
        state = state_of(nets, owner, 4, limits.floor)
        improve(nets, state)
        assert (limits.load(state.owner) >= limits.floor).all()


def test_what_cannot_be_reached_is_said():
    """Seven vertices of 3 and one of 1 in four parts: 4, 6, 6, 6."""
    weights = np.array([3] * 7 + [1])
    graph = sp.csr_array((8, 8))
    with pytest.warns(PlanccWarning, match=r"lightest part of effort .* lacks 0.2727 .* than 0.1$"):
        plancc.compile(graph, num_parts=4, weights=weights, balance="weights:0.1:0.1")


@pytest.mark.parametrize("model", ["medium-grain", "libra", "auto", "rp", "cagnet-1d"])
def test_models_that_search_for_no_rows_refuse_a_least_weight(model):
    with pytest.raises(InputError, match="a least weight is for models that search for owners of"):
        plancc.compile(attached(), model, P, balance="nnz:0.1:0.1")
