"""Seeds of mini-batches, if the task draws them instead of the sampler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from plancc.plan.exchange import Int32Array, Int64Array
from plancc.sampling.owned import OwnedBlock
from plancc_runtime.transport.row_numbers import Rounds


@dataclass(frozen=True, eq=False)
class Seeds(ABC):
    """This rank's share of the seeds of a mini-batch.

    Attributes:
        rows (int64[m]): Rows of the slice whose outputs count for the loss; ascending.
        size: Number of seeds on all ranks, such as links, that the batch is drawn for.
        total: Weight of all seeds in the mean loss.
    """

    rows: Int64Array
    size: int
    total: int

    @abstractmethod
    def kept(self, block: OwnedBlock, column: Int32Array, vertices: Int32Array) -> OwnedBlock:
        """Return the block without nonzeros that must carry no messages, such as seed links.

        Parameters:
            column: Column of every nonzero of the slice.
            vertices: Vertex of every column.
        """


class SeedDraws(Protocol):
    """The seeds of all batches of a task."""

    def drawn(self, sampler: Any, number: int) -> Rounds[Seeds]:
        """Return this rank's share of the seeds of a batch, for the task's sampler. Collective."""
