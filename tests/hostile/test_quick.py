"""Damaged inputs and plans: each thing that was found before, and some fixed new cases.

`HOSTILE=100000 pytest tests/hostile` tries as many; a finding has its number.
"""

import os
from collections.abc import Iterator

import pytest
from cases import long

from hostile.attack import KINDS
from hostile.worker import SEEDS, Worker, worker

FEW, MANY = 40, 600
MORE = int(os.environ.get("HOSTILE", 0))


@pytest.fixture(scope="module")
def process() -> Iterator[Worker]:
    """One worker tries all cases."""
    with worker() as made:
        yield made


@pytest.mark.timeout(0 if MORE else 1200)  # the worker ends what hangs
@pytest.mark.parametrize(
    ("first", "last"), [(0, FEW), pytest.param(FEW, MANY, marks=long), *[(MANY, MORE)] * (MORE > 0)]
)
def test_new_cases_find_nothing(first, last, process, tmp_path):
    for trial in range(first, last):
        ended = process.tried(trial)
        if ended["outcome"] in KINDS:
            process.case.rename(tmp_path / "case")
        assert ended["outcome"] not in KINDS, (trial, ended, tmp_path)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SEEDS)
def test_what_was_found_stays_mended(name, process):
    ended = process.tried(name)
    assert ended["outcome"] not in KINDS, (SEEDS[name]["what"], ended)
