"""Effort best without a budget is cut short; partitioners fail where a test says so."""

import pytest

from plancc.errors import BackendError
from plancc.search import job


@pytest.fixture
def one_round(monkeypatch):
    monkeypatch.setattr("plancc.search.memetic.ROUNDS", 1)


@pytest.fixture
def failing(monkeypatch):
    """``failing(when)``: partitioners crash on (problem, options) of which `when` is true."""
    real = job.partition

    def failing(when):
        def partition(problem, num_parts, options, **more):
            if when(problem, options):
                raise BackendError("it crashed")
            return real(problem, num_parts, options, **more)

        monkeypatch.setattr(job, "partition", partition)

    return failing
