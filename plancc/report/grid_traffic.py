"""Words that are sent for one product A H on a process grid, by kind of data, such as rows of H.

A broadcast of m words among g ranks counts as (g - 1) m words.
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
    """Words that all ranks send in one forward product, by the kind of data.

    Attributes:
        width: Number of columns of H.
        rows: Words of rows of H, sent by broadcasts or messages.
        sums: Words of partial sums, added up over the layers of a 3D grid.
        swapped: Words of the all-to-alls before and after the product of a feature plan.
        reduced: Words of all-reduces of products (scheme "1.5d").
        matrix: Words of broadcast blocks of A in CSR (schemes "2d" and "3d").
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
    """
    scheduler, step = scheduler_of(tables), Aggregate(width)
    works, words = scheduler.works(1, step), dict.fromkeys(KINDS.values(), 0)
    for each in scheduler.program(1):
        for _, work in moving(each, works):
            if isinstance(work, Transfer) and not is_of_one(work):  # one rank alone sends nothing
                counts = work.counts(tables.num_ranks)
                words[KINDS[each.name]] += int((counts.words_sent + counts.words_reduced).sum())
    return ProductTraffic(width, **words)
