import itertools

import numpy as np
import pytest
from cases import seeds

from plancc.errors import InputError
from plancc.models.limits import Limits


def test_limits_of_every_constraint():
    weights = np.array([[1, 7], [1, 1], [1, 1], [1, 0], [1, 0]])
    limits = Limits(weights, 2, 0.4)
    assert limits.total.tolist() == [5, 9]
    assert limits.even.tolist() == 2 * [[3, 5]]
    assert limits.limit.tolist() == 2 * [[4, 7]]  # floor(1.4 * 3), floor(1.4 * 5)
    assert limits.target == pytest.approx(np.array(2 * [[4 - 0.03, 7 - 0.05]]))
    assert limits.overload(np.array([[1, 0], [4, 9]])) == 2 / 5
    exact = Limits(weights, 2, 0.0)
    assert exact.allowed.tolist() == 2 * [[3, 5]]
    assert exact.limit.tolist() == 2 * [[3, 7]]  # the heaviest vertex
    assert exact.overload(np.array([[5, 9], [0, 0]])) == pytest.approx(2 / 3 + 2 / 5)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1, 1 / 3, 7.0])
def test_every_form_of_limits_is_the_same(epsilon):
    for total in [*range(40), 999, 12345]:
        for num_parts in (1, 2, 3, 7, 64):
            ones = np.ones(total, dtype=np.int64)
            forms = [
                Limits.of_nonzeros(total, num_parts, epsilon),
                Limits(ones, num_parts, epsilon),
                Limits(np.stack([ones, 0 * ones], axis=1), num_parts, epsilon),
            ]
            loads = np.zeros((num_parts, 2), dtype=np.int64)
            loads[0, 0] = total
            limit = int((1 + epsilon) * -(-total // num_parts) + 1e-9)
            for limits, weights in zip(forms, (loads[:, 0], loads[:, 0], loads), strict=True):
                assert np.ravel(limits.limit)[0] == np.ravel(limits.allowed)[0] == limit
                over = max(total - limit, 0) / max(-(-total // num_parts), 1)
                assert limits.overload(weights) == over


def test_an_imbalance_of_epsilon_is_within_the_limit():
    assert (1 + 0.16) * 25 < 29  # in float64
    assert Limits.of_nonzeros(50, 2, 0.16).limit.tolist() == [[29], [29]]


def test_limits_by_capacity():
    weights = np.array([[1, 7], [1, 1], [1, 1], [1, 0], [1, 0]])
    limits = Limits(weights, 3, (0.4, 0.5), (1.0, 1.0, 2.0))
    assert limits.relative.tolist() == [0.75, 0.75, 1.5]
    assert limits.share == pytest.approx(np.array([[1.25, 2.25], [1.25, 2.25], [2.5, 4.5]]))
    assert limits.even.tolist() == [[2, 3], [2, 3], [3, 5]]
    assert limits.allowed.tolist() == [[2, 4], [2, 4], [4, 7]]  # 1.4 and 1.5 times these
    # 7 fits into the largest part alone, and so all may weigh 7 / 4.5 times their shares
    assert limits.limit.tolist() == [[2, 4], [2, 4], [4, 7]]
    tight = Limits(weights, 3, 0.0, (1.0, 1.0, 2.0))
    assert tight.limit.tolist() == [[2, 3], [2, 3], [3, 7]]
    loads = np.array([[3, 0], [0, 1], [2, 8]])
    # one row more than 2, over 2 * 0.75; one of 9 more than 7, over 3 * 1.5
    assert limits.overload(loads) == pytest.approx(1 / (2 * 0.75) + 1 / (3 * 1.5))
    assert limits.imbalance(loads) == pytest.approx([3 / 1.25 - 1, 8 / 4.5 - 1])
    with pytest.raises(InputError, match="2 numbers for 3 parts"):
        Limits(weights, 3, 0.0, (1.0, 2.0))


@pytest.mark.parametrize("seed", seeds(40, quick=12))
def test_what_parts_must_be_allowed_by_trying_every_partition(seed):
    """No partition without an empty part is below the bound; where it is reached, it is so."""
    rng = np.random.default_rng(seed)
    num_parts = int(rng.integers(2, 4))
    n = int(rng.integers(num_parts, 7))
    weights = rng.integers(0, 9, n) ** int(rng.integers(1, 3))
    capacities = tuple(rng.integers(1, 6, num_parts).astype(float))
    share = weights.sum() * np.array(capacities) / sum(capacities)
    if not weights.any():
        return
    limits, reached = Limits(weights, num_parts, 0, capacities), []
    for owner in itertools.product(range(num_parts), repeat=n):
        if len(set(owner)) < num_parts:
            continue
        loads = np.bincount(owner, weights, num_parts)
        assert (loads >= limits.least[:, 0]).any()
        reached.append((loads / share).max() - 1)
    assert limits.least_imbalance <= min(reached) + 1e-9


def bound_of(weights, capacities):
    return Limits(np.array(weights), len(capacities), 0, capacities).least_imbalance[0]


def test_the_bound_is_reached_where_one_vertex_decides():
    # 10 in the part of capacity 2 of 4: an even share is 2.5 of the 12 * 2 / 4 = 6
    assert bound_of([10, 1, 1], (1.0, 2.0, 1.0)) == pytest.approx(10 / 6 - 1)
    # two of 5: both in the largest part, 6, or one in a part of 3
    assert bound_of([5, 5, 1, 1], (1.0, 2.0, 1.0)) == pytest.approx(5 / 3 - 1)
    # every part has a vertex, the smallest one too
    assert bound_of([1] * 10, (1.0, 99.0)) == pytest.approx(9)
    assert Limits.of_nonzeros(10, 2, 0, (1.0, 99.0)).least.tolist() == [[1], [9]]
    assert bound_of([0] * 3, (1.0, 3.0)) == 0
