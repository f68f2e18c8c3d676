from __future__ import annotations

import numpy as np
import pytest

from plancc.models.limits import Limits


def test_limits_of_every_constraint():
    weights = np.array([[1, 7], [1, 1], [1, 1], [1, 0], [1, 0]])
    limits = Limits.of(weights, 2, 0.4)
    assert limits.total.tolist() == [5, 9]
    assert limits.even.tolist() == 2 * [[3, 5]]
    assert limits.limit.tolist() == 2 * [[4, 7]]  # floor(1.4 * 3), floor(1.4 * 5)
    assert limits.target == pytest.approx(np.array(2 * [[4 - 0.03, 7 - 0.05]]))
    assert limits.overload(np.array([[1, 0], [4, 9]])) == 2 / 5
    exact = Limits.of(weights, 2, 0.0)
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
                Limits.of(ones, num_parts, epsilon),
                Limits.of(np.stack([ones, 0 * ones], axis=1), num_parts, epsilon),
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
    assert Limits.of_nonzeros(50, 2, 0.16).limit.tolist() == [29, 29]
