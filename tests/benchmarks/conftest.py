"""Makes `benchmarks`, which is not installed, importable however pytest is started, and the closed
forms of tests/predict."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "predict")]
