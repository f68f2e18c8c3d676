"""Words that are sent for one product A H on a process grid, by kind.

A broadcast of m words among g ranks counts as g - 1 times m words, as in the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

from plancc.plan.layers import Aggregate
from plancc.plan.words import Transfer
from plancc.predict.schedules import Tables, scheduler_of
from plancc.predict.schedules.epoch import is_of_one, moving

KINDS = {
    "expand": "rows",
    "pieces": "rows",
    "layers": "sums",
    "slices": "swapped",
    "copies": "reduced",
    "matrix": "matrix",
}
"""For every step name, the attribute of `ProductTraffic` that counts its words."""


@dataclass(frozen=True)
class ProductTraffic:
    """Words that all ranks send in one forward product, by the kind of data that is sent.

    Attributes:
        width: Number of columns of H.
        rows: Words of rows of H, which are broadcast within process columns, or sent in messages if
            only needed rows are sent.
        sums: Words of partial sums, which ranks of a 3D grid add up if they have the same process
            row and column, and different layers of the grid.
        swapped: Words of the all-to-alls of feature plans. Before the product, they turn some whole
            rows on every rank into some columns of all rows; after the product, they do the
            reverse.
        reduced: Words of all-reduces, in which the ranks that share a block of rows add up their
            products (scheme "1.5d").
        matrix: Words of blocks of A, which are broadcast within process rows (schemes "2d" and
            "3d"). A block has a word for every value, every column number and every row, and one
            more.
    """

    width: int
    rows: int = 0
    sums: int = 0
    swapped: int = 0
    reduced: int = 0
    matrix: int = 0


def product_traffic(tables: Tables, width: int) -> ProductTraffic:
    """Count the words of one product on a process grid.

    The products are Algorithms 1 to 3 of Tripathy et al. 2020, and Algorithm 2 of Wan et al. 2025.

    Parameters:
        tables: Sizes of a grid plan; `Tables.blocks` may be None.
        width: Number of columns of H.
    """
    scheduler, step = scheduler_of(tables), Aggregate(width)
    works, words = scheduler.works(1, step), dict.fromkeys(KINDS.values(), 0)
    for each in scheduler.program(1):
        for _, work in moving(each, works):
            if isinstance(work, Transfer) and not is_of_one(work):  # one rank alone sends nothing
                counts = work.counts(tables.num_ranks)
                words[KINDS[each.name]] += int((counts.words_sent + counts.words_reduced).sum())
    return ProductTraffic(width, **words)
