"""Tests of costs use the naive plans of tests/plan and the closed forms of tests/predict."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "plan"), str(TESTS / "predict")]
