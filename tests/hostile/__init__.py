"""Attacks on plancc, kept: damaged graphs and their data, signals at any moment.

    python -m tests.hostile --seconds 3600      # or: make hostile

`attack` says what an attack is, `worker` tries its cases under limits of the system. `seeds/` holds
what was found; `test_quick` tries it in every run.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # of worlds and sealing
