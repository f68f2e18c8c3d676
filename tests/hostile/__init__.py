"""Attacks on plancc: damaged graphs and their data, signals at any moment."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # of worlds and sealing
