"""Effort best without a budget is cut short."""

import pytest


@pytest.fixture
def one_round(monkeypatch):
    monkeypatch.setattr("plancc.search.memetic.ROUNDS", 1)
