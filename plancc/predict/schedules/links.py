"""Link prediction in an epoch: rows and numbers that are sent, and the work of the decoder.

Words are exact for epoch 0 of a run with the same seed, because it draws the same negatives (random
pairs of vertices). Other epochs send about as many words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.predict.memory import WORD_BYTES
from plancc.predict.schedule import DenseProduct, Elementwise, Pairs, PointToPoint, Work

END_WORDS = 19
"""Words read and written per link and column: both ends are gathered and multiplied, and their
gradients are added. Counted, not fitted."""


@dataclass(frozen=True)
class LinkTask:
    """Options of link prediction; for the fields see `plancc_runtime.options.TrainOptions`."""

    decoder: str = "dot"
    negatives: int = 1
    seed: int = 1


@dataclass(frozen=True, eq=False)
class LinkTables:
    """Work and messages of an epoch for its training links.

    The owner of the source scores a link or a *negative* (a drawn pair without a link).

    Attributes:
        scored (int64[num_ranks]): Links and negatives that a rank scores.
        negatives (int64[num_ranks]): Negatives that a rank scores.
        fixed: Messages with the rows of targets of links, the same in every epoch.
        drawn: Messages with the rows of targets of negatives.
        home: Messages that say who owns a negative's target. For every vertex, a fixed rank knows
            the owner, and sends the owner's number.
        decoder: Name of the decoder, see `LinkTask`.
    """

    scored: Int64Array
    negatives: Int64Array
    fixed: Pairs
    drawn: Pairs
    home: Pairs
    decoder: str

    def even(self, rows: Int64Array) -> LinkTables:
        """Return tables without messages, with the work spread in proportion to `rows`."""
        nobody = np.zeros(0, np.int32)
        nothing = Pairs(len(rows), nobody, nobody, np.zeros(0, np.int64))
        scored, drawn = (
            each.sum() * rows // max(1, rows.sum()) for each in (self.scored, self.negatives)
        )
        return LinkTables(scored, drawn, nothing, nothing, nothing, self.decoder)

    def weights(self, width: int) -> int:
        """Return the number of the decoder's weights."""
        return {"dot": 0, "distmult": width, "mlp": (width + 1) ** 2}[self.decoder]

    def memory(self, width: int) -> Int64Array:
        """Return the largest memory that link prediction needs at any time: int64[num_ranks] bytes.

        A rank keeps the rows of both ends of all links and negatives, the outputs of decoder "mlp",
        and the gradients of both ends of either the links or the negatives, whichever are more.
        """
        kept = (4 if self.decoder == "mlp" else 2) * self.scored
        back = 2 * np.maximum(self.negatives, self.scored - self.negatives)
        found: Int64Array = WORD_BYTES * width * (kept + back) + 16 * self.scored
        return found

    def works(self, width: int) -> Iterator[tuple[str, Work]]:
        """Yield (step, work) of link prediction, forward and backward; outputs have this width."""
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
