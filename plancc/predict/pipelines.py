"""The time of a feature plan's product if messages and work run in a pipeline.

The pipeline is that of Wan et al. 2025, Section 3.2.2: rows are cut into batches, and a batch is
multiplied when the batches of rows that it needs have arrived. Every rank computes one thing at a
time, and its network card moves one batch at a time (in: it arrives; back: results are sent back):

    card      in 0  in 1  back 0  in 2  back 1  back 2
    rank            product 0  product 1  update 0  product 2  update 1  update 2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.rcm import bandwidth, rcm_order
from plancc.plan.stages import MOST_STAGES, Batches, wanted_stages

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pipeline:
    """How a feature plan's rows are divided into batches, if all its ranks share all rows.

    Attributes:
        needs: For every batch, the last batch of input rows that its product needs; ascending.
    """

    needs: tuple[int, ...]

    @property
    def stages(self) -> int:
        return len(self.needs)

    def __str__(self) -> str:
        return f"a pipeline of {self.stages} stages"

    @classmethod
    def of(cls, matrix: Graph, stages: int | None = None) -> Pipeline:
        """Return the pipeline of a matrix whose rows are put in reverse Cuthill-McKee order.

        `stages` is the number of batches, from 2 to `MOST_STAGES`; None takes the number that
        follows from the reordered matrix's bandwidth (Wan et al. 2025, Proposition 3.5).
        """
        if stages is not None and not 2 <= stages <= MOST_STAGES:
            raise InputError(f"`pipeline` {stages}: give auto, or 2 to {MOST_STAGES} stages")
        n, order = matrix.num_vertices, rcm_order(matrix)
        position = np.empty(n, np.int64)
        position[order] = np.arange(n)
        if stages is None:
            stages = wanted_stages(n, bandwidth(matrix, position))
        nonzeros = matrix.row_nonzeros()
        furthest = np.full(n, -1, np.int64)  # the last column of every row, in the new order
        np.maximum.at(furthest, np.repeat(position, nonzeros), position[matrix.indices])
        batches = Batches(n, 1, max(1, min(n, stages)))
        return cls(tuple(batches.needs(np.arange(n + 1), furthest)))

    def seconds(
        self, moved: Float64Array, product: Float64Array, update: Float64Array
    ) -> Float64Array:
        """Return the seconds of a product and of the update that follows it: float64[num_ranks].

        `moved` has the seconds of messages: half of them bring input rows, the other half send
        results back.
        """
        s = self.stages
        message, multiply, rest = moved / (2 * s), product / s, update / s
        card = np.zeros(len(moved))
        arrived: list[Float64Array] = []
        for _ in range(self.needs[0] + 1):
            card = card + message
            arrived.append(card)
        rank, back = np.zeros(len(moved)), card
        for batch, need in enumerate(self.needs):
            while len(arrived) <= need:
                card = card + message
                arrived.append(card)
            rank = np.maximum(rank, arrived[need]) + multiply
            if len(arrived) < s:
                card = card + message
                arrived.append(card)
            before, card = back, np.maximum(card, rank) + message
            back = card
            if batch:
                rank = np.maximum(rank, before) + rest
        return np.maximum(rank, back) + rest
