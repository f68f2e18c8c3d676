"""Which cases of a test `make test` runs, and which are left to `make test-all` (marked `long`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import pytest

long = pytest.mark.long
"""A test, or a case, of `make test-all` alone."""
CHOSEN = {"all": True}
"""Whether parametrized tests have their `long` cases at all: to collect them takes time too."""


def pairs(unless: Callable[..., bool] | None = None, **axes: Iterable[Any]) -> Callable[[Any], Any]:
    """`pytest.mark.parametrize` over all pairs of values; the rest of the product is `long`.

    Parameters
    ----------
    unless : callable, optional
        Of the values by name: whether a case makes no sense. It is left out of both.
    """
    names, values = list(axes), [list(axis) for axis in axes.values()]
    sense = [
        row
        for row in product(*(range(len(axis)) for axis in values))
        if unless is None or not unless(**_named(names, values, row))
    ]
    quick = _covering(sense, len(values))
    cases = [
        pytest.param(
            *(axis[k] for axis, k in zip(values, row, strict=True)),
            marks=() if row in quick else long,
        )
        for row in (sense if CHOSEN["all"] else sorted(quick))
    ]
    return pytest.mark.parametrize(names, cases)


def _named(names: list[str], values: list[list[Any]], row: tuple[int, ...]) -> dict[str, Any]:
    return {name: axis[k] for name, axis, k in zip(names, values, row, strict=True)}


def _covering(rows: list[tuple[int, ...]], width: int) -> set[tuple[int, ...]]:
    """Rows that have between them every pair of values that any row has; greedily few.

    The row with most pairs that are not covered yet comes next, the first of equal ones (Cohen et
    al. 1997, AETG, over all rows in place of random ones).
    """
    places = list(combinations(range(width), 2)) or [(0, 0)]
    pairs_of = {row: {(i, j, row[i], row[j]) for i, j in places} for row in rows}
    left = set().union(*pairs_of.values())
    chosen = set()
    while left:
        row = max(rows, key=lambda row: len(pairs_of[row] & left))
        left -= pairs_of[row]
        chosen.add(row)
    return chosen


def seeds(count: int, quick: int = 5) -> list[Any]:
    """The numbers below `count` as cases; those from `quick` on are `long`."""
    last = count if CHOSEN["all"] else quick
    return [*range(quick), *(pytest.param(seed, marks=long) for seed in range(quick, last))]
