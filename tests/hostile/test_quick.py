"""The quick part of every attack: each thing that was found before, and some fixed new cases."""

from collections.abc import Iterator

import pytest
from cases import long

from hostile.attack import KINDS
from hostile.attacks import ATTACKS, SEEDS
from hostile.worker import Worker, worker

NEW = [
    *((name, 0, attack.few) for name, attack in ATTACKS.items() if attack.few),
    *(pytest.param(name, each.few, each.quick, marks=long) for name, each in ATTACKS.items()),
]


@pytest.fixture(scope="module")
def process() -> Iterator[Worker]:
    """One worker serves all attacks."""
    with worker() as made:
        yield made


@pytest.mark.timeout(1200)  # the worker ends what hangs
@pytest.mark.parametrize(("name", "first", "last"), NEW)
def test_new_cases_find_nothing(name, first, last, process):
    for trial in range(first, last):
        ended = process.tried(name, trial, seed=17)
        assert ended["outcome"] not in KINDS, (trial, ended)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SEEDS)
def test_what_was_found_stays_mended(name, process):
    ended = process.tried(SEEDS[name]["attack"], name)
    assert ended["outcome"] not in KINDS, (SEEDS[name]["what"], ended)
