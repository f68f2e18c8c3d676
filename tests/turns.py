"""Cases for values that have nothing to do with each other: each of them once, not all pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from cases import long


def turns(**axes: Iterable[Any]) -> Callable[[Any], Any]:
    """`pytest.mark.parametrize` over a product of which most is `long`.

    `make test` runs as many rows as the longest axis has values; the others take turns.
    """
    values = [list(axis) for axis in axes.values()]
    count = max(map(len, values))
    quick = {tuple(k % len(axis) for axis in values) for k in range(count)}
    cases = [
        pytest.param(
            *(axis[k] for axis, k in zip(values, row, strict=True)),
            marks=() if row in quick else long,
        )
        for row in product(*(range(len(axis)) for axis in values))
    ]
    names = [*axes]
    return pytest.mark.parametrize(names, cases)
