"""Chooses the number of row batches for a pipelined feature plan (Wan et al. 2025, 3.2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.parts import GridShare
from plancc.plan.stages import wanted_stages


@dataclass(frozen=True)
class Pipelining:
    """Size and bandwidth of a matrix, and number of batches of rows in a pipelined product.

    See Wan et al. 2025, Proposition 3.5.

    Attributes:
        num_rows: n, the number of rows.
        bandwidth: b, the largest |i - j| over the nonzeros (i, j).
        stages: s, the number of batches of rows.
    """

    num_rows: int
    bandwidth: int
    stages: int

    @classmethod
    def of(cls, row_ptr: Int64Array, column: np.ndarray, stages: int | None = None) -> Pipelining:
        """Return the pipelining of a square CSR matrix.

        `stages` is the number of batches of rows; by default, `wanted_stages` computes it from the
        matrix's bandwidth.
        """
        n, b = len(row_ptr) - 1, bandwidth(row_ptr, column)
        return cls(n, b, max(1, min(n, stages or wanted_stages(n, b))))

    @property
    def granularity(self) -> float:
        """Granularity (n - b) / 2n (letters as in the attributes).

        If it is at least 1 / s, no stage of the pipeline is idle.
        """
        return (self.num_rows - self.bandwidth) / (2 * max(self.num_rows, 1))


def pipelining(share: GridShare | None, choice: str) -> Pipelining | None:
    """Return the pipelining of a part of a feature plan; None if there is no pipeline.

    `choice` is "off", a number of batches of rows, or "auto" (from the matrix's bandwidth).
    """
    if share is None or choice == "off":
        return None
    assert share.block is not None
    stages = None if choice == "auto" else int(choice)
    return Pipelining.of(share.block.row_ptr, share.block.column, stages)


def bandwidth(row_ptr: Int64Array, column: np.ndarray) -> int:
    """Return b = max |i - j| over the nonzeros (i, j) of a CSR matrix; 0 if it is empty."""
    row = np.repeat(np.arange(len(row_ptr) - 1, dtype=np.int32), np.diff(row_ptr))
    return int(np.abs(row - column).max(initial=0))
