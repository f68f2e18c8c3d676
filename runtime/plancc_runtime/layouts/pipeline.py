"""Batches of rows of a pipelined feature plan (Wan et al. 2025, Section 3.2.2): how many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.parts import GridShare
from plancc.plan.stages import wanted_stages


@dataclass(frozen=True)
class Pipelining:
    """How well a matrix is pipelined (Wan et al. 2025, Proposition 3.5).

    Attributes:
        num_rows: n.
        bandwidth: b, the largest difference between the numbers of a row and of a column that it
            needs.
        stages: s.
    """

    num_rows: int
    bandwidth: int
    stages: int

    @classmethod
    def of(cls, row_ptr: Int64Array, column: np.ndarray, stages: int | None = None) -> Pipelining:
        """The pipelining of a square CSR matrix; by default with `wanted_stages`."""
        n, b = len(row_ptr) - 1, bandwidth(row_ptr, column)
        return cls(n, b, max(1, min(n, stages or wanted_stages(n, b))))

    @property
    def granularity(self) -> float:
        """(n - b) / 2n: no stage idles where it is at least 1 / s."""
        return (self.num_rows - self.bandwidth) / (2 * max(self.num_rows, 1))


def pipelining(share: GridShare | None, choice: str) -> Pipelining | None:
    """How the part of a feature plan is pipelined; None: it is not.

    Parameters:
        share: With the block in the order in which its rows are to be cut.
        choice: "off", "auto" (as many stages as the bandwidth asks for) or a number of stages.
    """
    if share is None or choice == "off":
        return None
    assert share.block is not None
    stages = None if choice == "auto" else int(choice)
    return Pipelining.of(share.block.row_ptr, share.block.column, stages)


def bandwidth(row_ptr: Int64Array, column: np.ndarray) -> int:
    """b = max |i - j| over the nonzeros (i, j) of a CSR matrix; 0 without any."""
    row = np.repeat(np.arange(len(row_ptr) - 1, dtype=np.int32), np.diff(row_ptr))
    return int(np.abs(row - column).max(initial=0))
