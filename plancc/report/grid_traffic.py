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
    """Words of one forward product, sent by all ranks.

    Attributes:
        width: Columns of H.
        rows: Rows of H: broadcasts within process columns, or messages of needed rows.
        sums: Partial sums of the product that are scattered over the layers of a 3d grid.
        swapped: Rows that are exchanged for slices of columns before the product, and back after it
            ("feature").
        reduced: Words in all-reductions over the copies of a part ("1.5d").
        matrix: Blocks of A, broadcast within process rows ("2d", "3d"): one word for each value,
            one for each column number, one for every row of a piece, and one more.
    """

    width: int
    rows: int = 0
    sums: int = 0
    swapped: int = 0
    reduced: int = 0
    matrix: int = 0


def product_traffic(tables: Tables, width: int) -> ProductTraffic:
    """Count one product (Tripathy et al. 2020, Algorithms 1 to 3; Wan et al. 2025, Algorithm 2).

    Parameters:
        tables: Tables of a grid plan, with or without `blocks`.
        width: Columns of H.
    """
    scheduler, step = scheduler_of(tables), Aggregate(width)
    works, words = scheduler.works(1, step), dict.fromkeys(KINDS.values(), 0)
    for each in scheduler.program(1):
        for _, work in moving(each, works):
            if isinstance(work, Transfer) and not is_of_one(work):  # one rank alone sends nothing
                counts = work.counts(tables.num_ranks)
                words[KINDS[each.name]] += int((counts.words_sent + counts.words_reduced).sum())
    return ProductTraffic(width, **words)
