"""What mini-batches begin with where their sampler does not draw it: this is given by the task."""

from __future__ import annotations

from typing import Protocol

from plancc.plan.exchange import Int32Array, Int64Array
from plancc.sampling.owned import OwnedBlock
from plancc_runtime.transport.row_numbers import Rounds


class Seeds(Protocol):
    """This rank's share of what a mini-batch begins with.

    Attributes:
        rows (int64[m]): Rows of the slice whose outputs count for the loss; ascending.
        size: What the batch is drawn for, by the number on all ranks.
        total: What all of it counts in the mean loss.
    """

    rows: Int64Array
    size: int
    total: int

    def kept(self, block: OwnedBlock, column: Int32Array, vertices: Int32Array) -> OwnedBlock:
        """The nonzeros of a block that carry messages.

        Parameters:
            column, vertices: Columns of the slice's nonzeros, and their vertices.
        """


class SeedDraws(Protocol):
    """The seeds of all batches."""

    def drawn(self, number: int) -> Rounds[Seeds]:
        """This rank's share of the seeds of a batch. Collective."""
