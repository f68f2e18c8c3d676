"""Small graphs as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_mtx(path: Path, pattern: np.ndarray) -> Path:
    """The pattern of a matrix of booleans as MatrixMarket text."""
    entries = [f"{i + 1} {j + 1}\n" for i, j in np.argwhere(pattern)]
    head = "%%MatrixMarket matrix coordinate pattern general\n"
    path.write_text(f"{head}{len(pattern)} {len(pattern)} {len(entries)}\n" + "".join(entries))
    return path
