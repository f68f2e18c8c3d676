"""Which cases of a test `make test` runs, and which are left to `make test-all` (marked `long`)."""

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

    Parameters:
        unless: Of the values by name: whether a case makes no sense. It is left out of both.
    """
    return _parametrized(_covering, axes, unless)


def turns(unless: Callable[..., bool] | None = None, **axes: Iterable[Any]) -> Callable[[Any], Any]:
    """The same with every value once, for axes that have nothing to do with each other.

    `make test` runs as many cases as the longest axis has values; the others take turns.
    """
    return _parametrized(_each_once, axes, unless)


def some(quick: Callable[..., bool], **axes: Iterable[Any]) -> Callable[[Any], Any]:
    """`pytest.mark.parametrize` over the product; a case of which `quick` is false is `long`."""
    names, rows = list(axes), list(product(*axes.values()))
    cases = [
        pytest.param(*row, marks=() if quick(*row) else long)
        for row in rows
        if CHOSEN["all"] or quick(*row)
    ]
    return pytest.mark.parametrize(names, cases)


def _parametrized(
    choose: Callable[[list[tuple[int, ...]]], set[tuple[int, ...]]],
    axes: dict[str, Iterable[Any]],
    unless: Callable[..., bool] | None,
) -> Callable[[Any], Any]:
    names, values = list(axes), [list(axis) for axis in axes.values()]

    def case(row: tuple[int, ...]) -> list[Any]:
        return [axis[k] for axis, k in zip(values, row, strict=True)]

    sense = [
        row
        for row in product(*(range(len(axis)) for axis in values))
        if unless is None or not unless(**dict(zip(names, case(row), strict=True)))
    ]
    quick = choose(sense)
    cases = [
        pytest.param(*case(row), marks=() if row in quick else long)
        for row in (sense if CHOSEN["all"] else sorted(quick))
    ]
    return pytest.mark.parametrize(names, cases)


def _covering(rows: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Rows that have between them every pair of values that any row has; greedily few.

    The row with most pairs that are not covered yet comes next, the first of equal ones (Cohen et
    al. 1997, AETG, over all rows in place of random ones).
    """
    places = list(combinations(range(len(rows[0])), 2)) or [(0, 0)]
    pairs_of = {row: {(i, j, row[i], row[j]) for i, j in places} for row in rows}
    left = set().union(*pairs_of.values())
    chosen = set()
    while left:
        row = max(rows, key=lambda row: len(pairs_of[row] & left))
        left -= pairs_of[row]
        chosen.add(row)
    return chosen


def _each_once(rows: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Rows that have between them every value that any row has, along the diagonal where it can."""
    sizes = [1 + max(row[i] for row in rows) for i in range(len(rows[0]))]
    diagonal = {tuple(k % size for size in sizes) for k in range(max(sizes))}
    chosen = diagonal & set(rows)
    left = {(i, k) for row in rows for i, k in enumerate(row)}
    left -= {(i, k) for row in chosen for i, k in enumerate(row)}
    while left:
        row = max(rows, key=lambda row: len(left & set(enumerate(row))))
        left -= set(enumerate(row))
        chosen.add(row)
    return chosen


def seeds(count: int, quick: int = 5) -> list[Any]:
    """The numbers below `count` as cases; those from `quick` on are `long`."""
    last = count if CHOSEN["all"] else quick
    return [*range(quick), *(pytest.param(seed, marks=long) for seed in range(quick, last))]
