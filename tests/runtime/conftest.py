"""The tests of process grids use the closed forms of tests/predict."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "predict"))


@pytest.fixture(scope="module")
def opened_once():
    """Ranks of a module's tests share the plan files that are open (`runs.opened_once`)."""
    import runs

    with runs.opened_once():
        yield
