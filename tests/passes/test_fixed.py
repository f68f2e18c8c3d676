"""Rows that never move, whatever the pass."""

import numpy as np
import pytest
import scipy.sparse as sp

import plancc
from plancc.errors import InputError
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


@pytest.mark.parametrize("objective", ["volume", "max-volume", "messages"])
def test_fixed_rows_never_move(objective):
    """Neither those that are where they shall be, nor those that have to go there first."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        plan = plancc.compile(ring(seed), "rp", P)
        where = np.full(N, -1)
        chosen = rng.choice(N, 60, replace=False)
        where[chosen] = rng.integers(0, P - seed, 60)
        better = plancc.refine(plan, objective, fixed=where, epsilon=0.3)
        np.testing.assert_array_equal(better.owner()[chosen], where[chosen])
        assert better.metrics().volume < 0.8 * plan.metrics().volume
        assert better.metrics().nonzero_imbalance < 0.31
        again = plancc.refine(plan, objective, fixed=where, epsilon=0.3)
        assert again.content_sha256() == better.content_sha256()


def test_all_or_none_fixed():
    plan = plancc.compile(ring(7), "block", P)
    same = plancc.refine(plan, fixed=plan.owner())
    assert same.content_sha256() == plan.content_sha256()
    assert same.provenance["fixed_rows"] == N
    free = plancc.refine(plan, fixed=np.full(N, -1), epsilon=0.2)
    assert free.metrics().volume < plan.metrics().volume
    turned = (plan.owner() + 1) % P  # the same parts under other numbers
    renumbered = plancc.refine(plan, fixed=turned)
    np.testing.assert_array_equal(renumbered.owner(), turned)
    assert renumbered.metrics().volume == plan.metrics().volume


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
    plan = plancc.compile(ring(7), "block", P)
    vector = tmp_path / "fixed.txt"
    vector.write_text("-1\n" * (N - 1) + "-2\n")
    cases = (
        ({"fixed": vector}, f"line {N}: the part is below -1: '-2'"),
        ({"fixed": np.full(N, P)}, "vertex 0 is in part 5"),
        ({"fixed": np.full(N - 1, -1)}, f"{N - 1} part numbers for {N} vertices"),
        ({"fixed": np.full(N, -1), "objective": "time"}, "objectives but time"),
        ({"fixed": np.full(N, -1), "capacities": (1, 1, 1, 1, 2)}, "parts of one size"),
    )
    for options, says in cases:
        with pytest.raises(InputError, match=says):
            plancc.refine(plan, **options)
