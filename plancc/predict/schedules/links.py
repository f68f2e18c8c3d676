"""Links of an epoch: the rows and numbers that travel for them, and the work of the decoder.

Negatives are those of epoch 0, drawn as a run of the same seed draws them, so that its words are
exact; other epochs move about as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.predict.schedule import DenseProduct, Elementwise, Pairs, PointToPoint, Work

END_WORDS = 19
"""Words read and written per link and column: both ends are gathered, multiplied and, back, added
to gradients. Counted, not fitted."""


@dataclass(frozen=True)
class LinkTask:
    """How a run learns links; fields as of `plancc_runtime.options.TrainOptions`."""

    decoder: str = "dot"
    negatives: int = 1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class LinkTables:
    """What the training links of an epoch need, by rank.

    Attributes:
        scored (int64[num_ranks]): Links and negatives of every rank.
        fixed, drawn: Rows of targets of links, and of negatives, from their owners.
        home: Vertices whose owners are asked for, from the rank that knows to the one that asks.
        decoder: As of `LinkTask`.
    """

    scored: Int64Array
    fixed: Pairs
    drawn: Pairs
    home: Pairs
    decoder: str

    def even(self, rows: Int64Array) -> LinkTables:
        """The same work in proportion to the rows of ranks, and nothing that travels."""
        nobody = np.zeros(0, np.int32)
        nothing = Pairs(len(rows), nobody, nobody, np.zeros(0, np.int64))
        scored = self.scored.sum() * rows // max(1, rows.sum())
        return LinkTables(scored, nothing, nothing, nothing, self.decoder)

    def weights(self, width: int) -> int:
        """Weights of the decoder."""
        return {"dot": 0, "distmult": width, "mlp": (width + 1) ** 2}[self.decoder]

    def works(self, width: int) -> Iterator[tuple[str, Work]]:
        """All of an epoch, forward and back, each in one of `plancc.predict.schedule.STEPS`."""
        moved = [PointToPoint(each, width) for each in (self.fixed, self.drawn)]
        moved += [each.reversed() for each in moved]
        moved += [
            PointToPoint(self.home, 1, reverse=True),  # which vertex
            PointToPoint(self.home, 2),  # its rank and row there
            PointToPoint(self.drawn, 1, reverse=True),  # which row
        ]
        yield from (("expand", each) for each in moved)
        yield "dense", Elementwise(END_WORDS * width * self.scored)
        for _ in range(3 if self.decoder == "mlp" else 0):
            yield "dense", DenseProduct(rows=self.scored, inner=width, columns=width)
