"""The tests of process grids use the closed forms of tests/predict."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "predict"))
