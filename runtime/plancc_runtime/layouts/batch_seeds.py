"""Seed vertices of mini-batches, if the task draws them instead of the sampler."""

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
        rows (int64[m]): Ascending local rows of this rank; the loss covers only their outputs.
        size: Number of seeds on all ranks; in link prediction, a seed is a pair of vertices.
        total: Divisor that turns the sum of the losses over all ranks into the mean loss.
    """

    rows: Int64Array
    size: int
    total: int

    @abstractmethod
    def kept(self, block: OwnedBlock, column: Int32Array, vertices: Int32Array) -> OwnedBlock:
        """Return the block without the nonzeros that the mini-batch must not aggregate over.

        In link prediction, these are the edges of its pairs of vertices. `column` has the column of
        every nonzero of the slice, `vertices` the vertex of every column.
        """


class SeedDraws(Protocol):
    """Object that draws the seed vertices of all mini-batches of a task."""

    def drawn(self, sampler: Any, number: int) -> Rounds[Seeds]:
        """Return this rank's share of the seed vertices of mini-batch `number`. Collective.

        `sampler` chooses what the seed vertices come from, such as links.
        """
