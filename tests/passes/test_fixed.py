"""Rows that never move, whatever the pass."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

import plancc
from plancc.errors import InputError
from plancc.graph.convert import as_graph
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.passes.fixed import Around
from plancc.passes.kernels.expected import expected
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of
from plancc.refinement import with_part

N, P = 300, 5


def ring(seed: int) -> sp.csr_array:
    """Vertices in a ring under random names, with a few chords."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(N)
    u = np.concatenate([np.arange(N), np.arange(N), rng.integers(0, N, 40)])
    v = np.concatenate([(np.arange(N) + 1) % N, (np.arange(N) + 2) % N, rng.integers(0, N, 40)])
    keep = u != v
    matrix = sp.csr_array((np.ones(keep.sum()), (name[u[keep]], name[v[keep]])), shape=(N, N))
    return ((matrix + matrix.T) > 0).astype(float)


def some_fixed(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and the part of every row: -1 for the others, none in the last part."""
    rng = np.random.default_rng(seed)
    chosen, where = rng.choice(N, number, replace=False), np.full(N, -1)
    where[chosen] = rng.integers(0, P - 1, number)
    return chosen, where


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *(("hp", {"effort": "fast", "topology": "1x5"}), ("gp", {"objective": "time"})),
        *(("stochastic-hp", {"budget": 60}), ("cagnet-1d", {"blocks": "hp", "effort": "fast"})),
        ("medium-grain", {"effort": "best", "topology": "1x5"}),
        ("fine-grain", {"objective": "max-volume"}),
        ("medium-grain", {"effort": "fast", "objective": "messages"}),
    ],
)
def test_fixed_rows_of_a_compilation(model, options):
    """The search is told the truth: what it counts is what the plan moves."""
    chosen, where = some_fixed(1, 60)
    plan = plancc.compile(ring(1), model, P, fixed=where, balance="nnz", epsilon=0.1, **options)
    np.testing.assert_array_equal(plan.owner()[chosen], where[chosen])
    metrics, told = plan.metrics(), plan.provenance
    assert metrics.volume < 0.7 * plan.baseline.volume
    assert metrics.nonzero_imbalance < 0.11
    assert told["fixed_rows"] == 60
    best = [step for step in json.loads(told["tried"]) if step["best"]][-1]
    assert best["volume"] == metrics.volume
    if options.get("objective") == "time":
        assert best["value"] == pytest.approx(told["epoch_seconds"])


def test_fixed_rows_of_a_graph_of_types():
    half = N // 2
    both = ring(4).tocsr()[:half, half:]
    _, where = some_fixed(4, 60)
    graph = {("a", "of", "b"): both.T, ("b", "by", "a"): both}
    plan = plancc.compile(graph, num_parts=P, fixed=where, effort="fast", epsilon=0.15)
    np.testing.assert_array_equal(plan.owner()[where >= 0], where[where >= 0])
    for rows in (plan.owner()[:half], plan.owner()[half:]):
        assert np.bincount(rows).max() <= np.floor(1.15 * half / P)
    assert plan.metrics().volume < 0.7 * plan.baseline.volume


def test_the_expected_volume_around_fixed_rows_is_that_of_all_rows():
    matrix = as_graph(ring(3))
    problem = HypergraphModel().build(matrix, P, balance="nnz", seed=0)
    reach = 1 - 0.7 ** np.arange(N + 1)
    _, where = some_fixed(2, 80)
    around = Around.of(
        where.astype(np.int32), problem, Limits(problem.vertex_weights, P, 0.1), True
    )
    owner = np.random.default_rng(1).permutation(np.arange(N, dtype=np.int32) % P)
    owner = np.where(where >= 0, where, owner).astype(np.int32)
    nets, smaller = nets_of(problem), nets_of(around.refinable, sized=True)
    of_all = expected(nets, state_of(nets, owner, P), reach)
    of_smaller = expected(smaller, state_of(smaller, around.inside(owner), P), reach)
    assert of_smaller == pytest.approx(of_all, rel=1e-12)
    np.testing.assert_array_equal(around.outside(around.inside(owner)), owner)


def test_parts_to_choose():
    """Rows without a part get those of their neighbours, if there is room; the others stay."""
    plan = plancc.compile(ring(7), "hp", P, effort="fast")
    rng = np.random.default_rng(3)
    chosen = rng.choice(N, 30, replace=False)
    part = plan.owner().copy()
    part[chosen] = -1
    found = with_part(plan, part)
    kept = np.setdiff1d(np.arange(N), chosen)
    np.testing.assert_array_equal(found.owner()[kept], plan.owner()[kept])
    part[chosen] = rng.integers(0, P, 30)
    assert found.metrics().volume < 0.5 * with_part(plan, part).metrics().volume
    assert found.metrics().volume < 1.3 * plan.metrics().volume


def test_what_is_refused(tmp_path):
    vector = tmp_path / "fixed.txt"
    vector.write_text("-1\n" * (N - 1) + "-2\n")
    cases = (
        ("hp", {"fixed": vector}, f"line {N}: the part is below -1: '-2'"),
        ("hp", {"fixed": np.full(N - 1, -1)}, f"{N - 1} part numbers for {N} vertices"),
        ("hp", {"fixed": np.full(N, P)}, "vertex 0 is in part 5"),
        ("hp", {"fixed": np.arange(N) // 100}, "of part 0 weigh .* .'nnz'., but the limit"),
        ("hp", {"fixed": np.zeros(N, int), "epsilon": 5.0}, "vertices are free to fill 5 parts"),
        ("hp", {"capacities": (1, 1, 1, 1, 2)}, "needs parts of one size"),
        ("hp", {"partitioner": "metis"}, "drop `partitioner` metis"),
        ("rcm", {}, "not for model 'rcm'"),
        ("auto", {}, "not for model 'auto'"),
    )
    for model, options, says in cases:
        with pytest.raises(InputError, match=says):
            plancc.compile(ring(7), model, P, **{"fixed": np.full(N, -1)} | options)
