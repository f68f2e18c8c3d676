"""Effort best without a budget is cut short; partitioners fail where a test says so."""

from dataclasses import replace

import pytest

from plancc.errors import BackendError
from plancc.search import memetic, rows


@pytest.fixture
def one_round(monkeypatch):
    monkeypatch.setattr(memetic, "EVOLUTION", replace(memetic.EVOLUTION, rounds=1))


@pytest.fixture
def failing(monkeypatch):
    """``failing(when)``: partitioners crash on (problem, options) of which `when` is true."""
    real = rows.partitions

    def failing(when):
        def partitions(problem, num_parts, seeds, options, **more):
            if when(problem, replace(options, seed=seeds[0])):
                raise BackendError("it crashed")
            return real(problem, num_parts, seeds, options, **more)

        monkeypatch.setattr(rows, "partitions", partitions)

    return failing
